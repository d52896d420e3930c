"""Receives Spark's reports of committed batches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.runtime.checkpoint.offset_commit import Positions, flatten_positions, lowest_positions
from penstock.runtime.checkpoint.state_stats import StateNotes
from penstock.runtime.delivery.committed_batch import CommittedBatch
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.spark_internals.running_query import listen, recent_progress


def last_committed_batch(query: StreamingQuery) -> int | None:
    """Return the last batch that a query has committed since it began, among those that Spark remembers.

    An idle query already lists the next batch in its progress, which is never reported to listeners.
    """
    reports = recent_progress(query)
    return next((report["batchId"] for report in reports if "addBatch" in report["durationMs"]), None)


@dataclass(frozen=True, slots=True)
class QueryListener:
    """Listens to one query's session, and notes its batches and the state after them."""

    board: ProgressBoard
    query: str
    notes: StateNotes
    publish_offsets: Callable[[Positions], None] | None
    """Gets the Kafka positions after every batch."""
    counts_rows: bool
    """Whether to count rows from the report of Spark's sink, because no sink of ours counts them."""
    on_commit: Callable[[CommittedBatch], None] | None
    """Gets Spark's whole report of every batch."""

    def listen(self, session: SparkSession) -> None:
        note_idle = partial(self.board.note_idle, self.query)
        listen(session, lambda report: self._note_batch(CommittedBatch.from_json(report)), note_idle)

    def _note_batch(self, batch: CommittedBatch) -> None:
        self.notes.add(batch.batch_id, batch.operators, batch.cells)
        if self.on_commit is not None:
            self.on_commit(batch)
        if self.counts_rows:
            self.board.count_written(self.query, batch.rows_out, batch_id=batch.batch_id)
        counts = (batch.rows_in, batch.batch_ms, batch.rows_per_second, batch.late)
        self.board.commit_batch(self.query, batch.batch_id, *counts)
        if self.publish_offsets is not None:
            self.publish_offsets(lowest_positions(map(flatten_positions, batch.ends)))
