"""One file of `environments/`: where the project runs, and what a run may do there."""

from penstock.config import FrozenModel
from penstock.project.runtime import Runtime
from penstock.project.stream_project.header import Variables


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
