"""What Spark tells of the batches of a query, as they are committed.

PySpark would ask Spark for every number of it by itself, which costs a tenth of a core at five batches a second. All of
it in one text costs nothing.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.runtime.batch.progress import ProgressBoard
from penstock.runtime.checkpoint.offset_commit import Positions, flatten_positions, lowest_positions
from penstock.runtime.checkpoint.state_stats import OperatorCounts, StateNotes
from penstock.runtime.query.stateful import metric_view


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A batch that is done. Places are what readers say of where it begins and ends; `observed` is what was counted."""

    batch_id: int
    began_ms: int
    batch_ms: int
    rows_in: int
    rows_out: int
    rows_per_second: float
    starts: tuple[Any, ...]
    ends: tuple[Any, ...]
    observed: Mapping[str, Mapping[str, Any]]
    operators: tuple[OperatorCounts, ...]
    dropped: int
    """Rows that operators of Spark found late."""

    @classmethod
    def from_json(cls, text: str) -> "CommittedBatch":
        """As Spark writes it."""
        progress = json.loads(text)
        operators = progress.get("stateOperators", [])
        sources = progress.get("sources", [])
        return cls(
            batch_id=progress["batchId"],
            began_ms=int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000),
            batch_ms=progress["batchDuration"],
            rows_in=progress["numInputRows"],
            rows_out=max(0, progress["sink"].get("numOutputRows", 0)),
            rows_per_second=progress.get("processedRowsPerSecond", 0.0),
            starts=tuple(source["startOffset"] for source in sources),
            ends=tuple(source["endOffset"] for source in sources),
            observed=progress.get("observedMetrics", {}),
            operators=tuple(OperatorCounts(o["numRowsTotal"], o["memoryUsedBytes"]) for o in operators),
            dropped=sum(o["numRowsDroppedByWatermark"] for o in operators),
        )

    @property
    def late(self) -> int:
        """Rows that came too late: those that Spark's operators dropped, and those that ours did."""
        return self.dropped + sum(row["late"] or 0 for row in self._turns.values())

    @property
    def cells(self) -> dict[str, dict[str, dict[str, int]]]:
        """The rows of every cell of our operators that the batch touched, by view, cell and table."""
        told = {view: json.loads(row["kept"]) for view, row in self._turns.items()}
        return {
            view: {cell: rows for entry in entries for cell, rows in entry.items()} for view, entries in told.items()
        }

    @property
    def _turns(self) -> dict[str, Mapping[str, Any]]:
        """What our operators tell, by view."""
        told = ((metric_view(name), row) for name, row in self.observed.items())
        return {view: row for view, row in told if view is not None}


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
