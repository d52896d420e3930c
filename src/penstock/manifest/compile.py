"""compile: Graph -> Manifest. Nodes become queries: one a materialised model, one a set of sinks that share sources."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from penstock.connectors.contract import Sink, Source
from penstock.connectors.topic import TopicColumn, TopicSink, TopicSource
from penstock.graph.graph import Graph, Node
from penstock.manifest.model import (
    About,
    Dag,
    DagColumn,
    DagEdge,
    DagNode,
    EventTimeSpec,
    Input,
    Manifest,
    Output,
    QuerySpec,
    SparkSpec,
    Step,
    TopicSpec,
)
from penstock.project.stream_project import Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.dialects import PROJECT
from penstock.sql.query import rename_tables, select_all, tables
from penstock.sql.translate import to_spark


def compile(graph: Graph) -> Manifest:
    queries = _project_queries(graph) if graph.format == "project" else _pipeline_queries(graph)
    spark = graph.runtime.spark
    return Manifest(
        project=About(name=graph.name, format=graph.format),
        dag=Dag(
            nodes=tuple(_dag_node(node) for node in graph.nodes.values()),
            edges=tuple(DagEdge(from_=origin, to=target) for origin, target in graph.edges),
        ),
        topics=tuple(_topics(graph)),
        streams={node.id: source for node in graph.nodes.values() if (source := _stream(node, graph))},
        queries=tuple(queries),
        spark=SparkSpec(master=spark.master, config=spark.config),
    )


def _dag_node(node: Node) -> DagNode:
    columns = None if node.columns is None else tuple(DagColumn(name=c.name, type=c.type) for c in node.columns)
    return DagNode(
        id=node.id,
        type=node.kind,
        name=node.name,
        materialized=node.materialized,
        owner=node.owner,
        tags=node.tags,
        description=node.description,
        columns=columns,
    )


def _stream(node: Node, graph: Graph) -> dict[str, Any] | None:
    match node.element:
        case ProjectSource():
            return _topic_source(node, graph)
        case Model() if node.writes_topic:
            return _topic_source(node, graph)
        case Source() as source:
            return _written(source)
        case _:
            return None


# Projects


def _topics(graph: Graph) -> Iterator[TopicSpec]:
    for node in graph.nodes.values():
        if isinstance(node.element, Model) and node.writes_topic:
            topic = node.element.advanced.topic
            yield TopicSpec(
                name=node.element.topic,
                node=node.id,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=topic.config,
            )


def _project_queries(graph: Graph) -> Iterator[QuerySpec]:
    for node in graph.nodes.values():
        if node.kind == "model" and node.inputs and not _is_view(node, graph):
            assembly = _Assembly(graph)
            assembly.add_model(node, node.id)
            yield QuerySpec(
                name=node.name,
                inputs=tuple(assembly.inputs),
                steps=tuple(assembly.steps),
                outputs=(Output(node=node.id, view=node.id, sink=_model_sink(node, graph)),),
                stateful=any(graph[step.node].stateful for step in assembly.steps),
            )


def _is_view(node: Node, graph: Graph) -> bool:
    return node.materialized == "virtual_topic" and not graph.runtime.has_gateway


class _Assembly:
    """The inputs and steps of one query, views of other models included.

    Spark wants every streaming reader of a query under its own name, so a node that is read twice becomes two inputs.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self._uses: Counter[str] = Counter()

    def add_model(self, node: Node, view: str) -> None:
        query = node.query or select_all(node.inputs, PROJECT)
        bound = rename_tables(query, self._use)
        self.steps.append(Step(view=view, node=node.id, sql=to_spark(bound)))

    def _use(self, node_id: str) -> str:
        """The view under which one more reader finds a node."""
        self._uses[node_id] += 1
        node = self.graph[node_id]
        view = node_id if self._uses[node_id] == 1 else f"{node_id}#{self._uses[node_id]}"
        if _is_view(node, self.graph):
            self.add_model(node, view)
        else:
            self.inputs.append(_input(view, node, _topic_source(node, self.graph)))
        return view


