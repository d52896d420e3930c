import os
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from penstock.cli import output
from penstock.cli.options import DirectoryOption, FormatOption, OutputFormat, PathArgument, command_group, target
from penstock.errors import Diagnostic, ProjectInvalid, did_you_mean, has_errors
from penstock.project.load import environment_files, load
from penstock.project.parse import parse
from penstock.project.project import Environment, StreamProject
from penstock.project.yaml.read import read_document
from penstock.project.yaml.secrets import is_secret, mask_secrets
from penstock.project.yaml.variables import load_environ, resolve_variables

app = command_group("The environments of a project.")


@app.command("list")
def list_environments(
    path: PathArgument = None, directory: DirectoryOption = None, form: FormatOption = OutputFormat.TEXT
) -> None:
    """List the environments."""
    folder = target(path, directory).path
    rows: list[dict[str, Any]] = []
    for name in environment_files(folder):
        environment, mistakes = _environment(folder, name)
        row: dict[str, Any] = {"name": name, "description": "", "protected": False, "error": None}
        if environment is not None:
            row["protected"] = environment.asks_first
            row["description"] = "" if mistakes else mask_secrets(environment.description)
        if mistakes:
            row["error"] = mistakes[0].message
        rows.append(row)
    if form is OutputFormat.JSON:
        output.put_json(rows)
        return
    if not rows:
        output.put("No environments: the project runs where `runtime` says.")
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        words = [row["description"], "[protected]" if row["protected"] else "", f"Error: {row['error']}"]
        shown = " ".join(word for word in (words if row["error"] else words[:2]) if word)
        output.put(f"{row['name']:<{width}}  {shown}".rstrip())


@app.command("show")
def show_environment(
    name: Annotated[str, typer.Argument(help="The environment.")],
    path: PathArgument = None,
    directory: DirectoryOption = None,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show an environment, with variables resolved and secrets masked."""
    folder = target(path, directory).path
    files = environment_files(folder)
    if name not in files:
        text, hint = f"there is no environment `{name}`", did_you_mean(name, files)
        raise ProjectInvalid([Diagnostic("environment-unknown", text, hint=hint, params={"name": name})])
    environment, mistakes = _environment(folder, name)
    if environment is None or mistakes:
        raise ProjectInvalid(mistakes)
    document, _ = read_document(files[name], str(files[name]))
    assert document is not None
    environ = load_environ(folder, name, os.environ)
    value, _ = resolve_variables(document.value.get("runtime") or {}, environ)
    known_secrets = {v for k, v in environ.items() if is_secret(k, environ) and len(v) >= _SHORTEST_MASKED}
    report = {
        "environment": name,
        "description": environment.description,
        "protected": environment.asks_first,
        "runtime": _mask_secrets(mask_secrets(value), known_secrets),
        "safety": {"confirm_apply": environment.asks_first, "allow_destructive": environment.allow_destructive},
    }
    if form is OutputFormat.JSON:
        output.put_json(report)
    else:
        output.put(yaml.safe_dump(report, sort_keys=False, allow_unicode=True).rstrip())


_SHORTEST_MASKED = 4
"""The minimum length of a secret that is masked inside other texts."""


def _mask_secrets(value: Any, secrets: set[str]) -> Any:
    """The value with the secrets of the environment masked, also inside texts."""
    match value:
        case dict():
            return {key: _mask_secrets(inner, secrets) for key, inner in value.items()}
        case list():
            return [_mask_secrets(inner, secrets) for inner in value]
        case str():
            for secret in sorted(secrets, key=len, reverse=True):
                value = value.replace(secret, "****")
            return value
        case _:
            return value


def _environment(folder: Path, name: str) -> tuple[Environment | None, list[Diagnostic]]:
    """An environment, and the diagnostics of its file or of its selection."""
    documents, diagnostics = load(folder, name)
    if documents is None or has_errors(diagnostics) or documents.environment is None:
        return None, [d for d in diagnostics if d.severity == "error"]
    file = documents.environment[1].file
    project, notes = parse(documents)
    own = [d for d in notes if d.severity == "error" and d.origin is not None and d.origin.file == file]
    return (project.environment if isinstance(project, StreamProject) else None), own
