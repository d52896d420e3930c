"""Query checks that both formats share."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.graph.graph import Node
from penstock.project.validation.declaration import Declaration
from penstock.sql.parse.query import Problem
from penstock.sql.types.columns import Columns


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
    cycles: Iterable[list[str]], declaration: Callable[[str], Declaration[Any]], heading: str = ""
) -> list[Diagnostic]:
    """Report cycles. `heading` begins each message."""
    found = []
    for cycle in cycles:
        names = [node_id.partition(".")[2] for node_id in cycle]
        path, hint = " -> ".join(names), "remove one of the references"
        reads_itself = len(names) == 2
        text = f"`{names[0]}` reads from itself" if reads_itself else f"these read from each other in a cycle: {path}"
        found.append(declaration(cycle[0]).diagnostic("cycle", heading + text, hint, path=path))
    return found


def match_spelling(names: Sequence[str], columns: Columns | None) -> tuple[str, ...]:
    """Names in the spelling of the known columns. SQL is not case-sensitive, but target systems are."""
    present = [c.name for c in columns or ()]
    spelt = {name.casefold(): name for name in reversed(present)}
    return tuple(name if name in present else spelt.get(name.casefold(), name) for name in names)


def missing_key(key: Sequence[str], node: Node, declared: Declaration[Any], field: str) -> list[Diagnostic]:
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
    return [declared.diagnostic("primary-key-missing", text, hint, at=(field,), column=absent[0])]


def unknown_reference(
    node_id: str, known: Collection[str], declared: Declaration[Any], field: str, origin: Origin
) -> Diagnostic:
    """Report a reference to a node that is not declared."""
    kind, _, name = node_id.partition(".")
    own = declared.label.replace("models.", "model.", 1)
    names = [n.partition(".")[2] for n in known if n.startswith(f"{kind}.") and n != own]
    hint = did_you_mean(name, names)
    other = "model" if kind == "source" else "source"
    if f"{other}.{name}" in known:
        call = "ref" if other == "model" else "source"
        instead = f'{call}("{name}")' if field == "sql" else f"{{{call}: {name}}}"
        hint = f"there is a {other} of that name: write {instead}"
    text = f"there is no {kind} `{name}`"
    return Diagnostic(f"unknown-{kind}", text, origin, f"{declared.label}.{field}", hint, params={"name": name})


def known_ids(node_ids: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """The ids that are known, each once."""
    return tuple(dict.fromkeys(node_id for node_id in node_ids if node_id in known))
