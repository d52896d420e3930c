"""How far each query is, counted as its batches end."""

import math
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

State: TypeAlias = Literal["waiting", "running", "finished", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The sums of this run, and the last batch."""

    query: str
    state: State = "waiting"
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    last_batch_at: float | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "state": self.state,
            "batches": self.batches,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "batch_ms": self.batch_ms,
            "last_batch_at": self.last_batch_at,
            "error": self.error,
        }


class ProgressBoard:
    """The latest progress of every query. Written by Spark's threads, read by ours."""

    def __init__(self, queries: list[str]) -> None:
        self._lock = threading.Lock()
        self._rows = {name: QueryProgress(name) for name in queries}
        self._started: dict[str, float] = {}
        self._drained = {name: threading.Event() for name in queries}

    def snapshot(self) -> list[QueryProgress]:
        with self._lock:
            now = time.monotonic()
            return [
                replace(row, seconds=now - self._started[name]) if row.state == "running" else row
                for name, row in self._rows.items()
            ]

    def started(self, query: str) -> None:
        with self._lock:
            self._started[query] = time.monotonic()
            self._rows[query] = replace(self._rows[query], state="running")

    def written(self, query: str, rows: int) -> None:
        with self._lock:
            row = self._rows[query]
            self._rows[query] = replace(row, rows_out=row.rows_out + rows)

    def batch(self, query: str, rows_in: int, batch_ms: int, rows_per_second: float) -> None:
        with self._lock:
            row = self._rows[query]
            self._rows[query] = replace(
                row,
                batches=row.batches + 1,
                rows_in=row.rows_in + rows_in,
                batch_ms=batch_ms,
                rows_per_second=rows_per_second,
                last_batch_at=time.time(),
            )

    def has_batches(self, query: str) -> bool:
        with self._lock:
            return self._rows[query].batches > 0

    def drained(self, query: str) -> None:
        """All events of the query have been seen."""
        self._drained[query].set()

    def ended(self, query: str, state: State, error: str | None = None) -> None:
        """Close the books of a query, once the last of its events is in."""
        self._drained[query].wait(timeout=5)
        with self._lock:
            seconds = time.monotonic() - self._started[query]
            self._rows[query] = replace(self._rows[query], state=state, seconds=seconds, error=error)


class QueryListener(StreamingQueryListener):
    """Hears one query's session and notes its batches."""

    def __init__(self, board: ProgressBoard, query: str) -> None:
        self._board = board
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        rate = progress.processedRowsPerSecond
        self._board.batch(self._query, progress.numInputRows, progress.batchDuration, 0.0 if math.isnan(rate) else rate)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        self._board.drained(self._query)
