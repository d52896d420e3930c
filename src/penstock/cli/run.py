import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.class_training import begin_training
from penstock.cli.guard import guard
from penstock.cli.options import (
    ConfigOption,
    DirectoryOption,
    EnvOption,
    Format,
    FormatOption,
    PathArgument,
    VarOption,
    target,
)
from penstock.cli.plan import (
    AdoptOption,
    CarryOption,
    RebuildOption,
    SelectOption,
    TruncateOption,
    allowed_rebuilds,
    carried_names,
)
from penstock.cli.stopping import Signals, announced, given_up
from penstock.errors import PenstockError, PlanRefused, ServiceError
from penstock.plan.explain import explain, summary
from penstock.plan.place import Place
from penstock.plan.state import record_progress
from penstock.plan.steps import Plan
from penstock.plan.stores import StateStore
from penstock.plan.waves import upstream
from penstock.workflow.stages import Checked, check, compiled, planned

if TYPE_CHECKING:
    from penstock.cli.live import Epochs
    from penstock.runtime.batch.progress import ProgressBoard
    from penstock.runtime.run.supervisor import DrainPolicy, Run

BEAT_SECS = 1.0


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    var: VarOption = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then end.")] = False,
    select: SelectOption = None,
    allow_rebuild: RebuildOption = None,
    truncate: TruncateOption = False,
    adopt_state: AdoptOption = False,
    carry: CarryOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Do not ask before changing a protected environment.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild and retire even where the environment forbids it.")
    ] = False,
    form: FormatOption = Format.TEXT,
) -> None:
    """Run the project until Ctrl-C. Creates what must exist, then starts every query."""
    output.begin_log(os.environ.get("PENSTOCK__LOG_FORMAT"))
    checked = check(replace(target(path, directory, env, var, config=config), ask_read=True))
    output.begin_log(checked.settings.log_format)
    checked = replace(checked, adopts_state=adopt_state, carries=carried_names(carry))
    allowed = allowed_rebuilds(allow_rebuild, truncate)
    plan = planned(checked, compiled(checked), select=select or (), allow_rebuild=allowed, truncate=truncate, once=once)
    output.show_diagnostics(plan.offers)
    if plan.refusals:
        raise PlanRefused.because(plan.refusals)
    if checked.environment is not None:
        guard(checked.environment, plan, confirmed=confirm, forced=force)
    output.show_diagnostics(checked.notes)
    output.say(summary(plan))
    for line in map(explain, plan.changes):
        output.say(f"  {line}")
    result = _host(checked, plan, once=once, quiet=form is Format.JSON)
    begin_training()
    if form is Format.JSON:
        output.put_json(result)


def _host(checked: Checked, plan: Plan, *, once: bool, quiet: bool) -> dict[str, Any]:
    """Hold the lock and Spark for as long as the queries run."""
    from penstock.clients.jvm.java import find_java
    from penstock.runtime.run.lock import run_lock
    from penstock.workflow.packages import fetched, packages_of

    place = checked.place
    store = checked.store
    with run_lock(place.lock_file, say=output.say) as lock, store.held(place.namespace) as hold:
        find_java()
        jars = fetched(packages_of(plan.manifest, checked.environ))
        output.say("Starting Spark …")
        from penstock.cli.live import Epochs
        from penstock.runtime.batch.progress import ProgressBoard
        from penstock.runtime.run.start import start
        from penstock.runtime.spark.session import kill_jvm, spark_session

        board = ProgressBoard([query.name for query in plan.queries], upstream(plan.queries))
        heartbeat = _Heartbeat(board, store, hold.check, place, plan.manifest.revision)
        heartbeat.write()

        inherited = (lock.descriptor, *hold.descriptors)
        with spark_session(
            plan.manifest.spark, place.logs, jars, inherited=inherited, note_pid=lock.note_spark
        ) as spark:
            clusters, said = checked.clusters, output.warn
            run = start(plan, spark, place, store, board, checked.environ, clusters=clusters, say=said)
            signals = Signals(run.stop, lambda: kill_jvm(spark), checked.settings.shutdown_budget_secs).listen()
            policy = checked.settings.drain_policy
            is_pipeline = checked.graph.format == "pipeline"
            epochs = Epochs(checked.settings.checkpoint_interval_sec) if is_pipeline else None
            return _watch(run, heartbeat, signals, policy, epochs, once=once, quiet=quiet)


