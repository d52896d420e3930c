"""Deployed state: the started queries, their revision and their progress, as JSON documents in a store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import ValidationError

from penstock.clients.dead_letters.model import NOTHING as NO_LETTERS
from penstock.clients.dead_letters.model import DeadLetter, ReplayProgress
from penstock.errors import ServiceError
from penstock.manifest.model import QuerySpec
from penstock.plan.deployed.checkpoint_damage import Damage, find_damage
from penstock.plan.deployed.offsets import OffsetStore
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state_origin import StateOrigin, read_origin
from penstock.plan.deployed.stores import StateStore


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`begun`: a batch was committed. `unfinished`: a batch was planned that is not committed. `origin`: the initial
    layout of its state, if it is known."""

    begun: bool
    unfinished: bool
    origin: StateOrigin | None = None


@dataclass(frozen=True, slots=True)
class DeployedState:
    """What earlier runs left: queries with their full definition, topics, checkpoints by query name. `filled` are
    topics with rows of a query. `moved_from` is the directory in which the checkpoints began, if the project was moved.
    `connectors` are those that the project created, with their cluster; `virtual_topics` likewise, with the virtual
    cluster of the gateway."""

    queries: Mapping[str, QuerySpec] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    moved_from: str | None = None
    connectors: Mapping[str, str] = field(default_factory=dict)
    virtual_topics: Mapping[str, str] = field(default_factory=dict)
    offsets: frozenset[tuple[str, str]] = frozenset()
    """The readers and topics with offsets in the store."""
    grouped: frozenset[tuple[str, str]] = frozenset()
    """The readers and topics with offsets in a configured consumer group."""
    phases: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The finished backfill phases of readers."""
    damaged: Mapping[str, Damage] = field(default_factory=dict)
    """Damaged checkpoints, by query name."""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The locations that variables named at the last run, by query and by reader or sink."""
    filled_on_kafka: frozenset[str] = frozenset()
    """Kafka topics with rows of a query. `filled` are directories."""

    def holds_rows(self, sink: Mapping[str, Any]) -> bool:
        """Whether the topic of a sink already holds rows of a query."""
        filled = self.filled_on_kafka if sink["type"] == "kafka" else self.filled
        return sink.get("topic") in filled


NOTHING: Final = DeployedState()


def read_deployed_state(store: StateStore, place: ProjectPlace) -> DeployedState:
    documents = store.get(place.namespace, "")
    try:
        queries = {
            key.removeprefix("query:"): QuerySpec.model_validate(document)
            for key, document in documents.items()
            if key.startswith("query:")
        }
    except ValidationError as error:
        text = f"{store} was written by another version: {error.error_count()} fields do not fit"
        hint = "run the version that wrote it, or move it away and allow rebuilds"
        raise ServiceError("state-unreadable", text, hint=hint) from error
    root = documents.get("root")
    offsets = OffsetStore(store, place.offsets_namespace) if place.is_of_pipeline else None
    return DeployedState(
        queries,
        frozenset(place.existing_topics()),
        frozenset(place.filled_topics()),
        {name: _checkpoint(place, name) for name in place.existing_checkpoints()} if store.lasts else {},
        root if root is not None and root != str(place.root) else None,
        _clusters(documents, "connector"),
        _clusters(documents, "virtual-topic"),
        offsets.known_readers() if offsets else frozenset(),
        phases=offsets.phases() if offsets else {},
        places={k.removeprefix(_PLACES): d for k, d in documents.items() if k.startswith(_PLACES)},
        damaged=_find_damages(queries.values(), place) if store.lasts else {},
    )


def _find_damages(queries: Iterable[QuerySpec], place: ProjectPlace) -> dict[str, Damage]:
    found = {query.name: find_damage(place.checkpoint(query.name), batch_outputs(query, place)) for query in queries}
    return {name: damage for name, damage in found.items() if damage is not None}


def batch_outputs(query: QuerySpec, place: ProjectPlace) -> tuple[Path, ...]:
    """The directories of embedded topics that a query writes batches to."""
    topics = (output.sink.get("topic") for output in query.outputs if output.sink["type"] == "topic")
    return tuple(place.topics / str(topic) for topic in topics)


_PLACES: Final = "places:"
ResourceKind: TypeAlias = Literal["connector", "virtual-topic"]


