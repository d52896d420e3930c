"""Offsets of a pipeline in its store, under keys that others know: the reader, the topic and the partition. Beside them
stands which sources a reader has read to their end before it came to its topic."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from penstock.manifest.model import Input, QuerySpec
from penstock.plan.stores import StateStore


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


class KeptOffsets:
    """What a store says of how far topics are read."""

    def __init__(self, store: StateStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def put(self, reader: str, positions: Mapping[tuple[str, int], int]) -> None:
        now = datetime.now(UTC).isoformat()
        self._store.put(
            self._namespace,
            {
                _key(reader, topic, number): {"offset": at, "updated_at": now}
                for (topic, number), at in positions.items()
            },
        )

    def known(self) -> frozenset[tuple[str, str]]:
        """Of which readers and topics something is kept."""
        found = map(_parts, self._store.get(self._namespace, ""))
        return frozenset((reader, topic) for reader, topic, number in found if number.isdigit())

    def of(self, reader: str, topic: str) -> dict[int, int]:
        """The next offset of each partition that a reader had come to."""
        found = self._store.get(self._namespace, _key(reader, topic, ""))
        return {int(_parts(key)[2]): int(kept["offset"]) for key, kept in found.items()}

    def put_phases(self, reader: str, phases: Iterable[str]) -> None:
        """Keep which phases a reader is done with; after them comes its topic."""
        self._store.put(self._namespace, {_PHASES.format(reader): {"current_phase": "unbounded", _DONE: list(phases)}})

    def phases(self) -> dict[str, frozenset[str]]:
        """The phases that readers are done with."""
        begin, end = _PHASES.split("{}")
        found = self._store.get(self._namespace, begin).items()
        return {
            key.removeprefix(begin).removesuffix(end): frozenset(map(str, kept.get(_DONE) or ())) for key, kept in found
        }

    def forget(self, reader: str) -> None:
        found = self._store.get(self._namespace, "")
        if keys := [key for key in found if _parts(key)[0] == reader or key == _PHASES.format(reader)]:
            self._store.remove(self._namespace, keys)


def _parts(key: str) -> tuple[str, str, str]:
    """Reader, topic and partition; a key of something else has no partition."""
    parts = key.rsplit(":", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else (key, "", "")


def _key(reader: str, topic: str, number: int | str) -> str:
    return f"{reader}:{topic}:{number}"
