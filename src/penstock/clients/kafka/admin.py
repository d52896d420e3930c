"""What is asked of a Kafka cluster beside reading and writing: its topics, their settings, positions of groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.clients.kafka.admin_client import SECONDS, KafkaConversation, gather_results, reason_of
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.retry import wait_until
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the broker has it. `config` are the settings that somebody chose.

    `id` tells it from another one of the same name; brokers before Kafka 2.8, and some others, give none.
    """

    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None


class KafkaAdmin:
    """Asks one cluster. Whatever goes wrong is a ServiceError that names the servers."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._with = KafkaConversation(cluster)
        self._client = self._with.admin
        self._members: dict[str, Consumer] = {}

    def topics(self) -> dict[str, TopicState]:
        """Every topic, without its settings."""
        said = "cannot be asked for its topics"
        listed = self._with.ask_with_retry(lambda: self._client.list_topics(timeout=1), said).topics
        return {
            name: TopicState(len(topic.partitions), _replication(topic))
            for name, topic in listed.items()
            if topic.error is None
        }

    def describe_topics(self, topics: Iterable[str]) -> dict[str, TopicState]:
        """These topics, with their ids and without their settings, as far as they are there."""
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

        return self._with.ask_with_retry(ask, f"cannot describe {_quote_names(names)}") if names else {}

    def chosen_config(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings of topics that are not the broker's own."""
        from confluent_kafka.admin import ConfigSource

        chosen = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {
            topic: {name: str(entry.value) for name, entry in config.items() if entry.source == chosen}
            for topic, config in self._config(topics).items()
        }

    def setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic, whoever it is from."""
        entry = self._config([topic])[topic].get(name)
        return None if entry is None or entry.value is None else str(entry.value)

    def _config(self, topics: Sequence[str]) -> dict[str, dict[str, Any]]:
        from confluent_kafka.admin import ConfigResource, ResourceType

        if not topics:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        found = self._with.ask_with_retry(
            lambda: gather_results(self._client.describe_configs(asked, request_timeout=SECONDS)),
            f"cannot tell the settings of {_quote_names(topics)}",
        )
        return {resource.name: config for resource, config in found.items()}

    def create(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Make a topic, and wait until it can be used. One that somebody else made in the meantime will do."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, partitions, replication_factor, config=dict(config))
        (future,) = self._client.create_topics([topic], operation_timeout=SECONDS).values()
        try:
            future.result()
        except KafkaException as error:
            if reason_of(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._with.service_error(f"did not make the topic `{name}`", error) from error
        wait_until(lambda: name in self.topics(), SECONDS)

    def empty(self, name: str) -> None:
        """Delete all records of a topic, and keep the topic. Where it only compacts, the broker refuses that: then the
        topic is made anew with the partitions and the settings that it has."""
        from confluent_kafka import KafkaError, KafkaException

        ends = {place: end for place, end in self.ends([name]).items() if end > 0}
        try:
            for future in self._deletions(ends):
                future.result()
        except KafkaException as error:
            if reason_of(error).code() != KafkaError.POLICY_VIOLATION:
                raise self._with.service_error(f"did not delete the records of `{name}`", error) from error
            self._recreate_topic(name)

    def _deletions(self, ends: Mapping[tuple[str, int], int]) -> list[Any]:
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, number, end) for (topic, number), end in ends.items()]
        return list(self._client.delete_records(places, request_timeout=SECONDS).values()) if places else []

    def _recreate_topic(self, name: str) -> None:
        """Delete a topic and create it as it was."""
        state, config = self.topics()[name], self.chosen_config([name])[name]
        self.delete(name)
        self.create(name, state.partitions, state.replication_factor, config)

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        (future,) = self._client.delete_topics([name], operation_timeout=SECONDS).values()
        self._with.result(future, f"did not delete the topic `{name}`")
        wait_until(lambda: name not in self.topics(), SECONDS)

    def add_partitions(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        wanted = [NewPartitions(name, partitions)]
        (future,) = self._client.create_partitions(wanted, operation_timeout=SECONDS).values()
        self._with.result(future, f"did not give `{name}` {partitions} partitions")
        wait_until(lambda: self.topics()[name].partitions >= partitions, SECONDS)

    def set_config(self, name: str, config: Mapping[str, str]) -> None:
        """Set these settings of a topic, and leave its others alone."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        (future,) = self._client.incremental_alter_configs([resource], request_timeout=SECONDS).values()
        self._with.result(future, f"did not change the settings of `{name}`")
        wait_until(lambda: config.items() <= self.chosen_config([name])[name].items(), SECONDS)

    def ends(self, topics: Iterable[str], *, earliest: bool = False) -> dict[tuple[str, int], int]:
        """Where each partition ends, or where what it still holds begins."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(topics, OffsetSpec.earliest() if earliest else OffsetSpec.latest())

    def offsets_since(self, topics: Collection[str], time_ms: int) -> dict[tuple[str, int], int]:
        """Where records begin in each partition that are as new as this time, or newer; its end if there are none."""
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(topics, OffsetSpec.for_timestamp(time_ms))
        return {place: found[place] if found.get(place, -1) >= 0 else end for place, end in self.ends(topics).items()}

    def _offsets(self, topics: Iterable[str], spec: Any) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel

        asked = dict.fromkeys(self._places(topics), spec)
        if not asked:
            return {}
        committed = {"isolation_level": IsolationLevel.READ_COMMITTED, "request_timeout": SECONDS}
        found = self._with.ask_with_retry(
            lambda: gather_results(self._client.list_offsets(asked, **committed)),
            f"cannot tell the offsets of {_quote_names(sorted({place.topic for place in asked}))}",
        )
        return {(place.topic, place.partition): int(answer.offset) for place, answer in found.items()}

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say how far a group of consumers has come."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        member = self._group_consumer(group)
        self._with.ask_with_retry(
            lambda: member.commit(offsets=places, asynchronous=False),
            f"did not take the offsets of the group `{group}`",
        )

    def committed_offsets(self, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """How far a group of consumers has said that it came in these topics."""
        places, member = self._places(topics), self._group_consumer(group)
        if not places:
            return {}
        said = f"cannot tell the offsets of the group `{group}`"
        found = self._with.ask_with_retry(lambda: member.committed(places, timeout=SECONDS), said)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}

    def forget(self, group: str) -> None:
        """Take away what a group of consumers has said. One with members that still read is left, with an error."""
        (future,) = self._client.delete_consumer_groups([group], request_timeout=SECONDS).values()
        self._with.result(future, f"did not forget the offsets of the group `{group}`")

    def records(self, topics: Iterable[str]) -> Iterator[Any]:
        """Every record that the topics hold now, as confluent-kafka gives it: topic by topic, in their order."""
        from confluent_kafka import TopicPartition

        known = self.topics()
        names = sorted(name for name in topics if name in known)
        begins, ends = self.ends(names, earliest=True), self.ends(names)
        filled = sorted(place for place, end in ends.items() if end > begins[place])
        with self._open_consumer({}) as reader:
            for place in filled:
                reader.assign([TopicPartition(*place, begins[place])])
                yield from self._read_up_to(ends[place], place, reader)

    def records_at(self, places: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], Any]:
        """The records at places by topic, partition and offset, as confluent-kafka gives them, unless they are gone."""
        from confluent_kafka import TopicPartition

        wanted = sorted(places)
        begins, ends = ({**self.ends({p[0] for p in wanted}, earliest=first)} for first in (True, False))
        found: dict[tuple[str, int, int], Any] = {}
        with self._open_consumer({}) as reader:
            for topic, number, offset in wanted:
                place = (topic, number)
                if begins.get(place, 0) <= offset < ends.get(place, 0):
                    reader.assign([TopicPartition(topic, number, offset)])
                    message = next(self._read_up_to(ends[place], place, reader), None)
                    if message is not None and message.offset() == offset:
                        found[topic, number, offset] = message
        return found

    def _read_up_to(self, end: int, place: tuple[str, int], reader: Any) -> Iterator[Any]:
        """The records of a partition before an offset, of a consumer that stands in it."""
        from confluent_kafka import KafkaError, KafkaException

        reached, said = 0, "does not hand on its records"
        while reached < end:
            message = reader.poll(SECONDS)
            if message is None:
                raise ServiceError("unreachable", f"Kafka at {self.cluster.servers} {said}", retriable=True)
            if (message.topic(), message.partition()) != place:
                continue
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise self._with.service_error(said, KafkaException(error))
                return  # what stands before the offset is no record
            reached = message.offset() + 1
            if reached <= end:
                yield message

    @contextmanager
    def _open_consumer(self, positions: Mapping[tuple[str, int], int]) -> Iterator[Any]:
        """A consumer that stands at these positions, and belongs to nobody."""
        from confluent_kafka import Consumer, TopicPartition

        reader = self._with.client(
            Consumer, {"group.id": "penstock", "enable.auto.commit": False, "enable.partition.eof": True}
        )
        try:
            reader.assign([TopicPartition(topic, number, at) for (topic, number), at in positions.items()])
            yield reader
        finally:
            reader.close()

    def record_times(self, positions: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], float]:
        """When the record at each position was written, in seconds since 1970; those that do not come are left out."""
        from confluent_kafka import TopicPartition

        if not positions:
            return {}
        found: dict[tuple[str, int], float] = {}
        with self._open_consumer(positions) as reader:
            ends = time.monotonic() + SECONDS
            while len(found) < len(positions) and time.monotonic() < ends:
                message = reader.poll(0.5)
                if message is None or message.error() is not None:
                    continue
                place = (message.topic(), message.partition())
                if place not in found:
                    found[place] = message.timestamp()[1] / 1000
                    reader.pause([TopicPartition(*place)])
        return found

    def _places(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition of the topics that there are."""
        from confluent_kafka import TopicPartition

        known = self.topics()
        found = [(name, known[name].partitions) for name in topics if name in known]
        return [TopicPartition(name, number) for name, partitions in found for number in range(partitions)]

    def _group_consumer(self, group: str) -> Consumer:
        """A consumer that reads nothing. The administrator's own calls wait for ever where no group ever was."""
        from confluent_kafka import Consumer

        if group not in self._members:
            settings = {"group.id": group, "enable.auto.commit": False}
            self._members[group] = self._with.client(Consumer, settings)
        return self._members[group]


def _quote_names(topics: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in topics)


def _topic_state(topic: Any) -> TopicState:
    bits = topic.topic_id.get_most_significant_bits(), topic.topic_id.get_least_significant_bits()
    return TopicState(len(topic.partitions), _replication(topic), id=str(topic.topic_id) if any(bits) else None)


def _replication(topic: Any) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0
