"""Lineage of one column, upstream and downstream."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.graph.graph import Graph
from penstock.sql.analyze.column_lineage import Derivation, UseKind
from penstock.sql.types.columns import column_spelling


@dataclass(frozen=True, slots=True)
class ColumnId:
    node: str
    column: str

    def __str__(self) -> str:
        name = self.node.partition(".")[2]
        return f"{name}.{self.column}" if self.column else name


@dataclass(frozen=True, slots=True)
class ColumnEdge:
    """An edge from a column to one that is computed from it, and how. Where it only selects rows, the target has no
    column."""

    origin: ColumnId
    target: ColumnId
    way: Derivation | UseKind


def upstream_edges(graph: Graph, node_id: str, column: str, depth: int | None = None) -> list[ColumnEdge]:
    """Every edge upstream of the column, nearest first, at most `depth` steps away."""

    def edges_into(target: ColumnId) -> Iterator[tuple[ColumnEdge, ColumnId]]:
        for origin in graph[target.node].column_origins.get(target.column, ()):
            owner = graph.nodes.get(origin.input)
            name = column_spelling(origin.name, owner.columns if owner else None) or origin.name
            source = ColumnId(origin.input, name)
            yield ColumnEdge(source, target, origin.way), source

    return _walk(ColumnId(node_id, column), edges_into, depth)


def downstream_edges(graph: Graph, node_id: str, column: str, depth: int | None = None) -> list[ColumnEdge]:
    """Every edge downstream of the column, nearest first, at most `depth` steps away. Exposures read whole nodes, so
    they are not included.
    """
    readers: dict[tuple[str, str], list[ColumnEdge]] = {}
    for edge in _edges(graph):
        readers.setdefault((edge.origin.node, edge.origin.column.casefold()), []).append(edge)

    def edges_from(origin: ColumnId) -> Iterator[tuple[ColumnEdge, ColumnId]]:
        for edge in readers.get((origin.node, origin.column.casefold()), ()) if origin.column else ():
            yield ColumnEdge(origin, edge.target, edge.way), edge.target

    return _walk(ColumnId(node_id, column), edges_from, depth)


def _walk(
    start: ColumnId, edges_at: Callable[[ColumnId], Iterable[tuple[ColumnEdge, ColumnId]]], depth: int | None
) -> list[ColumnEdge]:
    """The edges that are reached from a column, nearest first. `edges_at` gives each edge with its far end."""
    found: list[ColumnEdge] = []
    ahead, steps = [start], {start: 0}
    for here in ahead:
        if depth is not None and steps[here] >= depth:
            continue
        for edge, far in edges_at(here):
            found.append(edge)
            if far not in steps:
                steps[far] = steps[here] + 1
                ahead.append(far)
    return found


def _edges(graph: Graph) -> Iterator[ColumnEdge]:
    for node in graph.nodes.values():
        for column, origins in node.column_origins.items():
            for origin in origins:
                yield ColumnEdge(ColumnId(origin.input, origin.name), ColumnId(node.id, column), origin.way)
        for used in node.column_uses:
            yield ColumnEdge(ColumnId(used.input, used.name), ColumnId(node.id, ""), used.use)


def render_tree(node_id: str, column: str, up: list[ColumnEdge], down: list[ColumnEdge]) -> str:
    start = ColumnId(node_id, column)
    lines = [str(start)]
    if up:
        lines += ["  made from", *_branch_lines(start, [(e.target, e.origin, e.way) for e in up])]
    if down:
        lines += ["  goes into", *_branch_lines(start, [(e.origin, e.target, e.way) for e in down])]
    if not up and not down:
        lines.append("  made from nothing here, and read by nothing here")
    return "\n".join(lines)


def _branch_lines(start: ColumnId, steps: list[tuple[ColumnId, ColumnId, Derivation | UseKind]]) -> Iterator[str]:
    children: dict[ColumnId, list[tuple[ColumnId, Derivation | UseKind]]] = {}
    for parent, child, way in steps:
        children.setdefault(parent, []).append((child, way))
    drawn: set[ColumnId] = set()
    stack = [(child, way, "  ", i == len(children[start]) - 1) for i, (child, way) in enumerate(children[start])][::-1]
    while stack:
        column, way, indent, last = stack.pop()
        again = column in drawn and column in children
        yield f"{indent}{'└── ' if last else '├── '}{column}{_WORDS[way]}{' ...' if again else ''}"
        if column in drawn:
            continue
        drawn.add(column)
        inner = children.get(column, [])
        deeper = indent + ("    " if last else "│   ")
        stack += [(c, w, deeper, i == len(inner) - 1) for i, (c, w) in enumerate(inner)][::-1]


_WORDS: dict[Derivation | UseKind, str] = {
    "same": "",
    "made": " (in an expression)",
    "counted": " (only counted)",
    "filter": " (filters by it)",
    "join": " (joins by it)",
    "group": " (groups by it)",
}


def as_json(node_id: str, column: str, up: list[ColumnEdge], down: list[ColumnEdge]) -> dict[str, Any]:
    return {
        "column": {"node": node_id, "column": column},
        "upstream": [_edge_json(edge) for edge in up],
        "downstream": [_edge_json(edge) for edge in down],
    }


def _edge_json(edge: ColumnEdge) -> dict[str, Any]:
    return {
        "from": {"node": edge.origin.node, "column": edge.origin.column},
        "to": {"node": edge.target.node, "column": edge.target.column or None},
        "way": edge.way,
    }


def render_mermaid(node_id: str, column: str, up: list[ColumnEdge], down: list[ColumnEdge]) -> str:
    edges = [*up[::-1], *down]
    columns = dict.fromkeys([c for e in edges for c in (e.origin, e.target)] or [ColumnId(node_id, column)])
    ids = {c: f"c{number}" for number, c in enumerate(columns)}
    texts = {c: str(c).replace('"', "#quot;") for c in columns}
    lines = ["graph LR", *(f'    {ids[c]}["{text}"]' for c, text in texts.items())]
    lines += [f"    {ids[e.origin]} {'-->' if e.way == 'same' else '-.->'} {ids[e.target]}" for e in edges]
    return "\n".join(lines)
