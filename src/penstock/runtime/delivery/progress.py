"""The progress of every query: what its attempts at a batch have counted is shown once the batch is committed."""

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from penstock.errors import Fault

State: TypeAlias = Literal["waiting", "running", "retrying", "stopping", "finished", "stopped", "failed", "not started"]


@dataclass(frozen=True, slots=True)
class Retry:
    """A query that is retried: the number of the attempt, since when it is retried, and when the attempt begins.

    Times are seconds since 1970.
    """

    attempt: int
    since: float
    next_at: float

    def to_json(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "since": round(self.since, 3), "next_at": round(self.next_at, 3)}


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The totals of this run, and the last batch.

    `rejected` rows had no usable event time, or the SQL failed on them. `late` rows came after their window was closed.
    `kept_in` are the dead-letter topics that such rows were written to.
    """

    query: str
    state: State = "waiting"
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rejected: int = 0
    late: int = 0
    seconds: float = 0.0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    last_batch_at: float | None = None
    error: Fault | None = None
    retry: Retry | None = None
    """None once a batch is committed again."""
    waiting_for: tuple[str, ...] = ()
    """The upstream queries that it waits for."""
    broker_unreachable_since: float | None = None
    """Since when a broker that it reads or writes has not answered, in seconds since 1970."""
    kept_in: tuple[str, ...] = ()
    late_kept: bool = False
    """Whether late rows are among the stored dead letters; otherwise they are dropped."""
    phase: str | None = None
    """The current phase of a backfill, as `1 of 3`."""

    part: float | None = None
    """The completed part, from 0 to 1, of a query that ends by itself."""
    rows_under_way: int = 0
    """The rows that the current batch has read so far, if the query ends by itself."""
    left_secs: float | None = None
    """The estimated remaining time."""

    def to_json(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self) if field.name != "rows_under_way"},
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "error": self.error and self.error.to_json(),
            "retry": self.retry and self.retry.to_json(),
            "waiting_for": list(self.waiting_for),
            "kept_in": list(self.kept_in),
            "part": None if self.part is None else round(self.part, 4),
            "left_secs": None if self.left_secs is None else round(self.left_secs, 1),
        }


CountKey: TypeAlias = tuple[Literal["written", "rejected"], str]
"""What was counted, and where: at an output, or at an input."""


class BatchCounts:
    """The counts of a query's uncommitted batches, by batch number.

    A batch that fails is retried, and counts its rows again. The attempt with the highest count is taken: an output
    that has the batch already is not written again.
    """

    def __init__(self) -> None:
        self._attempt: dict[int, Counter[CountKey]] = {}
        self._best: dict[int, Counter[CountKey]] = {}

    def begin(self, batch_id: int) -> None:
        self._best[batch_id] = self._best.get(batch_id, Counter()) | self._attempt.pop(batch_id, Counter())

    def add(self, batch_id: int, key: CountKey, rows: int) -> None:
        self._attempt.setdefault(batch_id, Counter())[key] += rows

    def commit(self, batch_id: int) -> Counter[CountKey]:
        """Remove the counts of a committed batch, and of earlier ones whose commit was not reported."""
        done = [number for number in {*self._attempt, *self._best} if number <= batch_id]
        total: Counter[CountKey] = Counter()
        for number in done:
            total += self._best.pop(number, Counter()) | self._attempt.pop(number, Counter())
        return total


class ProgressBoard:
    """The latest progress of every query. Written by Spark's threads, read by ours."""

    def __init__(self, queries: list[str], upstream: Mapping[str, Collection[str]] | None = None) -> None:
        """`upstream` are the queries that a query reads from."""
        self._changed = threading.Condition()
        self._rows = {name: QueryProgress(name) for name in queries}
        self._upstream = upstream or {}
        self._idle: set[str] = set()
        self._started: dict[str, float] = {}
        self._last_batch = dict.fromkeys(queries, -1)
        self._read: dict[str, tuple[int, int]] = {}
        self._counts = {name: BatchCounts() for name in queries}
        self._committed_rows: dict[tuple[str, str], int] = {}

    def snapshot(self) -> list[QueryProgress]:
        with self._changed:
            rows = map(self._with_elapsed, self._rows.values())
            return [replace(row, waiting_for=self._waiting_for(row)) for row in rows]

    def _with_elapsed(self, row: QueryProgress) -> QueryProgress:
        if row.state not in ("running", "stopping"):
            return row
        return replace(row, seconds=time.monotonic() - self._started[row.query])

    def _waiting_for(self, row: QueryProgress) -> tuple[str, ...]:
        """Return the queries that another one waits for: those that have not finished before it starts, and those that
        failed or are retried while it is idle."""
        if row.state in ("waiting", "not started"):
            hindering: tuple[State, ...] = ("waiting", "running", "retrying", "stopping", "failed", "not started")
        elif row.state == "running" and row.query in self._idle:
            hindering = ("retrying", "failed")
        else:
            return ()
        known = [name for name in self._upstream.get(row.query, ()) if name in self._rows]
        return tuple(name for name in known if self._rows[name].state in hindering)

    def start_query(self, query: str, phase: str | None = None) -> None:
        with self._changed:
            self._started.setdefault(query, time.monotonic())
            row = self._rows[query]
            tried = row if row.retry else replace(row, state="running", error=None)
            self._rows[query] = replace(tried, phase=phase)

    def begin_batch(self, query: str, batch_id: int) -> None:
        """Note that an attempt at a batch begins. Counts of an earlier attempt are not added to its counts."""
        with self._changed:
            self._idle.discard(query)
            self._counts[query].begin(batch_id)

    def count_written(self, query: str, rows: int, output: str = "", *, batch_id: int) -> None:
        """Count rows of a batch that were written to an output. They are shown after the commit."""
        with self._changed:
            self._counts[query].add(batch_id, ("written", output), rows)

    def count_rejected(self, query: str, rows: int, where: str = "", *, batch_id: int | None = None) -> None:
        """Count rejected rows; those of a current batch are shown after its commit."""
        with self._changed:
            if batch_id is not None:
                self._counts[query].add(batch_id, ("rejected", where), rows)
            else:
                row = self._rows[query]
                self._rows[query] = replace(row, rejected=row.rejected + rows)

    def note_dead_letters(self, query: str, topic: str, *, late: bool = False) -> None:
        """Note that rows were written to a dead-letter topic, and whether they were late."""
        with self._changed:
            row = self._rows[query]
            topics = tuple(dict.fromkeys((*row.kept_in, topic)))
            self._rows[query] = replace(row, kept_in=topics, late_kept=row.late_kept or late)

    def note_reread(self, query: str, batch_id: int, rows: int) -> None:
        """Note the rows of a batch that was read in a way that Spark does not count."""
        with self._changed:
            self._read[query] = (batch_id, rows)

    def commit_batch(
        self, query: str, batch_id: int, rows_in: int, batch_ms: int, rows_per_second: float, late: int = 0
    ) -> None:
        with self._changed:
            row = self._rows[query]
            noted_batch, noted = self._read.get(query, (batch_id, 0))
            if noted_batch == batch_id and noted > rows_in:
                rows_in, rows_per_second = noted, noted * 1000 / max(batch_ms, 1)
            self._last_batch[query] = batch_id
            self._idle.discard(query)
            counted = self._counts[query].commit(batch_id)
            written = {output: rows for (what, output), rows in counted.items() if what == "written"}
            for output, rows in written.items():
                self._committed_rows[query, output] = self._committed_rows.get((query, output), 0) + rows
            self._rows[query] = replace(
                row,
                batches=row.batches + 1,
                rows_in=row.rows_in + rows_in,
                rows_out=row.rows_out + sum(written.values()),
                rejected=row.rejected + counted.total() - sum(written.values()),
                late=row.late + late,
                batch_ms=batch_ms,
                rows_per_second=rows_per_second,
                last_batch_at=time.time(),
                rows_under_way=0,
                **self._recovery_changes(row),
            )
            self._changed.notify_all()

    def note_completion(self, query: str, part: float, rows_under_way: int, left_secs: float | None) -> None:
        with self._changed:
            row = self._rows[query]
            self._rows[query] = replace(row, part=part, rows_under_way=rows_under_way, left_secs=left_secs)

    def batch_count(self, query: str) -> int:
        with self._changed:
            return self._rows[query].batches

    def committed_rows(self, query: str, output: str) -> int:
        """Return how many rows of committed batches were written to an output."""
        with self._changed:
            return self._committed_rows.get((query, output), 0)

    def note_retry(self, query: str, error: Fault, attempt: int, wait_secs: float) -> None:
        """Note that a query ended with a retriable error, and will be retried."""
        with self._changed:
            row, now = self._rows[query], time.time()
            retry = Retry(attempt, row.retry.since if row.retry else now, now + wait_secs)
            self._rows[query] = replace(row, state="retrying", error=error, retry=retry)

    def note_idle(self, query: str) -> None:
        """Note that a query waits for rows. An earlier failure counts as resolved."""
        with self._changed:
            self._idle.add(query)
            row = replace(self._rows[query], rows_per_second=0.0)
            self._rows[query] = replace(row, **self._recovery_changes(row))

    def note_broker(self, queries: Collection[str], unreachable_since: float | None) -> None:
        """Note since when the broker of these queries has not answered; None if it does."""
        with self._changed:
            for name in queries:
                self._rows[name] = replace(self._rows[name], broker_unreachable_since=unreachable_since)

    @staticmethod
    def _recovery_changes(row: QueryProgress) -> dict[str, Any]:
        """Return the changes of a query's progress when a batch is committed after a retry."""
        if row.retry is None:
            return {}
        return {"state": "running" if row.state == "retrying" else row.state, "error": None, "retry": None}

    def note_stopping(self, query: str) -> None:
        """Note that the current batch is the last one."""
        with self._changed:
            self._rows[query] = replace(self._rows[query], state="stopping")

    def wait_for_batch(self, query: str, last_batch: int) -> None:
        """Wait until Spark has reported a batch: its events come late."""
        with self._changed:
            self._changed.wait_for(lambda: self._last_batch[query] >= last_batch, timeout=5)

    def close(self) -> None:
        """Note that the run is over: queries that wait never began."""
        with self._changed:
            self._rows = {
                name: replace(row, state="not started") if row.state == "waiting" else row
                for name, row in self._rows.items()
            }

    def end_query(self, query: str, state: State, *, error: Fault | None = None) -> None:
        with self._changed:
            now = time.monotonic()
            seconds = now - self._started.get(query, now)
            row = replace(self._rows[query], state=state, seconds=seconds, error=error, retry=None)
            part = 1.0 if state == "finished" and row.part is not None else row.part
            self._rows[query] = replace(row, part=part, rows_under_way=0, left_secs=None, broker_unreachable_since=None)
