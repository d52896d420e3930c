"""Topics of a Kafka cluster, their settings and offsets, and the offsets that consumer groups have committed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.clients.kafka.admin_client import SECONDS, KafkaConversation, gather_results, reason_of
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.retry import wait_until

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic on a broker. `config` has the settings of the topic itself, without defaults.

    `id` differs for a topic that was deleted and created again; brokers before Kafka 2.8, and some others, have none.
    """

    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None


class KafkaAdmin:
    """Reads and changes topics and groups of one cluster. Every failure is a ServiceError that names the servers."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self.conversation = KafkaConversation(cluster)
        self._client = self.conversation.admin
        self._members: dict[str, Consumer] = {}

    def topics(self) -> dict[str, TopicState]:
        """Return every topic, without its settings."""
        said = "cannot list its topics"
        listed = self.conversation.ask_with_retry(lambda: self._client.list_topics(timeout=1), said).topics
        found = {name: topic for name, topic in listed.items() if topic.error is None}
        return {name: TopicState(len(topic.partitions), _replication(topic)) for name, topic in found.items()}

    def describe_topics(self, topics: Iterable[str]) -> dict[str, TopicState]:
        """Return those of the topics that exist, with their ids and without their settings."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        names = sorted({*topics})

        def ask() -> dict[str, TopicState]:
            found = {}
            for name, future in self._client.describe_topics(TopicCollection(names), request_timeout=SECONDS).items():
                try:
                    found[name] = _topic_state(future.result())
                except KafkaException as error:
                    if reason_of(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return found

        return self.conversation.ask_with_retry(ask, f"cannot describe {_quote_names(names)}") if names else {}

    def chosen_config(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings that topics do not have from their broker."""
        from confluent_kafka.admin import ConfigSource

        chosen = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            topic: {name: str(entry.value) for name, entry in config.items() if entry.source == chosen}
            for topic, config in self._config(topics).items()
        }

    def setting(self, topic: str, name: str) -> str | None:
        """Return a setting of a topic, its own or the broker's."""
        entry = self._config([topic])[topic].get(name)
        return None if entry is None or entry.value is None else str(entry.value)

    def _config(self, topics: Sequence[str]) -> dict[str, dict[str, Any]]:
        from confluent_kafka.admin import ConfigResource, ResourceType

        if not topics:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        found = self.conversation.ask_with_retry(
            lambda: gather_results(self._client.describe_configs(asked, request_timeout=SECONDS)),
            f"cannot list the settings of {_quote_names(topics)}",
        )
        return {resource.name: config for resource, config in found.items()}

    def create(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Create a topic, and wait until it is visible. It may exist already."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, partitions, replication_factor, config=dict(config))
        (future,) = self._client.create_topics([topic], operation_timeout=SECONDS).values()
        try:
            future.result()
        except KafkaException as error:
            if reason_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self.conversation.service_error(f"did not create the topic `{name}`", error) from error
        wait_until(lambda: name in self.topics(), SECONDS)

    def empty(self, name: str) -> None:
        """Delete all records of a topic. The broker refuses that for a topic that is only compacted: such a topic is
        deleted and created again with its partitions and settings."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        ends = [TopicPartition(name, number, end) for (_, number), end in self.ends([name]).items() if end > 0]
        try:
            for future in self._client.delete_records(ends, request_timeout=SECONDS).values() if ends else ():
                future.result()
        except KafkaException as error:
            if reason_of(error).code() != KafkaError.POLICY_VIOLATION:
                raise self.conversation.service_error(f"did not delete the records of `{name}`", error) from error
            state, config = self.topics()[name], self.chosen_config([name])[name]
            self.delete(name)
            self.create(name, state.partitions, state.replication_factor, config)

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        (future,) = self._client.delete_topics([name], operation_timeout=SECONDS).values()
        self.conversation.result(future, f"did not delete the topic `{name}`")
        wait_until(lambda: name not in self.topics(), SECONDS)

    def add_partitions(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        wanted = [NewPartitions(name, partitions)]
        (future,) = self._client.create_partitions(wanted, operation_timeout=SECONDS).values()
        self.conversation.result(future, f"did not raise `{name}` to {partitions} partitions")
        wait_until(lambda: self.topics()[name].partitions >= partitions, SECONDS)

    def set_config(self, name: str, config: Mapping[str, str]) -> None:
        """Change these settings of a topic, and keep its others."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        change = AlterConfigOpType.SET
        entries = [ConfigEntry(key, value, incremental_operation=change) for key, value in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        (future,) = self._client.incremental_alter_configs([resource], request_timeout=SECONDS).values()
        self.conversation.result(future, f"did not change the settings of `{name}`")
        wait_until(lambda: config.items() <= self.chosen_config([name])[name].items(), SECONDS)

    def ends(self, topics: Iterable[str], *, earliest: bool = False) -> dict[tuple[str, int], int]:
        """Return the end offset of each partition, or its first offset that still has a record."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(topics, OffsetSpec.earliest() if earliest else OffsetSpec.latest())

    def offsets_since(self, topics: Collection[str], time_ms: int) -> dict[tuple[str, int], int]:
        """Return the offset of the first record at or after a time in each partition; its end if there is none."""
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(topics, OffsetSpec.for_timestamp(time_ms))
        return {place: found[place] if found.get(place, -1) >= 0 else end for place, end in self.ends(topics).items()}

    def _offsets(self, topics: Iterable[str], spec: Any) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel

        asked = dict.fromkeys(self._places(topics), spec)
        if not asked:
            return {}
        committed = {"isolation_level": IsolationLevel.READ_COMMITTED, "request_timeout": SECONDS}
        found = self.conversation.ask_with_retry(
            lambda: gather_results(self._client.list_offsets(asked, **committed)),
            f"cannot list the offsets of {_quote_names(sorted({place.topic for place in asked}))}",
        )
        return {(place.topic, place.partition): int(answer.offset) for place, answer in found.items()}

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a consumer group."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        member = self._group_consumer(group)
        said = f"did not commit the offsets of the group `{group}`"
        self.conversation.ask_with_retry(lambda: member.commit(offsets=places, asynchronous=False), said)

    def committed_offsets(self, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Return the offsets that a consumer group has committed in these topics."""
        places, member = self._places(topics), self._group_consumer(group)
        if not places:
            return {}
        said = f"cannot list the offsets of the group `{group}`"
        found = self.conversation.ask_with_retry(lambda: member.committed(places, timeout=SECONDS), said)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}

    def forget(self, group: str) -> None:
        """Delete the offsets of a consumer group. It is an error if the group has active members."""
        (future,) = self._client.delete_consumer_groups([group], request_timeout=SECONDS).values()
        self.conversation.result(future, f"did not delete the offsets of the group `{group}`")

    def _places(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Return every partition of those of the topics that exist."""
        from confluent_kafka import TopicPartition

        known = self.topics()
        found = [(name, known[name].partitions) for name in topics if name in known]
        return [TopicPartition(name, number) for name, partitions in found for number in range(partitions)]

    def _group_consumer(self, group: str) -> Consumer:
        """Return a consumer of a group that reads nothing. AdminClient would hang for a group that never existed."""
        from confluent_kafka import Consumer

        if group not in self._members:
            settings = {"group.id": group, "enable.auto.commit": False}
            self._members[group] = self.conversation.client(Consumer, settings)
        return self._members[group]


def _quote_names(topics: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in topics)


def _topic_state(topic: Any) -> TopicState:
    bits = topic.topic_id.get_most_significant_bits(), topic.topic_id.get_least_significant_bits()
    return TopicState(len(topic.partitions), _replication(topic), id=str(topic.topic_id) if any(bits) else None)


def _replication(topic: Any) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0
