"""`penstock` as a process of its own, the way people run it."""

import gc
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PENSTOCK = str(Path(sys.executable).parent / "penstock")
PATIENCE = 300
"""Seconds that anything may take: on a busy machine, Spark alone needs a minute to start."""
UNHURRIED = {"PENSTOCK__SHUTDOWN_BUDGET_SECS": "120"}
"""For runs that are to end in order, however busy the machine is."""


def penstock(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = PATIENCE
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


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind, as `subprocess` says it."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Inside:
    """The command in this process, with the Spark session of the tests: for all that needs no process of its own."""

    spark: "SparkSession"

    def __call__(self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Ended:
        from penstock.cli import output
        from penstock.cli.main import main
        from penstock.runtime.spark import session

        out, err, code, threshold = io.StringIO(), io.StringIO(), 0, gc.get_threshold()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["penstock", *arguments])
            patch.setattr(session, "spark_session", self._lend)
            patch.setattr(output, "json_mode", False)
            patch.setattr(output, "log_format", None)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
            finally:
                gc.set_threshold(*threshold)
        return Ended(code, out.getvalue(), err.getvalue())

    @contextmanager
    def _lend(self, *_: Any, **__: Any) -> "Iterator[SparkSession]":
        yield self.spark


@contextmanager
def background(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [PENSTOCK, *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
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


def wait_until(true: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.1)


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line) for line in listed.split()]


def everybody(pid: int) -> list[int]:
    """The JVMs of a process, and all processes of theirs: each JVM is the first of a session."""
    listed = [
        subprocess.run(["ps", "-o", "pid=", "-s", str(jvm)], capture_output=True, text=True) for jvm in children(pid)
    ]
    return [int(line) for found in listed for line in found.stdout.split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
