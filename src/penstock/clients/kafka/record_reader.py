"""Records of topics for the driver: all of a topic, those at some offsets, and their timestamps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.admin_client import SECONDS
from penstock.errors import ServiceError


def read_records(admin: KafkaAdmin, topics: Iterable[str]) -> Iterator[Any]:
    """Read every record that topics hold now, topic by topic and in order, as messages of confluent-kafka."""
    from confluent_kafka import TopicPartition

    known = admin.topics()
    names = sorted(name for name in topics if name in known)
    begins, ends = admin.ends(names, earliest=True), admin.ends(names)
    filled = sorted(place for place, end in ends.items() if end > begins[place])
    with _open_consumer(admin, {}) as consumer:
        for place in filled:
            consumer.assign([TopicPartition(*place, begins[place])])
            yield from _read_up_to(admin, ends[place], place, consumer)


def read_records_at(admin: KafkaAdmin, places: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], Any]:
    """Read the records at topics, partitions and offsets, without those that are deleted."""
    from confluent_kafka import TopicPartition

    wanted = sorted(places)
    begins, ends = ({**admin.ends({p[0] for p in wanted}, earliest=first)} for first in (True, False))
    found: dict[tuple[str, int, int], Any] = {}
    with _open_consumer(admin, {}) as consumer:
        for topic, number, offset in wanted:
            place = (topic, number)
            if begins.get(place, 0) <= offset < ends.get(place, 0):
                consumer.assign([TopicPartition(topic, number, offset)])
                message = next(_read_up_to(admin, ends[place], place, consumer), None)
                if message is not None and message.offset() == offset:
                    found[topic, number, offset] = message
    return found


def record_times(admin: KafkaAdmin, positions: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], float]:
    """Return the timestamp of the record at each position, in seconds since 1970, of those that arrive in time."""
    from confluent_kafka import TopicPartition

    if not positions:
        return {}
    found: dict[tuple[str, int], float] = {}
    with _open_consumer(admin, positions) as consumer:
        ends = time.monotonic() + SECONDS
        while len(found) < len(positions) and time.monotonic() < ends:
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            place = (message.topic(), message.partition())
            if place not in found:
                found[place] = message.timestamp()[1] / 1000
                consumer.pause([TopicPartition(*place)])
    return found


def _read_up_to(admin: KafkaAdmin, end: int, place: tuple[str, int], consumer: Any) -> Iterator[Any]:
    """Read a partition before an offset, with a consumer that is assigned to it."""
    from confluent_kafka import KafkaError, KafkaException

    reached, said = 0, "does not return its records"
    while reached < end:
        message = consumer.poll(SECONDS)
        if message is None:
            raise ServiceError("unreachable", f"Kafka at {admin.cluster.servers} {said}", retriable=True)
        if (message.topic(), message.partition()) != place:
            continue
        if (error := message.error()) is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise admin.conversation.service_error(said, KafkaException(error))
            return  # the offsets before the end have no record, such as marks of transactions
        reached = message.offset() + 1
        if reached <= end:
            yield message


@contextmanager
def _open_consumer(admin: KafkaAdmin, positions: Mapping[tuple[str, int], int]) -> Iterator[Any]:
    """Open a consumer at these positions that commits nothing."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "penstock", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = admin.conversation.client(Consumer, settings)
    try:
        consumer.assign([TopicPartition(topic, number, at) for (topic, number), at in positions.items()])
        yield consumer
    finally:
        consumer.close()
