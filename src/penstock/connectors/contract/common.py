"""What sources and sinks have in common."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from penstock.clients.clusters import Clusters
from penstock.clients.jvm.maven import Package
from penstock.connectors.node import PipelineNode
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a field of a connector. What is not `fatal` may be put right before it runs."""

    code: str
    field: str
    text: str
    hint: str | None = None
    fatal: bool = True


class Connector(PipelineNode, ABC):
    """Common to sources and sinks."""

    packages: ClassVar[tuple[Package, ...]] = ()
    """What Spark needs for it beside what comes with PySpark."""
    by_options: ClassVar[bool] = False
    """Whether its fields may also stand below `options`, as those of plugins do. One that stands beside is stronger."""
    on_this_machine: ClassVar[bool] = False
    """Whether it reads or writes directories of this machine, which those of a cluster do not see."""

    located_by: ClassVar[tuple[str, ...]] = ()
    """The fields that say which rows it reads, or where it keeps those that it is given; none if it keeps nothing."""

    @classmethod
    def location(cls, config: Mapping[str, Any]) -> str:
        """The place that one which is written like this reads or writes, in a few words."""
        return ".".join(str(config[field]) for field in cls.located_by if config.get(field) is not None)

    @classmethod
    def is_elsewhere(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether one that is written like `after` reads or writes other rows than one written like `before`."""
        return cls.location(before) != cls.location(after)

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        """What Spark needs for one that is written like this."""
        return cls.packages

    @classmethod
    def is_machine_local(cls, config: Mapping[str, Any]) -> bool:
        """Whether one that is written like this reads or writes what only this machine has."""
        return cls.on_this_machine

    def with_root(self, root: Path) -> Self:
        """The same connector with its relative paths taken from `root`."""
        return self

    def with_clusters(self, clusters: Clusters) -> Self:
        """The same connector, which knows the systems it reads from or writes to."""
        return self

    def check(self) -> None:
        """Raise a ServiceError when the system cannot be reached."""

    def remarks(self, settings: Settings) -> Iterator[Remark]:
        """What is wrong with it beside these settings of the application."""
        yield from ()
