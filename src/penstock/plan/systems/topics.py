"""Plans the topics of Kafka: create, add partitions, change settings. Topics never get fewer partitions and are never
deleted."""

from collections.abc import Collection, Iterator, Mapping

from penstock.clients.kafka.admin import TopicState
from penstock.errors import Diagnostic, did_you_mean
from penstock.manifest.model import QuerySpec
from penstock.manifest.resources import TopicSpec
from penstock.plan.steps import ChangeTopic, CreateTopic, LeaveTopic, TopicStep


def topic_steps(topic: TopicSpec, directories: Collection[str], broker: Mapping[str, TopicState]) -> list[TopicStep]:
    """The steps from the existing state to the project."""
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
                hint = (
                    did_you_mean(name, broker) or "it is written outside this project, so Penstock does not create it"
                )
                yield Diagnostic("topic-missing", text, hint=hint, params={"name": name})
