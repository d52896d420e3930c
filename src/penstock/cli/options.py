"""Arguments that several commands share."""

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
import yaml

from penstock.cli import output
from penstock.errors import Diagnostic, ProjectInvalid, has_errors
from penstock.project.application_settings import OURS, THEIRS, read_settings, settings_file
from penstock.project.load import PROJECT_FILES
from penstock.project.yaml.variables import load_environ
from penstock.workflow.stages import Target

_LOCATION: Final = "PIPELINE_DEFINITION_LOCATION"


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


F = TypeVar("F", bound=StrEnum)


def command_group(text: str) -> typer.Typer:
    """A command that has only other commands."""
    return typer.Typer(help=text, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def remember_json(form: F) -> F:
    """Remember whether errors are reported as JSON."""
    output.json_mode = form == OutputFormat.JSON
    return form


PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        help="The directory of a project, or the file of a pipeline. Default: the project here, or `pipeline.yaml`.",
        show_default=False,
    ),
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--project-dir", "-p", metavar="PATH", help="The same as PATH.", show_default=False)
]
EnvOption = Annotated[
    str | None,
    typer.Option("--env", "-e", metavar="NAME", help="The environment. Default: PENSTOCK_ENV.", show_default=False),
]
VarOption = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="A variable for `var()`; repeatable.", show_default=False),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="BASE",
        help="A settings file, with or without its extension. Default: `config.yaml` beside the pipeline, or here.",
        show_default=False,
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
FormatOption = Annotated[OutputFormat, typer.Option("--format", help="The output format.", callback=remember_json)]
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


def target(
    path: Path | None,
    directory: Path | None,
    env: str | None = None,
    variables: Sequence[str] | None = None,
    *,
    strict: bool = False,
    config: Path | None = None,
) -> Target:
    """The path from the command line, else the pipeline that the settings name, else the current directory."""
    chosen = path or directory
    if chosen is None:
        chosen, config = _path_from_settings(config)
    return Target(chosen, env, _variables(variables or ()), strict, config=config)


def _path_from_settings(config: Path | None) -> tuple[Path, Path | None]:
    """The pipeline that the settings name, and the settings file; else the current directory. A project in the current
    directory has priority over a pipeline with the default name.
    """
    is_project = any(Path(name).is_file() for name in PROJECT_FILES)
    file = settings_file(config) if is_project else settings_file(config, Path())
    environ = load_environ(Path(), None, os.environ)
    settings, notes = read_settings(file, environ, str(file))
    if has_errors(notes):
        raise ProjectInvalid(notes)
    location = Path(settings.pipeline_definition_location)
    if "pipeline_definition_location" in settings.model_fields_set:
        in_file = not any(environ.get(prefix + _LOCATION) for prefix in (OURS, THEIRS))
        return location, file if in_file else config
    return (location if location.is_file() and not is_project else Path()), config


def _variables(given: Sequence[str]) -> Mapping[str, Any]:
    """`name=value`, the value as YAML reads it: `--var limit=10` is a number."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            problem = f"`{text}` is not of the form NAME=VALUE"
            raise ProjectInvalid([Diagnostic("invalid-value", problem, path="--var", hint="write --var name=value")])
        try:
            found[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[name.strip()] = value
    return found


def allowed_rebuilds(written: Sequence[str] | None, truncate: bool) -> Sequence[str]:
    """The queries that may be rebuilt. `--truncate` applies only to them."""
    if truncate and not written:
        raise typer.BadParameter("--truncate needs --allow-rebuild, which names the queries that start over")
    return written or ()


def parse_carried_names(written: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The old and new names of models that keep their state."""
    pairs = [text.partition("=") for text in written or ()]
    if wrong := [old for old, sign, new in pairs if not (old and sign and new)]:
        raise typer.BadParameter(f"`{wrong[0]}` is not of the form OLD=NEW")
    return tuple((old, new) for old, _, new in pairs)
