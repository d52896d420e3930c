"""A query that Spark runs: whether it has ended, should restart or is waited for, and why it ended."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError, QueryFailed
from penstock.manifest.model import QuerySpec, RealTime
from penstock.runtime.delivery.post_commit_scan import PostCommitScan
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.table_watch import TableWatch
from penstock.runtime.query.watermark_heartbeat import IdleWatch
from penstock.runtime.run.backfill import BackfillPhases
from penstock.runtime.run.completion import CompletionTracker
from penstock.runtime.run.listener import last_committed_batch
from penstock.runtime.spark.errors import failure_of, is_lost_records_error, is_write_error
from penstock.spark_internals.running_query import is_at_rest, stop_after_batch

Shape: TypeAlias = Literal["batches", "observed", "bare"]
DrainPolicy: TypeAlias = Literal["auto", "drain", "fast"]


@dataclass(slots=True)
class LiveQuery:
    """A query that Spark runs, and our own errors that ended it, if any."""

    spec: QuerySpec
    query: StreamingQuery
    failures: list[PenstockError]
    idle: IdleWatch | None
    drain: bool
    ends: bool
    """Whether it ends by itself."""
    shape: Shape
    board: ProgressBoard
    post_commit_scan: PostCommitScan | None
    most_rows: Mapping[str, int]
    """The number of rows after which the run ends, by output."""
    phases: BackfillPhases
    completion: CompletionTracker | None
    """The estimate of its completion, if it ends by itself."""
    inputs: Sequence[QueryInput]
    tables: TableWatch
    _is_restarting: bool = False
    """Whether it only seems to have ended: a batch may still be processed."""

    @property
    def has_enough(self) -> bool:
        """Whether an output has reached its number of rows."""
        return any(self.board.committed_rows(self.spec.name, node) >= most for node, most in self.most_rows.items())

    def has_ended(self) -> bool:
        """Whether it has ended, or must end although Spark would continue: its dead letters cannot be stored.

        A query that should restart is stopped after its current batch; the reason is then among its failures.
        """
        is_lost = self.post_commit_scan is not None and bool(self.failures)
        if is_lost or not (self.query.isActive or self._is_restarting):
            return True
        reason = self._restart_reason()
        if reason is not None and not self._is_restarting:
            stop_after_batch(self.query)
            self._is_restarting = True
        if not (self._is_restarting and is_at_rest(self.query)):
            return False
        self._is_restarting = False
        self.failures.extend(filter(None, [reason]))
        return True

    def _restart_reason(self) -> QueryFailed | None:
        """Why it should restart: something has become readable since it began, or a lookup table has changed."""
        snapshots = [each.request.snapshot for each in self.inputs if not each.entry.static]
        reasons = (found.restart_reason for found in snapshots if found is not None)
        return next(filter(None, reasons), None) or self.tables.poll()

    @property
    def is_real_time(self) -> bool:
        """Whether it runs in real-time mode: batches last long, while rows pass through one by one."""
        return isinstance(self.spec.trigger, RealTime) and self.shape == "observed" and not self.ends

    def is_waited_for(self, policy: DrainPolicy) -> bool:
        """Whether a stop waits for the current batch, by policy. A query that ends by itself is always waited for."""
        match policy:
            case "auto":
                return not self.is_real_time
            case "drain":
                return True
            case "fast":
                return self.ends

    def stop(self, until: float | None = None) -> None:
        """End it, unless it has ended, and wait until its last batch is reported.

        A current batch is dropped, and retried at the next start. Dead letters are collected `until` a moment of the
        monotonic clock.
        """
        self.query.stop()
        if (batch := last_committed_batch(self.query)) is not None:
            self.board.wait_for_batch(self.spec.name, batch)
        if self.post_commit_scan is not None:
            self.post_commit_scan.close(until)

    def failure(self, error: Exception, check_positions: Callable[[], None]) -> PenstockError:
        """Return why it ended, as one of our own errors if possible. `check_positions` raises if records are gone."""
        if is_lost_records_error(error):
            try:
                check_positions()
            except PenstockError as lost:
                return lost
        if self.failures:
            return self.failures[0]
        failure = error if isinstance(error, PenstockError) else failure_of(error)
        if is_write_error(error):
            kind, _, name = self.spec.outputs[0].node.partition(".")
            failure.with_context(f"a batch was not written to {kind} `{name}`", node=name)
        return failure
