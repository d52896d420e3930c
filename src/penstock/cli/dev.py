import shlex
from pathlib import Path
from typing import Annotated

import typer
import yaml

from penstock.cli import output
from penstock.cli.options import DirectoryOption, FormatOption, OutputFormat, command_group
from penstock.dev import services
from penstock.dev.variables import PIPELINE, PROJECT, variables
from penstock.errors import ServiceError, did_you_mean
from penstock.plan.deployed.place import HOME

app = command_group("Real services on this machine, for trying things out.")
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SERVICE]...",
        help="kafka, registry, connect, postgres, clickhouse. Default: all of them.",
        show_default=False,
    ),
]


@app.command("up")
def up(
    names: Names = None,
    directory: DirectoryOption = None,
    auto_create_topics: Annotated[
        bool,
        typer.Option(
            "--auto-create-topics/--no-auto-create-topics",
            help="Whether Kafka creates a topic on the first write. Applies to a broker that this command starts.",
        ),
    ] = True,
    form: FormatOption = OutputFormat.TEXT,
) -> None:
    """Start services. They keep running, on the same ports, when this command has ended."""
    home, chosen = _home(directory), _check_names(names)

    def announce(name: str) -> None:
        output.say(f"Starting {name} …")

    running = services.up(home, chosen, announce, auto_create_topics=auto_create_topics)
    _show(services.report(running), form)


@app.command("down")
def down(names: Names = None, directory: DirectoryOption = None, form: FormatOption = OutputFormat.TEXT) -> None:
    """Stop services. Topics and tables stay; the registry loses its schemas."""
    ended = services.down(_home(directory), _check_names(names))
    if form is OutputFormat.JSON:
        output.put_json({"stopped": ended})
    else:
        output.put(f"Stopped: {', '.join(ended)}." if ended else "Nothing runs.")


@app.command("status")
def status(directory: DirectoryOption = None, form: FormatOption = OutputFormat.TEXT) -> None:
    """Show the running services and their addresses."""
    _show(services.report(services.status(_home(directory))), form)


@app.command("env")
def env(directory: DirectoryOption = None, form: FormatOption = OutputFormat.TEXT) -> None:
    """Print the addresses of the running services as shell variables: `eval "$(penstock dev env)"`."""
    report = services.report(services.status(_home(directory)))
    parts = {
        "Use these as ${NAME}, in `runtime` or in a connector of a project.": variables(PROJECT, report),
        "Pipelines read these variables automatically.": variables(PIPELINE, report),
    }
    if form is OutputFormat.JSON:
        output.put_json({name: value for part in parts.values() for name, value in part.items()})
    elif not report:
        output.say("No service is running. Start services with `penstock dev up`.")
    else:
        for heading, part in parts.items():
            output.put(f"# {heading}")
            for name, value in part.items():
                output.put(f"export {name}={shlex.quote(value)}")


def _home(directory: Path | None) -> Path:
    return (directory or Path()).absolute() / HOME / "dev"


def _check_names(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in services.SERVICES:
            hint = did_you_mean(name, list(services.SERVICES))
            raise ServiceError("dev-unknown", f"there is no service `{name}`", hint=hint)
    return names or list(services.SERVICES)


def _show(report: dict[str, dict[str, object]], form: OutputFormat) -> None:
    if form is OutputFormat.JSON:
        output.put_json(report)
    elif report:
        output.put(yaml.safe_dump(report, sort_keys=False).rstrip())
    else:
        output.put("No service is running. Start services with `penstock dev up`.")
