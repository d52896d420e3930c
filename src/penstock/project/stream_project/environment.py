"""One file of `environments/`: where the project runs, and how careful to be there."""

from penstock.config import FrozenModel
from penstock.project.runtime import Runtime
from penstock.project.stream_project.header import Variables


class EnvironmentHeader(FrozenModel):
    """Which environment this is."""

    name: str | None = None
    """Its name; it must be that of the file."""
    description: str = ""
    """What it is."""
    protected: bool = False
    """Whether changing it takes a confirmation."""


class Safety(FrozenModel):
    """How careful to be."""

    confirm_apply: bool | None = None
    """Whether `run` asks first. `environment.protected` when left out."""
    allow_destructive: bool = True
    """Whether a run may rebuild or retire queries; if not, only with `--force`."""


class EnvironmentFile(FrozenModel):
    """A file of `environments/`."""

    environment: EnvironmentHeader = EnvironmentHeader()
    """Which environment this is."""
    runtime: Runtime
    """The systems that the project runs on there."""
    safety: Safety = Safety()
    """How careful to be."""
    vars: Variables = {}
    """Values that SQL asks for with `{{ var("name") }}`; stronger than those of the project."""
