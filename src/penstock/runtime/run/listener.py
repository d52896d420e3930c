"""Receives Spark's reports of committed batches."""

from collections.abc import Callable

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


class QueryListener:
    """Listens to one query's session, and notes its batches and the state after them."""

    def __init__(
        self,
        board: ProgressBoard,
        query: str,
        notes: StateNotes,
        tell: Callable[[Positions], None] | None = None,
        *,
        counts: bool = False,
        committed: Callable[[CommittedBatch], None] | None = None,
    ) -> None:
        """`tell` gets the Kafka positions after every batch, and `committed` Spark's whole report.

        With `counts`, rows are counted from the report of Spark's sink, because no sink of ours counts them.
        """
        self._board = board
        self._query = query
        self._notes = notes
        self._publish_offsets = tell
        self._counts = counts
        self._on_commit = committed

    def listen(self, session: SparkSession) -> None:
        listen(session, lambda report: self.note_batch(CommittedBatch.from_json(report)), self._note_idle)

    def note_batch(self, batch: CommittedBatch) -> None:
        self._notes.add(batch.batch_id, batch.operators, batch.cells)
        if self._on_commit is not None:
            self._on_commit(batch)
        if self._counts:
            self._board.count_written(self._query, batch.rows_out, batch_id=batch.batch_id)
        self._board.commit_batch(
            self._query, batch.batch_id, batch.rows_in, batch.batch_ms, batch.rows_per_second, batch.late
        )
        if self._publish_offsets is not None:
            self._publish_offsets(lowest_positions(map(flatten_positions, batch.ends)))

    def _note_idle(self) -> None:
        self._board.note_idle(self._query)
