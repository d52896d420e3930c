"""What is said of processes that the operating system has ended."""

import errno
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException

from penstock.runtime.spark import process as spark_process
from penstock.runtime.spark.errors import failure_in_python, failure_of
from penstock.runtime.spark.process import OomKills, is_spark_gone, kill_process, oom_kills
from tests.support import write

KILLED = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent failure: Lost task 1.0 in stage "
    "0.0 (TID 1) (host executor driver): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
    " Consider setting 'spark.python.worker.faulthandler.enabled'"
)


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "groups/a/b/memory.events": "oom 9\noom_kill 3\n"}, 3),
        ({"proc/self/cgroup": "0::/a/b\n", "groups/memory.events": "oom_kill 4\n"}, 4),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n0::/\n",
                "groups/memory/x/memory.oom_control": "under_oom 0\noom_kill 5\n",
            },
            5,
        ),
        ({"proc/self/cgroup": "0::/\n", "proc/vmstat": "oom_kill 6\nother 1\n"}, 6),
        ({"proc/vmstat": "other 1\n"}, None),
    ],
)
def test_the_kernel_counts_processes_that_it_kills_for_want_of_memory(
    tmp_path: Path, files: dict[str, str], count: int | None
) -> None:
    write(tmp_path, files)
    assert oom_kills(tmp_path / "proc", tmp_path / "groups") == count


def test_a_python_worker_that_does_not_start_in_time_is_tried_again() -> None:
    said = "Python worker failed to connect back.: Timed out while waiting for the Python worker to connect back"
    failure = failure_of(PySparkException(said))
    assert (failure.code, failure.retriable) == ("worker-lost", True)
    assert failure.message == "a Python worker of Spark did not start within 10 seconds"


@pytest.mark.parametrize("said", [KILLED, "java.io.IOException: Stream closed", "Stream closed"])
def test_a_python_worker_that_was_killed_is_tried_again(said: str) -> None:
    failure = failure_of(PySparkException(said))
    assert (failure.code, failure.retriable) == ("worker-lost", True)
    assert "out of memory" in str(failure.hint)


def test_a_worker_that_was_out_of_memory_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([0, 1, 1])
    monkeypatch.setattr(spark_process, "oom_kills", lambda: next(counts))
    OomKills.start()
    failure = failure_of(PySparkException(KILLED))
    assert failure.message.endswith("killed a process for lack of memory (OOM)")
    assert "spark.driver.memory" in str(failure.hint)
    monkeypatch.setattr(OomKills, "_before", None)


@pytest.mark.parametrize(
    ("said", "code", "retriable"),
    [
        ("java.io.IOException: No space left on device", "disk-full", True),
        ("java.lang.InterruptedException: sleep interrupted", "query-failed", True),
        ("[PYTHON_EXCEPTION] BrokenPipeError: [Errno 32] Broken pipe by peer", "query-failed", False),
    ],
)
def test_what_the_operating_system_does_may_pass(said: str, code: str, retriable: bool) -> None:
    failure = failure_of(PySparkException(said))
    assert (failure.code, failure.retriable) == (code, retriable)


def test_a_disk_that_is_full_for_us_may_have_space_again() -> None:
    failure = failure_in_python(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "topics/a"))
    assert (failure.code, failure.retriable) == ("disk-full", True)
    assert not failure_in_python(OSError(errno.EACCES, os.strerror(errno.EACCES))).retriable


def test_spark_is_lost_if_its_process_has_ended_and_not_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    def process() -> "subprocess.Popen[bytes]":
        started = subprocess.Popen(["sleep", "600"])
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=started))
        return started

    with process() as spark:
        assert not is_spark_gone(ValueError("no")), "it lives"
        spark.kill()
        assert is_spark_gone(ConnectionRefusedError()), "a process that closes its connections may take a moment"
    with process() as spark:
        kill_process(spark)
        spark.wait()
        assert not is_spark_gone(ConnectionRefusedError())
