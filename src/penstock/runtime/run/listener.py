"""What Spark reports of the batches of a query, as they are committed."""

from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.runtime.checkpoint.offset_commit import Positions, flatten_positions, lowest_positions
from penstock.runtime.checkpoint.state_stats import StateNotes
from penstock.runtime.delivery.committed_batch import CommittedBatch
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.spark_internals.running_query import listen, recent_progress


def last_committed_batch(query: StreamingQuery) -> int | None:
    """The last batch that a query has committed since it began, of those that Spark remembers.

    An idle query notes the batch that is next among its progress, and no listener hears of that.
    """
    reports = recent_progress(query)
    return next((report["batchId"] for report in reports if "addBatch" in report["durationMs"]), None)


class QueryListener:
    """Hears one query's session and notes its batches, and the state that they leave."""

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
        """`tell` is given the positions in Kafka after every batch, and `committed` all that Spark says of it.

        With `counts`, rows are counted as Spark's sink does, where nobody else can.
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
