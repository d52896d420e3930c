from enum import StrEnum
from typing import Annotated, Any

import typer

from penstock.cli import options, output
from penstock.errors import Diagnostic, ProjectInvalid, did_you_mean
from penstock.graph import column_lineage, lineage
from penstock.graph.graph import Graph, Node
from penstock.workflow.stages import check, find_node


class LineageFormat(StrEnum):
    TEXT = "text"
    ASCII = "ascii"
    JSON = "json"
    MERMAID = "mermaid"


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Show only the lineage of this node.")] = None,
    upstream: Annotated[bool, typer.Option("--upstream", help="With --model: only what it reads.")] = False,
    downstream: Annotated[bool, typer.Option("--downstream", help="With --model: only what reads it.")] = False,
    depth: Annotated[
        int | None, typer.Option("--depth", min=0, help="With --model: the maximum number of steps.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only nodes with this tag; repeatable.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="With --model: the lineage of this column.")] = None,
    form: Annotated[
        LineageFormat, typer.Option("--format", callback=options.remember_json, help="The output format.")
    ] = LineageFormat.TEXT,
) -> None:
    """Show the lineage of nodes or of a column, and what a change would affect."""
    graph = check(options.target(path, directory, env, var, config=config), ignore_runtime=True, governed=False).graph
    focus = find_node(graph, model) if model else None
    if focus is None and (upstream or downstream or depth is not None or column):
        text = "--upstream, --downstream, --depth and --column need a node"
        raise ProjectInvalid([Diagnostic("invalid-value", text, path="lineage", hint="name it with --model")])
    if tag:
        _check_tags(graph, tag)
    if column and focus:
        _show_column(graph, focus, column, upstream=upstream, downstream=downstream, depth=depth, form=form)
        return
    focus_id = focus.id if focus else None
    chosen = lineage.select_nodes(
        graph, focus_id, upstream=upstream, downstream=downstream, depth=depth, tags=tag or ()
    )
    match form:
        case LineageFormat.JSON:
            output.put_json(as_json(graph, chosen))
        case LineageFormat.MERMAID:
            output.put(lineage.render_mermaid(graph, chosen))
        case LineageFormat.TEXT | LineageFormat.ASCII:
            output.put(lineage.render_tree(graph, chosen, focus_id))
            if focus_id and downstream and not upstream:
                output.put("\n" + lineage.describe_impact(graph, focus_id))


def as_json(graph: Graph, chosen: list[str]) -> dict[str, Any]:
    nodes = [graph[node_id] for node_id in chosen]
    return {
        "nodes": [
            {
                "id": n.id,
                "type": n.kind,
                "name": n.name,
                "materialized": n.materialized,
                "changes_by": None if n.flow == "rows" else list(n.change_key),
                "owner": n.owner,
                "tags": list(n.tags),
                "description": n.description,
            }
            for n in nodes
        ],
        "edges": [{"from": origin, "to": target} for origin, target in lineage.edges_among(graph, chosen)],
    }


def _check_tags(graph: Graph, tags: list[str]) -> None:
    known = {tag for node in graph.nodes.values() for tag in node.tags}
    for tag in tags:
        if tag not in known:
            text, hint = f"no node has the tag `{tag}`", did_you_mean(tag, known, otherwise="tags")
            raise ProjectInvalid([Diagnostic("unknown-value", text, path="--tag", hint=hint, params={"value": tag})])


def _show_column(
    graph: Graph, focus: Node, column: str, *, upstream: bool, downstream: bool, depth: int | None, form: LineageFormat
) -> None:
    names = [c.name for c in focus.columns or ()]
    found = next((name for name in names if name.casefold() == column.casefold()), None)
    if found is None:
        text = f"`{focus.name}` has no column `{column}`" if names else f"the columns of `{focus.name}` are not known"
        hint = did_you_mean(column, names) or "declare the columns of the sources"
        raise ProjectInvalid([Diagnostic("sql-unknown-column", text, hint=hint, params={"subject": column})])
    both = upstream == downstream
    above = column_lineage.upstream_edges(graph, focus.id, found, depth) if upstream or both else []
    below = column_lineage.downstream_edges(graph, focus.id, found, depth) if downstream or both else []
    if form is LineageFormat.JSON:
        output.put_json(column_lineage.as_json(focus.id, found, above, below))
    elif form is LineageFormat.MERMAID:
        output.put(column_lineage.render_mermaid(focus.id, found, above, below))
    else:
        output.put(column_lineage.render_tree(focus.id, found, above, below))
