import shutil
import sys
from os import environ
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
from penstock.cli.table import lines
from penstock.workflow.preview import preview_rows
from penstock.workflow.stages import check


def command(
    node: Annotated[
        str, typer.Argument(help="A source, model, transform or topic; `NAME.errors` for its dead letters.")
    ],
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    var: VarOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The number of rows.")] = 10,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show rows of a source, a model or a topic."""
    checked = check(target(path, directory, env, var, config=config))
    rows = preview_rows(checked, node, limit, output.say)
    if form is OutputFormat.JSON:
        output.put(output.exact_json(rows, indent=2))
    else:
        for line in lines(rows, _width()):
            output.put(line)
        counted = f"{len(rows)} row{'s' if len(rows) != 1 else ''}."
        output.say(f"The first {counted}" if len(rows) == limit else counted)


def _width() -> int | None:
    """The width of the terminal; None for a file or a pipe."""
    known = sys.stdout.isatty() or environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if known else None
