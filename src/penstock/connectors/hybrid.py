"""A backfill and its live source: bounded tables or files first, then a topic that continues.

This source reads nothing itself. A manifest lists its phases one by one, each as the connector that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator

from penstock.clients.kafka.data_formats import BEGINNING, format_validator
from penstock.clients.rows.topic_names import TopicName
from penstock.config import FrozenModel, Names, Whole
from penstock.connectors import registry
from penstock.connectors.contract import ReadRequest, Source, SourceCapabilities
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHARED: Final = ("primary_key", "telemetry")
"""The fields that every phase takes from the hybrid source."""
_OWN_NAMES: Final = {"source_type": "type", "start_at": "starting_offsets"}
"""Fields that have another name here than in a source of their own."""


MISMATCH_HINT: Final = "convert the column where it is kept, or give the unbounded source another one"


def _is_beginning(value: str | int) -> str | int:
    BEGINNING.check_text(str(value))
    return value


class TablePhase(FrozenModel):
    """A ClickHouse table."""

    inert: ClassVar[Mapping[str, str]] = {"columns": "columns are those of the unbounded source"}
    source_type: Literal["clickhouse"]
    """The type of the phase: `clickhouse`."""
    table_name: str = Field(min_length=1)
    """The name of the table."""
    columns: Names = ()
    """Accepted, but has no effect: the columns are those of the unbounded source."""
    filter: str | None = None
    """A condition in ClickHouse SQL that rows must meet."""
    start_at: Whole | None = None
    """The first sorting key to read."""


class FilePhase(FrozenModel):
    """Files below a directory."""

    inert: ClassVar[Mapping[str, str]] = {}
    source_type: Literal["file"]
    """The type of the phase: `file`."""
    path: str
    """A directory or a file. A relative path is resolved against the pipeline's directory."""
    format: str
    """`parquet`, `json`, `csv` or `avro`."""


class TopicPhase(FrozenModel):
    """A Kafka topic."""

    inert: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("validate_writer_schema_ordering", "skip_schema_resolution", "skip_schema_resolution_for_reader_schema_ids"),
        "every record is decoded with its writer's schema, and new schemas are fetched",
    )
    source_type: Literal["kafka"]
    """The type of the phase: `kafka`."""
    topic: TopicName
    """The name of the topic."""
    data_format: Annotated[Literal["avro", "json"], format_validator("avro", "json")] = "avro"
    """The format of its values: Avro with a schema registry, or JSON objects."""
    schema_: dict[str, str] | None = Field(None, alias="schema")
    """The columns of JSON objects and their types."""
    start_at: Annotated[str | Whole, AfterValidator(_is_beginning)] = "earliest"
    """Where to start: `earliest`, `latest`, or a time in milliseconds since 1970. `latest` is the end of the topic when
    the first phase begins. Partitions that the offset table lists start after the offset given there."""
    filter: str | None = None
    """A condition in SQL on all columns that rows must meet. Other phases have their own."""
    schema_id_overrides: tuple[dict[str, int], ...] = ()
    """Schema ids to replace by others: `{from, to}`."""
    validate_writer_schema_ordering: bool = True
    """Accepted, but has no effect: a newer schema is fetched."""
    skip_schema_resolution: bool = False
    """Accepted, but has no effect: records are always decoded with their writer's schema."""
    skip_schema_resolution_for_reader_schema_ids: tuple[Whole, ...] = ()
    """Accepted, but has no effect, as `skip_schema_resolution`."""
    max_offsets_per_trigger: Whole | None = Field(None, ge=1)
    """The maximum number of records per batch. Default: no limit."""


class OffsetTable(FrozenModel):
    """A ClickHouse table with the offsets up to which the bounded sources contain the topic."""

    topic_name: str = Field(min_length=1)
    """The name of the topic in this table."""
    table_name: str = Field("kafka_offsets", min_length=1)
    """The name of the table."""
    topic_column: str = Field("topic", min_length=1)
    """The column with the topic."""
    partition_column: str = Field("partition", min_length=1)
    """The column with the partition."""
    offset_column: str = Field("offset", min_length=1)
    """The column with the offset. The highest one of a partition is the last record in the bounded sources."""


