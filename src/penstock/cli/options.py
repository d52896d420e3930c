"""Arguments that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.cli import output
from penstock.config import settings_from


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
FormatOption = Annotated[Format, typer.Option("--format", help="How to report.", callback=remember_json)]


def chosen_path(path: Path | None, directory: Path | None) -> Path:
    """What was named on the command line, else the pipeline that the environment names, else here."""
    named = settings_from(os.environ).pipeline_definition_location
    return path or directory or Path(named or ".")
