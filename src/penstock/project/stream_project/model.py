"""Models of a project."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Names, OnError, Whole, fold_case
from penstock.project.stream_project.advanced import Advanced
from penstock.project.stream_project.parts import ColumnSpec, EventTime, Name, References, Waiver
from penstock.project.stream_project.security import Access, Security

Materialized = Literal["topic", "virtual_topic", "spark", "sink"]


def replace_flink(value: object) -> object:
    """Replace `flink` by `spark`, which means the same."""
    return "spark" if value == "flink" else value


class VirtualTopic(FrozenModel):
    """A topic that exists only in the gateway."""

    name: str | None = Field(None, min_length=1)
    """Its name. Default: the model's name."""
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] | None = None
    """It has no effect: records are stored, and compressed, in the underlying topic."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        match value:
            case str():
                return {"name": value}
            case True:
                return {}
            case _:
                return value


class GatewayTopic(FrozenModel):
    """Settings of the gateway for the model."""

    virtual_topic: VirtualTopic | None = None
    """A topic that exists only in the gateway: `true`, its name, or a mapping."""


class MlOutput(FrozenModel):
    """The output of a machine-learning model."""

    columns: tuple[ColumnSpec, ...]
    """The fields of the result."""
    description: str | None = None
    """A description."""

    @model_validator(mode="before")
    @classmethod
    def _from_type(cls, value: Any) -> Any:
        """`{score: DOUBLE}` is short for `{columns: [{name: score, type: DOUBLE}]}`."""
        if isinstance(value, dict) and "columns" not in value:
            return {"columns": [{"name": name, "type": kind} for name, kind in value.items()]}
        return value


class OutputTime(EventTime):
    """The event time of the output."""

    column: str | None = None  # type: ignore[assignment]
    """The column of the output. Default: the column that comes from the input's event time."""


class Sunset(FrozenModel):
    """The end of a version of a model."""

    sunset_date: str | None = None
    """The day."""
    message: str | None = None
    """The replacement."""


class ModelSchema(FrozenModel):
    """The format of the records in a model's Kafka topic. The columns are those of the SQL."""

    format: Annotated[Literal["avro", "json"] | None, BeforeValidator(fold_case, json_schema_input_type=str | None)] = (
        None
    )
    """`avro`, with a schema that is registered as `<topic>-value`, or `json` without a schema. `schema: {}` is Avro;
    with `compatibility` alone, records are JSON."""
    compatibility: str | None = None
    """The compatibility mode for later versions of an Avro schema, such as `BACKWARD`."""

    @property
    def is_avro(self) -> bool:
        return self.format == "avro" or (self.format is None and self.compatibility is None)


class Model(FrozenModel):
    """A stream that SQL computes from sources and other models."""

    name: Name
    """The name, for `ref()`."""
    description: str | None = None
    """A description."""
    owner: str | None = None
    """The owner."""
    group: str | None = None
    """The group for `access`."""
    tags: tuple[str, ...] = ()
    """Tags, for selection and search."""
    access: Access | None = None
    """Who may read it: `public`, `protected`, `private`, or a mapping. Default: everybody."""
    version: Whole | None = None
    """The version of the model. It is only shown."""
    deprecation: dict[str, Sunset] = {}
    """Versions that will be removed, by name."""
    sql: str | None = None
    """One SELECT over `{{ source("name") }}` and `{{ ref("name") }}`. It may be in `models/<name>.sql` instead."""
    from_: References = Field((), alias="from")
    """The input of a model without SQL, which is a sink."""
    key: Names = ()
    """The columns that identify a row, separated by commas. `validate` checks that the output has them."""
    columns: tuple[ColumnSpec, ...] = ()
    """A contract: the output must have these columns, with these types."""
    schema_: ModelSchema | None = Field(None, alias="schema")
    """The format of the records in its Kafka topic: Avro with a schema registry, or JSON."""
    event_time: OutputTime | None = None
    """The event time of the output, if it is not the event time of an input."""
    on_error: OnError | None = None
    """What happens to a row on which its SQL fails, and to a row that its readers cannot process:

    `dead_letter` (the default), `stop` or `skip`.
    """
    materialized: (
        Annotated[
            Materialized,
            BeforeValidator(
                replace_flink, json_schema_input_type=Literal["topic", "virtual_topic", "spark", "flink", "sink"]
            ),
        ]
        | None
    ) = None
    """`topic`, `virtual_topic`, `spark` (or `flink`), `sink`; by default inferred from the SQL."""
    gateway: GatewayTopic | None = None
    """Settings of the gateway for it."""
    security: Security = Security()
    """Classification and masking of columns."""
    ml_outputs: dict[str, MlOutput] = {}
    """The result types of `ML_PREDICT` and `ML_EVALUATE`, by machine-learning model."""
    waivers: tuple[Waiver, ...] = ()
    """Waivers: rules that it may break, each with a reason."""
    advanced: Advanced = Advanced()
    """Settings that most models do not need."""

    @property
    def topic(self) -> str:
        """The topic that the model writes, if it writes one."""
        return self.advanced.topic.name or self.name

    @property
    def is_avro(self) -> bool:
        return self.schema_ is not None and self.schema_.is_avro

    @property
    def virtual_topic(self) -> str:
        """The topic of the gateway that the model is, if it is one."""
        virtual = self.gateway.virtual_topic if self.gateway else None
        return (virtual.name if virtual else None) or self.topic
