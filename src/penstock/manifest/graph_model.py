"""The graph that a manifest came from, for readers of lineage."""

from pydantic import Field

from penstock.manifest.part import Part


class ColumnFrom(Part):
    """A column that another is made from; `way` is `same`, `made` or `counted`."""

    node: str
    column: str
    way: str


class DagColumn(Part):
    name: str
    type: str | None = None
    description: str | None = None
    classification: str | None = None
    masking: str | None = None
    from_: tuple[ColumnFrom, ...] = Field((), alias="from")


class DagNode(Part):
    """A node of the graph, with what a reader of lineage wants to know."""

    id: str
    type: str
    name: str
    materialized: str | None = None
    decided_by: str | None = None
    """The rule that chose the materialization."""
    owner: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    columns: tuple[DagColumn, ...] | None = None


class DagEdge(Part):
    from_: str = Field(alias="from")
    to: str


class Dag(Part):
    nodes: tuple[DagNode, ...]
    edges: tuple[DagEdge, ...]
