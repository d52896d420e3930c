"""Offsets of a pipeline in its store, under public keys: reader, topic and partition. The store also has the finished
backfill phases of a reader."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from penstock.manifest.model import Input, QuerySpec
from penstock.plan.deployed.stores import StateStore


def readers(spec: QuerySpec) -> Iterator[tuple[str, str]]:
    """The topics that a query reads, each with the name of its reader: the source, or an isolated sink."""
    for entry in spec.inputs:
        if entry.topic is not None:
            yield reader_of(spec, entry), entry.topic


def reader_of(spec: QuerySpec, entry: Input) -> str:
    return spec.name if spec.isolated else entry.node.partition(".")[2]


_PHASES: Final = "hybrid_source_{}_v1"
_DONE: Final = "completed_phases"


class _StoredOffset(NamedTuple):
    key: str
    reader: str
    topic: str
    number: int
    offset: int


class OffsetStore:
    """The stored offsets of topics."""

    def __init__(self, store: StateStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._topics = f"{namespace} topics"  # not among offsets, which others read

    def put(self, reader: str, positions: Mapping[tuple[str, int], int]) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._store.put(
            self._namespace,
            {
                _key(reader, topic, number): {"offset": at, "updated_at": now_ms}
                for (topic, number), at in positions.items()
            },
        )

    def known_readers(self) -> frozenset[tuple[str, str]]:
        """The readers and topics with stored offsets."""
        return frozenset((stored.reader, stored.topic) for stored in self._stored_offsets(""))

    def of(self, reader: str, topic: str) -> dict[int, int]:
        """The next offset of each partition of a reader."""
        found = self._stored_offsets(_key(reader, topic, ""))
        return {stored.number: stored.offset for stored in found if (stored.reader, stored.topic) == (reader, topic)}

    def put_id(self, reader: str, topic: str, number: str | None) -> None:
        """Store the id of a reader's topic: a recreated topic has another id."""
        if number is not None:
            self._store.put(self._topics, {_key(reader, topic, "id"): {"id": number}})

    def id_of(self, reader: str, topic: str) -> str | None:
        key = _key(reader, topic, "id")
        stored = self._store.get(self._topics, key).get(key)
        return None if stored is None else str(stored["id"])

    def put_phases(self, reader: str, phases: Iterable[str]) -> None:
        """Store the finished phases of a reader."""
        self._store.put(self._namespace, {_PHASES.format(reader): {"current_phase": "unbounded", _DONE: list(phases)}})

    def phases(self) -> dict[str, frozenset[str]]:
        """The finished phases of readers."""
        begin, end = _PHASES.split("{}")
        found = self._store.get(self._namespace, begin).items()
        return {
            key.removeprefix(begin).removesuffix(end): frozenset(map(str, stored.get(_DONE) or ()))
            for key, stored in found
            if isinstance(stored, dict)
        }

    def forget(self, reader: str) -> None:
        keys = [stored.key for stored in self._stored_offsets(f"{reader}:") if stored.reader == reader]
        keys += {_PHASES.format(reader)} & self._store.get(self._namespace, _PHASES.format(reader)).keys()
        if keys:
            self._store.remove(self._namespace, keys)
        if topics := [key for key in self._store.get(self._topics, f"{reader}:") if key.rsplit(":", 2)[0] == reader]:
            self._store.remove(self._topics, topics)

    def _stored_offsets(self, prefix: str) -> Iterator[_StoredOffset]:
        """The offsets in the store. Other keys in the namespace are ignored."""
        for key, document in self._store.get(self._namespace, prefix).items():
            parts = key.rsplit(":", 2)
            offset = document.get("offset") if isinstance(document, dict) else None
            if len(parts) == 3 and parts[2].isdecimal() and type(offset) is int:
                yield _StoredOffset(key, parts[0], parts[1], int(parts[2]), offset)


def _key(reader: str, topic: str, number: int | str) -> str:
    return f"{reader}:{topic}:{number}"
