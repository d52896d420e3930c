"""A pipeline into PostgreSQL, or from a table of it, goes on when connections break, when the server does not answer
for a while, and when it crashes."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from penstock.dev import postgres as dev
from penstock.dev import processes
from penstock.runtime.run.supervisor import Run
from tests.services import postgres
from tests.services.live_runs import Step, done, live
from tests.services.postgres import Database, Shop, shop_of
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
        """Where nobody is connected, another file comes for which somebody has to."""
        nonlocal files, breaks
        if broken(server):
            breaks += 1
        else:
            drop(pipeline, files)
            files += 1
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


def crashed(home: Path, server: Database) -> None:
    """Let the server end at once, with nothing put in order, and start it again."""
    found = processes.find(home)
    assert found is not None
    os.kill(found.pid, signal.SIGQUIT)
    processes.stop(home)
    dev.up(home, server.port)


def test_a_server_that_does_not_answer_is_waited_for(pipeline: Running, server: Database, home: Path) -> None:
    try:
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
    finally:
        signalled(home, signal.SIGCONT)  # the server is that of other tests too


# A table that is followed


@pytest.fixture
def shop(server: Database) -> Iterator[Shop]:
    """The connection to it that is left may be broken, too."""
    with suppress(psycopg.OperationalError), shop_of(server) as found:
        yield found


@pytest.fixture
def followed(running: Running, shop: Shop) -> Running:
    """Every change of a table is a line of a file."""
    shop.do("CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text)")
    shop.do("INSERT INTO orders (name) SELECT 'there' FROM generate_series(1, 50)")
    source = shop.source()
    kept = {"type": "file", "from": "orders", "path": "out", "format": "json"}
    running.write({"pipeline.yml": json.dumps({"sources": {"orders": source}, "sinks": {"kept": kept}})})
    return Running(running.root, running.spark, "pipeline.yml")


def ids_of_files(running: Running) -> list[int]:
    files = (running.root / "out").glob("*-*/part-*.json")
    return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())


def ids_of_table(shop: Shop) -> list[int]:
    with psycopg.connect(shop.address) as db:
        return [number for (number,) in db.execute("SELECT id FROM orders ORDER BY id").fetchall()]


@contextmanager
def filling(shop: Shop) -> Iterator[threading.Event]:
    """Rows keep coming until the event is set. While the server is away, none come."""
    enough = threading.Event()

    def fill() -> None:
        while not enough.wait(0.02):
            with suppress(psycopg.Error), psycopg.connect(shop.address, autocommit=True, connect_timeout=2) as db:
                while not enough.wait(0.02):
                    db.execute("INSERT INTO orders (name) SELECT 'new' FROM generate_series(1, 3)")

    writer = threading.Thread(target=fill)
    writer.start()
    try:
        yield enough
    finally:
        enough.set()
        writer.join()


def test_a_table_is_followed_on_when_connections_break(followed: Running, shop: Shop, server: Database) -> None:
    breaks = 0

    def breaking(_: Run) -> bool:
        """Nobody is hit while the query waits to begin again."""
        nonlocal breaks
        breaks += broken(server) > 0
        return breaks == 3

    with filling(shop) as enough:
        live(
            followed,
            lambda _: len(ids_of_files(followed)) > 50,
            breaking,
            done(enough.set),
            lambda run: ids_of_files(followed) == ids_of_table(shop) and run.board.snapshot()[0].state == "running",
        )


def test_a_server_that_stands_still_and_then_crashes_is_followed_on(
    followed: Running, shop: Shop, server: Database, home: Path
) -> None:
    """A server that has crashed does not know any more how far the slot was confirmed: it tells of changes again."""

    def another(rows: int) -> Step:
        """Whether so many more rows have come since this was asked for the first time."""
        begun: list[int] = []

        def step(_: Run) -> bool:
            found = len(ids_of_files(followed))
            begun.append(found)
            return found >= begun[0] + rows

        return step

    with filling(shop) as enough:
        live(
            followed,
            another(60),
            done(lambda: signalled(home, signal.SIGSTOP)),
            done(lambda: time.sleep(3)),
            done(lambda: signalled(home, signal.SIGCONT)),
            another(30),
            done(lambda: crashed(home, server)),
            another(30),
            done(enough.set),
            lambda run: ids_of_files(followed) == ids_of_table(shop),
        )
