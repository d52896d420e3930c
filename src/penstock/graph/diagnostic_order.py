"""The order of diagnostics: causes come first, and what only follows from another mistake is left out."""

from collections.abc import Iterable, Iterator
from typing import Final

from penstock.errors import Diagnostic, Origin, Severity, nearest
from penstock.graph.graph import Graph

_FOLLOWING: Final = frozenset(
    {
        "async-progress-unsupported", "event-time-assumed", "event-time-missing", "realtime-unsupported",
        "sql-text-as-number", "sql-unsupported", "state-unbounded",
    }
)  # fmt: skip
"""Warnings that depend on what is known of the inputs."""
_UNRESOLVED: Final = frozenset({"no-consumer", "unknown-model", "unknown-source", "unknown-upstream", "unknown-var"})
"""What is found of a name that nothing declares."""
_UNSAID: Final = frozenset({"primary-key-unknown", "rule-broken", "window-without-event-time"})
"""What is found of an element that lacks a field."""
_DECLARING: Final = ("models", "sinks", "sources", "transforms", "vars")
_FLOW: Final = ("sources", "models", "transforms", "sinks", "exposures", "tests")


def order_by_cause(diagnostics: Iterable[Diagnostic], graph: Graph | None) -> tuple[Diagnostic, ...]:
    """The diagnostics in the order in which rows go through what they are about."""
    found = _drop_misspelt(_drop_unresolved(list(diagnostics)))
    if graph is None:
        return tuple(sorted(found, key=_origin_key))
    ranks = {f"{node.kind}s.{node.name}": number for number, node in enumerate(graph.nodes.values())}
    kept = _drop_consequences(found, graph)
    return tuple(sorted(kept, key=lambda d: (*_flow_rank(d.path, ranks), *_origin_key(d))))


def _drop_unresolved(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics, less the names that a misspelt or unreadable section may declare."""
    unread = [d.path for d in diagnostics if d.code in ("unknown-field", "wrong-shape") and "." not in d.path]
    meant = {nearest(path, _DECLARING) for path in unread} - {None}
    if not meant:
        return diagnostics
    return [d for d in diagnostics if d.code not in _UNRESOLVED and not (d.code == "missing-field" and d.path in meant)]


def _drop_misspelt(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics, less fields that are missing because they are misspelt."""
    unknown = [d.path.rpartition(".") for d in diagnostics if d.code == "unknown-field"]

    def is_misspelt(path: str) -> bool:
        owner, _, field = path.rpartition(".")
        return any(beside == owner and nearest(word, [field]) for beside, _, word in unknown)

    return [d for d in diagnostics if d.code != "missing-field" or not is_misspelt(d.path)]


def _drop_consequences(diagnostics: list[Diagnostic], graph: Graph) -> list[Diagnostic]:
    """The diagnostics, less what follows from an error upstream, or from a field that an element does not have."""
    ids = {f"{node.kind}s.{node.name}": node.id for node in graph.nodes.values()}

    def element(diagnostic: Diagnostic) -> str:
        labels = list(_prefixes(diagnostic.path))
        return next((ids[label] for label in labels if label in ids), labels[0] if labels else "")

    wrong = {element(d) for d in diagnostics if d.severity is Severity.ERROR}
    unsaid = {element(d) for d in diagnostics if d.code == "unknown-field"}
    doubtful: set[str] = set()
    misled: set[str] = set()
    for node in graph.nodes.values():
        if any(name in wrong or name in doubtful for name in node.inputs):
            doubtful.add(node.id)
        if any(name in unsaid or name in misled for name in node.inputs):
            misled.add(node.id)

    def follows(diagnostic: Diagnostic) -> bool:
        name = element(diagnostic)
        if diagnostic.code in _UNSAID:
            return name in unsaid or (name in misled and diagnostic.code != "rule-broken")
        is_warning = diagnostic.severity is not Severity.ERROR
        return is_warning and diagnostic.code in _FOLLOWING and (name in doubtful or name in unsaid)

    return [d for d in diagnostics if not follows(d)]


def _flow_rank(path: str, ranks: dict[str, int]) -> tuple[int, int]:
    """The place in the flow of what a path names. Elements that could not be read come first among those of their
    section, for others may miss them; what belongs to no section of elements comes before all."""
    section = path.partition(".")[0]
    label = next((label for label in _prefixes(path) if label in ranks), "")
    return _FLOW.index(section) if section in _FLOW else -1, ranks.get(label, -1)


def _prefixes(path: str) -> Iterator[str]:
    """What an element at the beginning of a path may be called: names may have dots in them."""
    parts = path.split(".")
    return (".".join(parts[:length]) for length in range(2, len(parts) + 1))


def _origin_key(diagnostic: Diagnostic) -> tuple[str, int, int]:
    origin = diagnostic.origin or Origin("")
    return origin.file, origin.line or 0, origin.column or 0
