import contextlib
import math
import os
import signal
import time
from typing import Annotated, Final

import typer

from penstock.cli import options, output
from penstock.errors import ServiceError
from penstock.plan.deployed.state import read_run_record
from penstock.workflow.stages import check

SPARE_SECS: Final = 5
ENDS: Final = {"given up": "; a batch was cancelled, and the next start replays it", "failed": ", which had failed"}
"""Text for each abnormal end of a run."""


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    timeout: Annotated[
        int | None,
        typer.Option(
            "--timeout", min=1, help="Seconds to wait for the run to end. Default: its shutdown budget plus 5."
        ),
    ] = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Stop the process that runs the project, and wait until it has ended. It finishes its current batches first."""
    from penstock.runtime.run.lock import lock_holder

    checked = check(options.target(path, directory, env, config=config))
    holder = lock_holder(checked.place.lock_file)
    left_behind = holder is not None and not holder.is_alive
    pid = None if holder is None else holder.spark_pid if left_behind else holder.pid
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if left_behind else signal.SIGTERM)
        timeout = timeout or math.ceil(checked.settings.shutdown_budget_secs) + SPARE_SECS
        deadline = time.monotonic() + timeout
        while lock_holder(checked.place.lock_file) == holder:
            if time.monotonic() > deadline:
                text = f"process {pid} did not end within {timeout} s"
                hint = f"wait longer with --timeout, or end it with `kill -9 {pid}`"
                raise ServiceError("unreachable", text, hint=hint)
            time.sleep(0.1)
    run = read_run_record(checked.store, checked.place).run
    ended = run.get("ended") if pid is not None and run.get("pid") == pid else None
    if form is options.OutputFormat.JSON:
        output.put_json({"project": checked.graph.name, "stopped": pid is not None, "pid": pid, "ended": ended})
    elif pid is None:
        output.put(f"{checked.graph.name} is not running.")
    elif left_behind:
        killed = f"Ended process {pid}, the Spark process of a run that was killed"
        output.put(f"{killed}; the next start replays its last batch.")
    else:
        output.put(f"Stopped process {pid}{ENDS.get(ended or '', '')}.")
