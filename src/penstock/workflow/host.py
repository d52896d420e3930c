"""Hosts a run: holds its lock and Spark session, records its progress, and drains it at the end."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError, ServiceError
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import record_progress
from penstock.plan.deployed.stores import StateStore
from penstock.plan.query_order import upstream
from penstock.plan.steps import Plan
from penstock.workflow.packages import fetch_packages, packages_of
from penstock.workflow.stages import CheckedProject

if TYPE_CHECKING:
    from penstock.runtime.delivery.progress import ProgressBoard
    from penstock.runtime.run.live_query import DrainPolicy
    from penstock.runtime.run.supervisor import Run

RECORD_SECS: Final = 1.0
"""How often the progress of a run is recorded."""
_LOST: Final = ("spark-lost", "already-running")
"""Failures after which nothing can be drained."""


class StopRequest:
    """A request to stop a run, and its deadline."""

    def __init__(self, budget_secs: float) -> None:
        self.budget_secs = budget_secs
        self._until: float | None = None

    @property
    def is_stopping(self) -> bool:
        return self._until is not None

    @property
    def until(self) -> float:
        """The deadline by the monotonic clock. The budget begins with the first call."""
        if self._until is None:
            self._until = time.monotonic() + self.budget_secs
        return self._until


@dataclass(frozen=True, slots=True)
class HostedRun:
    """A run whose lock and Spark session are held. `kill` ends the JVM at once."""

    run: "Run"
    record: "ProgressRecord"
    kill: Callable[[], None]
    policy: "DrainPolicy"


class EventStop(StopRequest):
    """A stop request that is made by setting an event."""

    def __init__(self, hosted: HostedRun, event: threading.Event | None, budget_secs: float) -> None:
        super().__init__(budget_secs)
        self._hosted = hosted
        self._event = event

    @property
    def is_stopping(self) -> bool:
        return self._event is not None and self._event.is_set()

    def forward(self) -> None:
        """Stop the run if the event is set."""
        if self.is_stopping:
            self._hosted.run.stop()


@contextmanager
def host_run(
    checked: CheckedProject, plan: Plan, *, say: Callable[[str], None], warn: Callable[[str], None]
) -> Iterator[HostedRun]:
    """Hold the lock and Spark for as long as the queries run."""
    from penstock.clients.jvm.java import find_java
    from penstock.runtime.run.lock import run_lock

    place, store = checked.place, checked.store
    with run_lock(place.lock_file, say=say) as lock, store.hold_lock(place.namespace) as hold:
        find_java()
        jars = fetch_packages(packages_of(plan.manifest, checked.environ), say)
        say("Starting Spark …")
        from penstock.runtime.delivery.progress import ProgressBoard
        from penstock.runtime.run.start import start
        from penstock.runtime.spark.session import kill_jvm, spark_session

        board = ProgressBoard([query.name for query in plan.queries], upstream(plan.queries))
        record = ProgressRecord(board, store, hold.check, place, plan.manifest.revision)
        record.write()
        inherited = (lock.descriptor, *hold.descriptors)
        spec, note_pid = plan.manifest.spark, lock.note_spark
        with spark_session(spec, place.logs, jars, inherited=inherited, note_pid=note_pid) as spark:
            run = start(plan, spark, place, store, board, checked.environ, clusters=checked.clusters, say=warn)
            yield HostedRun(run, record, lambda: kill_jvm(spark), checked.settings.drain_policy)


def supervise(
    hosted: HostedRun,
    stop: StopRequest,
    idle: Callable[[], None],
    *,
    once: bool,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Run the queries until they end, fail, or `stop` asks for it; then drain them. `idle` is called again and again.

    Raises the failure that ended the run, with the others beside it.
    """
    run = hosted.run

    def wait() -> None:
        hosted.record.tick()
        idle()

    try:
        try:
            run.run_once(wait) if once else run.run_until_stopped(wait)
        except PenstockError as failure:
            _drain(hosted, stop, wait, failure)
        else:
            if stop.is_stopping:
                on_stop()
                _drain(hosted, stop, wait)
        finally:
            run.close()
        hosted.record.note_end("drained" if stop.is_stopping else "finished")
    except PenstockError as failure:
        hosted.record.note_end("given up" if failure.code == "not-drained" else "failed")
        failure.others = [other for other in run.failures if other is not failure]
        raise
    finally:
        hosted.record.write()


def _drain(
    hosted: HostedRun, stop: StopRequest, idle: Callable[[], None], because: PenstockError | None = None
) -> None:
    """Finish the current batches within the budget. Raise the failure of the run, or an error about unfinished
    batches."""
    if because is not None and because.code in _LOST:
        raise because
    run = hosted.run
    undone = run.drain(idle, stop.until, hosted.policy)
    since = [row.broker_unreachable_since for row in run.board.snapshot() if row.query in undone]
    if because is None and run.failures:
        because = run.failures[0]
    if any(failure.code == "not-drained" for failure in undone.values()):
        run.abandon()
        hosted.kill()
    if because is not None:
        raise because
    if undone:
        raise unfinished_error(undone, stop.budget_secs, min(filter(None, since), default=None))


def unfinished_error(
    undone: dict[str, PenstockError], budget_secs: float, unreachable_since: float | None = None
) -> ServiceError:
    """The error of a run that could not finish its batches. A broker may have been unreachable meanwhile."""
    names = " and ".join(f"query `{name}`" for name in undone)
    found = not_drained(names, budget_secs)
    if unreachable_since is not None:
        at = time.strftime("%H:%M:%SZ", time.gmtime(unreachable_since))
        found.message = f"{found.message}; broker unreachable since {at}"
        found.hint = "check the broker, then start again; nothing is lost"
    for failure in undone.values():
        if failure.code != found.code:
            found = ServiceError(found.code, failure.chain[-1], hint=failure.hint, retriable=True)
            found.context = [*failure.context, f"{names} could not finish a batch; the next start replays it"]
            found.node = failure.node
            break
    return found


def not_drained(who: str, budget_secs: float) -> ServiceError:
    """The error for a batch that did not finish within the budget."""
    text = f"{who} could not finish a batch within {budget_secs:g} s; the next start replays it"
    hint = "give it more time with `PENSTOCK__SHUTDOWN_BUDGET_SECS`, and check what its sinks wait for"
    return ServiceError("not-drained", text, hint=hint, retriable=True)


class ProgressRecord:
    """Records the progress of a run for `status` once a second, and checks that the run still holds its lock."""

    def __init__(
        self, board: "ProgressBoard", store: StateStore, check: Callable[[], None], place: ProjectPlace, revision: str
    ) -> None:
        self._board = board
        self._store = store
        self._check_lock = check
        self._place = place
        self._about: dict[str, Any] = {"pid": os.getpid(), "started_at": time.time(), "revision": revision}
        self._due = 0.0

    def note_end(self, how: str) -> None:
        """Record how the run ended, for `penstock stop`."""
        self._about = {**self._about, "ended": how}

    def tick(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + RECORD_SECS
            self.write()

    def write(self) -> None:
        """Write the progress. If the store cannot be reached, it is written later: no rows depend on it."""
        progress = {row.query: row.to_json() for row in self._board.snapshot()}
        try:
            self._check_lock()
            record_progress(self._store, self._place, {**self._about, "heartbeat_at": time.time()}, progress)
        except ServiceError as error:
            if not error.retriable:
                raise
