"""The project format: what can be written in `stream_project.yml` and the files beside it."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import Frozen, Names


class ProjectHeader(Frozen):
    """Who this project is."""

    name: str = Field(min_length=1)
    """The name of the project; its state and checkpoints are kept under it."""
    version: str | None = None
    """The version of the project, as its owners count."""
    description: str | None = None
    """What the project is for."""


class SourceColumn(Frozen):
    """A column of a source."""

    name: str = Field(min_length=1)
    """The column's name."""
    type: str | None = None
    """An SQL type: `STRING` (the default), `BIGINT`, `DECIMAL(10, 2)`, `TIMESTAMP(3)`, `ARRAY<STRING>`, …"""
    description: str | None = None
    """What it holds."""


class Watermark(Frozen):
    """How late a row may be."""

    strategy: Literal["bounded_out_of_orderness", "monotonously_increasing", "monotonous"] = "bounded_out_of_orderness"
    """`monotonous` (or `monotonously_increasing`) means that rows come in order."""
    max_out_of_orderness_ms: int = Field(5000, ge=0)
    """How many milliseconds a row may come after one that happened later."""

    @property
    def delay_ms(self) -> int:
        return self.max_out_of_orderness_ms if self.strategy == "bounded_out_of_orderness" else 0


class EventTime(Frozen):
    """The column that says when a row happened."""

    column: str
    """The column's name. Text is read as a timestamp, a whole number as milliseconds since 1970."""
    watermark: Watermark = Watermark()
    """How late a row may be."""


class Source(Frozen):
    """A topic that others write and this project reads."""

    name: str = Field(min_length=1)
    """What `source()` calls it."""
    topic: str = Field(min_length=1)
    """The topic it reads."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    columns: tuple[SourceColumn, ...] = ()
    """The columns of a row. Without them, those of an embedded topic are found in its files."""
    event_time: EventTime | None = None
    """When a row happened. Windows need it."""


class NodeReference(Frozen):
    """A source or a model by name."""

    source: str | None = None
    """The name of a source."""
    ref: str | None = None
    """The name of a model."""

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.source is None) == (self.ref is None):
            raise ValueError("name one `source` or one `ref`")
        return self

    @property
    def id(self) -> str:
        return f"source.{self.source}" if self.source is not None else f"model.{self.ref}"


def _references(value: object) -> object:
    """`from: x`, a list of names, and a list of `{ref: x}` / `{source: y}` are the same thing."""
    if isinstance(value, str | dict):
        value = [value]
    return [{"ref": item} if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


References = Annotated[
    tuple[NodeReference, ...],
    BeforeValidator(_references, json_schema_input_type=str | NodeReference | list[str | NodeReference]),
]


class Topic(Frozen):
    """The topic that a model writes."""

    name: str | None = Field(None, min_length=1)
    """The topic's name; the model's name when left out."""
    partitions: int | None = Field(None, ge=1)
    """How many partitions; an embedded topic has none."""
    replication_factor: int | None = Field(None, ge=1)
    """How many copies; an embedded topic has one."""
    config: dict[str, str | int | float | bool] = {}
    """Settings of the topic, such as `retention.ms`; an embedded topic has none."""


class ModelConnector(Frozen):
    """The connector that a sink model writes with."""

    type: str
    """One of the sinks of pipelines, or a connector of Kafka Connect such as `snowflake-sink`."""
    tasks_max: int | None = Field(None, ge=1)
    """How many tasks Kafka Connect may start for it."""
    config: dict[str, Any] = {}
    """The connector's own settings."""

    def as_sink(self, node_id: str) -> dict[str, Any]:
        """The connector as it would stand among the sinks of a pipeline."""
        tasks = {} if self.tasks_max is None else {"tasks_max": self.tasks_max}
        return {"type": self.type, "from": node_id, **tasks, **self.config}


class Advanced(Frozen):
    """Settings that most models do without."""

    topic: Topic = Topic()
    """The topic that the model writes."""
    connector: ModelConnector | None = None
    """The connector that the model writes with; it is then a sink."""


Materialized = Literal["topic", "virtual_topic", "spark", "sink"]


def _materialized(value: object) -> object:
    return "spark" if value == "flink" else value


class Model(Frozen):
    """A stream made from sources and other models."""

    name: str = Field(min_length=1)
    """What `ref()` calls it."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    sql: str | None = None
    """One SELECT over `{{ source("name") }}` and `{{ ref("name") }}`."""
    from_: References = Field((), alias="from")
    """What a model without SQL reads; it is then a sink."""
    key: Names = ()
    """The columns that identify a row, separated by commas. `validate` checks that they are there."""
    materialized: (
        Annotated[
            Materialized,
            BeforeValidator(
                _materialized, json_schema_input_type=Literal["topic", "virtual_topic", "spark", "flink", "sink"]
            ),
        ]
        | None
    ) = None
    """`topic`, `virtual_topic`, `spark` (or `flink`), `sink`; inferred from the SQL when left out."""
    advanced: Advanced = Advanced()

    @property
    def topic(self) -> str:
        """The topic that the model writes, if it writes one."""
        return self.advanced.topic.name or self.name


class Exposure(Frozen):
    """Somebody outside who reads or writes the streams of this project."""

    name: str = Field(min_length=1)
    """Its name."""
    type: Literal["application", "dashboard", "ml_training", "ml_inference", "api"]
    """What kind of thing it is."""
    role: Literal["producer", "consumer", "both"] | None = None
    """Whether it reads, writes, or both."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    url: str | None = None
    """Where to find it."""
    consumes: References = ()
    """The models and sources it reads."""
    depends_on: References = ()
    """The models and sources it needs in another way."""
    produces: References = ()
    """The sources it writes."""
