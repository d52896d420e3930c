"""The graph in a manifest, for readers of lineage."""

from pydantic import Field

from penstock.manifest.part import Part


class ColumnFrom(Part):
    """An input column of a column; `way` is `same`, `made` or `counted`."""

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
    """A node of the graph with its lineage."""

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
