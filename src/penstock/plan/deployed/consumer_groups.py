"""Consumer groups, which show the read offsets of topics. A configured group may have offsets of another consumer."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import ServiceError
from penstock.manifest.model import QuerySpec
from penstock.plan.deployed.offsets import readers
from penstock.plan.deployed.place import ProjectPlace


def groups(spec: QuerySpec, place: ProjectPlace, chosen: str | None) -> dict[str, frozenset[str]]:
    """The consumer groups of a query, each with its topics: one for the query, or one per source with the configured
    prefix `chosen`."""
    read = list(readers(spec))
    if chosen is None:
        return {place.group(spec.name): frozenset(topic for _, topic in read)} if read else {}
    names = dict.fromkeys(reader for reader, _ in read)
    return {place.group(name, chosen): frozenset(t for reader, t in read if reader == name) for name in names}


class ChosenGroups:
    """The consumer groups of a pipeline's readers, if `consumer_group_id` is set."""

    def __init__(self, clusters: Clusters, place: ProjectPlace) -> None:
        chosen = clusters.source.group if clusters.source is not None and place.is_of_pipeline else None
        self._clusters = clusters
        self._place = place
        self._chosen = chosen

    def known_readers(self, queries: Iterable[QuerySpec]) -> frozenset[tuple[str, str]]:
        """The readers and topics for which the groups have offsets."""
        return frozenset(each for query in queries for each in self.of(query))

    def of(self, spec: QuerySpec) -> dict[tuple[str, str], dict[int, int]]:
        """The next offset of each partition, by reader and topic."""
        found: dict[tuple[str, str], dict[int, int]] = {}
        if self._chosen is not None:
            for reader, topic in readers(spec):
                offsets = self._committed_offsets(self._place.group(reader, self._chosen), topic)
                found |= {(reader, topic): {number: at for (_, number), at in offsets.items()}} if offsets else {}
        return found

    def _committed_offsets(self, group: str, topic: str) -> Mapping[tuple[str, int], int]:
        """The committed offsets of a group; none if access is denied."""
        try:
            return self._admin.committed_offsets(group, [topic])
        except ServiceError as error:
            if error.code != "kafka-refused":
                raise
            return {}

    def forget(self, spec: QuerySpec) -> None:
        """Delete the offsets of a query."""
        for reader in dict.fromkeys(reader for reader, _ in self.of(spec)):
            self._admin.forget(self._place.group(reader, self._chosen))

    @cached_property
    def _admin(self) -> KafkaAdmin:
        assert self._clusters.source is not None
        return KafkaAdmin(self._clusters.source.kafka)
