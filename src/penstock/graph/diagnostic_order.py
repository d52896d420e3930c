"""Orders diagnostics: causes first. Consequences of another error are dropped."""

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.errors import Diagnostic, Origin, Severity, nearest
from penstock.graph.graph import Graph

_COLUMN_DEPENDENT: Final = frozenset(
    {
        "async-progress-unsupported", "event-time-assumed", "event-time-missing", "realtime-unsupported",
        "sql-text-as-number", "sql-unsupported", "state-unbounded",
    }
)  # fmt: skip
"""Warnings that depend on the columns of the inputs."""
_UNRESOLVED: Final = frozenset({"no-consumer", "unknown-model", "unknown-source", "unknown-upstream", "unknown-var"})
"""Codes for a name that nothing declares."""
_INCOMPLETE: Final = frozenset({"primary-key-unknown", "rule-broken", "window-without-event-time"})
"""Codes for an element without a required field."""
_DECLARING: Final = ("models", "sinks", "sources", "transforms", "vars")
_FLOW: Final = ("sources", "models", "transforms", "sinks", "exposures", "tests")


def order_by_cause(diagnostics: Iterable[Diagnostic], graph: Graph | None) -> tuple[Diagnostic, ...]:
    """The diagnostics in the order of the data flow, without consequences of other errors."""
    found = _drop_misspelt(_drop_unresolved(list(diagnostics)))
    if graph is None:
        return tuple(sorted(found, key=_origin_key))
    ranks = {f"{node.kind}s.{node.name}": number for number, node in enumerate(graph.nodes.values())}
    kept = _drop_consequences(found, graph)
    return tuple(sorted(kept, key=lambda d: (*_flow_rank(d.path, ranks), *_origin_key(d))))


def _drop_unresolved(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Drop unknown names that a misspelt or unreadable section may declare."""
    unread = [d.path for d in diagnostics if d.code in ("unknown-field", "wrong-shape") and "." not in d.path]
    meant = {nearest(path, _DECLARING) for path in unread} - {None}
    if not meant:
        return diagnostics
    return [d for d in diagnostics if d.code not in _UNRESOLVED and not (d.code == "missing-field" and d.path in meant)]


def _drop_misspelt(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Drop missing fields that are only misspelt."""
    unknown = [d.path.rpartition(".") for d in diagnostics if d.code == "unknown-field"]

    def is_misspelt(path: str) -> bool:
        owner, _, field = path.rpartition(".")
        return any(other == owner and nearest(word, [field]) for other, _, word in unknown)

    return [d for d in diagnostics if d.code != "missing-field" or not is_misspelt(d.path)]


def _drop_consequences(diagnostics: list[Diagnostic], graph: Graph) -> list[Diagnostic]:
    """Drop what follows from an error upstream, or from a missing field of the element."""
    ids = {f"{node.kind}s.{node.name}": node.id for node in graph.nodes.values()}

    def element(diagnostic: Diagnostic) -> str:
        labels = list(_prefixes(diagnostic.path))
        return next((ids[label] for label in labels if label in ids), labels[0] if labels else "")

    wrong = {element(d) for d in diagnostics if d.severity is Severity.ERROR}
    misspelt = {element(d) for d in diagnostics if d.code == "unknown-field"}
    below_error: set[str] = set()
    below_misspelt: set[str] = set()
    for node in graph.nodes.values():
        if any(name in wrong or name in below_error for name in node.inputs):
            below_error.add(node.id)
        if any(name in misspelt or name in below_misspelt for name in node.inputs):
            below_misspelt.add(node.id)

    def is_consequence(diagnostic: Diagnostic) -> bool:
        name = element(diagnostic)
        if diagnostic.code in _INCOMPLETE:
            return name in misspelt or (name in below_misspelt and diagnostic.code != "rule-broken")
        is_warning = diagnostic.severity is not Severity.ERROR
        return is_warning and diagnostic.code in _COLUMN_DEPENDENT and (name in below_error or name in misspelt)

    return [d for d in diagnostics if not is_consequence(d)]


def _flow_rank(path: str, ranks: dict[str, int]) -> tuple[int, int]:
    """The position of a path in the data flow. Elements that could not be read come first in their section, because
    others may refer to them. Paths outside of these sections come before all."""
    section = path.partition(".")[0]
    label = next((label for label in _prefixes(path) if label in ranks), "")
    return _FLOW.index(section) if section in _FLOW else -1, ranks.get(label, -1)


def _prefixes(path: str) -> Iterator[str]:
    """The possible element names at the beginning of a path: names may contain dots."""
    parts = path.split(".")
    return (".".join(parts[:length]) for length in range(2, len(parts) + 1))


def _origin_key(diagnostic: Diagnostic) -> tuple[str, int, int]:
    origin = diagnostic.origin or Origin("")
    return origin.file, origin.line or 0, origin.column or 0
