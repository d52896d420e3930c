"""Processes of a run that somebody else ends: the operating system, a service manager, a person."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.endpoint import Endpoint
from tests.process.cli import PATIENCE, UNHURRIED, Inside, background, children, everybody, wait_until
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


COUNTS = """
project: {name: counts}
sources:
  - {name: s, topic: s.v1, columns: [{name: k, type: BIGINT}]}
models:
  - name: counts
    sql: SELECT k, COUNT(*) AS n FROM {{ source("s") }} GROUP BY k
    advanced: {spark: {parallelism: 40}}
"""


def test_a_kill_inside_the_first_batch_leaves_the_number_of_state_partitions(tmp_path: Path, inside: Inside) -> None:
    topics, home = tmp_path / ".penstock" / "topics", tmp_path / ".penstock" / "project.counts" / "default"
    (topics / "s.v1").mkdir(parents=True)
    (topics / "s.v1" / "1.json").write_text("".join(f'{{"k": {n % 200}}}\n' for n in range(600)))
    (tmp_path / "stream_project.yml").write_text(COUNTS)
    state = home / "checkpoints" / "counts" / "state" / "0"

    def partitions() -> int:
        return sum(path.name.isdecimal() for path in state.iterdir()) if state.exists() else 0

    with background("run", cwd=tmp_path) as runner:
        wait_until(lambda: bool(children(runner.pid)), "a JVM")
        jvms, deadline = children(runner.pid), time.monotonic() + PATIENCE
        while not partitions() and time.monotonic() < deadline:
            time.sleep(0.001)
        for pid in (*jvms, runner.pid):
            os.kill(pid, signal.SIGKILL)
        runner.communicate(timeout=PATIENCE)
    assert 0 < partitions() < 40
    assert not list((state.parents[1] / "commits").glob("[0-9]*"))

    done = inside("run", "--once", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert partitions() == 40
    shown = inside("show", "counts", "--limit", "500", "--format", "json", cwd=tmp_path)
    assert {row["k"]: row["n"] for row in json.loads(shown.stdout)} == dict.fromkeys(range(200), 3)
