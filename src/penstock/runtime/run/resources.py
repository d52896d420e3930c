"""The systems that the queries of a run use: offsets, topics, schemas, and dead letters."""

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from penstock.clients.clickhouse.offset_table import next_offsets
from penstock.clients.clickhouse.settings_server import source_server
from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.registry.schema_cache import SchemaArrived
from penstock.connectors.hybrid import OffsetTable
from penstock.errors import QueryFailed
from penstock.manifest.model import Backfill, Input, QuerySpec
from penstock.plan.deployed.consumer_groups import ChosenGroups, groups
from penstock.plan.deployed.offsets import OffsetStore, reader_of, readers
from penstock.plan.deployed.place import ProjectPlace, last_number
from penstock.plan.deployed.stores import StateStore
from penstock.project.yaml.variables import Environ, resolve_variables
from penstock.runtime.checkpoint.layout import last_offsets, start_offset
from penstock.runtime.checkpoint.offset_commit import (
    OffsetCommitter,
    Positions,
    describe_gone_records,
    lowest_positions,
    parse_positions,
)
from penstock.runtime.checkpoint.topic_ids import note_ids, noted_ids, recreated_topics, topics_of
from penstock.runtime.dead_letters.store import DeadLetterStore, DirectoryDeadLetters, KafkaDeadLetters
from penstock.runtime.spark.errors import unknown_schema


@dataclass(frozen=True, slots=True)
class Broker:
    """A Kafka cluster that queries of a run need, and those of its topics that they use."""

    kafka: KafkaCluster
    topics: frozenset[str]
    queries: tuple[str, ...]

    @classmethod
    def of(cls, kafka: KafkaCluster, topics: Mapping[str, frozenset[str]]) -> Self:
        """Return the cluster with the topics of each query."""
        return cls(kafka, frozenset().union(*topics.values()), tuple(name for name, of in topics.items() if of))


def _written_topics(query: QuerySpec) -> frozenset[str]:
    return frozenset(str(o.sink["topic"]) for o in query.outputs if o.sink["type"] == "kafka" and "topic" in o.sink)


