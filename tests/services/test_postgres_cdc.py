"""The source `postgres_cdc` in pipelines, on a real PostgreSQL."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from penstock.errors import ServiceError
from tests.process.cli import background, penstock, wait_until
from tests.services.live_runs import done, live
from tests.services.postgres import Database, Shop, shop_of
from tests.spark.running import Running

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text)"
FILL = "INSERT INTO orders SELECT n, 'n' || n FROM generate_series({}, {}) n"


@dataclass(frozen=True)
class Pipeline:
    """A database, and a pipeline that follows its table `orders`."""

    shop: Shop
    running: Running

    def into_files(self, **settings: Any) -> "Pipeline":
        """Every change is a line there."""
        return self._write(settings, {"kept": {"type": "file", "from": "orders", "path": "out", "format": "json"}})

    def into_table(self, **settings: Any) -> "Pipeline":
        """Another table of the same database."""
        copied = {"type": "postgres", "from": "orders", "table": "copied", **self.shop.login}
        return self._write({"primary_key": "id", **settings}, {"copied": copied})

    def _write(self, settings: dict[str, Any], sinks: dict[str, Any]) -> "Pipeline":
        sources = {"orders": self.shop.source(**settings)}
        self.running.write({"pipeline.yml": json.dumps({"sources": sources, "sinks": sinks})})
        return self

    def run(self) -> Any:
        return self.running.run()["orders"]

    def taken(self) -> list[dict[str, Any]]:
        """The changes that have come since the last time."""
        files = sorted((self.running.root / "out").glob("*-*/part-*.json"))
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        for file in files:
            file.unlink()
        return found

    @property
    def confirmed(self) -> str:
        ((found,),) = self.shop.rows(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
        )
        return str(found)

    @property
    def reached(self) -> dict[str, str]:
        """How far the checkpoint says that it has come, by the last batch that is committed."""
        checkpoint = self.running.place.checkpoint("orders")
        last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
        line = (checkpoint / "offsets" / str(last)).read_text().splitlines()[-1]
        found: dict[str, str] = json.loads(line.partition(":")[2])
        return found

    def copied(self) -> bool:
        """Whether the copy is the table."""
        if self.shop.rows("SELECT to_regclass('copied')") == [(None,)]:
            return False
        one, other = ("SELECT id, name FROM orders", "SELECT id, name FROM copied")
        return self.shop.rows(f"({one} EXCEPT {other}) UNION ALL ({other} EXCEPT {one})") == []


@pytest.fixture
def pipeline(database: Database, running: Running) -> Iterator[Pipeline]:
    with shop_of(database) as shop:
        yield Pipeline(shop, replace(running, entry="pipeline.yml"))


def test_rows_come_first_and_then_every_change_once(pipeline: Pipeline) -> None:
    shop = pipeline.shop
    shop.do(ORDERS, FILL.format(1, 30))
    first = pipeline.into_files(max_rows_per_trigger=20).run()
    assert (first.rows_in, first.rows_out) == (30, 30)
    assert first.batches > 1
    assert sorted((row["id"], row["name"], row["_gs_op"]) for row in pipeline.taken()) == [
        (n, f"n{n}", "i") for n in range(1, 31)
    ]
    shop.do("UPDATE orders SET name = 'two' WHERE id = 2", "DELETE FROM orders WHERE id = 1", FILL.format(31, 31))
    assert pipeline.run().rows_out == 3
    assert pipeline.confirmed == pipeline.reached["lsn"]
    assert pipeline.taken() == [
        {"id": 2, "name": "two", "_gs_op": "u"},
        {"id": 1, "name": None, "_gs_op": "d"},
        {"id": 31, "name": "n31", "_gs_op": "i"},
    ]
    shop.do("DELETE FROM orders WHERE id = 2")
    pipeline.run()
    assert pipeline.running.show("source.orders", 100)[0].keys() == {"id", "name", "_gs_op"}
    assert [row["id"] for row in pipeline.taken()] == [2]


def test_the_server_is_told_only_after_the_sink_has_the_rows(pipeline: Pipeline) -> None:
    """A row that the sink does not take stops the query: the server must keep its change, which comes again then."""
    shop = pipeline.shop
    shop.do(ORDERS, FILL.format(1, 3), "CREATE TABLE copied (id int PRIMARY KEY, name text CHECK (name <> 'bad'))")
    pipeline.into_table().run()
    before = pipeline.confirmed
    shop.do("INSERT INTO orders VALUES (4, 'four')", "INSERT INTO orders VALUES (5, 'bad')")
    text = (pipeline.running.root / "pipeline.yml").read_text()
    (pipeline.running.root / "pipeline.yml").write_text(
        text.replace('"from": "orders"', '"from": "orders", "on_error": "stop"')
    )
    with pytest.raises(Exception, match="does not take a row"):
        pipeline.run()
    assert pipeline.confirmed == before
    assert not pipeline.copied()
    (pipeline.running.root / "pipeline.yml").write_text(text)
    assert pipeline.run().rejected == 1
    assert shop.rows("SELECT id FROM copied ORDER BY id") == [(1,), (2,), (3,), (4,)]
    assert pipeline.confirmed == pipeline.reached["lsn"]


def test_changes_are_followed_while_they_come(pipeline: Pipeline) -> None:
    shop = pipeline.shop
    shop.do(ORDERS, FILL.format(1, 100))
    live(
        pipeline.into_table().running,
        lambda run: pipeline.copied(),
        done(lambda: shop.do("UPDATE orders SET name = 'x' WHERE id % 2 = 0", "DELETE FROM orders WHERE id % 3 = 0")),
        lambda run: pipeline.copied(),
        done(lambda: shop.do("UPDATE orders SET id = id + 1000", FILL.format(2000, 2050))),
        lambda run: pipeline.copied() and pipeline.confirmed == pipeline.reached["lsn"],
    )


def test_a_run_that_is_killed_again_and_again_loses_and_doubles_nothing(database: Database, tmp_path: Path) -> None:
    with shop_of(database) as shop:
        _killed_again_and_again(Pipeline(shop, Running(tmp_path, cast(Any, None), "pipeline.yml")))


def _killed_again_and_again(pipeline: Pipeline) -> None:
    shop, root = pipeline.shop, pipeline.running.root
    shop.do("CREATE TABLE orders (id int PRIMARY KEY, name text, n int)")
    shop.do("INSERT INTO orders SELECT n, 'n' || n, 0 FROM generate_series(1, 5000) n")
    copied = {"type": "postgres", "from": "orders", "table": "copied", **shop.login}
    log = {"type": "file", "from": "orders", "path": "out", "format": "json"}
    pipeline._write({"primary_key": "id", "max_rows_per_trigger": 2000}, {"copied": copied, "log": log})
    stop = threading.Event()
    writer = threading.Thread(target=_write_on, args=(shop.address, stop))
    writer.start()
    try:
        for _ in range(2):
            before = _count(shop)
            with background("run", "pipeline.yml", cwd=root) as runner:
                wait_until(
                    lambda before=before, runner=runner: _count(shop) > before + 1 or runner.poll() is not None,
                    "a few batches",
                )
                assert runner.poll() is None, runner.communicate()[0]
                runner.send_signal(signal.SIGKILL)
                runner.wait()
    finally:
        stop.set()
        writer.join()
    again = penstock("run", "pipeline.yml", "--once", cwd=root)
    assert again.returncode == 0, again.stderr
    assert pipeline.copied()
    logged = pipeline.taken()
    assert max(Counter((row["id"], row["n"], row["_gs_op"]) for row in logged).values()) == 1
    began = {row["id"]: row["n"] for row in logged if row["_gs_op"] == "i"}
    updates = Counter(row["id"] for row in logged if row["_gs_op"] == "u")
    assert shop.rows("SELECT id, n FROM orders ORDER BY id") == [
        (number, began[number] + updates[number])
        for number in sorted(began.keys() - {row["id"] for row in logged if row["_gs_op"] == "d"})
    ]


def _count(shop: Shop) -> int:
    if shop.rows("SELECT to_regclass('penstock_ledger')") == [(None,)]:
        return 0
    return int(shop.rows("SELECT count(*) FROM penstock_ledger")[0][0])


def _write_on(address: str, stop: threading.Event) -> None:
    with psycopg.connect(address, autocommit=True) as db:
        number = 10_000
        while not stop.wait(0.1):
            number += 1
            db.execute("INSERT INTO orders VALUES (%s, 'new', 0)", (number,))
            db.execute("UPDATE orders SET n = n + 1, name = 'u' || n WHERE id = %s", (number % 2000 + 1,))
            db.execute("DELETE FROM orders WHERE id = %s", (number - 50,))


def test_a_slot_that_is_gone_ends_the_run(pipeline: Pipeline) -> None:
    pipeline.shop.do(ORDERS, FILL.format(1, 3))
    pipeline.into_files().run()
    pipeline.shop.do(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )
    with pytest.raises(ServiceError, match="is gone, and with it the changes since") as caught:
        pipeline.run()
    assert caught.value.code == "records-gone"
    assert pipeline.running.run(allow_rebuild=["orders"])["orders"].rows_out == 3


@pytest.mark.parametrize("second", ["N", "_error", "_GS_OP"])
def test_a_column_that_cannot_be_told_from_others_is_refused_and_can_be_left_out(
    pipeline: Pipeline, second: str
) -> None:
    pipeline.shop.do(f'CREATE TABLE orders (id int PRIMARY KEY, n int, "{second}" int)')
    pipeline.shop.do("INSERT INTO orders VALUES (1, 2, 3)")
    with pytest.raises(ServiceError) as refused:
        pipeline.into_files().run()
    assert (refused.value.code, refused.value.node) == ("column-names", "orders")
    assert f"`{second}`" in refused.value.message
    pipeline.into_files(columns="id, n").run()
    assert pipeline.taken() == [{"id": 1, "n": 2, "_gs_op": "i"}]
