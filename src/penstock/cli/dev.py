from pathlib import Path
from typing import Annotated

import typer
import yaml

from penstock.cli import output
from penstock.cli.options import DirectoryOption, Format, FormatOption
from penstock.dev import services
from penstock.errors import ServiceError, did_you_mean
from penstock.plan.place import HOME

app = typer.Typer(
    help="Real services on this machine, for trying things out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVICE]...",
        help="kafka, registry, connect, postgres, clickhouse. Default: all of them.",
        show_default=False,
    ),
]


@app.command("up")
def up(names: Names = None, directory: DirectoryOption = None, form: FormatOption = Format.TEXT) -> None:
    """Start services that do not run yet. They go on when this command ends."""
    chosen = _known(names)
    running = services.up(_home(directory), chosen, lambda name: output.say(f"Starting {name} …"))
    _show(services.report(running), form)


@app.command("down")
def down(names: Names = None, directory: DirectoryOption = None, form: FormatOption = Format.TEXT) -> None:
    """Stop services. Topics stay where they are; the registry forgets."""
    ended = services.down(_home(directory), _known(names))
    if form is Format.JSON:
        output.put_json({"stopped": ended})
    else:
        output.put(f"Stopped: {', '.join(ended)}." if ended else "Nothing runs.")


@app.command("status")
def status(directory: DirectoryOption = None, form: FormatOption = Format.TEXT) -> None:
    """Show which services run, and how to reach them."""
    _show(services.report(services.status(_home(directory))), form)


def _home(directory: Path | None) -> Path:
    return (directory or Path()).absolute() / HOME / "dev"


def _known(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in services.SERVICES:
            hint = did_you_mean(name, list(services.SERVICES))
            raise ServiceError("dev-unknown", f"there is no service `{name}`", hint=hint)
    return names or list(services.SERVICES)


def _show(report: dict[str, dict[str, object]], form: Format) -> None:
    if form is Format.JSON:
        output.put_json(report)
    elif report:
        output.put(yaml.safe_dump(report, sort_keys=False).rstrip())
    else:
        output.put("Nothing runs. Start services with `penstock dev up`.")