def _watch(
    run: "Run",
    heartbeat: "_Heartbeat",
    signals: Signals,
    policy: "DrainPolicy",
    epochs: "Epochs | None",
    *,
    once: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Show and record the progress of a run until it ends, by itself or by a signal."""
    from penstock.cli.live import LiveTable

    prints = any(output.sink["type"] == "print" for query in run.plan.queries for output in query.outputs)
    begun = time.monotonic()
    try:
        with LiveTable(run.board.snapshot, quiet=quiet, data_on_stdout=prints, epochs=epochs) as table:

            def idle() -> None:
                heartbeat.tick()
                table.refresh()
                for failure in () if table.is_moving else run.failures:
                    output.report_failure(failure)
                time.sleep(0.1)

            try:
                run.run_once(idle) if once else run.run_on(idle)
            except PenstockError as failure:
                _settle(run, signals, policy, idle, failure)
            else:
                if signals.heard:
                    announced(signals.budget_secs)
                    _settle(run, signals, policy, idle)
            finally:
                run.close()
            heartbeat.ended("drained" if signals.heard else "finished")
    except PenstockError as failure:
        heartbeat.ended("given up" if failure.code == "not-drained" else "failed")
        failure.others = [other for other in run.failures if other is not failure]
        raise
    finally:
        heartbeat.write()
        _tell_left_aside(run.board)
    return {
        "success": True,
        "project": run.plan.manifest.project.name,
        "revision": run.plan.manifest.revision,
        "seconds": round(time.monotonic() - begun, 3),
        "queries": [row.to_json() for row in run.board.snapshot()],
    }


def _settle(
    run: "Run",
    signals: Signals,
    policy: "DrainPolicy",
    idle: Callable[[], None],
    because: PenstockError | None = None,
) -> None:
    """Finish what is under way, within the budget. Raise why the run failed, or that something was not done then."""
    if because is not None and because.code in ("spark-lost", "already-running"):
        raise because
    undone = run.drain(idle, signals.until, policy)
    since = [row.broker_unreachable_since for row in run.board.snapshot() if row.query in undone]
    if because is None and run.failures:
        because = run.failures[0]
    if any(failure.code == "not-drained" for failure in undone.values()):
        run.abandon()
        signals.kill()
    if because is not None:
        raise because
    if undone:
        raise given_up(undone, signals.budget_secs, min(filter(None, since), default=None))


def _tell_left_aside(board: "ProgressBoard") -> None:
    """Say which queries did not take all rows."""
    from penstock.cli.live import left_aside

    for text, none_taken in filter(None, map(left_aside, board.snapshot())):
        output.warn(text) if none_taken else output.say(text)


class _Heartbeat:
    """Writes the progress of the run where `status` finds it, once a second, and sees that no other runs the same."""

    def __init__(
        self,
        board: "ProgressBoard",
        store: StateStore,
        still_held: Callable[[], None],
        place: Place,
        revision: str,
    ) -> None:
        self._board = board
        self._store = store
        self._still_held = still_held
        self._place = place
        self._about: dict[str, Any] = {"pid": os.getpid(), "started_at": time.time(), "revision": revision}
        self._due = 0.0

    def ended(self, how: str) -> None:
        """Note how it ended, for who told it to."""
        self._about = {**self._about, "ended": how}

    def tick(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + BEAT_SECS
            self.write()

    def write(self) -> None:
        """A store that cannot be reached for a while is told later: nobody's rows depend on it."""
        progress = {row.query: row.to_json() for row in self._board.snapshot()}
        try:
            self._still_held()
            record_progress(self._store, self._place, {**self._about, "heartbeat_at": time.time()}, progress)
        except ServiceError as error:
            if not error.retriable:
                raise
