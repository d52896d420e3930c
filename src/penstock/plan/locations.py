"""Where connectors read and write, by the words of their own classes."""

from collections.abc import Mapping
from typing import Any

from penstock.connectors import registry
from penstock.connectors.contract import Connector
from penstock.connectors.registry import Role


def location(role: Role, config: Mapping[str, Any]) -> str:
    """The place that a connector reads or writes: a topic, a table, a directory; its type where it has none."""
    found = _class_of(role, config)
    return (found.location(config) if found is not None else "") or str(config["type"])


def is_moved(role: Role, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether rows are read from, or written to, another place than before."""
    old, new = _class_of(role, before), _class_of(role, after)
    if old is None or new is None:
        return bool(before["type"] != after["type"])
    if not (issubclass(old, new) or issubclass(new, old)):
        return bool(new.located_by)
    return new.is_elsewhere(before, after)


def _class_of(role: Role, config: Mapping[str, Any]) -> type[Connector] | None:
    kind = str(config["type"])
    return registry.find_source(kind) if role == "source" else registry.find_sink(kind)
