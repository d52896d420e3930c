"""Letters in topics of Kafka: key and value as they were, everything else in headers."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.letters import FIELDS, HEADER, Letter


def in_topics(cluster: KafkaCluster, names: Iterable[str]) -> list[Letter]:
    """The letters of topics for errors that are there."""
    admin = KafkaAdmin(cluster)
    return [_letter(message) for message in admin.records(names)]


def _letter(message: Any) -> Letter:
    headers = tuple((name, value) for name, value in message.headers() or () if not name.startswith(HEADER))
    place = (message.topic(), str(message.partition()), message.offset())
    return Letter(*place, _about(message), message.key(), message.value(), headers)


def _about(message: Any) -> dict[str, Any]:
    headers = {
        name.removeprefix(HEADER): value.decode()
        for name, value in message.headers() or ()
        if name.startswith(HEADER) and value is not None
    }
    about: dict[str, Any] = {name: headers.get(name) for name in FIELDS}
    numbers = {name: None if about[name] is None else int(about[name]) for name in ("partition", "offset")}
    return {**about, **numbers, "key": _text(message.key()), "value": _text(message.value())}


def _text(data: bytes | None) -> str | None:
    """Bytes as text where they are text, else in base 64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
