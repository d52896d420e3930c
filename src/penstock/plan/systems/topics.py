"""Fetches the topics of brokers and plans them: create, add partitions, change settings. Topics never get fewer
partitions and are never deleted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.errors import Diagnostic, ServiceError, did_you_mean
from penstock.manifest.model import Manifest, QuerySpec
from penstock.manifest.resources import TopicSpec
from penstock.plan.steps import ChangeTopic, CreateTopic, LeaveTopic, TopicStep


@dataclass(frozen=True, slots=True)
class Brokers:
    """Topics by name, of the source and the sink cluster. `filled` are topics of the project with records. None without
    Kafka: topics are directories then."""

    source: Mapping[str, TopicState] | None = None
    sink: Mapping[str, TopicState] | None = None
    filled: frozenset[str] = field(default_factory=frozenset)


NO_BROKERS: Final = Brokers()
_NOT_OURS: Final = "it is written outside this project, so Penstock does not create it"


def ask_brokers(manifest: Manifest, clusters: Clusters) -> Brokers:
    """Fetch the topics that the manifest reads and writes. Raises a ServiceError if a broker cannot be reached."""
    reads = [entry.node for query in manifest.queries for entry in query.inputs if entry.topic is not None]
    own = [topic for topic in manifest.topics if topic.on_kafka]
    source = _topics(KafkaAdmin(clusters.source.kafka), reads) if reads and clusters.source else None
    if not own or clusters.sink is None:
        return Brokers(source)
    admin = KafkaAdmin(clusters.sink.kafka)
    sink = _topics(admin, [output.node for query in manifest.queries for output in query.outputs])
    present = [topic.name for topic in own if topic.name in sink]
    chosen = admin.chosen_config(present)
    begins, ends = admin.ends(present, earliest=True), admin.ends(present)
    nonempty = frozenset(topic for (topic, number), end in ends.items() if end > begins[topic, number])
    filled = nonempty.intersection(topic.name for topic in own if not topic.only_made)
    described = {name: replace(state, config=chosen.get(name, {})) for name, state in sink.items()}
    return Brokers(source, described, filled)


def _topics(admin: KafkaAdmin, nodes: Sequence[str]) -> Mapping[str, TopicState]:
    """The topics of a broker, which these nodes depend on."""
    try:
        return admin.topics()
    except ServiceError as error:
        if not nodes:
            raise
        kind, _, name = nodes[0].partition(".")
        others = f" and {len(set(nodes)) - 1} more" if len(set(nodes)) > 1 else ""
        raise error.with_context(f"{kind} '{name}'{others}: failed to reach Kafka", node=name) from None


def topic_steps(topic: TopicSpec, directories: Collection[str], broker: Mapping[str, TopicState]) -> list[TopicStep]:
    if not topic.on_kafka:
        return [] if topic.name in directories else [CreateTopic(topic)]
    state = broker.get(topic.name)
    if state is None:
        return [CreateTopic(topic)]
    return [] if topic.only_made else [*_change(topic, state), *_drift(topic, state)]


def _change(topic: TopicSpec, state: TopicState) -> Iterator[ChangeTopic]:
    grown = topic.partitions if (topic.partitions or 0) > state.partitions else None
    config = {name: value for name, value in wanted_config(topic).items() if state.config.get(name) != value}
    reasons = [f"{state.partitions} -> {grown} partitions"] if grown else []
    reasons += [f"{name} {state.config.get(name, 'unset')} -> {value}" for name, value in config.items()]
    if reasons:
        yield ChangeTopic(topic, grown, config, ", ".join(reasons))


def _drift(topic: TopicSpec, state: TopicState) -> Iterator[LeaveTopic]:
    found = []
    if topic.partitions is not None and topic.partitions < state.partitions:
        found.append(f"it has {state.partitions} partitions, not {topic.partitions}: Kafka cannot remove partitions")
    if topic.replication_factor is not None and topic.replication_factor != state.replication_factor:
        found.append(f"its replication factor is {state.replication_factor}, not {topic.replication_factor}")
    others = {name: value for name, value in state.config.items() if name not in topic.config}
    found += [f"{name} is {value}, which the project does not set" for name, value in others.items()]
    if found:
        yield LeaveTopic(topic, "; ".join(found))


def wanted_config(topic: TopicSpec) -> dict[str, str]:
    """The settings of a topic in Kafka's spelling."""
    return {name: str(v).lower() if isinstance(v, bool) else str(v) for name, v in topic.config.items()}


def missing_topics(
    queries: Collection[QuerySpec], own: Collection[str], broker: Mapping[str, TopicState] | None
) -> Iterator[Diagnostic]:
    """Refuse queries whose input topics do not exist and are not created by the project."""
    if broker is None:
        return
    for query in queries:
        for entry in query.inputs:
            name = entry.topic
            if name is not None and name not in own and name not in broker:
                text = f"`{query.name}` reads the topic `{name}`, which Kafka does not have"
                hint = did_you_mean(name, broker) or _NOT_OURS
                yield Diagnostic("topic-missing", text, hint=hint, params={"name": name})
