"""Records that could not be used, delivered again: through the same SQL and into the same sink, beside the stream."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.model import GONE, REFUSED, RULE_FAILED, UNREAD, Letter
from penstock.clients.files.batch_directory import BatchRef
from penstock.connectors.contract import ERROR, Sink, Source
from penstock.errors import PlanRefused, QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Input, Manifest, Output, QuerySpec
from penstock.plan.place import Place
from penstock.plan.state import record_delivered
from penstock.plan.stores import StateStore
from penstock.project.variables import Environ
from penstock.runtime.batch import row_rules
from penstock.runtime.batch.compaction import as_wanted
from penstock.runtime.dead_letters import rejections
from penstock.runtime.dead_letters.bisect import PLACE, Faults, faulty, together
from penstock.runtime.dead_letters.masking import cover_failure, errors_of
from penstock.runtime.dead_letters.restore import restored
from penstock.runtime.dead_letters.superseded import newer_rows, superseded
from penstock.runtime.dead_letters.trial_run import WayOut
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.decode_errors import sound
from penstock.runtime.query.resolve_config import Filling
from penstock.runtime.run.resources import Outside
from penstock.runtime.spark.errors import SPARK_ERRORS, failure_of, is_for_rows

_Done = TypeVar("_Done")
_AT_ONCE: Final = 10_000
_BYTES_AT_ONCE: Final = 64 * 2**20
_RECORD: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, place BIGINT"
)


_OVERWRITES: Final = (
    "they would replace rows of `{}` by key, and it cannot be told which are newer: `--overwrite` replays them anyway"
)
_STAY: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (REFUSED, RULE_FAILED), "rows that were refused, or broke a test, are kept as they were to be written"
    ),
    UNREAD: "files that could not be read are only kept by their names: put them back under other names",
    GONE: "records that are gone are only known by their range",
}
"""Kinds of letters that have no record to deliver, and why."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many rows were written, how many records could not be used this time either, how many wait as before, by why,
    and how many were passed over because a newer record of their key has come since."""

    written: int
    failed: int
    left: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0


def refused(query: QuerySpec) -> str | None:
    """Why no record can go through a query beside its stream."""
    streams = [entry for entry in query.inputs if not entry.static]
    if not query.stateful and len(streams) == 1:
        return None
    text = f"`{query.name}` remembers rows, or has several inputs: no record goes through it beside the stream"
    return f"{text}; write them into their topic again, as their writer would"


class Replay:
    """Delivers letters of one query again, to one of its outputs. What fails once more is kept once more."""

    def __init__(self, query: QuerySpec, node: str, frames: Frames, filling: Filling, outside: Outside) -> None:
        self._query = query.model_copy(update={"checks": ()})  # rows that fail are found here one by one, and kept
        self._frames = frames
        self._outside = outside
        self._errors = errors_of(query, outside.errors)
        self._entry: Input = next(entry for entry in query.inputs if not entry.static)
        self._sources: list[Source] = frames.sources(query)
        self._source = self._sources[query.inputs.index(self._entry)]
        self._output: Output = next(output for output in query.outputs if output.node == node)
        self._sink: Sink = filling.sink(self._output.sink, self._output.node)

    def restored(self, letters: Sequence[Letter]) -> tuple[list[Letter], int]:
        """The letters, each with its record, and how many records are gone. Letters about those are kept once more."""
        session = self._frames.session()
        found, gone = restored(letters, self._source, self._entry.name, session, self._outside.source_cluster)
        if gone:
            node = self._output.node
            kept_by = node if _has_failed_one_sink(gone[0]) else self._entry.node
            self._outside.errors.write(
                kept_by, rejections.lost(session, gone, node), replace(self.ref(gone), batch_id=4)
            )
        return found, len(gone)

    def current(self, letters: Sequence[Letter]) -> Sequence[Letter]:
        """Leave out the letters of whose keys newer records have come, where the sink would go back to the older ones.

        Refuse to replay them where nobody can tell.
        """
        return self._learning(lambda: self._current(letters)) if self._key else letters

    def deliver(self, letters: Sequence[Letter], ref: BatchRef, *, first: bool = True) -> Replayed:
        """Deliver these letters. What comes under one `ref` is known for the same by sinks that know batches.

        What cannot be read is found first, so that nothing is written yet when a schema turns out to be a new one. It
        is kept once more by the first of several outputs.
        """
        return self._learning(lambda: self._deliver(letters, ref, self._frames.session(), first=first))

    def _learning(self, act: Callable[[], _Done]) -> _Done:
        """Act, and again with what the schema registry has told by then."""
        while True:
            try:
                return act()
            except SPARK_ERRORS as error:
                if not self._outside.learned(str(error)):
                    raise cover_failure(self._query, failure_of(error)).with_context(
                        f"delivering records to `{self._query.name}` again"
                    ) from error

    @property
    def _key(self) -> Sequence[str]:
        """The key by which its rows replace others."""
        return self._output.latest_by or self._sink.replaces_by

    def _current(self, letters: Sequence[Letter]) -> Sequence[Letter]:
        own = self._found(letters, self._frames.session())
        newer = newer_rows(self._source, letters, own)
        made = None if newer is None else [self._with_records(rows) for rows in (sound(own), newer)]
        if made is None or None in made:
            raise PlanRefused("not-runnable-here", _OVERWRITES.format(self._output.node.partition(".")[2]))
        mine, others = (rows for rows in made if rows is not None)
        passed = superseded(mine, others, self._key)
        return [x for x in letters if (x.about["partition"], x.about["offset"]) not in passed]

    def _with_records(self, rows: DataFrame) -> DataFrame | None:
        query, view = self._query, self._output.view
        read = self._read(rows)
        return self._frames.with_records(query, view, self._entry, read, untimed=True)

    def _found(self, letters: Sequence[Letter], session: SparkSession) -> DataFrame:
        records = session.createDataFrame([_record(letter, place) for place, letter in enumerate(letters)], _RECORD)
        found = self._source.rows_of(records)
        if found is None:
            text = f"records of the connector `{self._source.type}` cannot be delivered again"
            raise PlanRefused("not-runnable-here", text)
        return found

    def _deliver(self, letters: Sequence[Letter], ref: BatchRef, session: SparkSession, *, first: bool) -> Replayed:
        found = self._found(letters, session)
        node = self._output.node
        failed = 0
        if first and ERROR in found.columns:
            letters_again = rejections.unreadable(found, self._entry, node)
            failed += letters_again.count() and self._errors.write(self._entry.node, letters_again, ref)
        rows = sound(found)
        try:
            written, broken = self._write(rows, ref)
            return Replayed(written, failed + broken)
        except (*SPARK_ERRORS, QueryFailed) as error:
            if not is_for_rows(error):
                raise

        def keep(some: Faults, part: int) -> None:
            if some:
                kept = rejections.failed(some.failing.drop(*ORDER), self._entry, node)
                self._errors.write(node, kept, replace(ref, batch_id=part))

        way = self._way(ref)
        faults = faulty(rows, way)
        try:
            keep(faults, 0)
            try:
                written, broken = self._write(faults.others.drop(PLACE), ref)
            except QueryFailed as error:
                if not is_for_rows(error):
                    raise
                beside = together(faults, way)
                keep(Faults(faults.numbered, few=beside), 3)
                faults = faults.and_also(beside)
                written, broken = self._write(faults.others.drop(PLACE), ref)
            return Replayed(written, failed + len(faults) + broken)
        finally:
            faults.close()

    def _write(self, rows: DataFrame, ref: BatchRef) -> tuple[int, int]:
        """Write the rows that meet the rules of the output and are taken, and keep the others. How many these and those
        were.

        They are made before the first one is written, and looked at as the sink would where it cannot take rows back:
        what fails then has left nothing behind in it.
        """
        output = self._output
        worked = row_rules.marked(self._way(ref).worked(rows), output.rules).persist()
        try:
            count = row_rules.breaking(worked).count()
            if self._sink.doubles:
                self._sink.rehearse(row_rules.meeting(worked), ref)
            written, not_taken = self._handed(row_rules.meeting(worked), ref)
            if count:
                self._errors.write(output.node, self._breaking(rows, worked, count), replace(ref, batch_id=1))
            return written, count + not_taken
        finally:
            worked.unpersist()

    def _breaking(self, rows: DataFrame, worked: DataFrame, count: int) -> DataFrame:
        """Letters about what breaks rules: records where that is known, as when they were first read."""
        output = self._output
        made = self._frames.with_records(self._query, output.view, self._entry, rows)
        if made is not None:
            found = row_rules.breaking(row_rules.marked(made, output.rules))
            if found.count() == count:
                return rejections.breaking_records(found, self._entry, output.node)
        return rejections.breaking(row_rules.breaking(worked), output.node)

    def _handed(self, rows: DataFrame, ref: BatchRef) -> tuple[int, int]:
        def keep(letters: DataFrame) -> None:
            node = self._output.node
            self._errors.write(node, rejections.refused(letters, node), replace(ref, batch_id=2))

        written = self._sink.deliver(rows, ref, keep)
        return written.rows, written.refused

    def _way(self, ref: BatchRef) -> WayOut:
        output, sink = self._output, self._sink

        def settled(rows: DataFrame) -> DataFrame:
            return as_wanted(rows, output, sink)

        return WayOut(self._frames, self._query, self._sources, output, sink, ref, settled, self._read)

    def _read(self, rows: DataFrame) -> DataFrame:
        """Rows as their stream would have them."""
        if not self._entry.ordered:
            return rows
        zero = f.lit(0).cast("bigint")
        return rows.withColumns(dict(zip(ORDER, (zero, f.lit(""), f.monotonically_increasing_id(), zero), strict=True)))

    def ref(self, letters: Sequence[Letter]) -> BatchRef:
        places = tuple(f"{letter.topic_id or ''}{letter.kept_in} {letter.part} {letter.place}" for letter in letters)
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
    letters: Iterable[Letter],
    spark: SparkSession,
    place: Place,
    store: StateStore,
    environ: Environ,
    clusters: Clusters,
    *,
    overwrite: bool = False,
) -> Replayed:
    """Deliver the letters of a node again, which stand in order, and note how far. Some cannot be, and wait on.

    Unless they may `overwrite` newer rows, those are passed over that a newer record of their key has come behind.
    """
    left: Counter[str] = Counter()
    query = manifest.producer(node)
    why = f"`{node}` has no query that could take records" if query is None else refused(query)
    if query is None or why is not None:
        return Replayed(0, 0, {str(why): sum(1 for _ in letters)})
    filling = Filling(place.root, environ, clusters)
    frames = Frames(manifest, place.root, spark, filling)
    outside = Outside(clusters, place, environ)
    works = {output.node: Replay(query, output.node, frames, filling, outside) for output in query.outputs}
    done = Replayed(0, 0)
    chunks = _chunks(_deliverable(letters, left))
    for some in chunks:
        wait = [works[node]] if _has_failed_one_sink(some[0]) else works.values()
        try:
            records, gone = works[node].restored(some)
            done = replace(done, failed=done.failed + gone)
            chosen = [(work, records if overwrite else work.current(records)) for work in wait if records]
            for number, (work, current) in enumerate(chosen):
                found = work.deliver(current, work.ref(some), first=number == 0) if current else Replayed(0, 0)
                passed = done.superseded + len(records) - len(current)
                done = Replayed(done.written + found.written, done.failed + found.failed, superseded=passed)
        except PlanRefused as refusal:
            left[refusal.message] += len(some) + sum(map(len, chunks))
            break
        record_delivered(store, place, some)
    return replace(done, left=dict(left))


def _deliverable(letters: Iterable[Letter], left: Counter[str]) -> Iterator[Letter]:
    """The letters that hold a record; the others are counted."""
    for letter in letters:
        why = _STAY.get(letter.kind)
        if why is None:
            yield letter
        else:
            left[why] += 1


def _has_failed_one_sink(letter: Letter) -> bool:
    """Whether other sinks of its query have the record. What could not be read has come to none of them."""
    return letter.code in (rejections.FAILED, RULE_FAILED)


def _chunks(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Letters for the same sinks, as many at a time as memory holds."""
    for _, alike in groupby(letters, _has_failed_one_sink):
        some: list[Letter] = []
        size = 0
        for letter in alike:
            some.append(letter)
            size += len(letter.value or b"")
            if len(some) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                yield some
                some, size = [], 0
        if some:
            yield some
