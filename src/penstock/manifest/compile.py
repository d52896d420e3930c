"""compile: Graph -> Manifest. Nodes become queries: one a materialised model, one a set of sinks that share sources."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

from penstock.config import OnError
from penstock.connectors.contract import Sink, Source
from penstock.connectors.hybrid import HybridSource, phases_of
from penstock.connectors.kafka import KafkaSource
from penstock.connectors.kafka_sink import KafkaSink
from penstock.connectors.topic import TopicColumn, TopicSink, TopicSource
from penstock.graph.graph import Graph, Node
from penstock.keyed.operators import OP
from penstock.manifest.assembly import Assembly, reader, stream_name
from penstock.manifest.describe import dag, elements
from penstock.manifest.model import (
    About,
    Backfill,
    Every,
    Input,
    KeyedStep,
    Manifest,
    Output,
    Phase,
    QuerySpec,
    RealTime,
    SparkSpec,
    Step,
    TopicSpec,
)
from penstock.manifest.outside import connectors, gateway_rules, has_query, model_schema, schemas
from penstock.manifest.row_checks import row_checks
from penstock.manifest.row_rules import row_rules, unruled
from penstock.project.stream_project import Interval, Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.query import tables
from penstock.sql.translate import to_spark


def compile(graph: Graph, digests: Mapping[str, str] = MappingProxyType({})) -> Manifest:
    """`digests` tell what the files of `runtime.ml` hold."""
    queries = _project_queries(graph, digests) if graph.format == "project" else _pipeline_queries(graph)
    spark = graph.runtime.spark
    return Manifest(
        project=_about(graph),
        **elements(graph),
        dag=dag(graph),
        topics=tuple(_topics(graph)),
        streams={node.id: source for node in graph.nodes.values() if (source := _stream(node, graph))},
        queries=tuple(queries),
        connectors=tuple(connectors(graph)),
        gateway_rules=tuple(gateway_rules(graph)),
        schemas=tuple(schemas(graph)),
        spark=SparkSpec(master=spark.master, config=spark.config),
    )


def _about(graph: Graph) -> About:
    about = graph.about
    version, description = (about.version, about.description) if about else (None, None)
    return About(name=graph.name, format=graph.format, version=version, description=description)


def _stream(node: Node, graph: Graph) -> dict[str, Any] | None:
    match node.element:
        case ProjectSource():
            return _topic_source(node, graph)
        case Model() if node.writes_topic:
            return _topic_source(node, graph)
        case HybridSource():
            return phases_of(_written(node))[-1]
        case Source():
            return _written(node)
        case _:
            return None


# Projects


def _topics(graph: Graph) -> Iterator[TopicSpec]:
    for node in graph.nodes.values():
        if node.topic is not None:
            topic = node.topic
            yield TopicSpec(
                name=topic.name,
                node=node.id,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                config=dict(topic.config),
                on_kafka=graph.runtime.kafka is not None,
            )
        elif isinstance(node.element, KafkaSink):
            yield _sink_topic(node, node.element)


_USUALLY_LARGEST: Final = 1_048_588
"""What brokers take unless somebody says otherwise."""


def _sink_topic(node: Node, sink: KafkaSink) -> TopicSpec:
    """The topic of a sink in a pipeline: made if it is not there, and left alone if it is.

    It takes records that are as large as those of the sink may be; a broker's own limit is a megabyte.
    """
    keyed = {"cleanup.policy": "compact"} if node.key else {}
    largest = {"max.message.bytes": sink.message_max_bytes} if sink.message_max_bytes > _USUALLY_LARGEST else {}
    config: dict[str, str | int | float | bool] = {"retention.ms": -1, **largest, **keyed}
    return TopicSpec(
        name=sink.topic,
        node=node.id,
        partitions=sink.topic_partitions,
        config=config,
        on_kafka=True,
        only_made=True,
    )


def _project_queries(graph: Graph, digests: Mapping[str, str]) -> Iterator[QuerySpec]:
    for node in graph.nodes.values():
        if isinstance(node.element, Model) and node.inputs and has_query(graph, node):
            on_kafka = graph.runtime.kafka is not None and node.topic is not None
            assembly = Assembly(graph, node, partial(_topic_source, graph=graph), digests)
            flow = assembly.add_model(node, node.id)
            within = [graph[step.node] for step in assembly.steps]
            stateful = any(n.stateful for n in within) or any(isinstance(s, KeyedStep) for s in assembly.steps)
            rules = row_rules(graph, node)
            yield QuerySpec(
                name=node.name,
                inputs=tuple(assembly.inputs),
                steps=tuple(assembly.steps),
                outputs=(
                    Output(
                        node=node.id,
                        view=node.id,
                        sink=_model_sink(node, graph),
                        fold=node.change_key if flow.kind == "signed" else None,
                        latest_by=node.change_key if flow.repeated else None,
                        on_error=node.on_error,
                        rules=rules,
                    ),
                ),
                stateful=stateful,
                timed=assembly.timed,
                conf=_conf(node.element, keyed=any(isinstance(s, KeyedStep) for s in assembly.steps)),
                hindrances=tuple(
                    dict.fromkeys([*(word for n in within for word in n.hindrances), *unruled(node, rules)])
                ),
                asks=tuple(assembly.asks.values()),
                checks=tuple(assembly.checks) if stateful or _streams(assembly) > 1 or on_kafka else (),
                trigger=_trigger(node.element),
            )


def _streams(assembly: Assembly) -> int:
    return sum(not entry.static for entry in assembly.inputs)


_STATE_STORES: Final = {
    "hashmap": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def _conf(model: Model, *, keyed: bool) -> dict[str, str]:
    """Spark properties of a model's query. Operators of ours have no choice: Spark runs them on RocksDB only."""
    job = model.advanced.spark
    conf = {}
    if job.parallelism is not None:
        conf["spark.sql.shuffle.partitions"] = str(job.parallelism)
    backend = "rocksdb" if keyed and job.state_backend is not None else job.state_backend
    if backend is not None:
        conf["spark.sql.streaming.stateStore.providerClass"] = _STATE_STORES[backend]
    return conf


