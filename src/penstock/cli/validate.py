from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import options, output
from penstock.errors import Diagnostic, PenstockError, ProjectInvalid
from penstock.manifest.queries.row_rules import unrun_tests
from penstock.project.load import environment_files, is_project
from penstock.workflow.stages import CheckedProject, Target, check


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    all_envs: Annotated[bool, typer.Option("--all-envs", help="Check every environment.")] = False,
    var: options.VarOption = None,
    strict: options.StrictOption = False,
    check_schemas: Annotated[
        bool, typer.Option("--check-schemas", help="Ask the schema registry and ClickHouse, and cache the answers.")
    ] = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Check the documents: YAML, names, SQL, columns and rules.

    Starts nothing, and contacts no service without --check-schemas.
    """
    try:
        named = options.target(path, directory, env, var, strict=strict, config=config)
        wanted = replace(named, ask_registry=check_schemas, allow_unset=True)
    except ProjectInvalid as invalid:
        if form is options.OutputFormat.TEXT:
            raise
        output.put_json(_report(invalid.diagnostics, path or directory or Path()))
        raise typer.Exit(invalid.exit_code) from invalid
    targets = _every_environment(wanted) if all_envs else [wanted]
    exit_code = 0
    reports = {}
    for each in targets:
        heading = f"{each.env}: " if all_envs else ""
        try:
            checked = check(each)
        except ProjectInvalid as invalid:
            if form is options.OutputFormat.TEXT and not all_envs:
                raise
            exit_code = invalid.exit_code
            reports[each.env] = _report(invalid.diagnostics, each.path)
            if form is options.OutputFormat.TEXT:
                output.put(f"{heading}not valid")
                output.fail(invalid)
            continue
        except PenstockError as error:
            if form is options.OutputFormat.TEXT:
                raise
            output.put_json(output.failed_report(error))
            raise typer.Exit(error.exit_code) from error
        idle = unrun_tests(checked.graph)
        notes = (*checked.notes, idle) if idle else checked.notes
        reports[each.env] = _report(notes, each.path)
        if form is options.OutputFormat.TEXT:
            output.show_diagnostics(notes)
            output.put(f"{heading}{_summary(checked)}")
    if form is options.OutputFormat.JSON:
        whole = {"success": True, "is_valid": not exit_code, "environments": reports}
        output.put_json(whole if all_envs else reports[wanted.env])
    if exit_code:
        raise typer.Exit(exit_code)


def _report(diagnostics: Iterable[Diagnostic], path: Path) -> dict[str, Any]:
    """The result of a check. Errors are objects for a project, and texts for a pipeline or a missing path."""
    return output.report(diagnostics, as_texts=not is_project(path))


def _every_environment(wanted: Target) -> list[Target]:
    names = environment_files(wanted.path if wanted.path.is_dir() else wanted.path.parent)
    if not names:
        text, hint = "the project has no environments", "leave --all-envs out, or add environments/<name>.yml"
        raise ProjectInvalid([Diagnostic("environment-unknown", text, hint=hint)])
    return [replace(wanted, env=name) for name in names]


def _summary(checked: CheckedProject) -> str:
    kinds = [node.kind for node in checked.graph.nodes.values()]
    counts: dict[str, int] = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    if checked.graph.tests:
        counts["test"] = len(checked.graph.tests)
    counted = [f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items()]
    where = f" ({checked.environment.name})" if checked.environment else ""
    return f"{checked.graph.format.capitalize()} '{checked.graph.name}'{where} is valid: {', '.join(counted)}."
