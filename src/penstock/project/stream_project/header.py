"""The header of a project, its variables, its defaults and its environments."""

from typing import Any, Literal

from pydantic import Field

from penstock.config import FrozenModel, OnError, Whole
from penstock.project.runtime import Runtime
from penstock.project.stream_project.parts import Name

Variables = dict[str, Any]
"""Values for `{{ var("name") }}` in SQL."""


class ProjectHeader(FrozenModel):
    """The name and description of the project."""

    name: Name
    """The name of the project; state and checkpoints are stored under it."""
    version: str | None = None
    """The version of the project. It is only shown."""
    description: str | None = None
    """A description of the project."""


class TopicDefaults(FrozenModel):
    """Default settings of topics."""

    partitions: Whole | None = Field(None, ge=1)
    """The number of partitions. Default: 1."""
    replication_factor: Whole | None = Field(None, ge=1)
    """The replication factor. Default: 1."""
    config: dict[str, str | int | float | bool] = {}
    """Topic settings such as `retention.ms`, merged key by key."""


class ModelDefaults(FrozenModel):
    """Default settings of models."""

    cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    flink_cluster: str | None = None
    """The same as `cluster`."""
    topic: TopicDefaults = TopicDefaults()
    """The topics of models. It overrides `defaults.topic`, key by key."""


class TestDefaults(FrozenModel):
    """Default settings of tests."""

    __test__ = False

    flink_cluster: str | None = None
    """A Flink cluster. Queries run on Spark, so it has no effect."""
    sample_size: Whole | None = Field(None, ge=1)
    """The number of rows that a sample test reads."""


class Defaults(FrozenModel):
    """Defaults for elements that do not set a value."""

    on_error: OnError = "dead_letter"
    """What happens to rows that cannot be processed: `dead_letter`, `stop` or `skip`."""
    dead_letters: Literal["covered", "clear"] = "covered"
    """Whether dead letters and errors hide the values of masked columns and of columns that are `sensitive` or
    `highly_sensitive` (`covered`), or show them (`clear`). A replay then reads the hidden record from its topic
    again."""
    topic: TopicDefaults = TopicDefaults()
    """Defaults for the topics that the project writes."""
    models: ModelDefaults = ModelDefaults()
    """Defaults for models."""
    tests: TestDefaults = TestDefaults()
    """Defaults for tests."""


class EnvironmentHeader(FrozenModel):
    """The environment."""

    name: str | None = None
    """Its name. It must equal the file name without the extension."""
    description: str = ""
    """A description."""
    protected: bool = False
    """Whether `run` asks for a confirmation."""


class Safety(FrozenModel):
    """What a run may do in this environment."""

    confirm_apply: bool | None = None
    """Whether `run` asks for a confirmation. Default: `environment.protected`."""
    allow_destructive: bool = True
    """Whether a run may rebuild or retire queries. If not, it needs `--force`."""


class EnvironmentFile(FrozenModel):
    """A file of `environments/`."""

    environment: EnvironmentHeader = EnvironmentHeader()
    """The environment."""
    runtime: Runtime
    """The systems that the project runs on there."""
    safety: Safety = Safety()
    """What a run may do in this environment."""
    vars: Variables = {}
    """Values for `{{ var("name") }}` in SQL. They override those of the project."""
