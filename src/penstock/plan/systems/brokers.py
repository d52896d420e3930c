"""Fetches the topics of brokers before planning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.errors import ServiceError
from penstock.manifest.model import Manifest


@dataclass(frozen=True, slots=True)
class Brokers:
    """Topics by name, of the source and the sink cluster. `filled` are topics of the project with records. None without
    Kafka: topics are directories then."""

    source: Mapping[str, TopicState] | None = None
    sink: Mapping[str, TopicState] | None = None
    filled: frozenset[str] = field(default_factory=frozenset)


NO_BROKERS: Final = Brokers()


def ask_brokers(manifest: Manifest, clusters: Clusters) -> Brokers:
    """Fetch the topics that the manifest reads and writes. Raises a ServiceError if a broker cannot be reached."""
    reads = [entry.node for query in manifest.queries for entry in query.inputs if entry.topic is not None]
    own = [topic for topic in manifest.topics if topic.on_kafka]
    source = _topics(KafkaAdmin(clusters.source.kafka), reads) if reads and clusters.source else None
    if not own or clusters.sink is None:
        return Brokers(source)
    asked = KafkaAdmin(clusters.sink.kafka)
    sink = _topics(asked, [output.node for query in manifest.queries for output in query.outputs])
    present = [topic.name for topic in own if topic.name in sink]
    chosen = asked.chosen_config(present)
    kept = {topic.name for topic in own if not topic.only_made}
    begins, ends = asked.ends(present, earliest=True), asked.ends(present)
    filled = frozenset(topic for (topic, number), end in ends.items() if end > begins[topic, number] and topic in kept)
    described = {name: replace(state, config=chosen.get(name, {})) for name, state in sink.items()}
    return Brokers(source, described, filled)


def _topics(asked: KafkaAdmin, nodes: Sequence[str]) -> Mapping[str, TopicState]:
    """The topics of a broker, which these nodes depend on."""
    try:
        return asked.topics()
    except ServiceError as error:
        if not nodes:
            raise
        kind, _, name = nodes[0].partition(".")
        others = f" and {len(set(nodes)) - 1} more" if len(set(nodes)) > 1 else ""
        raise error.with_context(f"{kind} '{name}'{others}: failed to reach Kafka", node=name) from None
