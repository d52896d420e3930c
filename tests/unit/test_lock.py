"""The lock of a run: who may hold it, and who is waited for."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.errors import PlanRefused
from penstock.runtime.run.lock import lock_holder, run_lock, running_pid

RUNNER = """
import subprocess, sys
from pathlib import Path
from penstock.runtime.run.lock import run_lock

with run_lock(Path(sys.argv[1])) as lock:
    spark = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,), start_new_session=True)
    lock.note_spark(spark.pid)
    print(spark.pid, flush=True)
    sys.stdin.read()
"""
"""A runner, and a process that outlives it until its input is closed, as that of Spark does."""


class Runner:
    """A process that holds the lock, with a child of it that has inherited it and cannot hear."""

    def __init__(self, file: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.spark = int(self.process.stdout.readline())
        os.kill(self.spark, signal.SIGSTOP)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    started = Runner(tmp_path / "lock")
    yield started
    started.kill()
    with suppress(ProcessLookupError):
        os.kill(started.spark, signal.SIGKILL)
    for stream in (started.process.stdin, started.process.stdout):
        assert stream is not None
        stream.close()


def test_a_lock_is_refused_at_once_while_its_runner_lives(tmp_path: Path, runner: Runner) -> None:
    file = tmp_path / "lock"
    with pytest.raises(PlanRefused, match=f"already running, in process {runner.process.pid}\\b"), run_lock(file):
        pytest.fail("two hold one lock")
    assert running_pid(file) == runner.process.pid


def test_spark_holds_the_lock_of_a_runner_that_was_killed(tmp_path: Path, runner: Runner) -> None:
    file, said = tmp_path / "lock", list[str]()
    runner.kill()
    with pytest.raises(PlanRefused) as refused, run_lock(file, say=said.append, patience_secs=0.3):
        pytest.fail("two writers are alive")
    spark = f"Spark process {runner.spark} of a run that was killed (process {runner.process.pid})"
    assert refused.value.message == f"{spark} has not ended, and may still write"
    assert f"kill -9 {runner.spark}" in str(refused.value.hint)
    assert said == [f"Waiting for {spark} to end."]
    assert running_pid(file) is None
    holder = lock_holder(file)
    assert holder is not None
    assert (holder.spark_pid, holder.is_alive) == (runner.spark, False)


def test_spark_that_ends_is_waited_for(tmp_path: Path, runner: Runner) -> None:
    runner.kill()

    def let_spark_end(_: str) -> None:
        os.kill(runner.spark, signal.SIGCONT)

    with run_lock(tmp_path / "lock", say=let_spark_end):
        assert running_pid(tmp_path / "lock") == os.getpid()
    assert lock_holder(tmp_path / "lock") is None
