"""A run is told to stop while a batch is under way: by one signal, by two, and with a sink that never answers."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endpoint import HANG, Endpoint, Received, Says, endpoint
from tests.process.cli import PATIENCE, UNHURRIED, Inside, alive, background, everybody, wait_until

pytestmark = pytest.mark.process

PIPELINE = """
sources:
  numbers: {{type: file, path: in, format: json, mode: {{type: continuous, poll_interval: 200ms}}}}
transforms: {{}}
sinks:
  hook: {{type: webhook, from: numbers, url: "{url}", one_row_per_request: true}}
"""


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as served:
        yield served


@pytest.fixture
def project(tmp_path: Path, server: Endpoint) -> Path:
    (tmp_path / "p.yml").write_text(PIPELINE.format(url=server.url))
    drop(tmp_path, 0)
    return tmp_path


def drop(project: Path, number: int) -> None:
    """A file of ten rows, each with an id of its own, put in place at once."""
    folder = project / "in"
    folder.mkdir(exist_ok=True)
    whole = folder / f".{number}.json"
    whole.write_text("".join(f'{{"id": {number * 10 + n}}}\n' for n in range(10)))
    whole.rename(folder / f"{number}.json")


def hang_at(server: Endpoint, number: int) -> None:
    def judge(request: Received) -> Says | None:
        return HANG if request.rows[0]["id"] == number else None

    server.judge = judge


def waits(server: Endpoint) -> bool:
    """Whether one request is not answered, and all others are."""
    return server.at_once == 1 and len(server.received) % 10 == 0


def batches(project: Path) -> tuple[set[str], set[str]]:
    """Those that were begun, and those that were committed."""
    (checkpoint,) = (project / ".penstock" / "pipeline.p" / "default" / "checkpoints").iterdir()
    return tuple({f.name for f in (checkpoint / log).iterdir() if f.name.isdigit()} for log in ("offsets", "commits"))  # type: ignore[return-value]


def ended(runner: "subprocess.Popen[str]", workers: list[int]) -> str:
    said, _ = runner.communicate(timeout=PATIENCE)
    wait_until(lambda: not any(map(alive, workers)), "the end of the JVM and of its Python processes")
    return said


def test_the_batch_under_way_is_finished_and_no_other_is_begun(project: Path, server: Endpoint, inside: Inside) -> None:
    with background("run", "p.yml", cwd=project, env=UNHURRIED) as runner:
        wait_until(lambda: len(server.ids) == 10, "the first batch")
        server.judge = lambda request: Says(does="wait") if request.rows[0]["id"] == 13 else None
        drop(project, 1)
        wait_until(lambda: waits(server), "a request that waits")
        workers = everybody(runner.pid)
        assert len(workers) > 1
        drop(project, 2)
        runner.send_signal(signal.SIGTERM)
        assert runner.stdout is not None
        assert any("Stopping" in line for line in runner.stdout)
        server.released.set()
        ended(runner, workers)
    assert runner.returncode == 0
    assert sorted(server.ids) == [*range(20)]
    begun, committed = batches(project)
    assert begun == committed
    status = json.loads(inside("status", "p.yml", "--format", "json", cwd=project).stdout)
    assert [query["state"] for query in status["queries"]] == ["stopped"]

    again = inside("run", "p.yml", "--once", cwd=project)
    assert again.returncode == 0, again.stderr
    assert sorted(server.ids) == [*range(30)]


def test_a_sink_that_never_answers_keeps_nobody_longer_than_the_budget(
    project: Path, server: Endpoint, inside: Inside
) -> None:
    budget = {"STREAMLING__SHUTDOWN_BUDGET_SECS": "1"}
    hang_at(server, 3)
    with background("run", "p.yml", cwd=project, env=budget) as runner:
        wait_until(lambda: waits(server), "a request that waits")
        workers = everybody(runner.pid)
        stopped = inside("stop", "p.yml", cwd=project, env=budget)
        said = ended(runner, workers)
    assert runner.returncode == 4
    assert "not-drained" in said
    # Who watches the budget says it of the whole run, if the machine is too busy for the query to say it first.
    assert re.search("(query `numbers`|the run) could not finish a batch within 1 s", said)
    assert "Traceback" not in said
    assert stopped.returncode == 0, stopped.stderr
    assert "a batch was cancelled" in stopped.stdout
    begun, committed = batches(project)
    assert begun - committed == {"0"}

    server.judge = lambda request: None
    again = inside("run", "p.yml", "--once", cwd=project)
    assert again.returncode == 0, again.stderr
    assert {*server.ids} == {*range(10)}


def test_who_is_in_a_hurry_does_not_wait_for_the_batch_under_way(
    project: Path, server: Endpoint, inside: Inside
) -> None:
    hang_at(server, 3)
    with background("run", "p.yml", cwd=project, env={"PENSTOCK__DRAIN_POLICY": "fast"}) as runner:
        wait_until(lambda: waits(server), "a request that waits")
        workers = everybody(runner.pid)
        runner.send_signal(signal.SIGTERM)
        said = ended(runner, workers)
    assert runner.returncode == 0, said
    assert "Traceback" not in said
    begun, committed = batches(project)
    assert begun - committed == {"0"}
    status = json.loads(inside("status", "p.yml", "--format", "json", cwd=project).stdout)
    assert [query["state"] for query in status["queries"]] == ["stopped"]

    server.judge = lambda request: None
    again = inside("run", "p.yml", "--once", cwd=project)
    assert again.returncode == 0, again.stderr
    assert {*server.ids} == {*range(10)}


def test_a_second_signal_stops_at_once(project: Path, server: Endpoint) -> None:
    hang_at(server, 3)
    with background("run", "p.yml", cwd=project, env=UNHURRIED) as runner:
        wait_until(lambda: waits(server), "a request that waits")
        workers = everybody(runner.pid)
        runner.send_signal(signal.SIGINT)
        assert runner.stdout is not None
        assert any("A second signal stops at once" in line for line in runner.stdout)
        runner.send_signal(signal.SIGINT)
        said = ended(runner, workers)
    assert runner.returncode == 130
    assert "Stopped at once" in said
    begun, committed = batches(project)
    assert begun - committed == {"0"}
