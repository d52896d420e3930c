"""Replays dead letters to one output: their records pass through the same SQL into the same sink."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeVar, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.batch import BatchRef
from penstock.clients.dead_letters.model import RULE_FAILED, DeadLetter
from penstock.connectors.contract import ERROR, RecordSource, Sink
from penstock.errors import PlanRefused, QueryFailed
from penstock.manifest.model import Input, QueryOutput, QuerySpec
from penstock.row_columns import ORDER
from penstock.runtime.dead_letters import rows as dead_letter_rows
from penstock.runtime.dead_letters.masking import dead_letter_store, mask_failure
from penstock.runtime.delivery.deliver import Delivered, OutputDelivery
from penstock.runtime.delivery.rejections import Faulty, OutputRejection, Refused, RuleBroken
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query.compaction import prepare_rows
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.decode_errors import drop_undecodable
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.replay.restore import restore_records
from penstock.runtime.replay.superseded import find_superseded, newer_rows
from penstock.runtime.run.resources import RunResources
from penstock.runtime.spark.errors import failure_of, is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS

_Done = TypeVar("_Done")
_RECORD: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, place BIGINT"
)
_OVERWRITES: Final = "they replace rows of `{}` by key, possibly newer ones; `--overwrite` replays them anyway"
_MISSING: Final = 4
"""The number under which dead letters about missing records are stored; see `_part_of`."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The number of rows written, of records that failed again, of dead letters that keep waiting, by reason, and of
    dead letters that were skipped because a newer record of their key exists."""

    written: int
    failed: int
    left: Mapping[str, int] = field(default_factory=dict)
    superseded: int = 0


class OutputReplay:
    """Replays dead letters of one query to one of its outputs. What fails again becomes a dead letter again."""

    def __init__(
        self, query: QuerySpec, node: str, frames: Frames, resolver: ConfigResolver, resources: RunResources
    ) -> None:
        self._query = query.model_copy(update={"checks": ()})  # failing rows are found one by one here, and stored
        self._frames = frames
        self._resources = resources
        self._store = dead_letter_store(query, resources.dead_letters)
        self._entry: Input = query.streams[0]
        self._inputs: list[QueryInput] = frames.inputs(query)
        self._input = self._inputs[query.inputs.index(self._entry)]
        self._output: QueryOutput = next(output for output in query.outputs if output.node == node)
        self._sink: Sink = resolver.sink(self._output.sink, self._output.node)

    def restore_records(self, dead_letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], int]:
        """Return the dead letters with their records, and the number of missing ones, which get a new dead letter."""
        session = self._frames.session()
        found, gone = restore_records(dead_letters, self._input, session, self._resources.clusters.source)
        if gone:
            node = self._output.node
            kept_by = node if has_failed_one_sink(gone[0]) else self._entry.node
            missing = dead_letter_rows.missing_records(session, gone, node)
            self._resources.dead_letters.write(kept_by, missing, replace(self.batch_ref(gone), batch_id=_MISSING))
        return found, len(gone)

    def drop_superseded(self, dead_letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        """Drop dead letters whose keys have newer records, if the sink would otherwise return to older rows.

        PlanRefused if that cannot be determined.
        """
        return self._retry_with_schemas(lambda: self._find_current(dead_letters)) if self._replace_key else dead_letters

    def deliver(self, dead_letters: Sequence[DeadLetter], ref: BatchRef, *, first: bool = True) -> ReplayResult:
        """Deliver these dead letters. Sinks that recognise batches recognise a repeated `ref`.

        Undecodable records are found first, so that nothing is written yet if a schema turns out to be unknown. The
        first of several outputs stores them as dead letters again.
        """
        return self._retry_with_schemas(lambda: self._deliver(dead_letters, ref, self._frames.session(), first=first))

    def _retry_with_schemas(self, act: Callable[[], _Done]) -> _Done:
        """Act, and retry with schemas from the registry as long as one was missing."""
        while True:
            try:
                return act()
            except SPARK_ERRORS as error:
                if not self._resources.resolve_schema(error):
                    failure = mask_failure(self._query, failure_of(error))
                    raise failure.with_context(f"replaying records to `{self._query.name}`") from error

    @property
    def _replace_key(self) -> Sequence[str]:
        """The key by which its rows replace others."""
        return self._output.latest_by or self._sink.capabilities.replace_key

    def _find_current(self, dead_letters: Sequence[DeadLetter]) -> Sequence[DeadLetter]:
        own = self._decode_records(dead_letters, self._frames.session())
        newer = newer_rows(self._input, dead_letters, own)
        made = None if newer is None else [self._compute_with_records(rows) for rows in (drop_undecodable(own), newer)]
        if made is None or None in made:
            raise PlanRefused("not-runnable-here", _OVERWRITES.format(self._output.node.partition(".")[2]))
        mine, others = (rows for rows in made if rows is not None)
        passed = find_superseded(mine, others, self._replace_key)
        return [x for x in dead_letters if (x.about["partition"], x.about["offset"]) not in passed]

    def _compute_with_records(self, rows: DataFrame) -> DataFrame | None:
        read, view = self._add_order(rows), self._output.view
        return self._frames.rows_with_records(self._query, view, self._entry, read, untimed=True)

    def _decode_records(self, dead_letters: Sequence[DeadLetter], session: SparkSession) -> DataFrame:
        records = session.createDataFrame([_record(x, place) for place, x in enumerate(dead_letters)], _RECORD)
        source = self._input.source
        if not isinstance(source, RecordSource):
            text = f"records of the connector `{source.type}` cannot be replayed"
            raise PlanRefused("not-runnable-here", text)
        return source.decode_records(records, self._input.request)

    def _deliver(
        self, dead_letters: Sequence[DeadLetter], ref: BatchRef, session: SparkSession, *, first: bool
    ) -> ReplayResult:
        found = self._decode_records(dead_letters, session)
        failed = 0
        if first and ERROR in found.columns:
            failed_rows = dead_letter_rows.undecodable_records(found, self._entry, self._output.node)
            failed += failed_rows.count() and self._store.write(self._entry.node, failed_rows, ref)
        done = self._deliver_rows(drop_undecodable(found), ref)
        return ReplayResult(done.written, failed + done.rejected.total())

    def _deliver_rows(self, rows: DataFrame, ref: BatchRef) -> Delivered:
        """Deliver rows like a batch of the stream. Whatever `on_error` says, what fails becomes a dead letter again."""

        def store(rejection: OutputRejection, dead_letters: DataFrame) -> None:
            self._store.write(self._output.node, dead_letters, replace(ref, batch_id=_part_of(rejection)))

        trial = self._trial(ref)
        delivery = OutputDelivery(trial, "dead_letter", store, compute_first=True)
        try:
            return delivery.deliver(trial.compute_output(rows), lambda: rows)
        except (*SPARK_ERRORS, QueryFailed) as error:
            if not is_row_error(error):
                raise
        return delivery.deliver_isolated(rows)

    def _trial(self, ref: BatchRef) -> TrialRun:
        output, sink = self._output, self._sink
        about = (self._frames, self._query, self._inputs, output, sink, ref)
        return TrialRun(*about, prepare=lambda rows: prepare_rows(rows, output, sink), as_stream=self._add_order)

    def _add_order(self, rows: DataFrame) -> DataFrame:
        """Add the order columns that rows have in their stream."""
        if not self._entry.ordered:
            return rows
        zero = f.lit(0).cast("bigint")
        return rows.withColumns(dict(zip(ORDER, (zero, f.lit(""), f.monotonically_increasing_id(), zero), strict=True)))

    def batch_ref(self, dead_letters: Sequence[DeadLetter]) -> BatchRef:
        places = tuple(f"{x.topic_id or ''}{x.kept_in} {x.part} {x.place}" for x in dead_letters)
        digest = hashlib.sha256("\n".join(places).encode()).hexdigest()[:16]
        return BatchRef(self._query.name, self._output.node, f"replay-{digest}", 0, (digest,))


def has_failed_one_sink(dead_letter: DeadLetter) -> bool:
    """Whether the other sinks of the query have the record. A record that could not be decoded has reached no sink."""
    return dead_letter.code in (dead_letter_rows.FAILED, RULE_FAILED)


def _part_of(rejection: OutputRejection) -> int:
    """Return the number under which dead letters of a kind are stored, so that a repeated replay stores them once."""
    match rejection:
        case Faulty(joint=joint):
            return 3 if joint else 0
        case RuleBroken():
            return 1
        case Refused():
            return 2
    assert_never(rejection)


def _record(dead_letter: DeadLetter, place: int) -> tuple[object, ...]:
    about = dead_letter.about
    time = None if about["timestamp"] is None else datetime.fromisoformat(about["timestamp"])
    where = (about["topic"], about["partition"], about["offset"], time)
    return (_bytes(dead_letter.key), _bytes(dead_letter.value), *where, [*dead_letter.headers], place)


def _bytes(data: bytes | None) -> bytearray | None:
    return None if data is None else bytearray(data)
