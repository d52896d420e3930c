import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from penstock.cli import options, output
from penstock.cli.class_training import begin_training
from penstock.cli.plan import destructive_refusal
from penstock.cli.stopping import Signals, announce_stop
from penstock.errors import Diagnostic, PlanRefused
from penstock.plan.explain import explain, summary
from penstock.plan.steps import DeleteConnector, DeleteVirtualTopic, EmptyOutput, Plan, RebuildQuery, RetireQuery
from penstock.project.project import Environment
from penstock.workflow.stages import CheckedProject, check, compile_project, plan_project

if TYPE_CHECKING:
    from penstock.runtime.delivery.progress import ProgressBoard

_Destructive: TypeAlias = RebuildQuery | EmptyOutput | RetireQuery | DeleteConnector | DeleteVirtualTopic


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    once: Annotated[bool, typer.Option("--once", help="Process the available rows, then end.")] = False,
    select: options.SelectOption = None,
    allow_rebuild: options.RebuildOption = None,
    truncate: options.TruncateOption = False,
    adopt_state: options.AdoptOption = False,
    carry: options.CarryOption = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Do not ask for a confirmation in a protected environment.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild and retire even if the environment forbids it.")
    ] = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Run the project until Ctrl-C. Creates missing topics and tables, then starts every query."""
    output.begin_log(os.environ.get("PENSTOCK__LOG_FORMAT"))
    checked = check(replace(options.target(path, directory, env, var, config=config), ask_read=True))
    output.begin_log(checked.settings.log_format)
    checked = replace(checked, adopts_state=adopt_state, carries=options.parse_carried_names(carry))
    allowed = options.allowed_rebuilds(allow_rebuild, truncate)
    plan = plan_project(
        checked, compile_project(checked), select=select or (), allow_rebuild=allowed, truncate=truncate, once=once
    )
    output.show_diagnostics(plan.offers)
    if plan.refusals:
        raise PlanRefused.from_refusals(plan.refusals)
    if checked.environment is not None:
        guard(checked.environment, plan, confirmed=confirm, forced=force)
    output.show_diagnostics(checked.notes)
    output.say(summary(plan))
    for line in map(explain, plan.changes):
        output.say(f"  {line}")
    result = _host(checked, plan, once=once, quiet=form is options.OutputFormat.JSON)
    begin_training()
    if form is options.OutputFormat.JSON:
        output.put_json(result)


def _host(checked: CheckedProject, plan: Plan, *, once: bool, quiet: bool) -> dict[str, Any]:
    """Show the progress of a run until it ends, by itself or by a signal."""
    from penstock.cli.live import Epochs, LiveTable
    from penstock.workflow.host import host_run, supervise

    is_pipeline = checked.graph.format == "pipeline"
    epochs = Epochs(checked.settings.checkpoint_interval_sec) if is_pipeline else None
    prints = any(output.sink["type"] == "print" for query in plan.queries for output in query.outputs)
    begun = time.monotonic()
    with host_run(checked, plan, say=output.say, warn=output.warn) as hosted:
        run = hosted.run
        signals = Signals(run.stop, hosted.kill, checked.settings.shutdown_budget_secs).listen()
        try:
            with LiveTable(run.board.snapshot, quiet=quiet, data_on_stdout=prints, epochs=epochs) as table:

                def idle() -> None:
                    table.refresh()
                    for failure in () if table.is_moving else run.failures:
                        output.report_failure(failure)
                    time.sleep(0.1)

                supervise(hosted, signals, idle, once=once, on_stop=lambda: announce_stop(signals.budget_secs))
        finally:
            _report_skipped_rows(run.board)
        return {
            "success": True,
            "project": plan.manifest.project.name,
            "revision": plan.manifest.revision,
            "seconds": round(time.monotonic() - begun, 3),
            "queries": [row.to_json() for row in run.board.snapshot()],
        }


def _report_skipped_rows(board: "ProgressBoard") -> None:
    """Report queries with rejected or late rows."""
    from penstock.cli.live import skipped_rows_note

    for text, none_taken in filter(None, map(skipped_rows_note, board.snapshot())):
        output.warn(text) if none_taken else output.say(text)


# Protected environments


def _step_target(step: _Destructive) -> str:
    match step:
        case RebuildQuery(query):
            return query.name
        case EmptyOutput(_, location):
            return location
        case _:
            return step.name


def guard(environment: Environment, plan: Plan, *, confirmed: bool, forced: bool) -> None:
    """Refuse what the environment forbids, and ask for a confirmation if it is protected."""
    destructive = [step for step in plan.steps if isinstance(step, _Destructive)]
    if destructive and not environment.allow_destructive and not forced:
        names = ", ".join(_step_target(step) for step in destructive)
        raise destructive_refusal(f"`{environment.name}` forbids this plan to rebuild, retire or delete: {names}")
    if not environment.asks_first or confirmed or not plan.changes:
        return
    if not sys.stdin.isatty():
        text = f"`{environment.name}` is protected, and there is no terminal to ask for a confirmation"
        raise PlanRefused.from_refusals([Diagnostic("confirmation-needed", text, hint="add --confirm")])
    output.say(f"This changes the protected environment `{environment.name}`.")
    sys.stderr.write(f"Type `{environment.name}` to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != environment.name:
        text = "the name does not match; nothing was done"
        raise PlanRefused.from_refusals([Diagnostic("confirmation-needed", text)])
