import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import output
from penstock.cli.line import Checked, check, compiled, planned
from penstock.cli.options import DirectoryOption, Format, FormatOption, PathArgument, chosen_path
from penstock.cli.plan import RebuildOption, SelectOption
from penstock.config import settings_from
from penstock.plan.explain import explain, summary
from penstock.plan.state import SqliteStore
from penstock.plan.steps import Plan

if TYPE_CHECKING:
    from penstock.runtime.start import Run

BEAT_SECS = 1.0


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, then end.")] = False,
    select: SelectOption = None,
    allow_rebuild: RebuildOption = None,
    form: FormatOption = Format.TEXT,
) -> None:
    """Run the project until Ctrl-C. Creates what must exist, then starts every query."""
    checked = check(_location(path, directory))
    plan = planned(checked, compiled(checked), select=select or (), allow_rebuild=allow_rebuild or ())
    if plan.refusals:
        output.refuse(plan.refusals)
    output.show_diagnostics(checked.notes)
    _announce(plan)
    summary_json = _host(checked, plan, once=once, form=form)
    if form is Format.JSON:
        output.put_json(summary_json)


def _location(path: Path | None, directory: Path | None) -> Path:
    if path is None and directory is None:
        named = settings_from(os.environ).pipeline_definition_location
        if named:
            return Path(named)
    return chosen_path(path, directory)


def _announce(plan: Plan) -> None:
    output.say(summary(plan))
    for line in map(explain, plan.changes):
        output.say(f"  {line.sign} {line.action} {line.subject} {line.name}: {line.reason}")


def _host(checked: Checked, plan: Plan, *, once: bool, form: Format) -> dict[str, Any]:
    from penstock.cli.live import LiveTable
    from penstock.runtime.java import find_java
    from penstock.runtime.lock import run_lock

    place = checked.place
    store = SqliteStore(place.state_file)
    with run_lock(place.lock_file):
        find_java()
        output.say("Starting Spark …")
        from penstock.runtime.session import spark_session
        from penstock.runtime.start import start

        with spark_session(plan.manifest.spark, place.logs) as spark:
            run = start(plan, spark, place, store)
            beat = _Heartbeat(run, store, place.namespace, plan)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: run.stop())
            prints = any(o.sink["type"] == "print" for q in plan.queries for o in q.outputs)
            begun = time.monotonic()
            try:
                with LiveTable(run.board.snapshot, quiet=form is Format.JSON, data_on_stdout=prints) as table:

                    def idle() -> None:
                        beat.tick()
                        table.refresh()
                        time.sleep(0.1)

                    try:
                        run.run_once(idle) if once else run.run_on(idle)
                    finally:
                        run.close()
            finally:
                beat.last()
            return {
                "success": True,
                "project": plan.manifest.project.name,
                "revision": plan.manifest.revision,
                "seconds": round(time.monotonic() - begun, 3),
                "queries": [row.to_json() for row in run.board.snapshot()],
            }


class _Heartbeat:
    """Writes the progress of the run where `status` finds it, once a second."""

    def __init__(self, run: "Run", store: SqliteStore, namespace: str, plan: Plan) -> None:
        self._run = run
        self._store = store
        self._namespace = namespace
        self._about = {"pid": os.getpid(), "started_at": time.time(), "revision": plan.manifest.revision}
        self._due = 0.0

    def tick(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + BEAT_SECS
            self.last()

    def last(self) -> None:
        rows = self._run.board.snapshot()
        documents: dict[str, Any] = {"run": {**self._about, "heartbeat_at": time.time()}}
        documents.update({f"progress:{r.query}": {**r.to_json(), "last_batch_at": r.last_batch_at} for r in rows})
        self._store.put(self._namespace, documents)
