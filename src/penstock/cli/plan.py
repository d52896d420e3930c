from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.options import (
    ConfigOption,
    DirectoryOption,
    EnvOption,
    FormatOption,
    OutputFormat,
    PathArgument,
    VarOption,
    target,
)
from penstock.cli.readiness import connector_findings
from penstock.errors import PlanRefused, ServiceError
from penstock.plan.explain import explain, summary, to_json
from penstock.workflow.stages import check, compile_project, plan_project

SelectOption = Annotated[list[str] | None, typer.Option("--select", "-s", help="Only this query; may be given again.")]
RebuildOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-rebuild",
        metavar="NAME",
        help="Let these queries begin again: names with commas between them, or `all` that must; may be given again.",
    ),
]
TruncateOption = Annotated[
    bool,
    typer.Option("--truncate", help="Empty the outputs of queries that begin again, and rebuild their readers, too."),
]
AdoptOption = Annotated[
    bool, typer.Option("--adopt-state", help="Let the environment go on with the state of runs without one.")
]
CarryOption = Annotated[
    list[str] | None,
    typer.Option("--carry", metavar="OLD=NEW", help="Keep the state of a model that was renamed; may be given again."),
]


def allowed_rebuilds(written: Sequence[str] | None, truncate: bool) -> Sequence[str]:
    """The queries that may begin again. Outputs are emptied for them, and for nobody else."""
    if truncate and not written:
        raise typer.BadParameter("--truncate needs --allow-rebuild, which names the queries that begin again")
    return written or ()


def carried_names(written: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The names before and after, of models that keep their state."""
    pairs = [text.partition("=") for text in written or ()]
    if wrong := [old for old, sign, new in pairs if not (old and sign and new)]:
        raise typer.BadParameter(f"`{wrong[0]}` is not of the form OLD=NEW")
    return tuple((old, new) for old, _, new in pairs)


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    var: VarOption = None,
    select: SelectOption = None,
    allow_rebuild: RebuildOption = None,
    truncate: TruncateOption = False,
    adopt_state: AdoptOption = False,
    carry: CarryOption = None,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show what `run` would create, start, change and retire, and whether what it reads and writes is ready."""
    checked = check(replace(target(path, directory, env, var, config=config), ask_read=True))
    checked = replace(checked, adopts_state=adopt_state, carries=carried_names(carry))
    plan = plan_project(
        checked,
        compile_project(checked),
        select=select or (),
        allow_rebuild=allowed_rebuilds(allow_rebuild, truncate),
        truncate=truncate,
    )
    checks = () if plan.refusals else connector_findings(checked, plan.manifest, select or ())
    failing = [found for found in checks if not found.fine]
    if form is OutputFormat.JSON:
        listed = [{"check": found.what, "detail": found.detail} for found in failing]
        output.put_json({**to_json(plan), "failing_checks": listed})
    else:
        output.put(summary(plan))
        for line in map(explain, plan.steps):
            output.put(f"  {line}")
            if line.risk != "none":
                output.put(f"      risk: {line.risk}")
        output.show_diagnostics(plan.offers)
    if plan.refusals and form is OutputFormat.JSON:
        raise typer.Exit(PlanRefused.exit_code)
    if plan.refusals:
        raise PlanRefused.from_refusals(plan.refusals)
    for found in failing:
        output.warn(f"{found.what} is not ready: {found.detail}")
    if failing:
        raise typer.Exit(ServiceError.exit_code)
