"""The base class of sources and sinks."""

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
    """A problem with a field of a connector. One that is not `fatal` can be fixed before the connector runs."""

    code: str
    field: str
    text: str
    hint: str | None = None
    fatal: bool = True


class Connector(PipelineNode, ABC):
    """The base class of sources and sinks.

    Class variables and class methods answer questions before a configuration is valid: it may refer to variables that
    are not set yet. All other facts about a connector are in its `capabilities`.
    """

    packages: ClassVar[tuple[Package, ...]] = ()
    """Packages that Spark needs for it in addition to those that come with PySpark."""
    by_options: ClassVar[bool] = False
    """Whether its fields may also be below `options`, like those of plugins. A field outside takes precedence."""
    on_this_machine: ClassVar[bool] = False
    """Whether it reads or writes local directories, which the machines of a cluster cannot access."""
    located_by: ClassVar[tuple[str, ...]] = ()
    """The fields that identify the rows that it reads, or the place that it writes to; none if it stores nothing."""

    @classmethod
    def is_elsewhere(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether two configurations read or write different places, so that they have no rows in common."""
        return cls.location(before) != cls.location(after)

    @classmethod
    def location(cls, config: Mapping[str, Any]) -> str:
        """Describe the place that a configuration reads or writes, in a few words."""
        return ".".join(str(config[field]) for field in cls.located_by if config.get(field) is not None)

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        """Return the packages that Spark needs for a configuration."""
        return cls.packages

    @classmethod
    def is_machine_local(cls, config: Mapping[str, Any]) -> bool:
        """Whether a configuration reads or writes something that only this machine has."""
        return cls.on_this_machine

    def with_root(self, root: Path) -> Self:
        """Return the same connector with its relative paths resolved against `root`."""
        return self

    def with_settings(self, settings: Settings, name: str) -> Self:
        """Return the same connector with the application's settings for its system. `name` is the name of its node."""
        return self

    def check(self) -> None:
        """Raise a ServiceError if the system cannot be reached."""

    def remarks(self, settings: Settings) -> Iterator[Remark]:
        """Yield the problems of its fields under these settings of the application."""
        yield from ()