_REALTIME_MS: Final = 60_000
"""How often progress is kept in real-time mode. Whatever came since is written again after a stop."""


def _trigger(model: Model) -> Every | RealTime | None:
    ahead = model.advanced.spark.async_progress
    match model.advanced.spark.trigger:
        case Interval(interval_ms=interval_ms):
            return Every(interval_ms=interval_ms, ahead=ahead)
        case "realtime":
            return RealTime(checkpoint_ms=model.advanced.spark.checkpoint_interval_ms or _REALTIME_MS)
        case None:
            return Every(interval_ms=0, ahead=True) if ahead else None


def _topic_source(node: Node, graph: Graph) -> dict[str, Any]:
    """How to read the topic of a source or model. A model's columns are left for Spark to find."""
    assert isinstance(node.element, ProjectSource | Model)
    if isinstance(node.element, ProjectSource) and node.element.table is not None:
        return node.element.table.as_source()
    topic, on_kafka = node.element.topic, graph.runtime.kafka is not None
    if isinstance(node.element, Model):
        own = (
            KafkaSource(topic=topic, data_format="avro" if node.element.is_avro else "json")
            if on_kafka
            else TopicSource(topic=topic, formats=("parquet",))
        )
        return _dumped(own)
    said = node.element.columns or (node.element.schema_ and node.element.schema_.definition)
    filled_in = {c.name for c in node.element.columns if c.proctime}
    declared = [c for c in node.columns or () if said and c.name not in filled_in]
    written = {node.event_time.column: node.written_time} if node.event_time is not None else {}
    columns = tuple(TopicColumn(name=c.name, type=written.get(c.name) or c.type or "STRING") for c in declared)
    if not on_kafka:
        return _dumped(TopicSource(topic=topic, columns=columns))
    schema = {c.name: c.type for c in columns if c.name != OP}
    form = _data_format(node.element)
    return _dumped(
        KafkaSource(
            topic=topic,
            data_format=form,
            schema_=(schema or None) if form == "json" else None,
            operation=len(schema) < len(columns),
            **(_registered(node.element) if form == "avro" else {}),
        )
    )


def _registered(source: ProjectSource) -> dict[str, Any]:
    """Where a registry has the schema of a source, as far as it is not where everybody would look."""
    schema = source.schema_
    assert schema is not None
    elsewhere = {} if source.subject == f"{source.topic}-value" else {"schema_subject": source.subject}
    return elsewhere if schema.version in (None, "latest") else {**elsewhere, "schema_version": schema.version}


def _data_format(source: ProjectSource) -> Literal["avro", "json"]:
    """What the records of a source are: what its schema says, or JSON objects if it has none."""
    schema = source.schema_
    return "avro" if schema is not None and (schema.format or "avro") == "avro" else "json"


def _model_sink(node: Node, graph: Graph) -> dict[str, Any]:
    assert isinstance(node.element, Model)
    if node.topic is None:
        connector = node.element.advanced.connector
        assert connector is not None
        key = node.change_key or node.key
        return {**({"primary_key": ",".join(key)} if key else {}), **connector.as_sink(node.id)}
    if graph.runtime.kafka is not None:
        topic, key = node.topic.name, node.change_key or node.key
        form, schema = ("avro", json.dumps(model_schema(node))) if node.element.is_avro else ("json", None)
        own = {"topic": topic, "data_format": form, "schema": schema, "deduplicate": False}
        return _dumped(KafkaSink.model_validate({"from": node.id, "primary_key": key, **own}))
    return _dumped(TopicSink(from_=node.id, primary_key=node.key, topic=node.topic.name))


