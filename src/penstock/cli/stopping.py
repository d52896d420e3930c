"""Stops a run: by a signal, within a budget, and at once by a second signal."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, Self

from penstock.cli import output
from penstock.errors import ServiceError
from penstock.workflow.host import StopRequest, not_drained

GRACE_SECS: Final = 2.0
"""How long the process may live after the budget, to report it."""
_CURSOR: Final = "\x1b[?25h"


class Signals(StopRequest):
    """Handles SIGINT and SIGTERM. The first one calls `stop`; the next one calls `kill` and ends the process. A
    watchdog also ends the process if `stop` hangs after the budget.
    """

    def __init__(self, stop: Callable[[], None], kill: Callable[[], None], budget_secs: float) -> None:
        super().__init__(budget_secs)
        self._stop = stop
        self._kill = kill

    def listen(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle_signal)
        return self

    def _handle_signal(self, number: int, _: FrameType | None) -> None:
        if self.is_stopping:
            self._end("Stopped at once; the next start replays the unfinished batches.", 128 + number)
        threading.Thread(target=self._watch, args=(self.until,), name="stop", daemon=True).start()
        self._stop()

    def _watch(self, until: float) -> None:
        time.sleep(until + GRACE_SECS - time.monotonic())
        self._end(f"Error: {not_drained('the run', self.budget_secs)}", ServiceError.exit_code)

    def _end(self, text: str, exit_code: int) -> None:
        """End the process now, whatever its threads wait for. This releases locks and ends the JVM."""
        self._kill()
        shown = _CURSOR if sys.stderr.isatty() else ""
        line = f"\n{text}" if output.log_format is None else output.log_line(text, "ERROR", {}, time.time())
        os.write(2, f"{shown}{line}\n".encode())
        os._exit(exit_code)


def announce_stop(budget_secs: float) -> None:
    text = f"Stopping: finishing current batches, for at most {budget_secs:g} s."
    output.say(f"{text} A second signal stops at once.")
