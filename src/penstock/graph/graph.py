"""The graph that both formats become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from penstock.connectors.contract import Sink, Source
from penstock.errors import Origin
from penstock.project.runtime import Runtime
from penstock.project.stream_project import Exposure, Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.query import Query
from penstock.sql.types import Columns
from penstock.transforms.sql import SqlTransform

Kind: TypeAlias = Literal["source", "model", "exposure", "transform", "sink"]
Element: TypeAlias = ProjectSource | Model | Exposure | Source | SqlTransform | Sink


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that says when a row happened, and how late a row may be."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Node:
    """One element of the graph. `inputs` are the ids of what it reads; `outputs` of what an exposure writes."""

    id: str
    kind: Kind
    name: str
    element: Element
    origin: Origin
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    materialized: str | None = None
    query: Query | None = None
    columns: Columns | None = None
    key: tuple[str, ...] = ()
    event_time: EventTime | None = None
    stateful: bool = False
    owner: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None

    @property
    def writes_topic(self) -> bool:
        return self.kind == "model" and self.materialized in ("topic", "spark")

    @property
    def label(self) -> str:
        """What stands behind the name in lineage: the materialization of a model, else the kind."""
        return self.materialized if self.kind == "model" and self.materialized else self.kind


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id, every node after those it reads from."""

    name: str
    format: Literal["project", "pipeline"]
    nodes: Mapping[str, Node]
    runtime: Runtime = field(default_factory=Runtime)

    def __getitem__(self, node_id: str) -> Node:
        return self.nodes[node_id]

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        read = [(origin, node.id) for node in self.nodes.values() for origin in node.inputs]
        produced = [(node.id, target) for node in self.nodes.values() for target in node.outputs]
        return (*read, *produced)

    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Who reads each node."""
        return _grouped(self.nodes, self.edges)

    def upstream(self, node_id: str) -> set[str]:
        """The node and everything it is made from."""
        return _reach(node_id, _grouped(self.nodes, ((target, origin) for origin, target in self.edges)))

    def downstream(self, node_id: str) -> set[str]:
        """The node and everything made from it."""
        return _reach(node_id, self.consumers())

    def named(self, name: str) -> Node | None:
        """A node by id, or by name: models and transforms first, then sources, sinks and exposures."""
        if name in self.nodes:
            return self.nodes[name]
        order = ("model", "transform", "source", "sink", "exposure")
        return next((n for k in order for n in self.nodes.values() if n.kind == k and n.name == name), None)


def _grouped(node_ids: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {node_id: [] for node_id in node_ids}
    for one, other in pairs:
        found[one].append(other)
    return {node_id: tuple(others) for node_id, others in found.items()}


def _reach(start: str, neighbours: Mapping[str, tuple[str, ...]]) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        node_id = ahead.pop()
        if node_id not in reached:
            reached.add(node_id)
            ahead.extend(neighbours[node_id])
    return reached
