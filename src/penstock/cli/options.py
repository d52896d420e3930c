"""Arguments that several commands share."""

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml

from penstock.cli import output
from penstock.cli.line import Target
from penstock.config import settings_from
from penstock.errors import Diagnostic, ProjectInvalid


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


F = TypeVar("F", bound=StrEnum)


def remember_json(form: F) -> F:
    """Errors are to be reported in the form that was asked for."""
    output.json_mode = form == Format.JSON
    return form


PathArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="PATH",
        help="The directory of a project, or the file of a pipeline. Default: the current directory.",
        show_default=False,
    ),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--project-dir", "-p", metavar="PATH", help="The same as PATH.", show_default=False),
]
EnvOption = Annotated[
    str | None,
    typer.Option("--env", "-e", metavar="NAME", help="The environment. Default: PENSTOCK_ENV.", show_default=False),
]
VarOption = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="A variable for `var()`; may be given again.", show_default=False),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to report.", callback=remember_json)]


def target(
    path: Path | None,
    directory: Path | None,
    env: str | None = None,
    variables: Sequence[str] | None = None,
    *,
    strict: bool = False,
) -> Target:
    """What was named on the command line, else the pipeline that the environment names, else here."""
    named = settings_from(os.environ).pipeline_definition_location
    return Target(path or directory or Path(named or "."), env, _variables(variables or ()), strict)


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
