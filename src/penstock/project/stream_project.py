"""The project format: what can be written in `stream_project.yml` and the files beside it."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from penstock.config import Frozen, Names


class ProjectHeader(Frozen):
    """Who this project is."""

    name: str = Field(min_length=1)
    """The name of the project; its state and checkpoints are kept under it."""
    version: str | None = None
    description: str | None = None


def _one_or_many(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class Kafka(Frozen):
    """The Kafka cluster that holds the topics. Without it, topics are directories."""

    bootstrap_servers: Annotated[tuple[str, ...], BeforeValidator(_one_or_many, json_schema_input_type=str | list[str])]
    """One `host:port`, several separated by commas, or a list."""
    bootstrap_servers_internal: str | None = None
    security_protocol: str | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    config: dict[str, str | int | float | bool] = {}


class SchemaRegistry(Frozen):
    """The registry that holds the schemas of topics."""

    url: str
    username: str | None = None
    password: SecretStr | None = None


class Cluster(Frozen):
    """One named cluster of an outside system."""

    type: str = "rest"
    rest_url: str | None = None
    sql_gateway_url: str | None = None
    version: str | None = None
    environment: str | None = None
    api_key: SecretStr | None = None


class Clusters(Frozen):
    """Named clusters, one of them the default."""

    default: str | None = None
    clusters: dict[str, Cluster] = {}


class Gateway(Frozen):
    """The gateway that serves virtual topics."""

    admin_url: str | None = None
    proxy_bootstrap: str | None = None
    username: str = "admin"
    password: SecretStr = SecretStr("conduktor")
    virtual_cluster: str | None = None


class Conduktor(Frozen):
    gateway: Gateway | None = None


class Spark(Frozen):
    """Where and how Spark runs."""

    master: str = "local[*]"
    """The Spark master: `local[*]`, `spark://host:port`, `yarn`, `k8s://…`."""
    config: dict[str, str | int | float | bool] = {}
    """Any Spark property; it wins over the defaults."""


class Runtime(Frozen):
    """The systems that the project runs on. Empty means: this machine, with directories as topics."""

    kafka: Kafka | None = None
    schema_registry: SchemaRegistry | None = None
    flink: Clusters | None = None
    connect: Clusters | None = None
    conduktor: Conduktor | None = None
    spark: Spark = Spark()

    @property
    def has_gateway(self) -> bool:
        return self.conduktor is not None and self.conduktor.gateway is not None


class SourceColumn(Frozen):
    """A column of a source."""

    name: str = Field(min_length=1)
    type: str | None = None
    """An SQL type: `STRING`, `BIGINT`, `DECIMAL(10, 2)`, `TIMESTAMP(3)`, `ARRAY<STRING>`, …"""
    description: str | None = None


class Watermark(Frozen):
    """How late a row may be."""

    strategy: Literal["bounded_out_of_orderness", "monotonously_increasing", "monotonous"] = "bounded_out_of_orderness"
    max_out_of_orderness_ms: int = Field(5000, ge=0)

    @property
    def delay_ms(self) -> int:
        return self.max_out_of_orderness_ms if self.strategy == "bounded_out_of_orderness" else 0


class EventTime(Frozen):
    """The column that says when a row happened."""

    column: str
    watermark: Watermark = Watermark()


class Source(Frozen):
    """A topic that others write and this project reads."""

    name: str = Field(min_length=1)
    topic: str = Field(min_length=1)
    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    columns: tuple[SourceColumn, ...] = ()
    event_time: EventTime | None = None


class NodeReference(Frozen):
    """A source or a model by name."""

    source: str | None = None
    ref: str | None = None

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
    replication_factor: int | None = Field(None, ge=1)
    config: dict[str, str | int | float | bool] = {}


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
    connector: ModelConnector | None = None


Materialized = Literal["topic", "virtual_topic", "spark", "sink"]


def _materialized(value: object) -> object:
    return "spark" if value == "flink" else value


class Model(Frozen):
    """A stream made from sources and other models."""

    name: str = Field(min_length=1)
    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    sql: str | None = None
    """One SELECT over `{{ source("name") }}` and `{{ ref("name") }}`."""
    from_: References = Field((), alias="from")
    """What a model without SQL reads; it is then a sink."""
    key: Names = ()
    """The column or columns that identify a row."""
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
    type: Literal["application", "dashboard", "ml_training", "ml_inference", "api"]
    role: Literal["producer", "consumer", "both"] | None = None
    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    url: str | None = None
    consumes: References = ()
    depends_on: References = ()
    produces: References = ()
