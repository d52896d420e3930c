from enum import StrEnum
from typing import Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.line import check, node_named
from penstock.cli.options import DirectoryOption, PathArgument, chosen_path, remember_json
from penstock.graph import lineage
from penstock.graph.graph import Graph


class LineageFormat(StrEnum):
    TEXT = "text"
    ASCII = "ascii"
    JSON = "json"
    MERMAID = "mermaid"


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Show only what belongs to this node.")] = None,
    upstream: Annotated[bool, typer.Option("--upstream", help="With --model: what it is made from.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="With --model: what is made from it.")] = False,
    form: Annotated[
        LineageFormat, typer.Option("--format", callback=remember_json, help="How to draw.")
    ] = LineageFormat.TEXT,
) -> None:
    """Show who reads from whom."""
    checked = check(chosen_path(path, directory), ignore_runtime=True)
    graph = checked.graph
    focus = node_named(graph, model).id if model else None
    chosen = lineage.selection(graph, focus, upstream=upstream, downstream=downstream)
    match form:
        case LineageFormat.JSON:
            output.put_json(as_json(graph, chosen))
        case LineageFormat.MERMAID:
            output.put(lineage.mermaid(graph, chosen))
        case LineageFormat.TEXT | LineageFormat.ASCII:
            output.put(lineage.tree(graph, chosen, focus))
            if focus and downstream and not upstream:
                output.put("\n" + lineage.impact(graph, focus))


def as_json(graph: Graph, chosen: list[str]) -> dict[str, Any]:
    nodes = [graph[node_id] for node_id in chosen]
    return {
        "nodes": [
            {
                "id": n.id,
                "type": n.kind,
                "name": n.name,
                "materialized": n.materialized,
                "owner": n.owner,
                "tags": list(n.tags),
                "description": n.description,
            }
            for n in nodes
        ],
        "edges": [{"from": origin, "to": target} for origin, target in lineage.edges_among(graph, chosen)],
    }
