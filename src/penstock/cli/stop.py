import contextlib
import os
import signal
import time
from typing import Annotated

import typer

from penstock.cli import output
from penstock.cli.line import check
from penstock.cli.options import ConfigOption, DirectoryOption, EnvOption, Format, FormatOption, PathArgument, target
from penstock.errors import ServiceError


def command(
    path: PathArgument = None,
    directory: DirectoryOption = None,
    config: ConfigOption = None,
    env: EnvOption = None,
    timeout: Annotated[int, typer.Option("--timeout", min=1, help="Seconds to wait for it to end.")] = 30,
    form: FormatOption = Format.TEXT,
) -> None:
    """Stop the process that runs the project, and wait until it has."""
    from penstock.runtime.lock import running_pid

    checked = check(target(path, directory, env, config=config))
    pid = running_pid(checked.place.lock_file)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + timeout
        while running_pid(checked.place.lock_file) == pid:
            if time.monotonic() > deadline:
                text = f"process {pid} did not end within {timeout} s"
                raise ServiceError(
                    "unreachable", text, hint=f"wait longer with --timeout, or end it with `kill -9 {pid}`"
                )
            time.sleep(0.1)
    if form is Format.JSON:
        output.put_json({"project": checked.graph.name, "stopped": pid is not None, "pid": pid})
    else:
        output.put(f"Stopped process {pid}." if pid else f"{checked.graph.name} does not run.")
