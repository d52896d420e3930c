from dataclasses import replace

import typer

from penstock.cli import options, output
from penstock.cli.readiness import connector_findings
from penstock.errors import Diagnostic, PlanRefused, ServiceError
from penstock.plan.explain import explain, summary, to_json
from penstock.workflow.stages import check, compile_project, plan_project


def destructive_refusal(text: str) -> PlanRefused:
    """The refusal of what an environment forbids."""
    return PlanRefused.from_refusals(
        [Diagnostic("destructive-refused", text, hint="add --force to override this once")]
    )


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    select: options.SelectOption = None,
    allow_rebuild: options.RebuildOption = None,
    truncate: options.TruncateOption = False,
    adopt_state: options.AdoptOption = False,
    carry: options.CarryOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show what `run` would create, start, change and retire, and whether its sources and sinks are ready."""
    checked = check(replace(options.target(path, directory, env, var, config=config), ask_read=True))
    checked = replace(checked, adopts_state=adopt_state, carries=options.parse_carried_names(carry))
    plan = plan_project(
        checked,
        compile_project(checked),
        select=select or (),
        allow_rebuild=options.allowed_rebuilds(allow_rebuild, truncate),
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
