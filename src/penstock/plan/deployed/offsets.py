"""Offsets of a pipeline in its store, under keys that others know: the reader, the topic and the partition. Beside them
stands which sources a reader has read to their end before it came to its topic."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from penstock.manifest.model import Input, QuerySpec
from penstock.plan.deployed.stores import StateStore


def readers(spec: QuerySpec) -> Iterator[tuple[str, str]]:
    """The topics that a query reads, each after the name under which its offsets are kept: that of the source, or of a
    sink that reads for itself."""
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
    """What a store says of how far topics are read."""

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
        """Of which readers and topics something is kept."""
        return frozenset((kept.reader, kept.topic) for kept in self._stored_offsets(""))

    def of(self, reader: str, topic: str) -> dict[int, int]:
        """The next offset of each partition that a reader had come to."""
        found = self._stored_offsets(_key(reader, topic, ""))
        return {kept.number: kept.offset for kept in found if (kept.reader, kept.topic) == (reader, topic)}

    def put_id(self, reader: str, topic: str, number: str | None) -> None:
        """Keep which topic the offsets of a reader are of: one that is made anew has another id."""
        if number is not None:
            self._store.put(self._topics, {_key(reader, topic, "id"): {"id": number}})

    def id_of(self, reader: str, topic: str) -> str | None:
        key = _key(reader, topic, "id")
        kept = self._store.get(self._topics, key).get(key)
        return None if kept is None else str(kept["id"])

    def put_phases(self, reader: str, phases: Iterable[str]) -> None:
        """Keep which phases a reader is done with; after them comes its topic."""
        self._store.put(self._namespace, {_PHASES.format(reader): {"current_phase": "unbounded", _DONE: list(phases)}})

    def phases(self) -> dict[str, frozenset[str]]:
        """The phases that readers are done with."""
        begin, end = _PHASES.split("{}")
        found = self._store.get(self._namespace, begin).items()
        return {
            key.removeprefix(begin).removesuffix(end): frozenset(map(str, kept.get(_DONE) or ()))
            for key, kept in found
            if isinstance(kept, dict)
        }

    def forget(self, reader: str) -> None:
        keys = [kept.key for kept in self._stored_offsets(f"{reader}:") if kept.reader == reader]
        keys += {_PHASES.format(reader)} & self._store.get(self._namespace, _PHASES.format(reader)).keys()
        if keys:
            self._store.remove(self._namespace, keys)
        if topics := [key for key in self._store.get(self._topics, f"{reader}:") if key.rsplit(":", 2)[0] == reader]:
            self._store.remove(self._topics, topics)

    def _stored_offsets(self, prefix: str) -> Iterator[_StoredOffset]:
        """The offsets in the store. Others may keep what is theirs in the same namespace: it is passed over."""
        for key, document in self._store.get(self._namespace, prefix).items():
            parts = key.rsplit(":", 2)
            offset = document.get("offset") if isinstance(document, dict) else None
            if len(parts) == 3 and parts[2].isdecimal() and type(offset) is int:
                yield _StoredOffset(key, parts[0], parts[1], int(parts[2]), offset)


def _key(reader: str, topic: str, number: int | str) -> str:
    return f"{reader}:{topic}:{number}"