@dataclass
class RunResources:
    """Access to external systems, which are contacted only when needed."""

    clusters: Clusters
    place: ProjectPlace
    environ: Environ
    store: StateStore | None = None
    """Where offsets are stored too."""
    say: Callable[[str], None] = lambda _: None
    """Prints warnings."""
    _warned: set[str] = field(default_factory=set)
    _committers: dict[str, OffsetCommitter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._offsets = None if self.store is None else OffsetStore(self.store, self.place.offsets_namespace)
        self._groups = ChosenGroups(self.clusters, self.place)

    def warn_once(self, text: str) -> None:
        """Print a warning once per run."""
        if text not in self._warned:
            self._warned.add(text)
            self.say(text)

    @cached_property
    def dead_letters(self) -> DeadLetterStore:
        sink, owner = self.clusters.sink, self.place.namespace
        return DirectoryDeadLetters(self.place.topics, owner) if sink is None else KafkaDeadLetters(sink, owner)

    def offset_listener(self, spec: QuerySpec) -> Callable[[Positions], None] | None:
        """Return the function that publishes the offsets of a query; None if the query does not read Kafka."""
        source = self.clusters.source
        if source is None or not topics_of(spec):
            return None
        shown = groups(spec, self.place, source.group)
        in_groups = self._committer("groups", lambda group, positions: self._source_admin.commit(group, positions))
        stored = self._committer("offsets", self._offsets.put) if self._offsets is not None else None

        def publish_offsets(positions: Positions) -> None:
            for group, topics in shown.items():
                in_groups.submit_positions(group, {place: at for place, at in positions.items() if place[0] in topics})
            for reader, topic in readers(spec):
                if stored is not None:
                    stored.submit_positions(reader, {place: at for place, at in positions.items() if place[0] == topic})

        return publish_offsets

    def _committer(self, name: str, commit: Callable[[str, Positions], None]) -> OffsetCommitter:
        if name not in self._committers:
            self._committers[name] = OffsetCommitter(commit, self.say)
        return self._committers[name]

    @cached_property
    def _source_admin(self) -> KafkaAdmin:
        assert self.clusters.source is not None
        return KafkaAdmin(self.clusters.source.kafka)

    @property
    def is_embedded(self) -> bool:
        """Whether topics are directories."""
        return self.clusters.sink is None and self.clusters.source is None

    def read_topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Return the current state of topics in the cluster that is read."""
        return self._source_admin.describe_topics(names)

    def brokers(self, queries: Collection[QuerySpec]) -> list[Broker]:
        """Return the clusters that these queries read from or write to, each once."""
        source, sink = self.clusters.source, self.clusters.sink
        read = {query.name: frozenset(topics_of(query)) for query in queries}
        written = {query.name: _written_topics(query) for query in queries}
        if source is not None and sink is not None and source.kafka == sink.kafka:
            read, written = {name: topics | written[name] for name, topics in read.items()}, {}
        asked = ((source, read), (sink, written))
        brokers = [Broker.of(cluster.kafka, topics) for cluster, topics in asked if cluster is not None]
        return [broker for broker in brokers if broker.topics]

    def earliest_offsets(self, topics: Iterable[str]) -> Positions:
        """Return the earliest offsets of topics in the cluster that is read."""
        return self._source_admin.ends(topics, earliest=True)

    def check_positions(self, spec: QuerySpec, checkpoint: Path) -> None:
        """Refuse to resume if unread records no longer exist: they would be skipped without notice."""
        source = self.clusters.source
        if source is None or not topics_of(spec):
            return
        begun = last_offsets(checkpoint)
        reached = lowest_positions(map(parse_positions, begun))
        if not begun:
            stored = self._stored_offsets(spec)
            reached = {(topic, number): at for topic, of in stored.items() for number, at in of.items()}
        hint = f"`--allow-rebuild {spec.name}` begins again with the earliest records that are there"
        # The start of a topic that follows other phases was determined in the topic that existed then.
        later = {e.topic for e in spec.inputs if e.backfill and start_offset(checkpoint, e.name) is None}
        self._check_offsets(spec, checkpoint, reached, hint, later)

    def _check_offsets(
        self, spec: QuerySpec, checkpoint: Path, reached: Positions, hint: str, later: Set[str | None] = frozenset()
    ) -> None:
        """Refuse topics that do not continue from the reached positions, and record their ids. Topics in `later` keep
        their recorded ids."""
        admin, topics = self._source_admin, {topic for topic, _ in reached}
        found = admin.describe_topics({*topics, *topics_of(spec)})
        ids = {name: state.id for name, state in found.items() if state.id is not None}
        stored = self._stored_ids(spec)
        noted = {**stored, **noted_ids(checkpoint)}
        if topics:
            anew = recreated_topics(noted, ids)
            gone = list(describe_gone_records(reached, admin.ends(topics, earliest=True), admin.ends(topics), anew))
            if gone:
                raise QueryFailed("records-gone", "; ".join(gone), hint=hint)
        ids = {name: noted.get(name, number) if name in later else number for name, number in ids.items()}
        note_ids(checkpoint, ids)
        for reader, topic in readers(spec):
            if self._offsets is not None and ids.get(topic) != stored.get(topic):
                self._offsets.put_id(reader, topic, ids.get(topic))

    def _stored_ids(self, spec: QuerySpec) -> dict[str, str]:
        """Return the ids of the topics that stored offsets belong to."""
        if self._offsets is None:
            return {}
        found = {topic: self._offsets.id_of(reader, topic) for reader, topic in readers(spec)}
        return {topic: number for topic, number in found.items() if number is not None}

    def start_offsets(self, entry: Input, backfill: Backfill) -> dict[int, int]:
        """Return the offsets from which a topic is read after the phases before it, by partition.

        Empty if the start is not fixed, or for a job, which never reads the topic.
        """
        covered = {} if backfill.offset_table is None else self._table_offsets(backfill.offset_table)
        return covered if backfill.is_all else {**self._configured_offsets(entry), **covered}

    def _configured_offsets(self, entry: Input) -> dict[int, int]:
        """Return the start that a source configures, by partition; empty for the earliest records."""
        source = resolve_variables(dict(entry.source), self.environ)[0]
        given, topic = source.get("starting_offsets", "earliest"), str(source["topic"])
        if isinstance(given, dict):
            return {int(number): int(at) for number, at in given.items()}
        start = str(given)
        if start == "earliest":
            return {}
        admin = self._source_admin
        places = admin.offsets_since([topic], int(start)) if start.isdigit() else admin.ends([topic])
        return {number: at for (_, number), at in places.items()}

    def _table_offsets(self, written: Mapping[str, Any]) -> dict[int, int]:
        """Return the offsets after the phases, from an offset table."""
        table = OffsetTable.model_validate(resolve_variables(dict(written), self.environ)[0])
        return next_offsets(source_server(self.clusters.settings).server, table.model_dump())

    def check_start_offsets(self, spec: QuerySpec, checkpoint: Path, topic: str, begins: Mapping[int, int]) -> None:
        """Refuse to begin if records that should be read no longer exist."""
        wanted = {(topic, number): at for number, at in begins.items()}
        self._check_offsets(spec, checkpoint, wanted, f"`--allow-rebuild {spec.name}` reads everything again")

    def resume_query(self, spec: QuerySpec, whole: QuerySpec, checkpoint: Path) -> QuerySpec:
        """Return the query, which resumes at the stored offsets if it has no checkpoint.

        Inputs that `whole` defines as backfills have the start of their topic already.
        """
        if last_number(checkpoint / "offsets") is not None:
            return spec
        stored = self._stored_offsets(whole)
        inputs = list(spec.inputs)
        for at, (entry, as_written) in enumerate(zip(spec.inputs, whole.inputs, strict=True)):
            if entry.topic in stored and as_written.backfill is None:
                source = {**entry.source, "starting_offsets": self._merge_offsets(spec, entry, stored)}
                inputs[at] = entry.model_copy(update={"source": source})
        return spec.model_copy(update={"inputs": tuple(inputs)})

    def _merge_offsets(self, spec: QuerySpec, entry: Input, stored: Mapping[str, Mapping[int, int]]) -> dict[int, int]:
        """Return where to begin. A partition that the store does not know is newer, and is read from its first record;
        if a consumer group does not know a partition, nothing of it was read, and the source configures the start."""
        assert entry.topic is not None
        assert self._offsets is not None
        in_store = any(self._offsets.of(*each) for each in readers(spec) if each[1] == entry.topic)
        return {**({} if in_store else self._configured_offsets(entry)), **stored[entry.topic]}

    def resume_offsets(self, spec: QuerySpec, entry: Input, backfill: Backfill) -> dict[int, int]:
        """Return the stored offsets of an input that has read all its phases and some of its topic; empty otherwise."""
        if self._offsets is None or spec.stateful:
            return {}
        done = self._offsets.phases().get(reader_of(spec, entry), frozenset())
        is_done = all(phase.name in done for phase in backfill.phases)
        return self._offsets.of(reader_of(spec, entry), str(entry.topic)) if is_done else {}

    def note_phases(self, spec: QuerySpec, entry: Input, backfill: Backfill) -> None:
        """Record that an input has read all its phases."""
        if self._offsets is not None:
            self._offsets.put_phases(reader_of(spec, entry), [phase.name for phase in backfill.phases])

    def forget_offsets(self, spec: QuerySpec) -> None:
        if self._offsets is not None:
            self._groups.forget(spec)
            for reader, _ in readers(spec):
                self._offsets.forget(reader)

    def _stored_offsets(self, spec: QuerySpec) -> dict[str, dict[int, int]]:
        """Return the stored offsets of a query, by topic and partition: from the store, else from a consumer group."""
        if self._offsets is None or spec.stateful:
            return {}
        groups, known = self._groups.of(spec), list[Positions]()
        backfilled = {entry.topic for entry in spec.inputs if entry.backfill is not None}
        for reader, topic in (each for each in readers(spec) if each[1] not in backfilled):
            offsets = {**groups.get((reader, topic), {}), **self._offsets.of(reader, topic)}
            known.append({(topic, number): at for number, at in offsets.items()})
        found: dict[str, dict[int, int]] = {}
        for (topic, number), at in lowest_positions(known).items():
            found.setdefault(topic, {})[number] = at
        return found

    def resolve_schema(self, failure: Exception) -> bool:
        return resolve_schema(self.clusters, failure)

    def ask_for_schemas(self) -> None:
        """Ask again for schemas that the registry did not have."""
        if self.clusters.source is not None and self.clusters.source.schemas is not None:
            self.clusters.source.schemas.refresh_missing()

    def close(self) -> None:
        for committer in self._committers.values():
            committer.close()
        self._committers.clear()


def resolve_schema(clusters: Clusters, failure: Exception) -> bool:
    """Whether a query failed for lack of a schema that is known from now on, or known to be missing."""
    number = unknown_schema(failure)
    return isinstance(failure, SchemaArrived) or (number is not None and clusters.resolve_schema(number))
