from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from penstock.cli import options, output
from penstock.cli.readiness import connector_findings
from penstock.errors import Diagnostic, PlanRefused, ServiceError
from penstock.plan.explain import explain, summary, to_json
from penstock.workflow.stages import check, compile_project, plan_project

SelectOption = Annotated[list[str] | None, typer.Option("--select", "-s", help="Only this query; repeatable.")]
RebuildOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-rebuild",
        metavar="NAME",
        help="Let these queries start over: names separated by commas, or `all` for all that must; repeatable.",
    ),
]
TruncateOption = Annotated[
    bool,
    typer.Option("--truncate", help="Empty the outputs of queries that start over, and also rebuild their readers."),
]
AdoptOption = Annotated[
    bool,
    typer.Option("--adopt-state", help="Let the environment resume from the state of runs without an environment."),
]
CarryOption = Annotated[
    list[str] | None, typer.Option("--carry", metavar="OLD=NEW", help="Keep the state of a renamed model; repeatable.")
]


def allowed_rebuilds(written: Sequence[str] | None, truncate: bool) -> Sequence[str]:
    """The queries that may be rebuilt. `--truncate` applies only to them."""
    if truncate and not written:
        raise typer.BadParameter("--truncate needs --allow-rebuild, which names the queries that start over")
    return written or ()


def destructive_refusal(text: str) -> PlanRefused:
    """The refusal of what an environment forbids."""
    return PlanRefused.from_refusals(
        [Diagnostic("destructive-refused", text, hint="add --force to override this once")]
    )


def carried_names(written: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The old and new names of models that keep their state."""
    pairs = [text.partition("=") for text in written or ()]
    if wrong := [old for old, sign, new in pairs if not (old and sign and new)]:
        raise typer.BadParameter(f"`{wrong[0]}` is not of the form OLD=NEW")
    return tuple((old, new) for old, _, new in pairs)


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    select: SelectOption = None,
    allow_rebuild: RebuildOption = None,
    truncate: TruncateOption = False,
    adopt_state: AdoptOption = False,
    carry: CarryOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show what `run` would create, start, change and retire, and whether its sources and sinks are ready."""
    checked = check(replace(options.target(path, directory, env, var, config=config), ask_read=True))
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
    if form is options.OutputFormat.JSON:
        listed = [{"check": found.what, "detail": found.detail} for found in failing]
        output.put_json({**to_json(plan), "failing_checks": listed})
    else:
        output.put(summary(plan))
        for line in map(explain, plan.steps):
            output.put(f"  {line}")
            if line.risk != "none":
                output.put(f"      risk: {line.risk}")
        output.show_diagnostics(plan.offers)
    if plan.refusals and form is options.OutputFormat.JSON:
        raise typer.Exit(PlanRefused.exit_code)
    if plan.refusals:
        raise PlanRefused.from_refusals(plan.refusals)
    for found in failing:
        output.warn(f"{found.what} is not ready: {found.detail}")
    if failing:
        raise typer.Exit(ServiceError.exit_code)
