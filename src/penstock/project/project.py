"""Projects and pipelines as written, element by element."""

from dataclasses import dataclass, field

from penstock.connectors.contract import Sink, Source
from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.templates.template import Templates
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.variables import Environ
from penstock.settings import Settings
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions
from penstock.transforms.sql import SqlTransform


@dataclass(frozen=True, slots=True)
class Environment:
    """The chosen environment."""

    name: str
    description: str
    asks_first: bool
    allow_destructive: bool


@dataclass(frozen=True, slots=True)
class StreamProject:
    """A parsed project: each element as it is declared."""

    header: written.ProjectHeader
    runtime_section: Declaration[Runtime]
    defaults: written.Defaults
    rules: Declaration[written.Rules]
    templates: Templates
    environment: Environment | None
    environ: Environ
    sources: tuple[Declaration[written.Source], ...]
    models: tuple[Declaration[written.Model], ...]
    tests: tuple[Declaration[written.DataTest], ...]
    exposures: tuple[Declaration[written.Exposure], ...]
    refused: frozenset[str]
    """Ids of elements that could not be parsed. A reference to one of them is not a second error."""
    functions: UserFunctions = field(default_factory=lambda: NO_FUNCTIONS)
    """The functions of `functions/`."""

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def runtime(self) -> Runtime:
        return self.runtime_section.value


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A parsed pipeline: nodes by name, in document order."""

    name: str
    sources: dict[str, Declaration[Source]]
    transforms: dict[str, Declaration[SqlTransform]]
    sinks: dict[str, Declaration[Sink]]
    refused: frozenset[str]
    """Names of nodes that could not be parsed. A reference to one of them is not a second error."""
    settings: Settings = field(default_factory=Settings, repr=False)
    functions: UserFunctions = field(default_factory=lambda: NO_FUNCTIONS)
    """The functions of `functions/`."""
