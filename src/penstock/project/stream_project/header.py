"""What is said once for the whole project: who it is, its variables, its defaults."""

from typing import Any, Literal

from pydantic import Field

from penstock.config import FrozenModel, OnError, Whole
from penstock.project.stream_project.parts import Name

Variables = dict[str, Any]
"""Values that SQL asks for with `{{ var("name") }}`."""


class ProjectHeader(FrozenModel):
    """Who this project is."""

    name: Name
    """The name of the project; its state and checkpoints are kept under it."""
    version: str | None = None
    """The version of the project, as its owners count."""
    description: str | None = None
    """What the project is for."""


class TopicDefaults(FrozenModel):
    """Settings of topics that do not say otherwise."""

    partitions: Whole | None = Field(None, ge=1)
    """How many partitions; 1 if nobody says."""
    replication_factor: Whole | None = Field(None, ge=1)
    """How many copies; 1 if nobody says."""
    config: dict[str, str | int | float | bool] = {}
    """Settings of a topic such as `retention.ms`, key by key."""


class ModelDefaults(FrozenModel):
    """Settings of models that do not say otherwise."""

    cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    flink_cluster: str | None = None
    """The same as `cluster`."""
    topic: TopicDefaults = TopicDefaults()
    """The topics of models; stronger than `defaults.topic`, key by key."""


class TestDefaults(FrozenModel):
    """Settings of tests that do not say otherwise."""

    __test__ = False

    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    sample_size: Whole | None = Field(None, ge=1)
    """How many rows a sample test reads."""


class Defaults(FrozenModel):
    """What holds where an element says nothing."""

    on_error: OnError = "dead_letter"
    """What becomes of rows that cannot be used: `dead_letter`, `stop` or `skip`."""
    dead_letters: Literal["covered", "clear"] = "covered"
    """Whether dead letters and errors leave out the values of masked columns, and of those that are `sensitive` or
    `highly_sensitive`. The record is then read again from its topic when it is replayed."""
    topic: TopicDefaults = TopicDefaults()
    """Every topic that the project writes."""
    models: ModelDefaults = ModelDefaults()
    """Every model."""
    tests: TestDefaults = TestDefaults()
    """Every test."""
