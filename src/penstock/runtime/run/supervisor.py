"""Supervises the live queries of a plan, from their first batch until they end, fail, or are stopped."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.errors import PenstockError, QueryFailed
from penstock.manifest.model import QuerySpec
from penstock.plan.deployed.checkpoint_damage import DAMAGES, find_damage
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import batch_outputs, record_query
from penstock.plan.deployed.stores import StateStore
from penstock.plan.query_order import reads_from, waves
from penstock.plan.steps import Plan
from penstock.runtime.dead_letters.masking import mask_failure
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.run.backoff import Retries
from penstock.runtime.run.kafka_watch import KafkaWatch
from penstock.runtime.run.launch import Launcher
from penstock.runtime.run.live_query import DrainPolicy, LiveQuery
from penstock.runtime.run.resources import RunResources
from penstock.runtime.spark.errors import expect_spark
from penstock.runtime.spark.process import is_spark_gone, spark_lost_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.spark_internals.running_query import is_at_rest, stop_after_batch

AT_ONCE: Final = max(2, os.cpu_count() or 2)
"""The maximum number of queries that are drained at a time."""


class Run:
    """The live queries of one plan."""

    def __init__(
        self,
        plan: Plan,
        frames: Frames,
        resources: RunResources,
        place: ProjectPlace,
        store: StateStore,
        board: ProgressBoard,
    ) -> None:
        self.plan = plan
        self.board = board
        self._place = place
        self._store = store
        self._resources = resources
        self._frames = frames
        self._launcher = Launcher(frames, resources, place, board)
        self._kafka = KafkaWatch(plan, resources, place, board)
        self._live: dict[str, LiveQuery] = {}
        self._retries = Retries()
        self._recorded: set[str] = set()
        self._started: set[str] = set()
        self.failures: list[PenstockError] = []
        """The failures of queries that are not retried, in order."""
        self._stopping = threading.Event()
        self._abandoned = False
        self._until: float | None = None

    def run_once(self, idle: Callable[[], None]) -> None:
        """Process all available input, wave by wave: a query begins when the queries that it reads from are done.

        Only a few run at a time: each needs cores, and some need Python processes that must answer in time. If a query
        fails, only those that read from it are held back; the first failure is raised at the end.
        """
        failures: dict[str, PenstockError] = {}
        self._kafka.begin(with_topics=False)
        for wave in waves(self.plan.queries):
            for query in wave:
                self._wait(idle, failures, until_fewer_than=AT_ONCE)
                if self._stopping.is_set() or reads_from(self.plan.manifest, query, failures):
                    continue
                try:
                    self._begin(query, drain=True)
                except PenstockError as failure:
                    self._fail(query, failure, failures)
            self._wait(idle, failures)
        if failures:
            raise self.failures[0]

    def _fail(self, spec: QuerySpec, failure: PenstockError, failures: dict[str, PenstockError] | None = None) -> None:
        """Record the failure of a query. It is raised at once unless `failures` collects it or other queries can
        continue without this one. A lost Spark process is always raised."""
        if is_spark_gone(failure.__cause__ or failure):
            raise spark_lost_error() from failure
        mask_failure(spec, failure).with_context(f"query `{spec.name}` stopped", node=spec.name)
        self.board.end_query(spec.name, "failed", error=failure.fault)
        self.failures.append(failure)
        if failures is not None:
            failures[spec.name] = failure
        elif not (spec.isolated or failure.code in DAMAGES):
            raise failure

    def run_until_stopped(self, idle: Callable[[], None]) -> None:
        """Run all queries until `stop`, or until all of them have ended by themselves.

        The failure of a query is raised at once, or at the end if it is isolated. A query that cannot begin because of
        a retriable error is retried if another query has begun. If none has, nothing is lost by failing at once.
        """
        passing: list[tuple[QuerySpec, PenstockError]] = []
        for query in self.plan.queries:
            try:
                self._begin(query, drain=False)
            except PenstockError as failure:
                if failure.retriable:
                    passing.append((query, failure))
                else:
                    self._fail(query, failure)
        for query, why in passing:
            if self._live:
                self._schedule_retry(query, why)
            else:
                self._fail(query, why)
        self._kafka.begin(with_topics=True)
        self._wait(idle)
        if self.failures:
            raise self.failures[0]

    def stop(self) -> None:
        """Make `run_once` or `run_until_stopped` return. Queries continue until `drain` or `close`."""
        self._stopping.set()

    def drain(self, idle: Callable[[], None], until: float, policy: DrainPolicy = "auto") -> dict[str, PenstockError]:
        """Finish the current batches, and begin no others. Returns the queries that were not done in time, and why.

        `until` is a moment of the monotonic clock. A batch that fails with an error that is not retriable is added to
        `failures`. Queries that the policy does not wait for are left to `close`.
        """
        self._until = until
        undone = self._retries.failures()
        waited_for = {name: live for name, live in self._live.items() if live.is_waited_for(policy)}
        failures: dict[str, PenstockError] = {}
        for name, live in waited_for.items():
            with expect_spark():
                stop_after_batch(live.query)
            self.board.note_stopping(name)
        while waited_for and time.monotonic() < until:
            with expect_spark():
                rested = [name for name, live in waited_for.items() if is_at_rest(live.query)]
            for name in rested:
                self._finish_drained(waited_for.pop(name), undone, failures)
            idle()
        for name in waited_for:
            undone[name] = QueryFailed("not-drained", "its batch was not done in time", retriable=True)
        return undone

    def _finish_drained(
        self, live: LiveQuery, undone: dict[str, PenstockError], failures: dict[str, PenstockError]
    ) -> None:
        """Record the end of a query that was drained, or failed meanwhile."""
        name = live.spec.name
        del self._live[name]
        with expect_spark():
            live.stop(self._until)
            error = live.query.exception() or next(iter(live.failures), None)
        self._record(live.spec)
        if error is None:
            self.board.end_query(name, "stopped")
            return
        failure = mask_failure(live.spec, self._failure(live, error))
        if failure.retriable:
            self.board.end_query(name, "stopped", error=failure.fault)
            undone[name] = failure
        else:
            self._fail(live.spec, failure, failures)

    def abandon(self) -> None:
        """Record the end of queries that were not done in time. Spark is not called any more: it may not answer."""
        for name in (*self._live, *self._retries.clear()):
            self.board.end_query(name, "stopped")
        self._live.clear()
        self._abandoned = True

    def close(self) -> None:
        """End all running queries. A current batch is dropped and retried at the next start."""
        self._kafka.close()
        for live in self._live.values():
            for output in live.spec.outputs:
                self._frames.resolver.sink(output.sink, output.node).cancel()
        for name, live in self._live.items():
            with suppress(*SPARK_ERRORS, OSError):  # Spark may have ended, and the query with it
                live.stop(self._until)
            self.board.end_query(name, "stopped")
            self._record(live.spec)
        self._live.clear()
        for name in self._retries.clear():
            self.board.end_query(name, "stopped")
        self.board.close()
        if not self._abandoned:
            self._resources.close()

    def _wait(
        self, idle: Callable[[], None], failures: dict[str, PenstockError] | None = None, until_fewer_than: int = 1
    ) -> None:
        while len(self._live) + len(self._retries) >= until_fewer_than and not self._stopping.is_set():
            self._start_due(failures)
            for name, live in list(self._live.items()):
                with expect_spark():
                    ended = live.has_ended()
                if not ended and (trouble := self._kafka.find_failure(name)) is not None:
                    live.failures.append(trouble)
                    ended = True
                self._record(live.spec)
                if not ended and live.idle is not None:
                    live.idle.check_query(live.query)
                if live.has_enough:
                    self.stop()
                if not ended and live.completion and (reached := live.completion.estimate_completion(live.query)):
                    self.board.note_completion(name, reached.part, reached.rows, reached.left_secs)
                if ended:
                    del self._live[name]
                    self._finish_query(live, failures)
            idle()

    def _record(self, spec: QuerySpec) -> None:
        """Record the definition of a query after its first committed batch, which proves that it runs."""
        if spec.name not in self._recorded and self.board.batch_count(spec.name):
            self._recorded.add(spec.name)
            record_query(self._store, self._place, self.plan.manifest.revision, spec)

    def _finish_query(self, live: LiveQuery, failures: dict[str, PenstockError] | None) -> None:
        with expect_spark():
            live.stop()
            error = live.query.exception() or next(iter(live.failures), None)
        if error is None:
            record_query(self._store, self._place, self.plan.manifest.revision, live.spec)
            if not live.phases.advance_phase():
                if live.completion is not None:
                    self.board.note_completion(live.spec.name, 1.0, 0, None)
                self.board.end_query(live.spec.name, "finished")
                return
        try:
            if error is None or self._resources.resolve_schema(error) or self._launcher.try_fallback(live, error):
                self._start(live.spec, drain=live.drain)
                return
            failure = self._failure(live, error)
        except PenstockError as another:
            failure = another
        self._retry_or_fail(live.spec, failure, failures, drain=live.drain)

    def _failure(self, live: LiveQuery, error: Exception) -> PenstockError:
        checkpoint = self._place.checkpoint(live.spec.name)
        return live.failure(error, lambda: self._resources.check_positions(live.spec, checkpoint))

    def _retry_or_fail(
        self, spec: QuerySpec, failure: PenstockError, failures: dict[str, PenstockError] | None, *, drain: bool
    ) -> None:
        if self._retries.can_add(spec, self.board.batch_count(spec.name), failure, drain=drain):
            self._schedule_retry(spec, failure, drain=drain)
        else:
            self._fail(spec, failure, failures)

    def _schedule_retry(self, spec: QuerySpec, failure: PenstockError, *, drain: bool = False) -> None:
        mask_failure(spec, failure)
        attempt, wait_secs = self._retries.add(spec, self.board.batch_count(spec.name), failure, drain=drain)
        self.board.note_retry(spec.name, failure.fault, attempt, wait_secs)

    def _start_due(self, failures: dict[str, PenstockError] | None) -> None:
        """Start the queries whose wait is over."""
        for spec, drain in self._retries.pop_due():
            begin = self._start if spec.name in self._started else self._begin
            try:
                begin(spec, drain=drain)
            except PenstockError as failure:
                self._retry_or_fail(spec, failure, failures, drain=drain)

    def _begin(self, spec: QuerySpec, *, drain: bool) -> None:
        """Start a query if its checkpoint is undamaged, and no unread records are gone."""
        checkpoint = self._place.checkpoint(spec.name)
        if (damage := find_damage(checkpoint, batch_outputs(spec, self._place))) is not None:
            raise damage.failure(spec.name)
        self._resources.check_positions(spec, checkpoint)
        self._start(spec, drain=drain)

    def _start(self, spec: QuerySpec, *, drain: bool) -> None:
        live = self._launcher.launch(spec, drain=drain)
        self._started.add(spec.name)
        if live is not None:
            self._live[spec.name] = live
        else:
            self.board.end_query(spec.name, "finished")
