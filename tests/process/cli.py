"""`penstock` as a process of its own, the way people run it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PENSTOCK = str(Path(sys.executable).parent / "penstock")


def penstock(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: int = 120
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PENSTOCK, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def background(*arguments: str, cwd: Path) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [PENSTOCK, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_hear_interrupts,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def _hear_interrupts() -> None:
    """A shell that starts the tests in the background makes them, and their children, deaf to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(true: Callable[[], bool], what: str, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.1)