def _clusters(documents: Mapping[str, Any], kind: ResourceKind) -> dict[str, str]:
    """The clusters of the resources that the project created, by name."""
    prefix = f"{kind}:"
    return {key.removeprefix(prefix): d["cluster"] for key, d in documents.items() if key.startswith(prefix)}


def _checkpoint(place: ProjectPlace, query: str) -> Checkpoint:
    planned, committed = place.last_batch(query, "offsets"), place.last_batch(query, "commits")
    origin = read_origin(place.checkpoint(query))
    return Checkpoint(begun=committed >= 0, unfinished=planned > committed, origin=origin)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of a run: `run` about the process, `progress` by query name."""

    revision: str | None
    run: Mapping[str, Any]
    progress: Mapping[str, Mapping[str, Any]]


def read_run_record(store: StateStore, place: ProjectPlace) -> RunRecord:
    documents = store.get(place.namespace, "")
    progress = {k.removeprefix("progress:"): d for k, d in documents.items() if k.startswith("progress:")}
    return RunRecord(documents.get("revision"), documents.get("run", {}), progress)


def read_replay_progress(store: StateStore, place: ProjectPlace) -> dict[tuple[str, str], ReplayProgress]:
    """The replay progress of dead letters, by error topic and node."""
    found = store.get(place.namespace, "delivered:").values()
    return {(d["topic"], d["node"]): ReplayProgress(d["parts"], d.get("codes", {}), d.get("topic_id")) for d in found}


def record_replay_progress(store: StateStore, place: ProjectPlace, dead_letters: Sequence[DeadLetter]) -> None:
    """Record dead letters as replayed or discarded. They must be in order, without pending ones of the same kind in
    between."""
    known = read_replay_progress(store, place)
    for topic, node in {(dead_letter.kept_in, dead_letter.node) for dead_letter in dead_letters}:
        some = (dead_letter for dead_letter in dead_letters if (dead_letter.kept_in, dead_letter.node) == (topic, node))
        delivered = known.get((topic, node), NO_LETTERS).add_dead_letters(some)
        places = {"parts": delivered.parts, "codes": delivered.kinds, "topic_id": delivered.topic_id}
        document = {"topic": topic, "node": node, **places}
        store.put(place.namespace, {f"delivered:{topic}:{node}": document})


def record_query(store: StateStore, place: ProjectPlace, revision: str, query: QuerySpec) -> None:
    documents = {"revision": revision, "root": str(place.root), f"query:{query.name}": query.to_document()}
    store.put(place.namespace, documents)


def record_places(store: StateStore, place: ProjectPlace, query: str, places: Mapping[str, str]) -> None:
    """Record the locations that variables name, before a query runs."""
    if places:
        store.put(place.namespace, {_PLACES + query: dict(places)})


def record_resource(store: StateStore, place: ProjectPlace, kind: ResourceKind, name: str, cluster: str) -> None:
    """Record that the project created a resource in a cluster."""
    store.put(place.namespace, {f"{kind}:{name}": {"cluster": cluster}})


def forget_resource(store: StateStore, place: ProjectPlace, kind: ResourceKind, name: str) -> None:
    store.remove(place.namespace, [f"{kind}:{name}"])


def record_progress(
    store: StateStore, place: ProjectPlace, run: Mapping[str, Any], progress: Mapping[str, Mapping[str, Any]]
) -> None:
    store.put(place.namespace, {"run": run, **{f"progress:{name}": rows for name, rows in progress.items()}})


_RETIRED: Final = "retired:"


def read_retired_queries(store: StateStore, place: ProjectPlace) -> dict[str, Mapping[str, Any]]:
    """The removed queries, as they last ran."""
    return {key.removeprefix(_RETIRED): d for key, d in store.get(place.namespace, _RETIRED).items()}


def forget_retired_queries(store: StateStore, place: ProjectPlace) -> None:
    store.remove(place.namespace, [_RETIRED + name for name in read_retired_queries(store, place)])


def retire_query(store: StateStore, place: ProjectPlace, name: str) -> None:
    """Record a query as retired: its checkpoint and topics still exist."""
    known = store.get(place.namespace, f"query:{name}").get(f"query:{name}")
    if known is not None:
        store.put(place.namespace, {_RETIRED + name: known})
    forget_query(store, place, name)


def forget_query(store: StateStore, place: ProjectPlace, name: str) -> None:
    store.remove(place.namespace, [f"query:{name}", f"progress:{name}", _PLACES + name])
    if place.is_of_pipeline:
        OffsetStore(store, place.offsets_namespace).forget(name)
