"""Names under which others see how far topics are read: groups of consumers, and the keys of a pipeline's offsets in
its store, which are the reader, the topic and the partition."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from penstock.manifest.model import QuerySpec
from penstock.plan.place import Place
from penstock.plan.stores import StateStore


def readers(spec: QuerySpec) -> Iterator[tuple[str, str]]:
    """The topics that a query reads, each after the name under which its offsets are kept: that of the source, or of a
    sink that reads for itself."""
    for entry in spec.inputs:
        if entry.topic is not None:
            yield spec.name if spec.isolated else entry.node.partition(".")[2], entry.topic


def groups(spec: QuerySpec, place: Place, chosen: str | None) -> dict[str, frozenset[str]]:
    """The groups of consumers under which a query shows how far it has read, each with its topics: one for the query,
    or one for every source if somebody has `chosen` what they begin with."""
    read = list(readers(spec))
    if chosen is None:
        return {place.group(spec.name): frozenset(topic for _, topic in read)} if read else {}
    names = dict.fromkeys(reader for reader, _ in read)
    return {place.group(name, chosen): frozenset(t for reader, t in read if reader == name) for name in names}


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
        return frozenset((reader, topic) for reader, topic, _ in map(_parts, self._store.get(self._namespace, "")))

    def of(self, reader: str, topic: str) -> dict[int, int]:
        """The next offset of each partition that a reader had come to."""
        found = self._store.get(self._namespace, _key(reader, topic, ""))
        return {int(_parts(key)[2]): int(kept["offset"]) for key, kept in found.items()}

    def forget(self, reader: str) -> None:
        found = self._store.get(self._namespace, f"{reader}:")
        if keys := [key for key in found if _parts(key)[0] == reader]:
            self._store.remove(self._namespace, keys)


def _parts(key: str) -> tuple[str, str, str]:
    reader, topic, number = key.rsplit(":", 2)
    return reader, topic, number


def _key(reader: str, topic: str, number: int | str) -> str:
    return f"{reader}:{topic}:{number}"
