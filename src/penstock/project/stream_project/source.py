"""What the project reads."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import Duration, FrozenModel, Names, Number, OnError, Whole
from penstock.project.stream_project.parts import ColumnSpec, EventTime, Name, Waiver, fold_case


class SchemaReference(FrozenModel):
    """The schema of a topic: written here, or by its name in a registry."""

    registry: str | None = None
    """The kind of registry that holds it, such as `confluent`."""
    subject: str | None = None
    """Its name there; `<topic>-value` when left out."""
    version: Whole | Literal["latest"] | None = None
    """Its version there."""
    format: Annotated[
        Literal["avro", "json", "protobuf"] | None, BeforeValidator(fold_case, json_schema_input_type=str | None)
    ] = None
    """`avro` (the default), `json` or `protobuf`."""
    compatibility: str | None = None
    """What a later version must be compatible with, such as `BACKWARD`."""
    definition: str | None = None
    """The schema itself. The columns of an Avro record or a JSON schema are the source's columns."""

    @property
    def is_avro(self) -> bool:
        """Whether records are Avro. What later versions must be compatible with does not say so by itself."""
        return self.format == "avro" or (self.format is None and self.model_fields_set != {"compatibility"})

    @property
    def is_registered(self) -> bool:
        """Whether the schema is one that a registry has."""
        return self.definition is None and (
            self.is_avro or any(said is not None for said in (self.subject, self.registry, self.version))
        )


class LookupTable(FrozenModel):
    """Where the rows of a table are."""

    type: str
    """One of the sources of pipelines, such as `file`."""
    config: dict[str, Any] = {}
    """The source's own settings, such as `path` and `format`."""

    def as_source(self) -> dict[str, Any]:
        """The table as it would stand among the sources of a pipeline."""
        return {"type": self.type, **self.config}


class Freshness(FrozenModel):
    """How long a topic may be silent, as durations or in seconds."""

    warn_after: Duration | None = None
    """After how long there is a warning: `5m`."""
    error_after: Duration | None = None
    """After how long it is an error: `15m`."""

    warn_after_seconds: Number | None = Field(None, gt=0)
    """`warn_after` in seconds."""
    max_lag_seconds: Number | None = Field(None, gt=0)
    """`error_after` in seconds."""

    @model_validator(mode="after")
    def _check_given_once(self) -> Self:
        if self.warn_after is not None and self.warn_after_seconds is not None:
            raise ValueError("give `warn_after` or `warn_after_seconds`")
        if self.error_after is not None and self.max_lag_seconds is not None:
            raise ValueError("give `error_after` or `max_lag_seconds`")
        return self

    @property
    def warn_ms(self) -> float | None:
        return self.warn_after if self.warn_after_seconds is None else self.warn_after_seconds * 1000

    @property
    def error_ms(self) -> float | None:
        return self.error_after if self.max_lag_seconds is None else self.max_lag_seconds * 1000


class Source(FrozenModel):
    """A topic that others write and this project reads."""

    name: Name
    """What `source()` calls it."""
    topic: str = Field(min_length=1)
    """The topic it reads. One with a `table` has none."""
    table: LookupTable | None = None
    """A table in place of a topic: streams look rows up in it, and nothing comes from it by itself."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    cluster: str | None = None
    """The Kafka cluster it lives in. There is one cluster, `runtime.kafka`, so it has no effect."""
    schema_: SchemaReference | None = Field(None, alias="schema")
    """The schema of its rows."""
    columns: tuple[ColumnSpec, ...] = ()
    """The columns of a row. A list without any type only describes columns. The row is then, as without a list, that of
    the schema, or of the records themselves."""
    key: Names = ()
    """The columns that identify a row, separated by commas. The source is then a table of the latest row of every key:
    a row replaces the one before it, and a delete takes it out."""
    event_time: EventTime | None = None
    """When a row happened. Windows need it."""
    on_error: OnError | None = None
    """What becomes of a row that cannot be used: `dead_letter` (the default), `stop` or `skip`."""
    freshness: Freshness | None = None
    """How long it may be silent."""
    waivers: tuple[Waiver, ...] = ()
    """Rules that it may break for a while."""

    @model_validator(mode="before")
    @classmethod
    def _default_topic(cls, value: Any) -> Any:
        if isinstance(value, dict) and "table" in value and "topic" not in value:
            return {**value, "topic": value.get("name")}
        return value

    @model_validator(mode="after")
    def _table_has_no_changes(self) -> Self:
        if self.key and self.table is not None:
            raise ValueError("a `table` is looked up as it is, and takes no `key`: remove it")
        return self

    @property
    def clocks(self) -> frozenset[str]:
        """Columns that are the time of processing, and not part of the rows."""
        return frozenset(column.name for column in self.columns if column.proctime)

    @property
    def has_row_columns(self) -> bool:
        """Whether `columns` says what a row has. A list without any type only describes some of its columns."""
        return any(column.type is not None for column in self.columns if not column.proctime)

    @property
    def has_schema(self) -> bool:
        """Whether a schema says what the rows have: one that is written here, or one of a registry."""
        schema = self.schema_
        return schema is not None and (schema.definition is not None or schema.is_registered)

    @property
    def subject(self) -> str:
        """What a registry calls the schema of its rows."""
        return (self.schema_ and self.schema_.subject) or f"{self.topic}-value"
