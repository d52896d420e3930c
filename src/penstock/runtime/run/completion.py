"""Estimates the completion of a query that ends by itself: the part of its input that was read.

Finished batches and the current one are measured by the distance between their offsets: records of a topic, keys of a
table, bytes of files. Within a batch, what tasks have read so far is counted, or at least the finished tasks.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql.streaming.query import StreamingQuery

from penstock.batch import PartRead
from penstock.plan.deployed.place import last_number
from penstock.runtime.checkpoint.layout import batch_parts
from penstock.spark_internals.running_query import running_stages

PAUSE_SECS: Final = 0.5
LEAST: Final = 0.02
"""The part that must be read before the remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class CompletionEstimate:
    """The part that was read, from 0 to 1, the rows that the current batch has read, and the remaining time."""

    part: float
    rows: int
    left_secs: float | None


@dataclass(slots=True)
class CompletionTracker:
    """Estimates the completion of one query. `total` is the size of its whole input, if a source knows it."""

    checkpoint: Path
    total: int | None = None
    _first: int = field(init=False)
    """The first batch of this run."""
    _sizes: dict[int, int] = field(default_factory=dict)
    _furthest: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _due: float = 0.0

    def __post_init__(self) -> None:
        committed = last_number(self.checkpoint / "commits")
        self._first = 0 if committed is None else committed + 1

    def estimate_completion(self, query: StreamingQuery) -> CompletionEstimate | None:
        """Return the estimate; None if it is unknown, or if the last one was a moment ago."""
        if time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + PAUSE_SECS
        begun = last_number(self.checkpoint / "offsets")
        if begun is None or begun < self._first:
            return None
        return self._estimate_batch(begun, last_number(self.checkpoint / "commits"), _task_progress(str(query.runId)))

    def _estimate_batch(self, begun: int, committed: int | None, work: "_TaskProgress") -> CompletionEstimate | None:
        sizes = [self._size(batch) for batch in range(self._first, begun + 1)]
        whole = max(sum(sizes), self.total or 0)
        if not whole:
            return None
        done = sum(sizes) if committed == begun else sum(sizes[:-1]) + self._batch_progress(begun, work)
        self._furthest = max(self._furthest, min(done / whole, 1.0))
        spent = time.monotonic() - self._began
        left = spent * (1 - self._furthest) / self._furthest if self._furthest >= LEAST else None
        return CompletionEstimate(self._furthest, 0 if committed == begun else work.rows, left)

    def _batch_progress(self, batch: int, work: "_TaskProgress") -> float:
        """Return how much of a batch was read. Tasks may be few, and files may be read column by column."""
        of_files = any(part.files for part in batch_parts(self.checkpoint, batch).values())
        read = work.bytes if of_files else work.rows
        return min(max(read, self._size(batch) * work.tasks), self._size(batch))

    def _size(self, batch: int) -> int:
        if batch not in self._sizes:
            self._sizes[batch] = sum(map(part_size, batch_parts(self.checkpoint, batch).values()))
        return self._sizes[batch]


@dataclass(frozen=True, slots=True)
class _TaskProgress:
    """The running tasks of a query: the finished part, and what they have read."""

    tasks: float = 0.0
    rows: int = 0
    bytes: int = 0


def part_size(part: PartRead) -> int:
    """Return the size of what a reader reads: bytes of files, or the distance between its offsets."""
    if part.files:
        return sum(_bytes(address) for address in part.files)
    return max(0, _position_sum(_position(part.after)) - _position_sum(_position(part.before)))


def _bytes(address: str) -> int:
    try:
        return Path(unquote(urlsplit(address).path)).stat().st_size
    except OSError:
        return 0


def _position(text: str | None) -> Any:
    try:
        return json.loads(text or "0")
    except ValueError:
        return 0


def _position_sum(position: Any) -> int:
    match position:
        case {"rows": int() as rows}:
            return rows
        case dict():
            return sum(map(_position_sum, position.values()))
        case int():
            return position
        case str() if position.lstrip("-").isdecimal():
            return int(position)
    return 0


def _task_progress(group: str) -> _TaskProgress:
    stages = running_stages(group)
    tasks = sum(stage.tasks for stage in stages)
    done = sum(stage.done for stage in stages)
    rows = max((stage.rows for stage in stages), default=0)
    return _TaskProgress(done / tasks if tasks else 0.0, rows, max((stage.bytes for stage in stages), default=0))
