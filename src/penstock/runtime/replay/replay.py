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
from penstock.clients.dead_letters.model import GONE, REFUSED, RULE_FAILED, UNREAD, DeadLetter
from penstock.clients.files.batch_directory import BatchRef
from penstock.connectors.contract import ERROR, Sink, Source
from penstock.errors import PlanRefused, QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Input, Manifest, QueryOutput, QuerySpec
from penstock.plan.place import ProjectPlace
from penstock.plan.state import record_replay_progress
from penstock.plan.stores import StateStore
from penstock.project.variables import Environ
from penstock.runtime.dead_letters import rows as rejections
from penstock.runtime.dead_letters.masking import dead_letter_store, mask_failure
from penstock.runtime.delivery.bisect import Faults, find_faults, find_joint_faults
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query import row_rules
from penstock.runtime.query.compaction import prepare_rows
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.decode_errors import drop_undecodable
from penstock.runtime.query.provenance import PLACE
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.replay.restore import restore_records
from penstock.runtime.replay.superseded import find_superseded, newer_rows
from penstock.runtime.run.resources import RunResources
from penstock.runtime.spark.errors import SPARK_ERRORS, failure_of, is_row_error

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
class ReplayResult:
    """How many rows were written, how many records could not be used this time either, how many wait as before, by why,
    and how many were passed over because a newer record of their key has come since."""

    written: int
    failed: int
    left: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0


def replay_refusal(query: QuerySpec) -> str | None:
    """Why no record can go through a query beside its stream."""
    streams = [entry for entry in query.inputs if not entry.static]
    if not query.stateful and len(streams) == 1:
        return None
    text = f"`{query.name}` remembers rows, or has several inputs: no record goes through it beside the stream"
    return f"{text}; write them into their topic again, as their writer would"


