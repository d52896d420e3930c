"""Finds what no query uses any more: checkpoints, heartbeats, and topics of removed queries."""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from penstock.clients.clusters import Clusters
from penstock.clients.files.batch_directory import NOTE
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.rows.topic_names import dead_letter_topic
from penstock.errors import ServiceError
from penstock.manifest.model import Manifest
from penstock.plan.changes.renames import read_former_names
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import read_retired_queries
from penstock.plan.deployed.stores import StateStore


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something to remove. `path` is its location; None for a Kafka topic."""

    kind: Literal["checkpoint", "heartbeats", "topic", "kafka topic"]
    name: str
    reason: str
    path: Path | None = None

    @property
    def bytes(self) -> int | None:
        """Its size on disk."""
        files = () if self.path is None else (file for file in self.path.rglob("*") if file.is_file())
        return None if self.path is None else sum(file.stat().st_size for file in files)


def find_leftovers(manifest: Manifest, place: ProjectPlace, store: StateStore, clusters: Clusters) -> list[Leftover]:
    """The leftovers of a project's own queries. Foreign files are ignored."""
    retired = read_retired_queries(store, place)
    found = [*_directories(manifest, place), *_topics(manifest, place, _dead_letter_topics(manifest, place, store))]
    return [*found, *_kafka_topics(manifest, retired, clusters)]


def remove_leftover(leftover: Leftover, clusters: Clusters) -> None:
    if leftover.path is None:
        assert clusters.sink is not None
        KafkaAdmin(clusters.sink.kafka).delete(leftover.name)
        return
    try:
        shutil.rmtree(leftover.path)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot remove {leftover.path}: {error.strerror or error}") from error


def _directories(manifest: Manifest, place: ProjectPlace) -> Iterator[Leftover]:
    """Checkpoints and heartbeats of removed queries, and checkpoints that rebuilds have set aside."""
    queries = [query.name for query in manifest.queries]
    checkpoints = {place.checkpoint(name).name for name in queries}
    beats = {place.heartbeat_directory(name).name for name in queries}
    for path in _folders(place.checkpoint("x").parent):
        if path.name not in checkpoints:
            of, sign, _ = path.name.rpartition("@")
            aside = bool(sign) and of in checkpoints
            reason = f"a rebuild of `{unquote(of)}` has set it aside" if aside else "no query has this name any more"
            yield Leftover("checkpoint", unquote(path.name), reason, path)
    for path in _folders(place.heartbeat_directory("x").parent):
        if path.name not in beats:
            yield Leftover("heartbeats", unquote(path.name), "no query has this name any more", path)


def _dead_letter_topics(manifest: Manifest, place: ProjectPlace, store: StateStore) -> Collection[str]:
    """The error topics of the project, including those under former names of models."""
    nodes = {entry.node for query in manifest.queries for entry in query.inputs}
    nodes |= {output.node for query in manifest.queries for output in query.outputs}
    former = (f"model.{old}" for old, new in read_former_names(store, place).items() if f"model.{new}" in nodes)
    return {dead_letter_topic(node) for node in (*nodes, *former)}


def _topics(manifest: Manifest, place: ProjectPlace, dead_letters: Collection[str]) -> Iterator[Leftover]:
    """Embedded topics that a checkpoint of this project has written and that nothing in it uses, except error
    topics."""
    used = {*_used_topics(manifest), *dead_letters}
    own = {known for path in _folders(place.checkpoint("x").parent) if (known := _id(path / "metadata"))}
    for path in _folders(place.topics):
        writers = {_id(note, "checkpoint_id") for note in path.glob(f"*/{NOTE}")}
        if path.name not in used and writers and writers <= own:
            reason = "a query of this project wrote it, and nothing reads or writes it now"
            yield Leftover("topic", path.name, reason, path)


def _kafka_topics(
    manifest: Manifest, retired: Mapping[str, Mapping[str, Any]], clusters: Clusters
) -> Iterator[Leftover]:
    """Kafka topics that removed queries have written."""
    used = _used_topics(manifest)
    sinks = [(name, output["sink"]) for name, query in retired.items() for output in query.get("outputs", ())]
    written = {str(s["topic"]): name for name, s in sinks if s["type"] == "kafka" and s["topic"] not in used}
    if written and clusters.sink is not None:
        there = KafkaAdmin(clusters.sink.kafka).topics()
        for topic, query in written.items():
            if topic in there:
                yield Leftover("kafka topic", topic, f"`{query}`, which is gone, wrote it")


def _used_topics(manifest: Manifest) -> Collection[str]:
    """Every topic that something in the project reads or writes."""
    read = [source.get("topic") for query in manifest.queries for entry in query.inputs for source in entry.sources]
    streams = [stream.get("topic") for stream in manifest.streams.values()]
    return {str(topic) for topic in (*read, *streams, *(topic.name for topic in manifest.topics)) if topic}


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def _id(file: Path, field: str = "id") -> str | None:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))[field])
    except (OSError, ValueError, KeyError, TypeError):
        return None
