"""What sources and sinks have in common."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from penstock.clients.jvm.maven import Package
from penstock.connectors.node import PipelineNode
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Remark:
    """A problem with a field of a connector. One that is not `fatal` may be mended before the connector runs."""

    code: str
    field: str
    text: str
    hint: str | None = None
    fatal: bool = True


class Connector(PipelineNode, ABC):
    """Common to sources and sinks.

    Class variables and class methods are what is asked before a configuration is valid: it may refer to variables that
    are not set yet. Everything else about a connector is in its `capabilities`.
    """

    packages: ClassVar[tuple[Package, ...]] = ()
    """What Spark needs for it in addition to what comes with PySpark."""
    by_options: ClassVar[bool] = False
    """Whether its fields may also be written below `options`, as those of plugins are. A field outside is stronger."""
    on_this_machine: ClassVar[bool] = False
    """Whether it reads or writes directories of this machine, which those of a cluster do not see."""
    located_by: ClassVar[tuple[str, ...]] = ()
    """The fields that say which rows it reads, or where it keeps those that it is given; none if it keeps nothing."""

    @classmethod
    def is_elsewhere(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether a configuration like `after` reads or writes other rows than one like `before`."""
        return cls.location(before) != cls.location(after)

    @classmethod
    def location(cls, config: Mapping[str, Any]) -> str:
        """The place that a configuration reads or writes, in a few words."""
        return ".".join(str(config[field]) for field in cls.located_by if config.get(field) is not None)

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        """What Spark needs for a configuration."""
        return cls.packages

    @classmethod
    def is_machine_local(cls, config: Mapping[str, Any]) -> bool:
        """Whether a configuration reads or writes what only this machine has."""
        return cls.on_this_machine

    def with_root(self, root: Path) -> Self:
        """The same connector with its relative paths taken from `root`."""
        return self

    def with_settings(self, settings: Settings, name: str) -> Self:
        """The same connector with what the application's settings say of its system. `name` is that of its node."""
        return self

    def check(self) -> None:
        """Raise a ServiceError when the system cannot be reached."""

    def remarks(self, settings: Settings) -> Iterator[Remark]:
        """What is wrong with it, given these settings of the application."""
        yield from ()
