"""The locations that connectors read and write, as their classes describe them."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.connectors import registry
from penstock.connectors.contract import Connector
from penstock.connectors.registry import Role
from penstock.manifest.model import QuerySpec
from penstock.project.yaml.variables import Environ, find_references, resolve_variables

TOPICS: Final = ("topic", "kafka")
"""Sinks with readers. Readers would miss earlier rows in a new location."""


def location(role: Role, config: Mapping[str, Any]) -> str:
    """The location that a connector reads or writes: a topic, a table, a directory; else its type."""
    found = _class_of(role, config)
    return (found.location(config) if found is not None else "") or str(config["type"])


def is_moved(role: Role, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the location differs from the earlier one."""
    old, new = _class_of(role, before), _class_of(role, after)
    if old is None or new is None:
        return bool(before["type"] != after["type"])
    if not (issubclass(old, new) or issubclass(new, old)):
        return bool(new.located_by)
    return new.is_elsewhere(before, after)


def _class_of(role: Role, config: Mapping[str, Any]) -> type[Connector] | None:
    kind = str(config["type"])
    return registry.find_source(kind) if role == "source" else registry.find_sink(kind)


def resolve_locations(query: QuerySpec, environ: Environ) -> dict[str, str]:
    """The locations of a query that depend on variables, resolved, by reader name or sink node. A definition has only
    the names of variables, so it does not show a changed value."""
    written = [output for output in query.outputs if query.stateful or output.sink["type"] in TOPICS]
    connectors: list[tuple[str, Role, Mapping[str, Any]]] = [
        *((entry.name, "source", entry.source) for entry in query.streams),
        *((output.node, "sink", output.sink) for output in written),
    ]
    return {
        name: location(role, resolve_variables(dict(config), environ)[0])
        for name, role, config in connectors
        if any(True for _ in find_references(location(role, config)))
    }


def changed_locations(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Describe locations that differ from before because of variables."""
    changed = [(name, before[name], place) for name, place in after.items() if before.get(name, place) != place]
    return "; ".join(f"a variable says `{new}` instead of `{old}`" for _, old, new in changed) or None
