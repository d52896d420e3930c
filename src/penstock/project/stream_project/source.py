"""Sources of a project."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import Duration, FrozenModel, Names, Number, OnError, Whole, fold_case
from penstock.project.stream_project.parts import ColumnSpec, EventTime, Name, Waiver


class SchemaReference(FrozenModel):
    """The schema of a topic: its text, or its name in a registry."""

    registry: str | None = None
    """The kind of registry, such as `confluent`."""
    subject: str | None = None
    """The subject. Default: `<topic>-value`."""
    version: Whole | Literal["latest"] | None = None
    """The version of the subject. Default: the latest."""
    format: Annotated[
        Literal["avro", "json", "protobuf"] | None, BeforeValidator(fold_case, json_schema_input_type=str | None)
    ] = None
    """`avro` (default), `json` or `protobuf`. Protobuf records cannot be read."""
    compatibility: str | None = None
    """The compatibility mode for later versions, such as `BACKWARD`."""
    definition: str | None = None
    """The text of the schema: an Avro record or a JSON schema. It gives the source's columns."""

    @property
    def is_avro(self) -> bool:
        """Whether records are Avro. `compatibility` alone does not make them Avro."""
        return self.format == "avro" or (self.format is None and self.model_fields_set != {"compatibility"})

    @property
    def is_registered(self) -> bool:
        """Whether a registry holds the schema."""
        return self.definition is None and (
            self.is_avro or any(value is not None for value in (self.subject, self.registry, self.version))
        )


class LookupTable(FrozenModel):
    """The lookup table."""

    type: str
    """One of the sources of pipelines, such as `file`."""
    config: dict[str, Any] = {}
    """The source's own settings, such as `path` and `format`."""

    def as_source(self) -> dict[str, Any]:
        """The table as a source of a pipeline."""
        return {"type": self.type, **self.config}


class Freshness(FrozenModel):
    """How old the newest row of a topic may be, as durations or in seconds."""

    warn_after: Duration | None = None
    """The age after which there is a warning: `5m`."""
    error_after: Duration | None = None
    """The age after which there is an error: `15m`."""

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
    """The name, for `source()`."""
    topic: str = Field(min_length=1)
    """The topic that it reads. A source with a `table` has none."""
    table: LookupTable | None = None
    """A lookup table instead of a topic: streams join it, and it emits no rows itself."""
    description: str | None = None
    """A description."""
    owner: str | None = None
    """The owner."""
    tags: tuple[str, ...] = ()
    """Tags, for selection and search."""
    cluster: str | None = None
    """The Kafka cluster. It has no effect, because there is one cluster, `runtime.kafka`."""
    schema_: SchemaReference | None = Field(None, alias="schema")
    """The schema of its rows."""
    columns: tuple[ColumnSpec, ...] = ()
    """The columns of a row. A list without any type only describes columns; the columns of the row then come from the
    schema or from the records."""
    key: Names = ()
    """The columns that identify a row, separated by commas. The source is then a table with the latest row per key: a
    row replaces the previous one, and a delete removes it."""
    event_time: EventTime | None = None
    """The event time. Windows need it."""
    on_error: OnError | None = None
    """What happens to a record that cannot be processed: `dead_letter` (default), `stop` or `skip`."""
    freshness: Freshness | None = None
    """How old its newest row may be."""
    waivers: tuple[Waiver, ...] = ()
    """Waivers: rules that it may break, each with a reason."""

    @model_validator(mode="before")
    @classmethod
    def _default_topic(cls, value: Any) -> Any:
        if isinstance(value, dict) and "table" in value and "topic" not in value:
            return {**value, "topic": value.get("name")}
        return value

    @model_validator(mode="after")
    def _refuse_table_key(self) -> Self:
        if self.key and self.table is not None:
            raise ValueError("a `table` source takes no `key`: remove it")
        return self

    @property
    def clocks(self) -> frozenset[str]:
        """The processing-time columns, which are not in the records."""
        return frozenset(column.name for column in self.columns if column.proctime)

    @property
    def has_row_columns(self) -> bool:
        """Whether `columns` defines the row. A list without any type only describes some of its columns."""
        return any(column.type is not None for column in self.columns if not column.proctime)

    @property
    def has_schema(self) -> bool:
        """Whether a schema, written here or in a registry, defines the row."""
        schema = self.schema_
        return schema is not None and (schema.definition is not None or schema.is_registered)

    @property
    def subject(self) -> str:
        """The subject of the schema in the registry."""
        return (self.schema_ and self.schema_.subject) or f"{self.topic}-value"
