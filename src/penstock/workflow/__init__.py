"""Penstock from Python: what a notebook, Airflow or Dagster calls, and what the commands are made of.

    from penstock import workflow

    project = workflow.load("shop", env="prod")
    for step in workflow.plan(project).changes:
        print(workflow.explain(step))
    result = workflow.run_once(project)
    rows = workflow.show(project, "orders_clean")

Nothing here prints. Mistakes in documents raise `ProjectInvalid`, plans that must not be carried out `PlanRefused`, and
services that fail `ServiceError`, all of them `PenstockError`. Spark is imported when a run or `show` needs it.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import Diagnostic, PlanRefused, ProjectInvalid
from penstock.plan.explain import explain
from penstock.plan.steps import Plan
from penstock.workflow.stages import CheckedProject, Target, check, compile_project, plan_project

if TYPE_CHECKING:
    from penstock.runtime.delivery.progress import QueryProgress

__all__ = [
    "CheckedProject",
    "RunResult",
    "explain",
    "load",
    "plan",
    "run_once",
    "run_until_stopped",
    "show",
    "validate",
]

_IDLE_SECS = 0.1


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the progress of every query, and how long it took."""

    queries: "tuple[QueryProgress, ...]"
    seconds: float

    @property
    def rows_out(self) -> int:
        return sum(query.rows_out for query in self.queries)


def load(
    path: str | Path,
    *,
    env: str | None = None,
    variables: Mapping[str, Any] | None = None,
    strict: bool = False,
    config: str | Path | None = None,
) -> CheckedProject:
    """Read and check a project or a pipeline. Raises `ProjectInvalid` with all errors at once.

    `notes` of the result has the warnings; with `strict` they are errors. Registries and databases are asked
    for columns that documents leave open, as `penstock run` does.
    """
    return check(_target(path, env, variables, strict=strict, config=config, ask=True))


def validate(
    path: str | Path,
    *,
    env: str | None = None,
    variables: Mapping[str, Any] | None = None,
    strict: bool = False,
    config: str | Path | None = None,
) -> tuple[Diagnostic, ...]:
    """All errors and warnings that `penstock validate` finds. Asks no service, and does not raise for mistakes."""
    try:
        return check(_target(path, env, variables, strict=strict, config=config, ask=False)).notes
    except ProjectInvalid as invalid:
        return tuple(invalid.diagnostics)


def plan(
    project: CheckedProject,
    *,
    select: Collection[str] = (),
    allow_rebuild: Collection[str] = (),
    truncate: bool = False,
    once: bool = False,
) -> Plan:
    """What a run would create, restart, rebuild and retire. Its `refusals` say why it must not be carried out."""
    manifest = compile_project(project)
    return plan_project(project, manifest, select=select, allow_rebuild=allow_rebuild, truncate=truncate, once=once)


def run_once(
    project: CheckedProject,
    plan: Plan | None = None,
    *,
    on_progress: "Callable[[Sequence[QueryProgress]], None]" = lambda _: None,
) -> RunResult:
    """Process the available rows, then end. Raises the first failure of a query, with the others in `others`.

    A plan that was made before is carried out as it is. `on_progress` is called several times a second.
    """
    return _run(project, plan, None, on_progress, once=True)


def run_until_stopped(
    project: CheckedProject,
    stop: threading.Event,
    plan: Plan | None = None,
    *,
    on_progress: "Callable[[Sequence[QueryProgress]], None]" = lambda _: None,
) -> RunResult:
    """Run until `stop` is set, from another thread or from `on_progress`, or a query fails for good.

    Batches that have begun are finished then, for as long as the setting `shutdown_budget_secs` allows.
    """
    return _run(project, plan, stop, on_progress, once=False)


def show(project: CheckedProject, name: str, *, limit: int = 10) -> list[dict[str, Any]]:
    """The first rows of a source, model, transform or topic; with `NAME.errors`, its dead letters."""
    from penstock.workflow.preview import preview_rows

    return preview_rows(project, name, limit, _say_nothing)


def _target(
    path: str | Path,
    env: str | None,
    variables: Mapping[str, Any] | None,
    *,
    strict: bool,
    config: str | Path | None,
    ask: bool,
) -> Target:
    chosen = Target(Path(path), env, strict=strict, ask_read=ask, allow_unset=not ask)
    chosen = replace(chosen, variables=variables) if variables else chosen
    return chosen if config is None else replace(chosen, config=Path(config))


def _run(
    project: CheckedProject,
    chosen: Plan | None,
    stop: threading.Event | None,
    on_progress: "Callable[[Sequence[QueryProgress]], None]",
    *,
    once: bool,
) -> RunResult:
    from penstock.workflow.host import EventStop, host_run, supervise

    found = plan(project, once=once) if chosen is None else chosen
    if found.refusals:
        raise PlanRefused.from_refusals(found.refusals)
    begun = time.monotonic()
    with host_run(project, found, say=_say_nothing, warn=_say_nothing) as hosted:
        request = EventStop(hosted, stop, project.settings.shutdown_budget_secs)

        def idle() -> None:
            on_progress(hosted.run.board.snapshot())
            request.forward()
            time.sleep(_IDLE_SECS)

        supervise(hosted, request, idle, once=once)
        return RunResult(tuple(hosted.run.board.snapshot()), time.monotonic() - begun)


def _say_nothing(_: str) -> None: ...
