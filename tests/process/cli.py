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
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def wait_until(true: Callable[[], bool], what: str, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.1)
