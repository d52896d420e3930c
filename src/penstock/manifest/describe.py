"""The graph and its elements in the form of the manifest."""

from collections.abc import Mapping
from typing import Any

from penstock.graph.graph import Graph, Node
from penstock.manifest.graph_model import ColumnFrom, Dag, DagColumn, DagEdge, DagNode
from penstock.project import stream_project as written
from penstock.sql.analyze.column_lineage import ColumnOrigin
from penstock.sql.types.columns import Column, column_spelling


def dag(graph: Graph) -> Dag:
    return Dag(
        nodes=tuple(_node(node, graph) for node in graph.nodes.values()),
        edges=tuple(DagEdge(from_=origin, to=target) for origin, target in graph.edges),
    )


def _node(node: Node, graph: Graph) -> DagNode:
    return DagNode(
        id=node.id,
        type=node.kind,
        name=node.name,
        materialized=node.materialized,
        decided_by=node.decided_by,
        owner=node.owner,
        group=node.group,
        tags=node.tags,
        description=node.description,
        columns=_columns(node, graph),
    )


def _columns(node: Node, graph: Graph) -> tuple[DagColumn, ...] | None:
    element = node.element
    declared = element.columns if isinstance(element, written.Source | written.Model) else ()
    listed = node.columns or tuple(Column(column.name) for column in declared)
    if node.columns is None and not listed:
        return None
    descriptions = {c.name.casefold(): c.description for c in declared}
    masks = {m.column.casefold(): m.shown for m in node.masks}
    return tuple(
        DagColumn(
            name=column.name,
            type=column.type,
            description=descriptions.get(column.name.casefold()),
            classification=node.classification.get(column.name.casefold()),
            masking=masks.get(column.name.casefold()),
            from_=tuple(_origin(origin, graph) for origin in node.column_origins.get(column.name, ())),
        )
        for column in listed
    )


def _origin(origin: ColumnOrigin, graph: Graph) -> ColumnFrom:
    owner = graph.nodes.get(origin.input)
    name = column_spelling(origin.name, owner.columns if owner else None) or origin.name
    return ColumnFrom(node=origin.input, column=name, way=origin.way)


def elements(graph: Graph) -> Mapping[str, Any]:
    """Every element of a project in canonical form, with what linking found out about it."""
    if graph.format != "project":
        return {}
    found: dict[str, list[dict[str, Any]]] = {"sources": [], "models": [], "exposures": [], "tests": []}
    for node in graph.nodes.values():
        body = node.element.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        known = {"materialized": node.materialized, "decided_by": node.decided_by} if node.kind == "model" else {}
        found[f"{node.kind}s"].append({"id": node.id, **body, **known})
    for test in graph.tests:
        body = test.element.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        found["tests"].append({"id": f"test.{test.name}", "node": test.node, **body})
    return {key: tuple(value) for key, value in found.items()}