class Replay:
    """Delivers dead letters of one query again, to one of its outputs. What fails once more is kept once more."""

    def __init__(
        self, query: QuerySpec, node: str, frames: Frames, filling: ConfigResolver, outside: RunResources
    ) -> None:
        self._query = query.model_copy(update={"checks": ()})  # rows that fail are found here one by one, and kept
        self._frames = frames
        self._outside = outside
        self._errors = dead_letter_store(query, outside.errors)
        self._entry: Input = next(entry for entry in query.inputs if not entry.static)
        self._sources: list[Source] = frames.sources(query)
        self._source = self._sources[query.inputs.index(self._entry)]
        self._output: QueryOutput = next(output for output in query.outputs if output.node == node)
        self._sink: Sink = filling.sink(self._output.sink, self._output.node)

    def restore_records(self, letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], int]:
        """The dead letters, each with its record, and how many records are gone. Those get a new dead letter."""
        session = self._frames.session()
        found, gone = restore_records(letters, self._source, self._entry.name, session, self._outside.source_cluster)
        if gone:
            node = self._output.node
            kept_by = node if _has_failed_one_sink(gone[0]) else self._entry.node
            self._outside.errors.write(
                kept_by, rejections.missing_records(session, gone, node), replace(self.batch_ref(gone), batch_id=4)
            )
        return found, len(gone)

    def drop_superseded(self, letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        """Drop dead letters whose keys have newer records, where the sink would return to the older rows.

        Refuse to replay where that cannot be known.
        """
        return self._retry_with_schemas(lambda: self._find_current(letters)) if self._replace_key else letters

    def deliver(self, letters: Sequence[DeadLetter], ref: BatchRef, *, first: bool = True) -> ReplayResult:
        """Deliver these dead letters. What comes under one `ref` is known for the same by sinks that know batches.

        What cannot be read is found first, so that nothing is written yet when a schema turns out to be a new one. It
        is kept once more by the first of several outputs.
        """
        return self._retry_with_schemas(lambda: self._deliver(letters, ref, self._frames.session(), first=first))

    def _retry_with_schemas(self, act: Callable[[], _Done]) -> _Done:
        """Act, and again with what the schema registry has told by then."""
        while True:
            try:
                return act()
            except SPARK_ERRORS as error:
                if not self._outside.resolve_schema(str(error)):
                    raise mask_failure(self._query, failure_of(error)).with_context(
                        f"delivering records to `{self._query.name}` again"
                    ) from error

    @property
    def _replace_key(self) -> Sequence[str]:
        """The key by which its rows replace others."""
        return self._output.latest_by or self._sink.replace_key

    def _find_current(self, letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        own = self._decode_records(letters, self._frames.session())
        newer = newer_rows(self._source, letters, own)
        made = None if newer is None else [self._compute_with_records(rows) for rows in (drop_undecodable(own), newer)]
        if made is None or None in made:
            raise PlanRefused("not-runnable-here", _OVERWRITES.format(self._output.node.partition(".")[2]))
        mine, others = (rows for rows in made if rows is not None)
        passed = find_superseded(mine, others, self._replace_key)
        return [x for x in letters if (x.about["partition"], x.about["offset"]) not in passed]

    def _compute_with_records(self, rows: DataFrame) -> DataFrame | None:
        query, view = self._query, self._output.view
        read = self._add_order(rows)
        return self._frames.rows_with_records(query, view, self._entry, read, untimed=True)

    def _decode_records(self, letters: Sequence[DeadLetter], session: SparkSession) -> DataFrame:
        records = session.createDataFrame([_record(letter, place) for place, letter in enumerate(letters)], _RECORD)
        found = self._source.decode_records(records)
        if found is None:
            text = f"records of the connector `{self._source.type}` cannot be delivered again"
            raise PlanRefused("not-runnable-here", text)
        return found

    def _deliver(
        self, letters: Sequence[DeadLetter], ref: BatchRef, session: SparkSession, *, first: bool
    ) -> ReplayResult:
        found = self._decode_records(letters, session)
        node = self._output.node
        failed = 0
        if first and ERROR in found.columns:
            letters_again = rejections.undecodable_records(found, self._entry, node)
            failed += letters_again.count() and self._errors.write(self._entry.node, letters_again, ref)
        rows = drop_undecodable(found)
        try:
            written, broken = self._write(rows, ref)
            return ReplayResult(written, failed + broken)
        except (*SPARK_ERRORS, QueryFailed) as error:
            if not is_row_error(error):
                raise

        def keep(some: Faults, part: int) -> None:
            if some:
                kept = rejections.failing_rows(some.failing_rows.drop(*ORDER), self._entry, node)
                self._errors.write(node, kept, replace(ref, batch_id=part))

        way = self._trial(ref)
        faults = find_faults(rows, way)
        try:
            keep(faults, 0)
            try:
                written, broken = self._write(faults.passing_rows.drop(PLACE), ref)
            except QueryFailed as error:
                if not is_row_error(error):
                    raise
                beside = find_joint_faults(faults, way)
                keep(Faults(faults.numbered, few=beside), 3)
                faults = faults.with_faults(beside)
                written, broken = self._write(faults.passing_rows.drop(PLACE), ref)
            return ReplayResult(written, failed + len(faults) + broken)
        finally:
            faults.close()

    def _write(self, rows: DataFrame, ref: BatchRef) -> tuple[int, int]:
        """Write the rows that meet the rules of the output and are taken, and keep the others. How many these and those
        were.

        They are made before the first one is written, and looked at as the sink would where it cannot take rows back:
        what fails then has left nothing behind in it.
        """
        output = self._output
        worked = row_rules.mark_broken_rules(self._trial(ref).compute_output(rows), output.rules).persist()
        try:
            count = row_rules.breaking_rows(worked).count()
            if self._sink.can_duplicate:
                self._sink.rehearse(row_rules.passing_rows(worked), ref)
            written, not_taken = self._write_to_sink(row_rules.passing_rows(worked), ref)
            if count:
                self._errors.write(output.node, self._rule_breaks(rows, worked, count), replace(ref, batch_id=1))
            return written, count + not_taken
        finally:
            worked.unpersist()

    def _rule_breaks(self, rows: DataFrame, worked: DataFrame, count: int) -> DataFrame:
        """Dead letters about what breaks rules: records where that is known, as when they were first read."""
        output = self._output
        made = self._frames.rows_with_records(self._query, output.view, self._entry, rows)
        if made is not None:
            found = row_rules.breaking_rows(row_rules.mark_broken_rules(made, output.rules))
            if found.count() == count:
                return rejections.rule_breaking_records(found, self._entry, output.node)
        return rejections.rule_breaking_rows(row_rules.breaking_rows(worked), output.node)

    def _write_to_sink(self, rows: DataFrame, ref: BatchRef) -> tuple[int, int]:
        def keep(letters: DataFrame) -> None:
            node = self._output.node
            self._errors.write(node, rejections.rejected_rows(letters, node), replace(ref, batch_id=2))

        written = self._sink.deliver(rows, ref, keep)
        return written.rows, written.refused

    def _trial(self, ref: BatchRef) -> TrialRun:
        output, sink = self._output, self._sink

        def settled(rows: DataFrame) -> DataFrame:
            return prepare_rows(rows, output, sink)

        return TrialRun(self._frames, self._query, self._sources, output, sink, ref, settled, self._add_order)

    def _add_order(self, rows: DataFrame) -> DataFrame:
        """Rows as their stream would have them."""
        if not self._entry.ordered:
            return rows
        zero = f.lit(0).cast("bigint")
        return rows.withColumns(dict(zip(ORDER, (zero, f.lit(""), f.monotonically_increasing_id(), zero), strict=True)))

    def batch_ref(self, letters: Sequence[DeadLetter]) -> BatchRef:
        places = tuple(f"{letter.topic_id or ''}{letter.kept_in} {letter.part} {letter.place}" for letter in letters)
        digest = hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]
        return BatchRef(self._query.name, self._output.node, f"replay-{digest}", 0, (digest,))


def _record(letter: DeadLetter, place: int) -> tuple[object, ...]:
    about = letter.about
    time = None if about["timestamp"] is None else datetime.fromisoformat(about["timestamp"])
    where = (about["topic"], about["partition"], about["offset"], time)
    return (_bytes(letter.key), _bytes(letter.value), *where, [*letter.headers], place)


def _bytes(data: bytes | None) -> bytearray | None:
    return None if data is None else bytearray(data)


def replay_dead_letters(
    manifest: Manifest,
    node: str,
    letters: Iterable[DeadLetter],
    spark: SparkSession,
    place: ProjectPlace,
    store: StateStore,
    environ: Environ,
    clusters: Clusters,
    *,
    overwrite: bool = False,
) -> ReplayResult:
    """Deliver the dead letters of a node again, which stand in order, and note how far. Some cannot be, and wait on.

    Unless they may `overwrite` newer rows, those are passed over that a newer record of their key has come behind.
    """
    left: Counter[str] = Counter()
    query = manifest.producer(node)
    why = f"`{node}` has no query that could take records" if query is None else replay_refusal(query)
    if query is None or why is not None:
        return ReplayResult(0, 0, {str(why): sum(1 for _ in letters)})
    filling = ConfigResolver(place.root, environ, clusters)
    frames = Frames(manifest, place.root, spark, filling)
    outside = RunResources(clusters, place, environ)
    works = {output.node: Replay(query, output.node, frames, filling, outside) for output in query.outputs}
    done = ReplayResult(0, 0)
    chunks = _chunks(_select_replayable(letters, left))
    for some in chunks:
        wait = [works[node]] if _has_failed_one_sink(some[0]) else works.values()
        try:
            records, gone = works[node].restore_records(some)
            done = replace(done, failed=done.failed + gone)
            chosen = [(work, records if overwrite else work.drop_superseded(records)) for work in wait if records]
            for number, (work, current) in enumerate(chosen):
                found = (
                    work.deliver(current, work.batch_ref(some), first=number == 0) if current else ReplayResult(0, 0)
                )
                passed = done.superseded + len(records) - len(current)
                done = ReplayResult(done.written + found.written, done.failed + found.failed, superseded=passed)
        except PlanRefused as refusal:
            left[refusal.message] += len(some) + sum(map(len, chunks))
            break
        record_replay_progress(store, place, some)
    return replace(done, left=dict(left))


def _select_replayable(letters: Iterable[DeadLetter], left: Counter[str]) -> Iterator[DeadLetter]:
    """The dead letters that hold a record; the others are counted."""
    for letter in letters:
        why = _STAY.get(letter.kind)
        if why is None:
            yield letter
        else:
            left[why] += 1


def _has_failed_one_sink(letter: DeadLetter) -> bool:
    """Whether other sinks of its query have the record. What could not be read has come to none of them."""
    return letter.code in (rejections.FAILED, RULE_FAILED)


def _chunks(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Dead letters for the same sinks, as many at a time as memory holds."""
    for _, alike in groupby(letters, _has_failed_one_sink):
        some: list[DeadLetter] = []
        size = 0
        for letter in alike:
            some.append(letter)
            size += len(letter.value or b"")
            if len(some) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                yield some
                some, size = [], 0
        if some:
            yield some
