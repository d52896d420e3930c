"""The graph that both formats become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.config import OnError
from penstock.connectors.contract import Sink, Source
from penstock.errors import Origin
from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.stream_project import DataTest as ProjectTest
from penstock.project.stream_project import Exposure, Model, ProjectHeader, Rules
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.analyze.column_lineage import ColumnUse, Origins
from penstock.sql.parse.query import Query
from penstock.sql.rewrite.mask import ColumnMask
from penstock.sql.stateful.stages import FlowKind
from penstock.sql.types.columns import Columns
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunction, UserFunctions
from penstock.transforms.sql import SqlTransform

NodeKind: TypeAlias = Literal["source", "model", "exposure", "transform", "sink"]
Element: TypeAlias = ProjectSource | Model | Exposure | Source | SqlTransform | Sink


@dataclass(frozen=True, slots=True)
class EventTimeColumn:
    """The column with the event time, and how late a row may be.

    `max_future_ms` is how far ahead of the clock it may be (0: no limit), `idle_ms` after how long without rows it
    advances with the clock, `lateness_ms` how long after the watermark results are corrected. `keeps_late` says whether
    later rows become dead letters. `unordered` says whether a join emits rows however late they are.
    """

    column: str
    delay_ms: int
    max_future_ms: int = 86_400_000
    idle_ms: int | None = None
    lateness_ms: int = 0
    keeps_late: bool = False
    unordered: bool = False

    @staticmethod
    def declared(column: str, time: written.EventTime) -> EventTimeColumn:
        """The column, with the settings that an element declares."""
        mark = time.watermark
        lateness, keeps = time.allowed_lateness_ms or 0, time.late == "dead_letter"
        return EventTimeColumn(column, mark.delay_ms, time.max_future_ms, mark.idle_ms, lateness, keeps)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic that a model writes, defaults applied. A value that is not set is None."""

    name: str
    partitions: int | None
    replication_factor: int | None
    config: Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class LinkedTest:
    """A test and the node that it tests."""

    name: str
    node: str
    element: ProjectTest
    origin: Origin


@dataclass(frozen=True, slots=True)
class Node:
    """One element of the graph. `inputs` are the ids of the nodes that it reads, `outputs` of those that an exposure
    writes.

    `column_origins` has, for each output column, the input columns that it is computed from; `column_uses` the input
    columns that rows are filtered, joined or grouped by. `classification` is the sensitivity of each output column, its
    own or inherited, and `covered` the outputs whose sensitive values are masked.
    `written_time` is the type of a source's event time in its records. `further_times` are other event-time columns,
    `asked_times` the event times of inputs that the query uses and that are not their first one or not declared.
    `hindrances` are the reasons why the query cannot run.
    `flow` says whether the rows are append-only or changes, by `change_key`, or by whole rows if that is empty;
    `corrects` whether late rows correct the results of windows, and `mixed` whether a view unites rows of several
    inputs. `asks` has the machine-learning models that it calls, each with its declared result type, and `functions`
    the user functions; `operators` are the stateful constructs, and `keyed` says whether Penstock's operators keep
    state in its query, views included.
    `unfilled` is the configuration of a pipeline's connector as written, if it refers to variables; `condition` is the
    filter of a source, in Spark SQL.
    """

    id: str
    kind: NodeKind
    name: str
    element: Element
    origin: Origin
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    materialized: str | None = None
    query: Query | None = None
    columns: Columns | None = None
    key: tuple[str, ...] = ()
    event_time: EventTimeColumn | None = None
    written_time: str | None = None
    further_times: tuple[EventTimeColumn, ...] = ()
    asked_times: Mapping[str, EventTimeColumn] = field(default_factory=dict)
    stateful: bool = False
    operators: tuple[str, ...] = ()
    keyed: bool = False
    decided_by: str | None = None
    hindrances: tuple[str, ...] = ()
    flow: FlowKind = "rows"
    change_key: tuple[str, ...] = ()
    corrects: bool = False
    mixed: bool = False
    on_error: OnError = "dead_letter"
    asks: Mapping[str, str | None] = field(default_factory=dict)
    functions: tuple[UserFunction, ...] = ()
    column_origins: Mapping[str, Origins] = field(default_factory=dict)
    column_uses: tuple[ColumnUse, ...] = ()
    masks: tuple[ColumnMask, ...] = ()
    classification: Mapping[str, str] = field(default_factory=dict)
    covered: frozenset[str] = frozenset()
    topic: TopicSettings | None = None
    unfilled: Mapping[str, Any] | None = None
    condition: str | None = None
    owner: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None

    @property
    def times(self) -> tuple[EventTimeColumn, ...]:
        """Every column that is event time, the first one first."""
        return (self.event_time, *self.further_times) if self.event_time is not None else ()

    @property
    def label(self) -> str:
        """The text after the name in lineage: the materialization of a model, else the kind."""
        return self.materialized if self.kind == "model" and self.materialized else self.kind


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by id, every node after those it reads from."""

    name: str
    format: Literal["project", "pipeline"]
    nodes: Mapping[str, Node]
    runtime: Runtime = field(default_factory=Runtime)
    tests: tuple[LinkedTest, ...] = ()
    about: ProjectHeader | None = None
    rules: Rules | None = None
    job: bool = False
    """Whether it runs as a job: unbounded inputs are not started."""
    intervals: Mapping[str, int] = field(default_factory=dict)
    """The batch interval from the settings, by node, for sinks without one of their own."""
    clear_dead_letters: bool = False
    """Whether dead letters show every column."""
    functions: UserFunctions = field(default_factory=lambda: NO_FUNCTIONS)
    """The user functions that SQL can call."""

    def __getitem__(self, node_id: str) -> Node:
        return self.nodes[node_id]

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        read = [(origin, node.id) for node in self.nodes.values() for origin in node.inputs]
        produced = [(node.id, target) for node in self.nodes.values() for target in node.outputs]
        return (*read, *produced)

    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """The readers of each node."""
        return _group_pairs(self.nodes, self.edges)

    def upstream(self, node_id: str, depth: int | None = None) -> set[str]:
        """The node and everything upstream, at most `depth` steps away."""
        reversed_edges = ((target, origin) for origin, target in self.edges)
        return _reachable_nodes(node_id, _group_pairs(self.nodes, reversed_edges), depth)

    def downstream(self, node_id: str, depth: int | None = None) -> set[str]:
        """The node and everything downstream, at most `depth` steps away."""
        return _reachable_nodes(node_id, self.consumers(), depth)

    def find_node(self, name: str) -> Node | None:
        """A node by id, or by name: models and transforms first, then sources, sinks and exposures."""
        if name in self.nodes:
            return self.nodes[name]
        order = ("model", "transform", "source", "sink", "exposure")
        return next((n for k in order for n in self.nodes.values() if n.kind == k and n.name == name), None)


def _group_pairs(node_ids: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {node_id: [] for node_id in node_ids}
    for one, other in pairs:
        found[one].append(other)
    return {node_id: tuple(others) for node_id, others in found.items()}


def _reachable_nodes(start: str, neighbours: Mapping[str, tuple[str, ...]], depth: int | None) -> set[str]:
    reached, edge, steps = {start}, {start}, 0
    while edge and (depth is None or steps < depth):
        edge = {near for node_id in edge for near in neighbours[node_id]} - reached
        reached |= edge
        steps += 1
    return reached
