"""Records that could not be used, delivered again: through the same SQL and into the same sink, beside the stream."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.batches import BatchRef
from penstock.clients.clusters import Clusters
from penstock.clients.letters import Letter
from penstock.connectors.contract import ERROR, Sink, Source
from penstock.errors import PlanRefused, QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Input, Manifest, Output, QuerySpec
from penstock.plan.place import Place
from penstock.plan.state import read_delivered, record_delivered
from penstock.plan.stores import StateStore
from penstock.project.variables import Environ
from penstock.runtime import rejects, rules
from penstock.runtime.decoding import sound
from penstock.runtime.failures import SPARK_ERRORS, failure_of, is_for_rows
from penstock.runtime.filling import Filling
from penstock.runtime.frames import Frames
from penstock.runtime.outside import Outside
from penstock.runtime.rescue import faulty, only, without
from penstock.runtime.settling import as_wanted

_AT_ONCE: Final = 10_000
_RECORD: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, place BIGINT"
)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many rows were written, and how many records could not be used this time either."""

    written: int
    failed: int


def refused(query: QuerySpec, letters: Sequence[Letter]) -> PlanRefused | None:
    """Why records cannot go through a query beside its stream. Of several sinks, only one has failed over a row."""
    streams = [entry for entry in query.inputs if not entry.static]
    for_one = len(query.outputs) == 1 or all(letter.about["code"] == rejects.FAILED for letter in letters)
    if not query.stateful and len(streams) == 1 and for_one:
        return None
    text = f"`{query.name}` remembers rows, or has several inputs or sinks: no record goes through it beside the stream"
    return PlanRefused(
        "not-runnable-here", text, hint="write the records into their topic again, as their writer would"
    )


class Replay:
    """Delivers letters of one query again, to one of its outputs. What fails once more is kept once more."""

    def __init__(self, query: QuerySpec, node: str, frames: Frames, filling: Filling, outside: Outside) -> None:
        self._query = query.model_copy(update={"checks": ()})  # rows that fail are found here one by one, and kept
        self._frames = frames
        self._outside = outside
        self._entry: Input = next(entry for entry in query.inputs if not entry.static)
        self._sources: list[Source] = frames.sources(query)
        self._source = self._sources[query.inputs.index(self._entry)]
        self._output: Output = next(output for output in query.outputs if output.node == node)
        self._sink: Sink = filling.sink(self._output.sink, self._output.node)

    def deliver(self, letters: Sequence[Letter]) -> Replayed:
        """Deliver these letters. The same ones again are known for the same by sinks that know batches.

        What cannot be read is found first, so that nothing is written yet when a schema turns out to be a new one.
        """
        while True:
            try:
                return self._deliver(letters, self._frames.session())
            except SPARK_ERRORS as error:
                if not self._outside.learned(str(error)):
                    raise failure_of(error).during(f"delivering records to `{self._query.name}` again") from error

    def _deliver(self, letters: Sequence[Letter], session: SparkSession) -> Replayed:
        records = session.createDataFrame([_record(letter, place) for place, letter in enumerate(letters)], _RECORD)
        found = self._source.rows_of(records)
        if found is None:
            text = f"records of the connector `{self._source.type}` cannot be delivered again"
            raise PlanRefused("not-runnable-here", text)
        ref, node = self._ref(letters), self._output.node
        failed = 0
        if ERROR in found.columns:
            letters_again = rejects.unreadable(found, self._entry, node)
            failed += letters_again.count() and self._outside.errors.write(self._entry.node, letters_again, ref)
        rows = sound(found)
        try:
            written, broken = self._write(self._worked(rows), ref)
            return Replayed(written, failed + broken)
        except (*SPARK_ERRORS, QueryFailed) as error:
            if not is_for_rows(error):
                raise
        numbered, wrong = faulty(rows, lambda some: self._sink.rehearse(self._worked(some), ref))
        try:
            kept = rejects.failed(only(numbered, wrong).drop(*ORDER), self._entry, node)
            failed += self._outside.errors.write(node, kept, ref)
            written, broken = self._write(self._worked(without(numbered, list(wrong))), ref)
            return Replayed(written, failed + broken)
        finally:
            numbered.unpersist()

    def _write(self, rows: DataFrame, ref: BatchRef) -> tuple[int, int]:
        """Write the rows that meet the rules of the output, and keep the others. How many these and those were."""
        output = self._output
        if not output.rules:
            return self._sink.write(rows, ref), 0
        marked = rules.marked(rows, output.rules).persist()
        try:
            breaking = rejects.breaking(rules.breaking(marked), output.node)
            broken = breaking.count() and self._outside.errors.write(output.node, breaking, replace(ref, batch_id=1))
            return self._sink.write(rules.meeting(marked), ref), broken
        finally:
            marked.unpersist()

    def _worked(self, rows: DataFrame) -> DataFrame:
        session = rows.sparkSession
        if self._entry.ordered:
            zero = f.lit(0).cast("bigint")
            rows = rows.withColumns(
                dict(zip(ORDER, (zero, f.lit(""), f.monotonically_increasing_id(), zero), strict=True))
            )
        output = self._output
        views = self._frames.worked_from(self._query, self._sources, {self._entry.view: rows}, session, untimed=True)
        return as_wanted(views[output.view], output, self._sink)

    def _ref(self, letters: Sequence[Letter]) -> BatchRef:
        places = tuple(f"{letter.kept_in} {letter.part} {letter.place}" for letter in letters)
        digest = hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]
        return BatchRef(self._query.name, self._output.node, f"replay-{digest}", 0, (digest,))


