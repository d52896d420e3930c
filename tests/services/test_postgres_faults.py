"""A pipeline into PostgreSQL goes on when connections break, and when the server does not answer for a while."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.dev import postgres as dev
from penstock.dev import processes
from penstock.runtime.run import Run
from tests.services import postgres
from tests.services.postgres import Database
from tests.services.stories import done, live
from tests.spark.running import Running

PIPELINE = """
sources:
  numbers:
    type: file
    path: in
    format: json
    mode: {type: continuous, poll_interval: 200ms}
    primary_key: id
transforms: {}
sinks:
  kept:
    type: postgres
    from: numbers
    table: numbers
  added:
    type: postgres
    from: numbers
    table: every_number
    primary_key: id
    on_conflict: nothing
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faulty")


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Database]:
    with postgres.running(home) as found:
        yield found


@pytest.fixture
def pipeline(running: Running, server: Database, monkeypatch: pytest.MonkeyPatch) -> Running:
    for name, value in {"PORT": server.port, "USER": dev.USER, "PASS": dev.PASSWORD, "DB": dev.DATABASE}.items():
        monkeypatch.setenv(f"PENSTOCK__POSTGRES_SINK__{name}", str(value))
    server.rows("DROP TABLE IF EXISTS numbers, every_number")
    running.write({"pipeline.yml": PIPELINE})
    found = Running(running.root, running.spark, "pipeline.yml")
    drop(found, 0)
    return found


def drop(running: Running, number: int) -> None:
    """A file of a thousand rows, each with a number of its own, put in place at once."""
    folder = running.root / "in"
    folder.mkdir(exist_ok=True)
    whole = folder / f".{number}.json"
    whole.write_text("".join(f'{{"id": {number * 1000 + n}}}\n' for n in range(1000)), encoding="utf-8")
    whole.rename(folder / f"{number}.json")


def count(server: Database, table: str = "numbers") -> int:
    if not server.has(table):
        return 0
    ((rows, ids),) = server.rows(f"SELECT count(*), count(DISTINCT id) FROM {table}")
    assert rows == ids
    return int(rows)


def broken(server: Database) -> int:
    """End the connections that there are now; how many there were."""
    ours = "FROM pg_stat_activity WHERE application_name = 'penstock'"
    return len(server.rows(f"SELECT pg_terminate_backend(pid) {ours}"))


def test_connections_that_break_lose_and_double_nothing(pipeline: Running, server: Database) -> None:
    files, breaks = 12, 0

    def breaking(_: Run) -> bool:
        nonlocal breaks
        breaks += broken(server) > 0
        return breaks == 4

    def feeding() -> None:
        for number in range(1, files):
            drop(pipeline, number)

    live(
        pipeline,
        lambda _: count(server) == 1000,
        done(feeding),
        breaking,
        lambda _: (count(server), count(server, "every_number")) == (files * 1000, files * 1000),
    )


def signalled(home: Path, sign: int) -> None:
    """A signal for the server and everybody who works for it: they are in groups of their own."""
    found = processes.find(home)
    assert found is not None
    children = Path(f"/proc/{found.pid}/task/{found.pid}/children").read_text(encoding="utf-8").split()
    for pid in (found.pid, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(pid, sign)


def test_a_server_that_does_not_answer_is_waited_for(pipeline: Running, server: Database, home: Path) -> None:
    live(
        pipeline,
        lambda _: count(server) == 1000,
        done(lambda: signalled(home, signal.SIGSTOP)),
        done(lambda: drop(pipeline, 1)),
        lambda run: run.board.snapshot()[0].state == "retrying",
        done(lambda: signalled(home, signal.SIGCONT)),
        lambda _: count(server, "every_number") == 2000,
        lambda run: run.board.snapshot()[0].state == "running",
    )
