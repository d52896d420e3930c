"""Lineage as text: a tree, a Mermaid diagram, and the impact of a change."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from penstock.graph.graph import Graph, Node

HERE: Final = "← YOU ARE HERE"


def select_nodes(
    graph: Graph,
    focus: str | None,
    *,
    upstream: bool,
    downstream: bool,
    depth: int | None = None,
    tags: Collection[str] = (),
) -> list[str]:
    """The ids to show, in graph order: all, or those upstream or downstream of the focus. `depth` is the maximum
    distance from the focus. With `tags`, only nodes that have one of them.
    """
    chosen = set(graph.nodes)
    if focus is not None:
        both = upstream == downstream
        chosen = {focus}
        if upstream or both:
            chosen |= graph.upstream(focus, depth)
        if downstream or both:
            chosen |= graph.downstream(focus, depth)
    return [n for n in graph.nodes if n in chosen and (not tags or set(tags) & set(graph[n].tags))]


def edges_among(graph: Graph, chosen: Iterable[str]) -> list[tuple[str, str]]:
    present = set(chosen)
    return [(origin, target) for origin, target in graph.edges if origin in present and target in present]


def render_tree(graph: Graph, chosen: list[str], focus: str | None = None) -> str:
    """Draw one tree per root. A subtree is drawn once; where it occurs again, the tree shows `...`."""
    edges = edges_among(graph, chosen)
    below: dict[str, list[str]] = {node_id: [] for node_id in chosen}
    for origin, target in edges:
        below[origin].append(target)
    with_origin = {target for _, target in edges}
    roots = [node_id for node_id in chosen if node_id not in with_origin] or chosen[:1]
    drawn: set[str] = set()
    blocks = ["\n".join(_lines(graph, root, below, drawn, focus)) for root in roots]
    return "\n\n".join(blocks)


def _lines(graph: Graph, root: str, below: dict[str, list[str]], drawn: set[str], focus: str | None) -> Iterator[str]:
    stack: list[tuple[str, str, str]] = [(root, "", "")]
    while stack:
        node_id, lead, indent = stack.pop()
        if not node_id:
            yield f"{lead}..."
            continue
        yield lead + _line(graph[node_id], focus)
        children = below[node_id]
        if node_id in drawn:
            if children:
                stack.append(("", f"{indent}└── ", ""))
            continue
        drawn.add(node_id)
        for position in reversed(range(len(children))):
            last = position == len(children) - 1
            branch, deeper = ("└── ", "    ") if last else ("├── ", "│   ")
            stack.append((children[position], indent + branch, indent + deeper))


def _line(node: Node, focus: str | None) -> str:
    about = ", ".join(filter(None, (node.label, describe_changes(node))))
    return f"{node.name} ({about})" + (f" {HERE}" if node.id == focus else "")


def describe_changes(node: Node) -> str | None:
    """A phrase that the rows of a node are changes, with their key; None if the node is append-only."""
    if node.flow == "rows":
        return None
    return f"changes by {', '.join(node.change_key) or 'whole rows'}"


def describe_impact(graph: Graph, focus: str) -> str:
    """List the nodes that a change to a node affects."""
    below = graph.downstream(focus) - {focus}
    reached = [graph[n] for n in graph.nodes if n in below]
    lines = []
    for kind in ("model", "transform", "sink", "exposure"):
        names = [n.name for n in reached if n.kind == kind]
        if names:
            lines.append(f"- {len(names)} {kind}{'s' if len(names) > 1 else ''}: {', '.join(names)}")
    if not lines:
        return f"Changes to {graph[focus].name} affect nothing else."
    return "\n".join([f"⚠️  Changes to {graph[focus].name} will affect:", *lines])


def render_mermaid(graph: Graph, chosen: list[str]) -> str:
    ids = _mermaid_ids(graph[node_id] for node_id in chosen)
    lines = ["graph LR"]
    lines += [f"    {ids[n]}[{_mermaid_text(graph[n].name)}]" for n in chosen]
    lines += [f"    {ids[origin]} --> {ids[target]}" for origin, target in edges_among(graph, chosen)]
    return "\n".join(lines)


def _mermaid_ids(nodes: Iterable[Node]) -> dict[str, str]:
    """Ids of plain characters. Equal ids get a number."""
    ids: dict[str, str] = {}
    for node in nodes:
        kind = "sink" if node.materialized == "sink" else node.kind
        word = f"{kind}_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in node.name)
        alike = sum(other == word or other.startswith(f"{word}__") for other in ids.values())
        ids[node.id] = f"{word}__{alike + 1}" if alike else word
    return ids


def _mermaid_text(name: str) -> str:
    plain = all(c.isalnum() or c in "_- " for c in name)
    return name if plain else '"' + name.replace('"', "#quot;") + '"'
