"""Offsets of a pipeline in its store, under keys that others know: the reader, the topic and the partition."""

from collections.abc import Iterator
from datetime import UTC, datetime

from penstock.manifest.model import QuerySpec
from penstock.plan.stores import StateStore
from penstock.runtime.positions import Positions


def readers(spec: QuerySpec) -> Iterator[tuple[str, str]]:
    """The topics that a query reads, each after the name under which its offsets are kept: that of the source, or of a
    sink that reads for itself."""
    for entry in spec.inputs:
        if entry.source["type"] == "kafka":
            yield spec.name if spec.isolated else entry.node.partition(".")[2], str(entry.source["topic"])


class KeptOffsets:
    """What a store says of how far topics are read."""

    def __init__(self, store: StateStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def put(self, reader: str, positions: Positions) -> None:
        now = datetime.now(UTC).isoformat()
        self._store.put(
            self._namespace,
            {
                _key(reader, topic, number): {"offset": at, "updated_at": now}
                for (topic, number), at in positions.items()
            },
        )

    def of(self, spec: QuerySpec) -> dict[tuple[str, int], int]:
        """The positions that a query had come to."""
        return {place: at for reader, topic in readers(spec) for place, at in self._of(reader, topic).items()}

    def forget(self, spec: QuerySpec) -> None:
        keys = [_key(reader, *place) for reader, topic in readers(spec) for place in self._of(reader, topic)]
        if keys:
            self._store.remove(self._namespace, keys)

    def _of(self, reader: str, topic: str) -> dict[tuple[str, int], int]:
        found = self._store.get(self._namespace, _key(reader, topic, ""))
        return {(topic, int(key.rpartition(":")[2])): int(kept["offset"]) for key, kept in found.items()}


def _key(reader: str, topic: str, number: int | str) -> str:
    return f"{reader}:{topic}:{number}"
