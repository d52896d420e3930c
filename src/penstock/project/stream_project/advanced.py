"""Settings that most models do not need."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from penstock.config import FrozenModel, Whole
from penstock.connectors import registry
from penstock.project.stream_project.parts import LONGEST_MS


class ModelTopic(FrozenModel):
    """The topic that a model writes."""

    name: str | None = Field(None, min_length=1)
    """The topic's name. Default: the model's name."""
    partitions: Whole | None = Field(None, ge=1)
    """The number of partitions. It has no effect on embedded topics."""
    replication_factor: Whole | None = Field(None, ge=1)
    """The replication factor. It has no effect on embedded topics."""
    config: dict[str, str | int | float | bool] = {}
    """Settings of the topic, such as `retention.ms`. They have no effect on embedded topics."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


_NATIVE: Final = {"jdbc-sink": frozenset({"connection.url"}), "s3-sink": frozenset({"path", "s3.bucket.name"})}
"""Connectors of Kafka Connect that Spark can replace, and the settings of which one must be given."""


class ModelConnector(FrozenModel):
    """The connector that a sink model writes with."""

    type: str
    """One of the sinks of pipelines, or a connector of Kafka Connect such as `snowflake-sink`."""
    tasks_max: Whole | None = Field(None, ge=1)
    """The maximum number of tasks in Kafka Connect."""
    config: dict[str, Any] = {}
    """The connector's own settings. `${NAME}` is resolved when the query starts, and its value is not stored."""

    @model_validator(mode="before")
    @classmethod
    def _from_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    def is_foreign(self, connect: object) -> bool:
        """Whether it is a connector of Kafka Connect. Spark replaces some of them if no `connect` is configured."""
        if registry.find_sink(self.type) is None:
            return True
        needed = _NATIVE.get(self.type)
        return needed is not None and (connect is not None or needed.isdisjoint(self.config))

    def as_sink(self, node_id: str) -> dict[str, Any]:
        """The connector as a sink of a pipeline."""
        tasks = {} if self.tasks_max is None else {"tasks_max": self.tasks_max}
        return {"type": self.type, "from": node_id, **tasks, **self.config}


class Interval(FrozenModel):
    """Batches at regular intervals."""

    interval_ms: Whole = Field(ge=1, le=LONGEST_MS)
    """The time from the start of one batch to the start of the next. After a longer batch, the next one starts at
    once."""


def _trigger_kind(value: object) -> str:
    return "a mapping" if isinstance(value, dict | Interval) else "a word"


def _check_realtime(value: object) -> object:
    if value != "realtime":
        raise ValueError(f"`{value}` is neither `realtime` nor `{{interval_ms: …}}`")
    return value


Trigger = Annotated[
    Annotated[Interval, Tag("a mapping")]
    | Annotated[Literal["realtime"], BeforeValidator(_check_realtime), Tag("a word")],
    Discriminator(_trigger_kind),
]
"""When a batch begins."""


class SparkJob(FrozenModel):
    """How the model's query runs. `flink` is the same section."""

    trigger: Trigger | None = None
    """When a batch begins: by default when the previous one ends, or every `{interval_ms: …}`. `realtime` is Spark's
    real-time mode, without batches; `validate` reports queries that cannot use it, and `plan` reports missing cores."""
    async_progress: bool = False
    """Whether the next batch begins before the progress of the last one is committed. Batches are shorter, but a crash
    repeats more of them. Only from Kafka to Kafka and without state. `validate` reports queries that cannot use it."""
    parallelism: Whole | None = Field(None, ge=1)
    """The number of tasks for grouped or joined rows (`spark.sql.shuffle.partitions` of this query)."""
    state_backend: Literal["rocksdb", "hashmap"] | None = None
    """Where state is kept: `rocksdb` (the default; on disk) or `hashmap` (in memory)."""
    state_ttl_ms: Whole | None = Field(None, ge=1, le=LONGEST_MS)
    """The time to live of a key in state after its last row, in milliseconds. It applies to groups, DISTINCT,
    deduplication and joins. Windows and time-bounded joins do not need it."""
    checkpoint_interval_ms: Whole | None = Field(None, ge=1)
    """How often progress is committed with `trigger: realtime`: at least 5000, by default a minute. Other triggers
    commit progress after every batch."""
    checkpoint_timeout_ms: Whole | None = Field(None, ge=1)
    """Flink's checkpoint timeout. It has no effect."""
    checkpoint_min_pause_ms: Whole | None = Field(None, ge=0)
    """Flink's minimum pause between checkpoints. It has no effect."""
    max_concurrent_checkpoints: Whole | None = Field(None, ge=1)
    """Flink's maximum number of concurrent checkpoints. It has no effect."""
    restart_strategy: str | None = None
    """Flink's restart strategy. It has no effect."""
    checkpoint: dict[str, Any] = {}
    """Flink's checkpoint settings. They have no effect."""
    state: dict[str, Any] = {}
    """Flink's state settings. They have no effect."""
    restart: dict[str, Any] = {}
    """Flink's restart settings. They have no effect."""
    resources: dict[str, Any] = {}
    """Flink's resource settings. They have no effect."""
    savepoint: dict[str, Any] = {}
    """Flink's savepoint settings. They have no effect."""


class Advanced(FrozenModel):
    """Settings that most models do not need."""

    topic: ModelTopic = ModelTopic()
    """The topic that the model writes."""
    spark: SparkJob = SparkJob()
    """How its query runs."""
    connector: ModelConnector | None = None
    """The connector that the model writes with. It makes the model a sink."""
    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    connect_cluster: str | None = None
    """The Kafka Connect cluster that runs the connector."""
