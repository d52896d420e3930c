"""The topics that brokers hold, fetched before a plan is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.manifest.model import Manifest


@dataclass(frozen=True, slots=True)
class Brokers:
    """Topics by name, where sources read and where sinks write; `filled` are those of ours that hold records.

    None where no Kafka is asked: topics are directories then.
    """

    source: Mapping[str, TopicState] | None = None
    sink: Mapping[str, TopicState] | None = None
    filled: frozenset[str] = field(default_factory=frozenset)


NO_BROKERS: Final = Brokers()


def ask_brokers(manifest: Manifest, clusters: Clusters) -> Brokers:
    """Ask for the topics that the manifest reads and writes. Raises a ServiceError if a broker cannot be asked."""
    reads = any(entry.topic is not None for query in manifest.queries for entry in query.inputs)
    own = [topic for topic in manifest.topics if topic.on_kafka]
    source = KafkaAdmin(clusters.source.kafka).topics() if reads and clusters.source else None
    if not own or clusters.sink is None:
        return Brokers(source)
    asked = KafkaAdmin(clusters.sink.kafka)
    sink = asked.topics()
    present = [topic.name for topic in own if topic.name in sink]
    chosen = asked.chosen_config(present)
    kept = {topic.name for topic in own if not topic.only_made}
    begins, ends = asked.ends(present, earliest=True), asked.ends(present)
    filled = frozenset(topic for (topic, number), end in ends.items() if end > begins[topic, number] and topic in kept)
    described = {name: replace(state, config=chosen.get(name, {})) for name, state in sink.items()}
    return Brokers(source, described, filled)
