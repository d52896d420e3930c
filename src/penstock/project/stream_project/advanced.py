"""Settings of a model that most do without."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from penstock.config import FrozenModel, Whole
from penstock.connectors import registry
from penstock.project.stream_project.parts import LONGEST_MS


class ModelTopic(FrozenModel):
    """The topic that a model writes."""

    name: str | None = Field(None, min_length=1)
    """The topic's name; the model's name when left out."""
    partitions: Whole | None = Field(None, ge=1)
    """How many partitions; an embedded topic has none."""
    replication_factor: Whole | None = Field(None, ge=1)
    """How many copies; an embedded topic has one."""
    config: dict[str, str | int | float | bool] = {}
    """Settings of the topic, such as `retention.ms`; an embedded topic has none."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


_NATIVE: Final = {"jdbc-sink": frozenset({"connection.url"}), "s3-sink": frozenset({"path", "s3.bucket.name"})}
"""Connectors of Kafka Connect that can do without it, and what they need to be told, one of it."""


class ModelConnector(FrozenModel):
    """The connector that a sink model writes with."""

    type: str
    """One of the sinks of pipelines, or a connector of Kafka Connect such as `snowflake-sink`."""
    tasks_max: Whole | None = Field(None, ge=1)
    """How many tasks Kafka Connect may start for it."""
    config: dict[str, Any] = {}
    """The connector's own settings. `${NAME}` in them is filled in when the query starts, and kept nowhere."""

    @model_validator(mode="before")
    @classmethod
    def _from_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    def is_foreign(self, connect: object) -> bool:
        """Whether it is one of Kafka Connect. Some of those can be done here, where no `connect` is configured."""
        if registry.find_sink(self.type) is None:
            return True
        needed = _NATIVE.get(self.type)
        return needed is not None and (connect is not None or needed.isdisjoint(self.config))

    def as_sink(self, node_id: str) -> dict[str, Any]:
        """The connector as it would stand among the sinks of a pipeline."""
        tasks = {} if self.tasks_max is None else {"tasks_max": self.tasks_max}
        return {"type": self.type, "from": node_id, **tasks, **self.config}


class Interval(FrozenModel):
    """A batch at regular times."""

    interval_ms: Whole = Field(ge=1, le=LONGEST_MS)
    """How long from the start of one batch to that of the next. A batch that takes longer is followed at once."""


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
    """When a batch begins: as soon as the one before is done, or every `{interval_ms: …}`. `realtime` is Spark's
    real-time mode, without batches; `validate` says why a query cannot have it, and `plan` that cores are missing."""
    async_progress: bool = False
    """Whether the next batch begins before the progress of the last one is kept: batches are shorter, and after a
    crash more is written again. From Kafka to Kafka, without state; `validate` says why a query cannot have it."""
    parallelism: Whole | None = Field(None, ge=1)
    """How many tasks work on grouped or joined rows at once (`spark.sql.shuffle.partitions` of this query)."""
    state_backend: Literal["rocksdb", "hashmap"] | None = None
    """Where state is kept: `rocksdb` (the default; on disk) or `hashmap` (in memory)."""
    state_ttl_ms: Whole | None = Field(None, ge=1, le=LONGEST_MS)
    """How long a key is remembered after the last row for it, in milliseconds: groups, DISTINCT, deduplication, joins.
    Windows and joins within a time do not need it."""
    checkpoint_interval_ms: Whole | None = Field(None, ge=1)
    """How often progress is kept with `trigger: realtime`, at least 5000; a minute if left out. Without it, progress is
    kept after every batch."""
    checkpoint_timeout_ms: Whole | None = Field(None, ge=1)
    """How long Flink would wait for one."""
    checkpoint_min_pause_ms: Whole | None = Field(None, ge=0)
    """How long Flink would wait between two."""
    max_concurrent_checkpoints: Whole | None = Field(None, ge=1)
    """How many Flink would take at a time."""
    restart_strategy: str | None = None
    """How Flink would restart a failed job."""
    checkpoint: dict[str, Any] = {}
    """Flink's checkpoints in detail."""
    state: dict[str, Any] = {}
    """Flink's state in detail."""
    restart: dict[str, Any] = {}
    """Flink's restarts in detail."""
    resources: dict[str, Any] = {}
    """The size of Flink's machines."""
    savepoint: dict[str, Any] = {}
    """Flink's savepoints."""


class Advanced(FrozenModel):
    """Settings that most models do without."""

    topic: ModelTopic = ModelTopic()
    """The topic that the model writes."""
    spark: SparkJob = SparkJob()
    """How its query runs."""
    connector: ModelConnector | None = None
    """The connector that the model writes with; it is then a sink."""
    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    connect_cluster: str | None = None
    """The Kafka Connect cluster that runs the connector."""
