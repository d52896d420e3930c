import shutil
import sys
from os import environ
from typing import Annotated

import typer

from penstock.cli import options, output
from penstock.cli.table import lines
from penstock.workflow.preview import preview_rows
from penstock.workflow.stages import check


def command(
    node: Annotated[
        str, typer.Argument(help="A source, model, transform or topic; `NAME.errors` for its dead letters.")
    ],
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    var: options.VarOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The number of rows.")] = 10,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show rows of a source, a model or a topic."""
    checked = check(options.target(path, directory, env, var, config=config))
    rows = preview_rows(checked, node, limit, output.say)
    if form is options.OutputFormat.JSON:
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
