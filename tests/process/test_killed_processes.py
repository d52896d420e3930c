"""Processes of a run that somebody else ends: the operating system, a service manager, a person."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.endpoint import Endpoint
from tests.process.cli import PATIENCE, UNHURRIED, background, children, everybody, wait_until
from tests.process.test_stopping import ended, hang_at, project, server, waits

__all__ = ["project", "server"]
pytestmark = pytest.mark.process


def test_a_killed_python_worker_is_retried_and_a_signal_to_all_processes_lets_batches_finish(
    project: Path, server: Endpoint
) -> None:
    hang_at(server, 3)
    with background("run", "p.yml", cwd=project, env=UNHURRIED) as runner:
        wait_until(lambda: waits(server), "a request that waits")
        jvms = children(runner.pid)
        workers = [pid for pid in everybody(runner.pid) if pid not in jvms]
        server.judge = lambda request: None
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: {*server.ids} == {*range(10)}, "the rows of the batch that was tried again")
        assert runner.poll() is None
        everyone = everybody(runner.pid)
        for pid in (*jvms, runner.pid):
            os.kill(pid, signal.SIGTERM)
        said = ended(runner, everyone)
    assert runner.returncode == 0, said
    assert re.search(r"Z WARN  numbers: retrying: .*a Python worker of Spark ended: ", said)
    assert "hint: it was killed or crashed; a process that is out of memory is killed like that" in said
    assert "Interrupted" not in said
    assert "Traceback" not in said


def has_jvm(root: Path, pid: int) -> bool:
    return bool(children(pid))


def begins_a_query(root: Path, pid: int) -> bool:
    return (root / ".penstock" / "pipeline.p" / "default" / "checkpoints").exists()


@pytest.mark.parametrize("moment", [has_jvm, begins_a_query])
def test_a_jvm_that_is_killed_while_queries_start_is_an_error_of_one_sentence(
    project: Path, server: Endpoint, moment: Callable[[Path, int], bool]
) -> None:
    with background("run", "p.yml", cwd=project) as runner:
        wait_until(lambda: moment(project, runner.pid), "the moment")
        for pid in children(runner.pid):
            os.kill(pid, signal.SIGKILL)
        said, _ = runner.communicate(timeout=PATIENCE)
    assert runner.returncode == 4, said
    assert re.search("spark-lost|spark-start", said)
    assert "Traceback" not in said
