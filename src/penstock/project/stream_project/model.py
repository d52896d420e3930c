"""What the project makes."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import FrozenModel, Names, OnError, Whole
from penstock.project.stream_project.advanced import Advanced
from penstock.project.stream_project.parts import ColumnSpec, EventTime, Name, References, Waiver, fold_case
from penstock.project.stream_project.security import Access, Security

Materialized = Literal["topic", "virtual_topic", "spark", "sink"]


def replace_flink(value: object) -> object:
    """The word for a stateful model is `spark`; `flink` is the same word."""
    return "spark" if value == "flink" else value


class VirtualTopic(FrozenModel):
    """A topic that exists only in the gateway."""

    name: str | None = Field(None, min_length=1)
    """Its name; the model's name when left out."""
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] | None = None
    """It has no effect: records are stored, and compressed, in the topic below."""

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
    """What the gateway makes of the model."""

    virtual_topic: VirtualTopic | None = None
    """A topic that exists only in the gateway: `true`, its name, or a mapping."""


class MlOutput(FrozenModel):
    """What a model of machine learning answers."""

    columns: tuple[ColumnSpec, ...]
    """The fields of its answer."""
    description: str | None = None
    """What it is."""

    @model_validator(mode="before")
    @classmethod
    def _from_type(cls, value: Any) -> Any:
        """`{score: DOUBLE}` is short for `{columns: [{name: score, type: DOUBLE}]}`."""
        if isinstance(value, dict) and "columns" not in value:
            return {"columns": [{"name": name, "type": kind} for name, kind in value.items()]}
        return value


class OutputTime(EventTime):
    """When a row of the output happened."""

    column: str | None = None  # type: ignore[assignment]
    """The column of the output. Left out, it is the one that comes from the input's event time."""


class Sunset(FrozenModel):
    """When a version of a model goes away."""

    sunset_date: str | None = None
    """The day."""
    message: str | None = None
    """What to use instead."""


class ModelSchema(FrozenModel):
    """What the records of a model's topic on Kafka are. Its columns are those of the SQL."""

    format: Annotated[Literal["avro", "json"] | None, BeforeValidator(fold_case, json_schema_input_type=str | None)] = (
        None
    )
    """`avro`, by a schema that is registered as `<topic>-value`, or `json` without one. `schema: {}` is Avro; with
    `compatibility` alone, records are JSON."""
    compatibility: str | None = None
    """What a later version of an Avro schema must be compatible with, such as `BACKWARD`."""

    @property
    def is_avro(self) -> bool:
        return self.format == "avro" or (self.format is None and self.compatibility is None)


class Model(FrozenModel):
    """A stream made from sources and other models."""

    name: Name
    """What `ref()` calls it."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    group: str | None = None
    """The group it belongs to; `access` goes by it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    access: Access | None = None
    """Who may read it: `public`, `protected`, `private`, or a mapping. Anybody, if nothing is said."""
    version: Whole | None = None
    """The version of the model, as its owners count."""
    deprecation: dict[str, Sunset] = {}
    """Versions that go away, by name."""
    sql: str | None = None
    """One SELECT over `{{ source("name") }}` and `{{ ref("name") }}`. It may stand in `models/<name>.sql` instead."""
    from_: References = Field((), alias="from")
    """What a model without SQL reads; it is then a sink."""
    key: Names = ()
    """The columns that identify a row, separated by commas. `validate` checks that they are there."""
    columns: tuple[ColumnSpec, ...] = ()
    """A contract: what stands here must be in the output, with the type that is given."""
    schema_: ModelSchema | None = Field(None, alias="schema")
    """What the records of its topic on Kafka are: Avro of a schema registry, or JSON."""
    event_time: OutputTime | None = None
    """When a row of the output happened, if it is not the event time of an input."""
    on_error: OnError | None = None
    """What becomes of a row that its SQL fails over, and of one that its readers cannot use.

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
    """`topic`, `virtual_topic`, `spark` (or `flink`), `sink`; inferred from the SQL when left out."""
    gateway: GatewayTopic | None = None
    """What the gateway makes of it."""
    security: Security = Security()
    """What is delicate, and how it is covered."""
    ml_outputs: dict[str, MlOutput] = {}
    """What `ML_PREDICT` and `ML_EVALUATE` answer, by the model that they ask."""
    waivers: tuple[Waiver, ...] = ()
    """Rules that it may break for a while."""
    advanced: Advanced = Advanced()
    """Settings that most models do without."""

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