def _source_type_validator(kind: str, known: Sequence[str]) -> BeforeValidator:
    def check(value: object) -> object:
        given = value.get("source_type") if isinstance(value, Mapping) else None
        if given is not None and given not in known:
            text = f"{kind} source type '{given}' is not supported for hybrid sources; there are {', '.join(known)}"
            raise ValueError(text)
        return value

    return BeforeValidator(check)


BoundedPhase = Annotated[
    TablePhase | FilePhase,
    Field(discriminator="source_type"),
    _source_type_validator("bounded", ("clickhouse", "file")),
]


class HybridSource(Source):
    """Reads tables or files to their end, one after the other, and then a Kafka topic without end."""

    type: Literal["hybrid"] = "hybrid"
    own_labels: ClassVar = frozenset({"table", "topic"})
    bounded_sources: tuple[BoundedPhase, ...] = Field(min_length=1)
    """The sources to read first, each to its end: tables (`clickhouse`) or files (`file`)."""
    unbounded_source: Annotated[TopicPhase, _source_type_validator("unbounded", ("kafka",))]
    """The topic to read afterwards. It determines the columns of the source; the bounded sources must have them too."""
    offset_table: OffsetTable | None = None
    """The table of the offsets that the bounded sources reach, from which the topic is read."""

    @field_validator("bounded_sources", "unbounded_source")
    @classmethod
    def _can_be_sources(cls, value: Any) -> Any:
        for phase in value if isinstance(value, tuple) else (value,):
            config = _config(phase.model_dump(mode="json", by_alias=True, exclude_unset=True))
            model = registry.find_source(config["type"])
            try:
                _ = model and model.model_validate(config)
            except ValidationError as error:
                raise ValueError("; ".join(_describe_errors(error))) from None
        return value

    @model_validator(mode="after")
    def _leaves_paths_alone(self) -> Self:
        has_files = any(isinstance(phase, FilePhase) for phase in self.bounded_sources)
        if has_files and self.telemetry is not None and "path" in self.telemetry.labels:
            raise ValueError("declares reserved label key 'path', which its files have")
        return self

    @property
    def capabilities(self) -> SourceCapabilities:
        condition = self.unbounded_source.filter
        at = ("unbounded_source", "filter")
        return SourceCapabilities(ends_as_job=True, condition=condition, condition_at=at)

    @property
    def live(self) -> Source:
        found = phases_of(self.model_dump(mode="json", by_alias=True, exclude_unset=True))[-1]
        return registry.source_from(found, Path())

    @property
    def before(self) -> tuple[Source | None, ...]:
        """The bounded sources; None for one whose connector is not available."""
        found = phases_of(self.model_dump(mode="json", by_alias=True, exclude_unset=True))[:-1]
        models = [(registry.find_source(config["type"]), config) for config in found]
        return tuple(None if model is None else model.model_validate(config) for model, config in models)

    def known_columns(self) -> Columns | None:
        return self.live.known_columns()

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self.live.read(spark, request)

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self.live.peek(spark, request)


def phases_of(written: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the configuration of each phase, in order, as if it were a source of its own."""
    shared = {field: written[field] for field in _SHARED if written.get(field)}
    listed = [*written["bounded_sources"], written["unbounded_source"]]
    return [{**_config(phase), **shared} for phase in listed]


def describe_phase(at: int, phase: Mapping[str, Any]) -> str:
    """Return the name of a bounded source for messages."""
    what = f"table `{phase['table_name']}`" if "table_name" in phase else f"files `{phase['path']}`"
    return f"`bounded_sources.{at}`, {what}"


def _config(phase: Mapping[str, Any]) -> dict[str, Any]:
    kind = phase.get("source_type")
    if kind == "kafka":
        return {_OWN_NAMES.get(field, field): value for field, value in phase.items()}
    kept = {field: value for field, value in phase.items() if field not in ("source_type", "columns")}
    return {"type": kind, **kept, **({"mode": {"type": "bounded"}} if kind == "file" else {})}


def _describe_errors(error: ValidationError) -> Iterator[str]:
    own = {new: old for old, new in _OWN_NAMES.items()}
    for detail in error.errors(include_url=False):
        written = [str(step) for step in detail["loc"] if "[" not in str(step)]  # without the names of union members
        place = ".".join(own.get(step, step) for step in written)
        yield f"{place}: {detail['msg'].removeprefix('Value error, ')}" if place else detail["msg"]
