"""Dead letters in Kafka topics: key and value of the record are kept, everything else is in headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.clients.dead_letters.model import FIELDS, HEADER, OWNER, WITHHELD, DeadLetter
from penstock.clients.files.parquet import decode_text
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka.record_reader import read_records


def read_from_topics(cluster: KafkaCluster, names: Iterable[str]) -> Iterator[DeadLetter]:
    """Read the dead letters of those of the topics that exist, in order."""
    admin = KafkaAdmin(cluster)
    there = admin.topics().keys() & set(names)
    ids = {name: state.id for name, state in admin.describe_topics(there).items()}
    return (_parse_message(message, ids.get(message.topic())) for message in read_records(admin, there))


def _parse_message(message: Any, topic_id: str | None) -> DeadLetter:
    headers = tuple((name, value) for name, value in message.headers() or () if not name.startswith(HEADER))
    place = (message.topic(), str(message.partition()), message.offset())
    return DeadLetter(*place, _about(message), message.key(), message.value(), headers, topic_id)


def _about(message: Any) -> dict[str, Any]:
    """Parse the headers. Those of the dead letter come first: later ones of the same name belong to the record."""
    headers = {
        name.removeprefix(HEADER): value.decode(errors="replace")
        for name, value in reversed(message.headers() or ())
        if name.startswith(HEADER) and value is not None
    }
    about: dict[str, Any] = {name: headers.get(name) for name in (*FIELDS, OWNER, WITHHELD)}
    numbers = {name: _number(about[name]) for name in ("partition", "offset")}
    return {**about, **numbers, "key": decode_text(message.key()), "value": decode_text(message.value())}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
