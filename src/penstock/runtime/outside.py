"""The systems around the queries of a run: where topics are, who is told how far they are read, who knows schemas."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.clients.clickhouse.offsets import next_offsets
from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.avro import asked_for
from penstock.connectors.hybrid import OffsetTable
from penstock.errors import QueryFailed, ServiceError
from penstock.manifest.model import Backfill, ConnectorSpec, GatewayRule, Input, QuerySpec, SchemaSpec, TopicSpec
from penstock.plan.gateways import interceptors, own_interceptors, registry_of
from penstock.plan.offsets import KeptOffsets, readers
from penstock.plan.place import Place
from penstock.plan.schemas import written
from penstock.plan.stores import StateStore
from penstock.plan.topics import wanted_config
from penstock.plan.workers import filled_settings
from penstock.project.variables import Environ, resolved
from penstock.runtime.checkpoint import last_number, last_offsets
from penstock.runtime.error_output import DirectoryErrors, ErrorOutput, KafkaErrors
from penstock.runtime.positions import Positions, PositionTeller, farthest_back, gone_records, positions_in


class Outside:
    """Asks the systems when they are needed, and not before."""

    def __init__(self, clusters: Clusters, place: Place, environ: Environ, store: StateStore | None = None) -> None:
        """With a `store`, offsets are kept there too."""
        self._clusters = clusters
        self._place = place
        self._environ = environ
        self._offsets = None if store is None else KeptOffsets(store, place.of_offsets)
        self._tellers: dict[str, PositionTeller] = {}

    @cached_property
    def errors(self) -> ErrorOutput:
        sink, owner = self._clusters.sink, self._place.namespace
        return DirectoryErrors(self._place.topics, owner) if sink is None else KafkaErrors(sink, owner)

    def create_topic(self, topic: TopicSpec) -> None:
        if topic.on_kafka:
            partitions, replication_factor = topic.partitions or -1, topic.replication_factor or -1
            self._admin.create(topic.name, partitions, replication_factor, wanted_config(topic))
            return
        directory = self._place.topics / topic.name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError("not-writable", f"cannot make {directory}: {error.strerror}") from error

    def change_topic(self, topic: TopicSpec, partitions: int | None, config: Mapping[str, str]) -> None:
        if partitions is not None:
            self._admin.add_partitions(topic.name, partitions)
        if config:
            self._admin.set_config(topic.name, config)

    def put_schema(self, schema: SchemaSpec) -> None:
        """Make a schema the newest of its subject, and say which changes of it are allowed."""
        assert self._clusters.source is not None
        book = self._clusters.source.schemas
        assert book is not None
        if schema.compatibility is not None:
            book.registry.set_compatibility(schema.subject, schema.compatibility)
        book.register(schema.subject, written(schema), schema.schema_type)

    def put_connector(self, connector: ConnectorSpec) -> str:
        """Make a connector, or change it. Its secrets are filled in here, and kept nowhere; the cluster that has it."""
        cluster = str(connector.cluster)
        self._clusters.connect[cluster].put(connector.name, filled_settings(connector, self._environ))
        return cluster

    def restart_connector(self, connector: ConnectorSpec) -> None:
        self._clusters.connect[str(connector.cluster)].restart(connector.name)

    def delete_connector(self, name: str, cluster: str) -> None:
        """Take a connector away that was made for the project. A cluster that nobody names any more is left alone."""
        if cluster in self._clusters.connect:
            self._clusters.connect[cluster].delete(name)

    def put_virtual_topic(self, rule: GatewayRule) -> None:
        """Make a virtual topic, or change it, and take away what it no longer has."""
        gateway = self._clusters.gateway
        assert gateway is not None
        wanted = interceptors(rule, registry_of(self._clusters))
        gateway.put(rule.virtual_topic, rule.physical_topic, wanted)
        stale = [name for name in own_interceptors(rule.virtual_topic) if name not in wanted]
        if stale:
            gateway.delete(gateway.cluster, None, stale)

    def delete_virtual_topic(self, name: str, cluster: str) -> None:
        """Take a virtual topic away that was made for the project. A gateway that nobody names any more is left."""
        if self._clusters.gateway is not None:
            self._clusters.gateway.delete(cluster, name, list(own_interceptors(name)))

    def telling(self, spec: QuerySpec) -> Callable[[Positions], None] | None:
        """How a query that reads Kafka tells how far it is."""
        source = self._clusters.source
        if source is None or all(entry.topic is None for entry in spec.inputs):
            return None
        group, followed = self._place.group(spec.name, source.group), self._teller("groups", self._commit)
        kept = self._teller("offsets", self._offsets.put) if self._offsets is not None else None

        def tell(positions: Positions) -> None:
            followed.tell(group, positions)
            for reader, topic in readers(spec):
                if kept is not None:
                    kept.tell(reader, {place: at for place, at in positions.items() if place[0] == topic})

        return tell

    def _teller(self, name: str, commit: Callable[[str, Positions], None]) -> PositionTeller:
        if name not in self._tellers:
            self._tellers[name] = PositionTeller(commit)
        return self._tellers[name]

    def _commit(self, group: str, positions: Positions) -> None:
        self._source_admin.commit(group, positions)

    @cached_property
    def _source_admin(self) -> KafkaAdmin:
        """Of the Kafka that is read."""
        assert self._clusters.source is not None
        return KafkaAdmin(self._clusters.source.kafka)

    def earliest(self, topics: Iterable[str]) -> Positions:
        """Where what topics still hold begins, of the Kafka that is read."""
        return self._source_admin.ends(topics, earliest=True)

    def check_positions(self, spec: QuerySpec, checkpoint: Path) -> None:
        """Refuse to go on where records are gone that a query has not read: it would pass over them without a word."""
        source = self._clusters.source
        if source is None or all(entry.topic is None for entry in spec.inputs):
            return
        begun = last_offsets(checkpoint)
        reached = farthest_back(map(positions_in, begun))
        if not begun:
            reached = {(topic, n): at for topic, places in self._kept(spec).items() for n, at in places.items()}
        topics = {topic for topic, _ in reached}
        if not topics:
            return
        admin = KafkaAdmin(source.kafka)
        gone = list(gone_records(reached, admin.ends(topics, earliest=True), admin.ends(topics)))
        if gone:
            hint = f"`--allow-rebuild {spec.name}` begins again with the earliest records that are there"
            raise QueryFailed("records-gone", "; ".join(gone), hint=hint)

    def begins(self, entry: Input, backfill: Backfill) -> dict[int, int]:
        """Where a topic is to be read from, by partition, after the phases before it.

        Nothing where that is all one, or is not to be asked: a job never comes to the topic.
        """
        told = {} if backfill.offset_table is None else self._told(backfill.offset_table)
        start, topic = str(entry.source.get("starting_offsets", "earliest")), str(entry.source["topic"])
        if start == "earliest" or backfill.is_all:
            return told
        assert self._clusters.source is not None
        admin = KafkaAdmin(self._clusters.source.kafka)
        places = admin.since([topic], int(start)) if start.isdigit() else admin.ends([topic])
        return {**{number: at for (_, number), at in places.items()}, **told}

    def _told(self, written: Mapping[str, Any]) -> dict[int, int]:
        """What a table says of how far the phases go."""
        assert self._clusters.clickhouse_source is not None
        table = OffsetTable.model_validate(resolved(dict(written), self._environ)[0])
        return next_offsets(self._clusters.clickhouse_source.server, table.model_dump())

    def check_begins(self, spec: QuerySpec, topic: str, begins: Mapping[int, int]) -> None:
        """Refuse to begin where records are gone that were to be read."""
        assert self._clusters.source is not None
        admin = KafkaAdmin(self._clusters.source.kafka)
        wanted = {(topic, number): at for number, at in begins.items()}
        gone = list(gone_records(wanted, admin.ends([topic], earliest=True), admin.ends([topic])))
        if gone:
            hint = f"`--allow-rebuild {spec.name}` reads everything again"
            raise QueryFailed("records-gone", "; ".join(gone), hint=hint)

    def resumed(self, spec: QuerySpec, checkpoint: Path) -> QuerySpec:
        """The query, which goes on by the offsets that were kept if it has no checkpoint."""
        if last_number(checkpoint / "offsets") is not None:
            return spec
        kept = self._kept(spec)
        inputs = tuple(
            entry.model_copy(update={"source": {**entry.source, "starting_offsets": kept[entry.topic]}})
            if entry.topic in kept and entry.backfill is None
            else entry
            for entry in spec.inputs
        )
        return spec.model_copy(update={"inputs": inputs})

    def forget_offsets(self, spec: QuerySpec) -> None:
        if self._offsets is not None:
            for reader, _ in readers(spec):
                self._offsets.forget(reader)

    def _kept(self, spec: QuerySpec) -> dict[str, dict[int, int]]:
        """How far a query has read topics by what was kept, by topic and partition."""
        if self._offsets is None:
            return {}
        told = ((topic, self._offsets.of(reader, topic)) for reader, topic in readers(spec))
        found: dict[str, dict[int, int]] = {}
        for (topic, number), at in farthest_back({(t, n): at for n, at in of.items()} for t, of in told).items():
            found.setdefault(topic, {})[number] = at
        return found

    def learned(self, failure: str) -> bool:
        """Whether a query failed for a schema that nobody had asked for, and that was asked for now."""
        book = self._clusters.source.schemas if self._clusters.source is not None else None
        number = asked_for(failure)
        if book is None or number is None or book.knows(number):
            return False
        book.learn(number)
        return True

    def close(self) -> None:
        for teller in self._tellers.values():
            teller.close()
        self._tellers.clear()

    @cached_property
    def _admin(self) -> KafkaAdmin:
        """Of the Kafka that holds the topics that are written."""
        assert self._clusters.sink is not None
        return KafkaAdmin(self._clusters.sink.kafka)
