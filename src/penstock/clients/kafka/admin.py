"""What is asked of a Kafka cluster beside reading and writing: its topics, their settings, positions of groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.packages import require
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

Client = TypeVar("Client")
SECONDS: Final = 10
"""How long a broker may take to answer."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the broker has it. `config` are the settings that somebody chose."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)


class KafkaAdmin:
    """Asks one cluster. Whatever goes wrong is a ServiceError that names the servers."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._complaint: KafkaError | None = None
        self._members: dict[str, Consumer] = {}
        require("confluent_kafka", extra="kafka")
        from confluent_kafka.admin import AdminClient

        self._client = self._tolerant(AdminClient, {})

    def topics(self) -> dict[str, TopicState]:
        """Every topic, without its settings."""
        listed = self._patiently(lambda: self._client.list_topics(timeout=1), "cannot be asked for its topics").topics
        return {
            name: TopicState(len(topic.partitions), _replication(topic))
            for name, topic in listed.items()
            if topic.error is None
        }

    def chosen_config(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """The settings of topics that are not the broker's own."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        if not topics:
            return {}
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        answers = self._client.describe_configs(asked, request_timeout=SECONDS)
        return {
            resource.name: {
                name: str(entry.value)
                for name, entry in self._result(future, f"cannot tell the settings of `{resource.name}`").items()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            }
            for resource, future in answers.items()
        }

    def create(self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None:
        """Make a topic. One that somebody else made in the meantime will do."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        topic = NewTopic(name, partitions, replication_factor, config=dict(config))
        (future,) = self._client.create_topics([topic], operation_timeout=SECONDS).values()
        try:
            future.result()
        except KafkaException as error:
            if _reason(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._failed(f"did not make the topic `{name}`", error) from error

    def add_partitions(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        wanted = [NewPartitions(name, partitions)]
        (future,) = self._client.create_partitions(wanted, operation_timeout=SECONDS).values()
        self._result(future, f"did not give `{name}` {partitions} partitions")

    def set_config(self, name: str, config: Mapping[str, str]) -> None:
        """Set these settings of a topic, and leave its others alone."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        (future,) = self._client.incremental_alter_configs([resource], request_timeout=SECONDS).values()
        self._result(future, f"did not change the settings of `{name}`")

    def ends(self, topics: Iterable[str], *, earliest: bool = False) -> dict[tuple[str, int], int]:
        """Where each partition ends, or where what it still holds begins."""
        from confluent_kafka import IsolationLevel
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.earliest() if earliest else OffsetSpec.latest()
        asked = dict.fromkeys(self._places(topics), spec)
        if not asked:
            return {}
        answers = self._client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=SECONDS
        )
        text = "cannot tell the offsets of {}"
        return {
            (place.topic, place.partition): int(self._result(future, text.format(f"`{place.topic}`")).offset)
            for place, future in answers.items()
        }

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say how far a group of consumers has come."""
        from confluent_kafka import TopicPartition

        places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        member = self._member(group)
        self._patiently(
            lambda: member.commit(offsets=places, asynchronous=False),
            f"did not take the offsets of the group `{group}`",
        )

    def committed(self, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """How far a group of consumers has said that it came in these topics."""
        places, member = self._places(topics), self._member(group)
        if not places:
            return {}
        said = f"cannot tell the offsets of the group `{group}`"
        found = self._patiently(lambda: member.committed(places, timeout=SECONDS), said)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}

    def records(self, topics: Iterable[str]) -> Iterator[Any]:
        """Every record that the topics hold now, as confluent-kafka gives it."""
        names = [name for name in topics if name in self.topics()]
        begins, ends = self.ends(names, earliest=True), self.ends(names)
        left = {place: end for place, end in ends.items() if end > begins[place]}
        with self._reading({place: begins[place] for place in left}) as reader:
            while left:
                message = reader.poll(SECONDS)
                if message is None:
                    text = f"Kafka at {self.cluster.servers} does not hand on its records"
                    raise ServiceError("unreachable", text, retriable=True)
                place = (message.topic(), message.partition())
                if message.error() is not None:
                    left.pop(place, None)  # its end
                elif place in left and message.offset() < left[place]:
                    yield message

    @contextmanager
    def _reading(self, positions: Mapping[tuple[str, int], int]) -> Iterator[Any]:
        """A consumer that stands at these positions, and belongs to nobody."""
        from confluent_kafka import Consumer, TopicPartition

        reader = self._tolerant(
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
        with self._reading(positions) as reader:
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

    def _member(self, group: str) -> Consumer:
        """A consumer that reads nothing. The administrator's own calls wait for ever where no group ever was."""
        from confluent_kafka import Consumer

        if group not in self._members:
            settings = {"group.id": group, "enable.auto.commit": False}
            self._members[group] = self._tolerant(Consumer, settings)
        return self._members[group]

    def _tolerant(self, kind: Callable[[dict[str, Any]], Client], own: Mapping[str, Any]) -> Client:
        """A client without those settings that only Java's client knows."""
        from confluent_kafka import KafkaException

        settings = {
            **self.cluster.for_librdkafka(),
            **own,
            "error_cb": self._complain,
            "log_level": 0,
            "socket.connection.setup.timeout.ms": SECONDS * 1000,
        }
        while True:
            try:
                return kind(settings)
            except KafkaException as error:
                unknown = _unknown_setting(error, settings)
                if unknown is None:
                    raise self._failed("cannot be asked", error) from error
                del settings[unknown]

    def _complain(self, error: KafkaError) -> None:
        """Keep the reason why a connection fails: what waits for it only hears that time is up."""
        from confluent_kafka import KafkaError

        if self._complaint is None or self._complaint.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self._complaint = error

    def _patiently(self, ask: Callable[[], Any], said: str) -> Any:
        """Ask again for a while where that may help. A broker that turns us away is not asked again."""
        from confluent_kafka import KafkaException

        ends = time.monotonic() + SECONDS
        while True:
            try:
                return ask()
            except KafkaException as error:
                failure = self._failed(said, error)
                if not failure.retriable or time.monotonic() > ends:
                    raise failure from error
                time.sleep(0.1)

    def _result(self, future: Any, said: str) -> Any:
        from confluent_kafka import KafkaException

        try:
            return future.result()
        except KafkaException as error:
            raise self._failed(said, error) from error

    def _failed(self, said: str, error: Exception) -> ServiceError:
        from confluent_kafka import KafkaError

        passing = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)
        reason = _reason(error)
        if reason.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            self._client_polled()
            reason = self._complaint or reason
        text = f"Kafka at {self.cluster.servers} {said}: {reason.str()}"
        match reason.code():
            case KafkaError._AUTHENTICATION | KafkaError.SASL_AUTHENTICATION_FAILED:
                return ServiceError("kafka-refused", text, hint="see the user and the password of the cluster")
            case KafkaError._SSL:
                return ServiceError("kafka-refused", text, hint="see the certificates of the cluster")
            case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return ServiceError("kafka-refused", text, hint="the user may not do that")
            case KafkaError._TRANSPORT | KafkaError._TIMED_OUT | KafkaError._ALL_BROKERS_DOWN | KafkaError._RESOLVE:
                return ServiceError("unreachable", text, hint="is the broker there?", retriable=True)
            case _:
                retriable = bool(reason.retriable()) or reason.code() in passing
                return ServiceError("kafka-failed", text, retriable=retriable)

    def _client_polled(self) -> None:
        """Let complaints arrive that nobody has heard yet."""
        client = getattr(self, "_client", None)
        if client is not None:
            client.poll(0)


def _replication(topic: Any) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _reason(error: Exception) -> KafkaError:
    reason: KafkaError = error.args[0]
    return reason


def _unknown_setting(error: Exception, settings: Mapping[str, Any]) -> str | None:
    """The setting that the client says it does not know."""
    from confluent_kafka import KafkaError

    reason = _reason(error)
    if reason.code() != KafkaError._INVALID_ARG or "No such configuration property" not in reason.str():
        return None
    return next((name for name in settings if f'"{name}"' in reason.str()), None)
