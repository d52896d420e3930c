"""`errors replay`: replays the dead letters of a node, in chunks, to the outputs that lack them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from pyspark.sql import SparkSession

from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.model import GONE, REFUSED, RULE_FAILED, UNREAD, DeadLetter
from penstock.errors import PlanRefused
from penstock.manifest.model import Manifest, QuerySpec
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import record_replay_progress
from penstock.plan.deployed.stores import StateStore
from penstock.project.yaml.variables import Environ
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.replay.output_replay import OutputReplay, ReplayResult, has_failed_one_sink
from penstock.runtime.run.resources import RunResources

_AT_ONCE: Final = 10_000
_BYTES_AT_ONCE: Final = 64 * 2**20
_STAY: Final[Mapping[str, str]] = {
    REFUSED: "rows that a system refused are stored as they would have been written, without their records",
    RULE_FAILED: "rows that broke a test are stored as they would have been written, without their records",
    UNREAD: "of files that could not be read, only the names are stored: put them back under other names",
    GONE: "of records that were deleted, only the range of offsets is stored",
}
"""Kinds of dead letters that hold no record to replay, with the reason."""


def replay_refusal(query: QuerySpec) -> str | None:
    """Return why records cannot be replayed through a query outside its stream; None if they can."""
    if not query.stateful and len(query.streams) == 1:
        return None
    text = f"`{query.name}` keeps state or has several inputs, so records cannot be replayed outside its stream"
    return f"{text}; write them to their topic again"


def replay_dead_letters(
    manifest: Manifest,
    node: str,
    dead_letters: Iterable[DeadLetter],
    spark: SparkSession,
    place: ProjectPlace,
    store: StateStore,
    environ: Environ,
    clusters: Clusters,
    *,
    overwrite: bool = False,
) -> ReplayResult:
    """Replay a node's dead letters, which are in order, and record the progress. Some cannot be replayed, and wait.

    Unless `overwrite` is set, dead letters are skipped if a newer record of their key exists.
    """
    left: Counter[str] = Counter()
    query = manifest.producer(node)
    why = f"`{node}` has no query that processes records" if query is None else replay_refusal(query)
    if query is None or why is not None:
        return ReplayResult(0, 0, {str(why): sum(1 for _ in dead_letters)})
    resolver = ConfigResolver(place.root, environ, clusters)
    frames = Frames(manifest, place.root, spark, resolver)
    resources = RunResources(clusters, place, environ)
    replays = {output.node: OutputReplay(query, output.node, frames, resolver, resources) for output in query.outputs}
    done = ReplayResult(0, 0)
    chunks = _chunks(_select_replayable(dead_letters, left))
    for some in chunks:
        targets = [replays[node]] if has_failed_one_sink(some[0]) else replays.values()
        try:
            records, gone = replays[node].restore_records(some)
            done = replace(done, failed=done.failed + gone)
            chosen = [(to, records if overwrite else to.drop_superseded(records)) for to in targets if records]
            for number, (to, current) in enumerate(chosen):
                ref, superseded = to.batch_ref(some), done.superseded + len(records) - len(current)
                found = to.deliver(current, ref, first=number == 0) if current else ReplayResult(0, 0)
                done = ReplayResult(done.written + found.written, done.failed + found.failed, superseded=superseded)
        except PlanRefused as refusal:
            left[refusal.message] += len(some) + sum(map(len, chunks))
            break
        record_replay_progress(store, place, some)
    return replace(done, left=dict(left))


def _select_replayable(dead_letters: Iterable[DeadLetter], left: Counter[str]) -> Iterator[DeadLetter]:
    """Yield the dead letters that hold a record, and count the others."""
    for dead_letter in dead_letters:
        why = _STAY.get(dead_letter.kind)
        if why is None:
            yield dead_letter
        else:
            left[why] += 1


def _chunks(dead_letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Split dead letters into chunks that fit into memory, each for the same sinks."""
    for _, alike in groupby(dead_letters, has_failed_one_sink):
        some: list[DeadLetter] = []
        size = 0
        for dead_letter in alike:
            some.append(dead_letter)
            size += len(dead_letter.value or b"")
            if len(some) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                yield some
                some, size = [], 0
        if some:
            yield some
