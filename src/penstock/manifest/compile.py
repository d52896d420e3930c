"""compile: Graph -> Manifest. Nodes become queries and the resources that they need outside of Spark."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from penstock.connectors.contract import Source
from penstock.connectors.hybrid import HybridSource, phases_of
from penstock.connectors.kafka_sink import KafkaSink
from penstock.graph.graph import Graph, Node
from penstock.manifest.connector_config import connector_config, topic_source
from penstock.manifest.describe import dag, elements
from penstock.manifest.external_resources import connectors, gateway_rules, schemas
from penstock.manifest.model import About, Manifest, SparkSpec
from penstock.manifest.queries.pipeline import pipeline_queries
from penstock.manifest.queries.pushdown import with_pushdown
from penstock.manifest.queries.stream_project import project_queries
from penstock.manifest.resources import TopicSpec
from penstock.project.stream_project import Model
from penstock.project.stream_project import Source as ProjectSource


def compile(graph: Graph, digests: Mapping[str, str] = MappingProxyType({})) -> Manifest:
    """Compile a graph. `digests` are those of the files of `runtime.ml`."""
    made = project_queries(graph, digests) if graph.format == "project" else pipeline_queries(graph)
    queries = tuple(map(with_pushdown, made))
    spark, about = graph.runtime.spark, graph.about
    version, description = (about.version, about.description) if about else (None, None)
    return Manifest(
        project=About(name=graph.name, format=graph.format, version=version, description=description),
        **elements(graph),
        dag=dag(graph),
        topics=tuple(_topics(graph)),
        streams={node.id: source for node in graph.nodes.values() if (source := _stream(node, graph))},
        queries=queries,
        connectors=tuple(connectors(graph)),
        gateway_rules=tuple(gateway_rules(graph)),
        schemas=tuple(schemas(graph)),
        spark=SparkSpec(master=spark.master, config=spark.config, covered_log=any(query.covers for query in queries)),
    )


def _stream(node: Node, graph: Graph) -> dict[str, Any] | None:
    match node.element:
        case ProjectSource():
            return topic_source(node, graph)
        case Model() if node.topic is not None:
            return topic_source(node, graph)
        case HybridSource():
            return phases_of(connector_config(node))[-1]
        case Source():
            return connector_config(node)
        case _:
            return None


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
"""The default maximum record size of brokers."""


def _sink_topic(node: Node, sink: KafkaSink) -> TopicSpec:
    """The topic of a pipeline sink. It is created if it is missing, and never changed. It accepts records up to the
    size that the sink sets; a broker's default is a megabyte."""
    keyed = {"cleanup.policy": "compact"} if node.key else {}
    said = "message_max_bytes" in sink.model_fields_set and sink.message_max_bytes > _USUALLY_LARGEST
    largest = {"max.message.bytes": sink.message_max_bytes} if said else {}
    config: dict[str, str | int | float | bool] = {"retention.ms": -1, **largest, **keyed}
    return TopicSpec(
        name=sink.topic, node=node.id, partitions=sink.topic_partitions, config=config, on_kafka=True, only_made=True
    )