def _dumped(connector: Source | Sink) -> dict[str, Any]:
    """A connector as it would stand in a document."""
    kept = connector.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"type": connector.type, **kept}


def _written(node: Node) -> dict[str, Any]:
    """The connector of a pipeline's node. One that refers to variables stays as it was written.

    A key that it has from elsewhere goes with it: a source from its schema, a sink from what is written into it.
    """
    assert isinstance(node.element, Source | Sink)
    written = dict(node.unfilled) if node.unfilled is not None else _dumped(node.element)
    inherits = node.key and not written.get("primary_key")
    return {**written, "primary_key": ",".join(node.key)} if inherits else written


# Pipelines


def _pipeline_queries(graph: Graph) -> Iterator[QuerySpec]:
    for node_ids in _connected(graph):
        nodes = [node for node in graph.nodes.values() if node.id in node_ids]
        inputs: list[Input] = []
        steps: list[Step] = []
        outputs: list[Output] = []
        for node in nodes:
            match node.element:
                case HybridSource():
                    inputs.append(_hybrid_input(node, ends=graph.job))
                case Source():
                    inputs.append(reader(node.id, node, _written(node), node.event_time))
                case Sink() as sink:
                    outputs.append(
                        Output(node=node.id, view=node.inputs[0], sink=_written(node), on_error=_chosen(sink))
                    )
                case _ if node.query is not None:
                    steps.append(Step(view=node.id, node=node.id, sql=to_spark(node.query)))
                case _:
                    raise AssertionError(f"{node.id} does not belong into a pipeline")
        sinks = [node.element for node in nodes if isinstance(node.element, Sink)]
        fan_out = _reads_twice(nodes)
        yield QuerySpec(
            name=_query_name(nodes),
            inputs=tuple(_as_wanted(entry, sinks) for entry in inputs),
            steps=tuple(steps),
            outputs=tuple(outputs),
            fan_out=fan_out,
            trigger=_soonest(nodes, graph.intervals),
            checks=() if fan_out else row_checks(nodes),
        )


def _query_name(nodes: list[Node]) -> str:
    """A query is called by its first source, and one of a sink that reads for itself by that sink."""
    alone = next((n for n in nodes if isinstance(n.element, Sink) and n.element.isolate), None)
    return (alone or next(n for n in nodes if n.kind == "source")).name


def _hybrid_input(node: Node, *, ends: bool) -> Input:
    """The input that reads one source after the other. With `ends`, it does not come to the last of them."""
    written = _written(node)
    *before, live = phases_of(written)
    phases = tuple(Phase(name=stream_name(f"{node.id}#{at}"), source=source) for at, source in enumerate(before))
    backfill = Backfill(phases=phases, offset_table=written.get("offset_table"), is_all=ends)
    return reader(node.id, node, live, node.event_time).model_copy(update={"backfill": backfill})


def _chosen(sink: Sink) -> OnError:
    """What becomes of rows that the SQL fails over: what the sink says, and not what is usual for what it refuses."""
    return sink.on_error if "on_error" in sink.model_fields_set else "dead_letter"


def _soonest(nodes: list[Node], usual: Mapping[str, int]) -> Every | None:
    """How often batches begin: as often as the sink wants that waits the shortest."""
    sinks = [(node.id, node.element) for node in nodes if isinstance(node.element, Sink)]
    wanted = [usual.get(at) if sink.batch_flush_interval is None else sink.batch_flush_interval for at, sink in sinks]
    given = [interval for interval in wanted if interval is not None]
    return Every(interval_ms=min(given)) if given else None


def _as_wanted(entry: Input, sinks: list[Sink]) -> Input:
    """An input that does not care for what no sink asks of it."""
    source = dict(entry.source)
    if source["type"] == "kafka" and not any(sink.changes for sink in sinks):
        source["operation"] = False
    return entry.model_copy(update={"source": source, "any_order": not any(sink.ordered for sink in sinks)})


def _reads_twice(nodes: list[Node]) -> bool:
    """Whether some node's rows go more than one way."""
    reads = Counter(t.name for n in nodes if n.query is not None for t in tables(n.query))
    reads.update(n.inputs[0] for n in nodes if n.kind == "sink")
    return max(reads.values()) > 1


def _connected(graph: Graph) -> Iterator[set[str]]:
    """Sinks that share a source, directly or through others, with everything they are made from.

    One that reads for itself shares nothing.
    """
    groups: list[set[str]] = []
    for node in graph.nodes.values():
        if isinstance(node.element, Sink):
            group = graph.upstream(node.id)
            if node.element.isolate:
                yield group
                continue
            shared = [g for g in groups if g & group]
            groups = [g for g in groups if g not in shared]
            groups.append(group.union(*shared))
    yield from groups
