"""The pipeline format: one file of sources, transforms and sinks."""

from dataclasses import dataclass, field

from penstock.connectors.contract import Sink, Source
from penstock.project.validation.declaration import Declaration
from penstock.settings import Settings
from penstock.transforms.sql import SqlTransform


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
