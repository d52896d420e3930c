"""The entry point: finds the command, runs it, and turns errors into messages and exit codes."""

import errno
import gc
import io
import sys
import traceback
from importlib import import_module
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from penstock.cli import output
from penstock.errors import PenstockError, ServiceError

BUG: Final = 70
COMMANDS: Final = (
    "init", "validate", "compile", "lineage", "docs", "envs", "plan", "run", "show", "errors", "state", "status",
    "stop", "doctor", "clean", "dev",
)  # fmt: skip


class Commands(TyperGroup):
    """Each command is a module of this package that is imported only when it is called, so that `validate` is fast."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"penstock.cli.{cmd_name}")
        if hasattr(module, "app"):
            return typer.main.get_command(module.app)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(module.command)
        return typer.main.get_command(single)


def _version(value: bool) -> None:
    if value:
        from penstock import __version__

        typer.echo(f"penstock {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def penstock(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Streaming pipelines as code: YAML and SQL, run on Spark Structured Streaming."""


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an arrow still shows the rest
    gc.set_threshold(1_000_000, 10, 10)  # trees of SQL live long: searching them for garbage finds little
    try:
        app(prog_name="penstock")
    except PenstockError as error:
        output.fail(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            _report_bug()
        full = ServiceError("disk-full", f"cannot write {error.filename or 'a file'}: {error.strerror}")
        output.fail(full)
        sys.exit(full.exit_code)
    except Exception:  # noqa: BLE001 - any other exception is a bug
        _report_bug()


def _report_bug() -> NoReturn:
    traceback.print_exc()
    output.say("\nThis is a bug in Penstock. Please report it with the lines above.")
    sys.exit(BUG)
