"""What Spark tells of the batches of a query, as they are committed.

PySpark would ask Spark for every number of it by itself, which costs a tenth of a core at five batches a second. All of
it in one text costs nothing.
"""

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.runtime.checkpoint.offset_commit import Positions, flatten_positions, lowest_positions
from penstock.runtime.checkpoint.state_stats import StateNotes
from penstock.runtime.delivery.committed_batch import CommittedBatch
from penstock.runtime.delivery.progress import ProgressBoard


def last_committed_batch(query: StreamingQuery) -> int | None:
    """The last batch that a query has committed since it began, of those that Spark remembers.

    An idle query notes the batch that is next among its progress, and no listener hears of that.
    """
    told = (json.loads(progress.json()) for progress in reversed(list(query._jsq.recentProgress())))
    return next((progress["batchId"] for progress in told if "addBatch" in progress["durationMs"]), None)


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
        self._tell = tell
        self._counts = counts
        self._committed_offsets = committed

    def listen(self, session: SparkSession) -> None:
        session.streams.addListener(self)  # type: ignore[arg-type]  # it only asks for `_jlistener`

    def note_batch(self, batch: CommittedBatch) -> None:
        self._notes.add(batch.batch_id, batch.operators, batch.cells)
        if self._committed_offsets is not None:
            self._committed_offsets(batch)
        if self._counts:
            self._board.count_written(self._query, batch.rows_out, batch_id=batch.batch_id)
        self._board.commit_batch(
            self._query, batch.batch_id, batch.rows_in, batch.batch_ms, batch.rows_per_second, batch.late
        )
        if self._tell is not None:
            self._tell(lowest_positions(map(flatten_positions, batch.ends)))

    def _note_idle(self) -> None:
        self._board.note_idle(self._query)

    @cached_property
    def _jlistener(self) -> Any:
        """What PySpark gives to Spark."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_JavaListener(self.note_batch, self._note_idle))


class _JavaListener:
    """What Spark calls."""

    def __init__(self, heard: Callable[[CommittedBatch], None], idle: Callable[[], None]) -> None:
        self._heard = heard
        self._note_idle = idle

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._heard(CommittedBatch.from_json(event.progress().json()))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self._note_idle()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    class Java:
        """Py4J looks here for what the class is in Java."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
