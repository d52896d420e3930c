"""The queries of a project: one per model that needs one."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from penstock.graph.graph import Graph
from penstock.graph.model.masks import masked_names
from penstock.manifest.connector_config import model_sink, topic_source
from penstock.manifest.external_resources import has_query
from penstock.manifest.model import Every, KeyedStep, QueryOutput, QuerySpec, RealTime
from penstock.manifest.queries.assembly import Assembly
from penstock.manifest.queries.row_rules import row_rules, unsupported_rules
from penstock.project.stream_project import Interval, Model


def project_queries(graph: Graph, digests: Mapping[str, str]) -> Iterator[QuerySpec]:
    for node in graph.nodes.values():
        if isinstance(node.element, Model) and node.inputs and has_query(graph, node):
            on_kafka = graph.runtime.kafka is not None and node.topic is not None
            assembly = Assembly(graph, node, partial(topic_source, graph=graph), digests)
            flow = assembly.add_model(node, node.id)
            within = [graph[step.node] for step in assembly.steps]
            stateful = any(n.stateful for n in within) or any(isinstance(s, KeyedStep) for s in assembly.steps)
            guarded = stateful or on_kafka or sum(not entry.static for entry in assembly.inputs) > 1
            rules = row_rules(graph, node)
            hindrances = [*(word for n in within for word in n.hindrances), *unsupported_rules(node, rules)]
            yield QuerySpec(
                name=node.name,
                inputs=tuple(assembly.inputs),
                steps=tuple(assembly.steps),
                outputs=(
                    QueryOutput(
                        node=node.id,
                        view=node.id,
                        sink=model_sink(node, graph),
                        fold=node.change_key if flow.kind == "signed" else None,
                        latest_by=node.change_key if flow.repeated else None,
                        on_error=node.on_error,
                        rules=rules,
                    ),
                ),
                stateful=stateful,
                timed=assembly.timed,
                conf=_conf(node.element, keyed=any(isinstance(s, KeyedStep) for s in assembly.steps)),
                hindrances=tuple(dict.fromkeys(hindrances)),
                asks=tuple(assembly.asks.values()),
                functions=tuple(assembly.functions[name] for name in sorted(assembly.functions)),
                checks=tuple(assembly.checks) if guarded else (),
                trigger=_trigger(node.element),
                covers=()
                if graph.clear_dead_letters
                else masked_names(within, [graph[i.node] for i in assembly.inputs]),
            )


_STATE_STORES: Final = {
    "hashmap": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def _conf(model: Model, *, keyed: bool) -> dict[str, str]:
    """Spark properties of a model's query. Spark runs Penstock operators only on RocksDB."""
    job = model.advanced.spark
    conf = {}
    if job.parallelism is not None:
        conf["spark.sql.shuffle.partitions"] = str(job.parallelism)
    backend = "rocksdb" if keyed and job.state_backend is not None else job.state_backend
    if backend is not None:
        conf["spark.sql.streaming.stateStore.providerClass"] = _STATE_STORES[backend]
    return conf


_REALTIME_MS: Final = 60_000
"""The default commit interval in real-time mode. Rows since the last commit are written again after a stop."""


def _trigger(model: Model) -> Every | RealTime | None:
    ahead = model.advanced.spark.async_progress
    match model.advanced.spark.trigger:
        case Interval(interval_ms=interval_ms):
            return Every(interval_ms=interval_ms, ahead=ahead)
        case "realtime":
            return RealTime(checkpoint_ms=model.advanced.spark.checkpoint_interval_ms or _REALTIME_MS)
        case None:
            return Every(interval_ms=0, ahead=True) if ahead else None
