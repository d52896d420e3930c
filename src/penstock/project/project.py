"""The project format: a project as written, element by element."""

from dataclasses import dataclass

from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.templates.template import Templates
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.variables import Environ


@dataclass(frozen=True, slots=True)
class Environment:
    """The chosen environment."""

    name: str
    description: str
    asks_first: bool
    allow_destructive: bool


@dataclass(frozen=True, slots=True)
class StreamProject:
    """A project as written, element by element."""

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

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def runtime(self) -> Runtime:
        return self.runtime_section.value