def _input(view: str, node: Node, source: dict[str, Any]) -> Input:
    time = node.event_time
    event_time = EventTimeSpec(column=time.column, delay_ms=time.delay_ms) if time else None
    return Input(
        view=view,
        node=node.id,
        name=stream_name(view),
        source=source,
        event_time=event_time,
        with_operation=isinstance(node.element, Source),
    )


def stream_name(view: str) -> str:
    """A name that Spark takes for a streaming reader; names that had to be changed stay apart by a checksum."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", view.replace(".", "_", 1))
    return plain if plain == view.replace(".", "_", 1) else f"{plain}_{zlib.crc32(view.encode()):08x}"


def _topic_source(node: Node, graph: Graph) -> dict[str, Any]:
    """How to read the topic of a source or model. A model's columns are left for Spark to find."""
    assert isinstance(node.element, ProjectSource | Model)
    topic = node.element.topic
    if graph.runtime.kafka is not None:
        return {"type": "kafka", "topic": topic}
    if isinstance(node.element, Model):
        return _written(TopicSource(topic=topic, formats=("parquet",)))
    declared = node.columns or () if node.element.columns else ()
    columns = tuple(TopicColumn(name=c.name, type=c.type or "STRING") for c in declared)
    return _written(TopicSource(topic=topic, columns=columns))


def _model_sink(node: Node, graph: Graph) -> dict[str, Any]:
    assert isinstance(node.element, Model)
    connector = node.element.advanced.connector
    if node.materialized == "sink" and connector is not None:
        return connector.as_sink(node.id)
    if node.materialized == "virtual_topic":
        return {"type": "gateway", "from": node.id}
    if graph.runtime.kafka is not None:
        return {"type": "kafka", "from": node.id, "topic": node.element.topic}
    return _written(TopicSink(from_=node.id, primary_key=node.key, topic=node.element.topic))


def _written(connector: Source | Sink) -> dict[str, Any]:
    """A connector as it would stand in a document."""
    kept = connector.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"type": connector.type, **kept}


# Pipelines


def _pipeline_queries(graph: Graph) -> Iterator[QuerySpec]:
    for node_ids in _connected(graph):
        nodes = [node for node in graph.nodes.values() if node.id in node_ids]
        inputs: list[Input] = []
        steps: list[Step] = []
        outputs: list[Output] = []
        for node in nodes:
            match node.element:
                case Source() as source:
                    inputs.append(_input(node.id, node, _written(source)))
                case Sink() as sink:
                    outputs.append(Output(node=node.id, view=node.inputs[0], sink=_written(sink)))
                case _ if node.query is not None:
                    steps.append(Step(view=node.id, node=node.id, sql=to_spark(node.query)))
                case _:
                    raise AssertionError(f"{node.id} does not belong into a pipeline")
        yield QuerySpec(
            name=graph[inputs[0].node].name,
            inputs=tuple(inputs),
            steps=tuple(steps),
            outputs=tuple(outputs),
            fan_out=_reads_twice(nodes),
        )


def _reads_twice(nodes: list[Node]) -> bool:
    """Whether some node's rows go more than one way."""
    reads = Counter(t.name for n in nodes if n.query is not None for t in tables(n.query))
    reads.update(n.inputs[0] for n in nodes if n.kind == "sink")
    return max(reads.values()) > 1


def _connected(graph: Graph) -> Iterator[set[str]]:
    """Sinks that share a source, directly or through others, with everything they are made from."""
    groups: list[set[str]] = []
    for node in graph.nodes.values():
        if node.kind == "sink":
            group = graph.upstream(node.id)
            shared = [g for g in groups if g & group]
            groups = [g for g in groups if g not in shared]
            groups.append(group.union(*shared))
    yield from groups