def _record(letter: Letter, place: int) -> tuple[object, ...]:
    about = letter.about
    time = None if about["timestamp"] is None else datetime.fromisoformat(about["timestamp"])
    where = (about["topic"], about["partition"], about["offset"], time)
    return (_bytes(letter.key), _bytes(letter.value), *where, [*letter.headers], place)


def _bytes(data: bytes | None) -> bytearray | None:
    return None if data is None else bytearray(data)


def replayed(
    manifest: Manifest,
    node: str,
    letters: Sequence[Letter],
    spark: SparkSession,
    place: Place,
    store: StateStore,
    environ: Environ,
    clusters: Clusters,
) -> Replayed:
    """Deliver the letters of a node again, and note how far."""
    query = manifest.producer(node)
    if query is None:
        raise PlanRefused("unknown-node", f"`{node}` has no query that could take records")
    if (refusal := refused(query, letters)) is not None:
        raise refusal
    if any(letter.about["code"] in rejects.AS_WRITTEN for letter in letters):
        text = f"rows of `{node}` that were refused, or broke a test, are kept as they were to be written, not as read"
        raise PlanRefused("not-runnable-here", text, hint="mend what refused them, and rebuild the query")
    if any(letter.about["code"] == rejects.UNREAD for letter in letters):
        text = f"files of `{node}` that could not be read are only kept by their names"
        raise PlanRefused("not-runnable-here", text, hint="mend them, and put them back under other names")
    filling = Filling(place.root, environ, clusters)
    frames = Frames(manifest, place.root, spark, filling)
    work = Replay(query, node, frames, filling, Outside(clusters, place, environ))
    done = Replayed(0, 0)
    for begin in range(0, len(letters), _AT_ONCE):
        some = letters[begin : begin + _AT_ONCE]
        found = work.deliver(some)
        done = Replayed(done.written + found.written, done.failed + found.failed)
        _note(store, place, node, some)
    return done


def _note(store: StateStore, place: Place, node: str, letters: Sequence[Letter]) -> None:
    """Letters stand in the order in which they are delivered, so the last of each part tells how far it is done."""
    before = read_delivered(store, place)
    for topic in {letter.kept_in for letter in letters}:
        reached = {letter.part: letter.place + 1 for letter in letters if letter.kept_in == topic}
        record_delivered(store, place, topic, node, {**before.get((topic, node), {}), **reached})
