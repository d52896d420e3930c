"""Query checks that both formats share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.graph.graph import Node
from penstock.sql.parse.query import Problem
from penstock.sql.types.columns import Columns


class LabeledOrigin(Protocol):
    """A value with a label and a position in a file."""

    @property
    def label(self) -> str: ...
    @property
    def origin(self) -> Origin: ...


def to_diagnostics(
    problems: Iterable[Problem],
    label: str,
    origin_at: Callable[[int], Origin],
    severity: Severity = Severity.ERROR,
    field: str = "sql",
) -> list[Diagnostic]:
    """Convert a query's problems to diagnostics with their position in the file."""
    path = f"{label}.{field}"
    return [
        Diagnostic(p.code, p.message, origin_at(p.offset), path, p.hint, severity, {"subject": p.subject})
        for p in problems
    ]


def cycle_diagnostics(
    cycles: Iterable[list[str]], places: Callable[[str], LabeledOrigin], heading: str = ""
) -> list[Diagnostic]:
    """Report cycles. `heading` begins each message."""
    found = []
    for cycle in cycles:
        names = [node_id.partition(".")[2] for node_id in cycle]
        place = places(cycle[0])
        alone = len(names) == 2
        text = (
            f"`{names[0]}` reads from itself"
            if alone
            else f"these read from each other in a cycle: {' -> '.join(names)}"
        )
        hint = "remove one of the references"
        found.append(
            Diagnostic("cycle", heading + text, place.origin, place.label, hint, params={"path": " -> ".join(names)})
        )
    return found


def match_spelling(names: Sequence[str], columns: Columns | None) -> tuple[str, ...]:
    """Names in the spelling of the known columns. SQL is not case-sensitive, but target systems are."""
    present = [c.name for c in columns or ()]
    spelt = {name.casefold(): name for name in reversed(present)}
    return tuple(name if name in present else spelt.get(name.casefold(), name) for name in names)


def missing_key(key: Sequence[str], node: Node, origin: Origin, label: str) -> list[Diagnostic]:
    """Report key columns that are missing from the known outputs."""
    if node.columns is None:
        return []
    present = [c.name for c in node.columns]
    absent = [name for name in key if name.casefold() not in {p.casefold() for p in present}]
    if not absent:
        return []
    shown = ", ".join(f'"{name}"' for name in absent)
    text = (
        f"Primary key validation failed for node '{node.name}': columns [{shown}] not found in schema."
        f" Available columns: [{', '.join(present)}]"
    )
    hint = did_you_mean(absent[0], present)
    return [Diagnostic("primary-key-missing", text, origin, label, hint, Severity.ERROR, {"column": absent[0]})]
