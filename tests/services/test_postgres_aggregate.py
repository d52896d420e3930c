"""Aggregates that a real PostgreSQL keeps: after any changes they are what one query over the rows would say."""

import json
import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from penstock.clients.postgres.server import PostgresServer
from penstock.connectors.postgres_aggregate import PostgresAggregateSink
from penstock.dev import postgres as dev
from penstock.errors import PenstockError, PlanRefused, QueryFailed, ServiceError
from penstock.testing.contract import FIRST
from tests.services.postgres import Database
from tests.spark.running import Running

COLUMNS = "id BIGINT, account STRING, amount BIGINT, _gs_op STRING"
EVERYTHING = {
    "total": {"from": "amount", "fn": "sum"},
    "n": {"fn": "count"},
    "known": {"from": "amount", "fn": "count"},
    "mean": {"from": "amount", "fn": "avg"},
    "least": {"from": "amount", "fn": "min"},
    "most": {"from": "amount", "fn": "max"},
}
_SUM = "coalesce(sum(amount), 0)"
WANTED = f"{_SUM}, count(*), count(amount), {_SUM}, count(amount), min(amount), max(amount)"
KEPT = "total, n, known, mean_sum, mean_count, least, most"


@pytest.fixture
def schema(database: Database) -> Iterator[str]:
    """A schema of its own for every test."""
    schema = f"t{uuid4().hex[:8]}"
    yield schema
    database.rows(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


class Given:
    """Two tables, and batches that are written to the first one."""

    def __init__(self, database: Database, schema: str, spark: SparkSession) -> None:
        self.database = database
        self.schema = schema
        self.spark = spark
        self.log = f"{schema}.log"
        self.sums = f"{schema}.sums"
        self.batch = -1
        self.settings: dict[str, Any] = {
            "group_by": {"account": None},
            "aggregate": {"total": {"from": "amount", "fn": "sum"}},
        }

    @property
    def server(self) -> PostgresServer:
        return PostgresServer(port=self.database.port, user=dev.USER, password=dev.PASSWORD, database=dev.DATABASE)

    def sink(self, **settings: Any) -> PostgresAggregateSink:
        tables = {"schema": self.schema, "landing_table": "log", "agg_table": "sums"}
        said = {"from": "rows", "primary_key": "id", **tables, **self.settings, **settings}
        return PostgresAggregateSink.model_validate(said).with_server(self.server)

    def write(self, columns: str, *rows: tuple[Any, ...], **settings: Any) -> int:
        self.batch += 1
        return self.write_again(columns, *rows, **settings)

    def write_again(self, columns: str, *rows: tuple[Any, ...], **settings: Any) -> int:
        frame = self.spark.createDataFrame(list(rows), columns).coalesce(1)
        return self.sink(**settings).write(frame, replace(FIRST, batch_id=self.batch)).rows

    def make(self, *statements: str) -> None:
        for statement in (f"CREATE SCHEMA {self.schema}", *statements):
            self.database.rows(statement)

    def kept(self, columns: str = "*") -> list[tuple[str, ...]]:
        return self.database.rows(f"SELECT {columns} FROM {self.sums} ORDER BY 1")

    def differences(self, *groups: str) -> list[tuple[str, ...]]:
        """Lines that only one of the two has: the table of aggregates, or a query over the rows."""
        asked = f"SELECT {', '.join([*groups, WANTED])} FROM {self.log}"
        asked += f" GROUP BY {', '.join(groups)}" if groups else ""
        there = f"SELECT {', '.join([*groups, KEPT])} FROM {self.sums}"
        return self.database.rows(f"({asked} EXCEPT {there}) UNION ALL ({there} EXCEPT {asked})")

    def types(self, table: str) -> dict[str, str]:
        found = self.database.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        return dict(found)  # type: ignore[arg-type]

    def triggers(self) -> list[str]:
        asked = f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{self.log}'::regclass ORDER BY 1"
        return [name for (name,) in self.database.rows(asked)]


@pytest.fixture
def given(database: Database, schema: str, spark: SparkSession) -> Given:
    return Given(database, schema, spark)


# What is kept


@pytest.mark.parametrize("groups", [("account",), ("account", "kind"), ()])
def test_after_any_changes_the_aggregates_are_those_of_the_rows(groups: tuple[str, ...], given: Given) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    given.settings = {"group_by": dict.fromkeys(groups), "aggregate": EVERYTHING}
    columns = "id BIGINT, account STRING, kind INT, amount BIGINT, _gs_op STRING"

    def row() -> tuple[Any, ...]:
        key, account, kind = chance.randrange(40), chance.choice([None, "a", "b"]), chance.choice([None, 1, 2])
        return key, account, kind, chance.choice([None, *range(-5, 6)]), chance.choice("iuudd")

    for _ in range(12):
        rows = [row() for _ in range(chance.choice([1, 5, 60]))]
        given.write(columns, *rows)
        assert given.write_again(columns, *rows) == 0
        assert given.differences(*groups) == []


def test_large_batches_that_are_merged_by_a_join(given: Given) -> None:
    given.settings["aggregate"] = EVERYTHING
    given.write(COLUMNS, *[(n, f"a{n % 7}", n, "i") for n in range(3000)])
    given.write(COLUMNS, *[(n, f"a{n % 5}", -n, "d" if n % 3 == 0 else "u") for n in range(1500, 4500)])
    assert given.differences("account") == []
    assert given.database.rows(f"SELECT count(*) FROM {given.log}") == [("3500",)]


def test_a_row_that_moves_to_another_group(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (2, "a", 5, "i"))
    given.write(COLUMNS, (1, "b", 7, "u"))
    assert given.kept("account, total") == [("a", "5"), ("b", "7")]


def test_a_group_without_rows_is_gone_and_may_come_again(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (2, None, 5, "i"), (3, "b", 0, "i"))
    given.write(COLUMNS, (1, None, None, "d"), (2, None, None, "d"))
    assert given.kept("account, total") == [("b", "0")]
    given.write(COLUMNS, (1, "a", 3, "i"), (2, None, 4, "i"))
    assert given.kept("account, total") == [("a", "3"), ("b", "0"), ("", "4")]


def test_an_insert_and_a_delete_in_one_batch_leave_nothing(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (1, "a", 10, "d"), (2, "a", 1, "i"))
    assert given.kept("account, total") == [("a", "1")]


def test_nulls_are_one_group(given: Given) -> None:
    given.write(COLUMNS, (1, None, 10, "i"), (2, None, 5, "i"))
    given.write(COLUMNS, (3, None, 1, "i"), (4, "", 9, "i"))
    assert given.kept("account IS NULL, total") == [("f", "9"), ("t", "16")]


def test_a_group_of_nothing_but_nulls_sums_up_to_nothing(given: Given) -> None:
    given.settings["aggregate"] = EVERYTHING
    given.write(COLUMNS, (1, "a", None, "i"), (2, "a", None, "i"))
    assert given.kept(f"account, {KEPT}") == [("a", "0", "2", "0", "0", "0", "", "")]


def test_one_line_for_all_rows_stays_also_without_rows(given: Given) -> None:
    given.settings = {"aggregate": EVERYTHING}
    given.write(COLUMNS, (1, "a", 10, "i"), (2, "b", 5, "i"))
    assert given.kept(f"key, {KEPT}") == [("value", "15", "2", "2", "15", "2", "5", "10")]
    given.write(COLUMNS, (1, "a", 10, "d"), (2, "b", 5, "d"))
    assert given.kept(f"key, {KEPT}") == [("value", "0", "0", "0", "0", "0", "", "")]


def test_the_smallest_and_the_largest_when_they_leave(given: Given) -> None:
    given.settings["aggregate"] = {"first": {"from": "amount", "fn": "min"}, "last": {"from": "amount", "fn": "max"}}
    given.write(COLUMNS, (1, "a", 1, "i"), (2, "a", 1, "i"), (3, "a", 5, "i"), (4, "a", 9, "i"), (5, None, 2, "i"))
    given.write(COLUMNS, (1, "a", None, "d"), (4, "a", 4, "u"))
    assert given.kept("account, first, last") == [("a", "1", "5"), ("", "2", "2")]
    given.write(COLUMNS, (2, "a", None, "d"), (5, None, 1, "u"))
    assert given.kept("account, first, last") == [("a", "4", "5"), ("", "1", "1")]


def test_texts_and_times_have_a_smallest_and_a_largest(given: Given) -> None:
    from datetime import datetime

    made = {"first": {"from": "at", "fn": "min"}, "name": {"fn": "max"}}
    given.write("id INT, at TIMESTAMP, name STRING", (1, datetime(2024, 5, 1), "b"), group_by={}, aggregate=made)
    given.write("id INT, at TIMESTAMP, name STRING", (2, datetime(2024, 4, 1), "a"), group_by={}, aggregate=made)
    assert given.kept() == [("value", "2024-04-01 00:00:00", "b")]


def test_sums_of_fractions_do_not_drift(given: Given) -> None:
    columns = "id INT, account STRING, amount DOUBLE, _gs_op STRING"
    given.write(columns, *[(n, "a", 0.1, "i") for n in range(10)], (10, "a", 1e15, "i"))
    given.write(columns, (10, "a", None, "d"))
    assert given.kept("account, total") == [("a", "1.0")]


def test_the_smallest_leaves_and_another_comes_by_one_statement(given: Given) -> None:
    given.settings["aggregate"] = EVERYTHING
    given.write(COLUMNS, (1, "a", 1, "i"), (2, "a", 8, "i"), (3, "b", 3, "i"))
    given.write(COLUMNS, (1, "a", 5, "u"), (4, "a", 2, "i"), (3, "a", 3, "u"), (5, "b", 7, "i"))
    assert given.kept(f"account, {KEPT}") == [
        ("a", "18", "4", "4", "18", "4", "2", "8"),
        ("b", "7", "1", "1", "7", "1", "7", "7"),
    ]


def test_numbers_that_come_as_texts_are_summed_up(given: Given) -> None:
    large = str(2**255)
    given.write("id INT, account STRING, amount STRING", (1, "a", large), (2, "a", "1"))
    assert given.kept("account, total") == [("a", str(2**255 + 1))]
    with pytest.raises(QueryFailed, match="invalid input syntax for type numeric") as caught:
        given.write("id INT, account STRING, amount STRING", (3, "a", "much"))
    assert caught.value.code == "rows-refused"


# As documented


def test_balances(given: Given) -> None:
    given.write(
        COLUMNS.replace("id", "transfer_id"),
        (1, "a", 100, "i"),
        (2, "a", -30, "i"),
        (3, "b", 5, "i"),
        primary_key="transfer_id",
        batch_flush_interval="1s",
        batch_size=100,
        group_by={"account": {"type": "text"}},
        aggregate={"balance": {"from": "amount", "fn": "sum"}},
    )
    assert given.kept("account, balance") == [("a", "70"), ("b", "5")]
    assert given.types(given.sums) == {"account": "text", "balance": "numeric", "_penstock_rows": "bigint"}
    assert given.types(given.log) == {"transfer_id": "bigint", "account": "text", "amount": "bigint"}
    assert given.triggers() == [
        "log_to_sums_delete_trigger",
        "log_to_sums_trigger",
        "log_to_sums_truncate_trigger",
        "log_to_sums_update_trigger",
    ]
    assert given.database.rows(f"SELECT to_regprocedure('{given.schema}.log_to_sums_fn()') IS NOT NULL") == [("t",)]


def test_market_stats(given: Given) -> None:
    given.settings = {
        "primary_key": "trade_id",
        "group_by": {"market": {"type": "varchar(100)"}},
        "aggregate": {
            "trade_count": {"fn": "count"},
            "total_volume": {"from": "volume", "fn": "sum", "type": "numeric(30,5)"},
            "avg_price": {"from": "price", "fn": "avg"},
        },
    }
    columns = "trade_id INT, market STRING, volume DOUBLE, price DOUBLE"
    given.write(columns, (1, "x", 1.5, 10.0), (2, "x", 0.000004, 20.0), (3, "y", 2.0, 1.0))
    assert given.kept() == [("x", "2", "1.50000", "30", "2"), ("y", "1", "2.00000", "1", "1")]
    assert given.types(given.sums) == {
        "market": "character varying(100)",
        "trade_count": "bigint",
        "total_volume": "numeric(30,5)",
        "avg_price_sum": "numeric",
        "avg_price_count": "bigint",
    }
    with pytest.raises(QueryFailed, match="too long"):
        given.write(columns, (4, "z" * 101, 1.0, 1.0))


def test_totals(given: Given) -> None:
    given.write(
        "event_id INT", (1,), (2,), primary_key="event_id", group_by={}, aggregate={"total_count": {"fn": "count"}}
    )
    assert given.kept() == [("value", "2")]
    assert given.types(given.sums) == {"key": "text", "total_count": "bigint"}


def test_names_with_quotes_and_reserved_words(given: Given) -> None:
    tables = {"landing_table": 'it\'s $$ "the" %s log', "agg_table": "select" + "e" * 50}
    made = {
        "primary_key": "group",
        "group_by": {"tg_op": {"from": "order"}, "found": {"from": "a 'b' \"c\""}},
        "aggregate": {
            "sum": {"from": "new_table", "fn": "sum"},
            "max": {"from": "sign", "fn": "max"},
            "g0": {"fn": "count"},
        },
    }
    columns = "`group` INT, `order` STRING, `a 'b' \"c\"` STRING, new_table INT, sign INT, _gs_op STRING"
    given.write(columns, (1, "x", "y", 2, 3, "i"), (2, "x", "y", 5, 7, "i"), **tables, **made)
    given.write(columns, (2, "x", None, 5, 4, "u"), **tables, **made)
    name = f'{given.schema}."{tables["agg_table"]}"'
    asked = f"SELECT tg_op, coalesce(found, '-'), sum, max, g0 FROM {name} ORDER BY 2"
    assert given.database.rows(asked) == [("x", "-", "5", "4", "1"), ("x", "y", "2", "3", "1")]


# Tables that are there


def test_rows_that_somebody_else_changes_are_counted_too(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (2, "b", 5, "i"))
    given.database.rows(f"UPDATE {given.log} SET amount = amount + 1")
    given.database.rows(f"INSERT INTO {given.log} VALUES (3, 'c', 1)")
    assert given.kept("account, total") == [("a", "11"), ("b", "6"), ("c", "1")]
    given.database.rows(f"TRUNCATE {given.log}")
    assert given.kept() == []


def test_two_who_change_a_group_at_once(given: Given) -> None:
    given.settings["aggregate"] = EVERYTHING
    given.write(COLUMNS, (1, "a", 9, "i"), (2, "a", 8, "i"), (3, "a", 7, "i"), (4, None, 1, "i"))
    with given.server.connect() as one, given.server.connect() as other, ThreadPoolExecutor(1) as pool:
        with one.transaction():
            one.execute(f"DELETE FROM {given.log} WHERE id IN (1, 4)")
            changing = pool.submit(other.execute, f"DELETE FROM {given.log} WHERE id = 2")
            while one.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
                assert not changing.done()
        changing.result()
    assert given.differences("account") == []
    assert given.kept("account, most") == [("a", "7")]


def test_rows_that_are_there_are_counted_from_the_first_batch_on(given: Given) -> None:
    given.make(
        f"CREATE TABLE {given.log} (id BIGINT PRIMARY KEY, account TEXT, amount NUMERIC, note TEXT)",
        f"INSERT INTO {given.log} VALUES (1, 'a', 10), (2, 'b', 5)",
        f"CREATE TABLE {given.sums} (total NUMERIC DEFAULT 7, account VARCHAR(9) PRIMARY KEY, _penstock_rows BIGINT)",
    )
    given.write(COLUMNS, (2, "a", 1, "u"))
    assert given.kept("account, total") == [("a", "11")]


def test_other_aggregates_of_the_same_rows_are_made_from_them(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (2, "b", 5, "i"))
    more = {"total": {"from": "amount", "fn": "sum"}, "most": {"from": "amount", "fn": "max"}}
    with pytest.raises(ServiceError, match="no column `most`") as caught:
        given.write(COLUMNS, (3, "a", 1, "i"), aggregate=more)
    assert caught.value.code == "table-mismatch"
    assert 'ADD COLUMN "most" bigint' in (caught.value.hint or "")
    given.database.rows(f"ALTER TABLE {given.sums} ADD COLUMN most BIGINT")
    given.write(COLUMNS, (3, "a", 1, "i"), aggregate=more)
    assert given.kept("account, total, most") == [("a", "11", "10"), ("b", "5", "5")]


def test_a_table_of_aggregates_that_was_dropped_is_made_anew(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"), (2, "b", 5, "i"))
    given.database.rows(f"DROP TABLE {given.sums}")
    given.write(COLUMNS, (2, "a", 1, "u"))
    assert given.kept("account, total") == [("a", "11")]


def test_a_trigger_that_was_turned_off_is_put_right(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"))
    given.database.rows(f"ALTER TABLE {given.log} DISABLE TRIGGER ALL")
    given.database.rows(f"UPDATE {given.log} SET amount = 3")
    given.write(COLUMNS, (2, "a", 1, "i"))
    assert given.kept("account, total") == [("a", "4")]


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (
            "account TEXT PRIMARY KEY, total INTEGER, _penstock_rows BIGINT",
            "integer, which does not hold every numeric",
        ),
        ("account INTEGER PRIMARY KEY, total NUMERIC, _penstock_rows BIGINT", "does not hold every text"),
        ("account TEXT PRIMARY KEY, _penstock_rows BIGINT", "no column `total`"),
        ("account TEXT UNIQUE, total NUMERIC, _penstock_rows BIGINT", "two rows for a group"),
        ("account TEXT, total NUMERIC, _penstock_rows BIGINT", "two rows for a group"),
    ],
)
def test_a_table_that_does_not_hold_the_aggregates_is_refused(there: str, words: str, given: Given) -> None:
    given.make(f"CREATE TABLE {given.sums} ({there})")
    with pytest.raises(ServiceError, match=words) as caught:
        given.write(COLUMNS, (1, "a", 10, "i"))
    assert (caught.value.code, caught.value.retriable) == ("table-mismatch", False)
    assert given.database.rows(f"SELECT * FROM {given.log}") == []
    assert given.triggers() == []


def test_aggregates_of_unknown_rows_are_not_thrown_away(given: Given) -> None:
    given.make(
        f"CREATE TABLE {given.sums} (account TEXT PRIMARY KEY, total NUMERIC, _penstock_rows BIGINT)",
        f"INSERT INTO {given.sums} VALUES ('a', 1000, 1)",
    )
    with pytest.raises(ServiceError, match="its values may be wrong") as caught:
        given.write(COLUMNS, (1, "a", 10, "i"))
    assert caught.value.code == "table-mismatch"
    assert given.kept("account, total") == [("a", "1000")]


def test_a_log_with_a_row_for_each_operation_is_refused(given: Given) -> None:
    given.make(
        f"CREATE TABLE {given.log} (id BIGINT, account TEXT, amount BIGINT, _gs_op TEXT, PRIMARY KEY (id, _gs_op))"
    )
    with pytest.raises(ServiceError, match="no unique index over the primary key"):
        given.write(COLUMNS, (1, "a", 10, "i"))


def test_rows_that_cannot_be_aggregated(given: Given) -> None:
    given.make(
        f"CREATE TABLE {given.log} (id INT PRIMARY KEY, account TEXT, amount TEXT)",
        f"INSERT INTO {given.log} VALUES (1, 'a', 'much')",
    )
    with pytest.raises(ServiceError, match="cannot be aggregated: invalid input syntax") as caught:
        given.write("id INT, account STRING, amount STRING", (2, "a", "1"))
    assert caught.value.code == "table-mismatch"


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"aggregate": {"total": {"fn": "sum"}}}, "table-mismatch", "have no column `total`"),
        ({"aggregate": {"account": {"fn": "sum", "type": "no_such"}}, "group_by": {}}, "database-refused", "no_such"),
        ({"aggregate": {"x": {"fn": "sum", "from": "flag"}}}, "database-refused", "cannot cast type boolean"),
        ({"aggregate": {"x": {"fn": "max", "from": "flag"}}}, "database-refused", "max\\(boolean\\)"),
    ],
)
def test_what_postgres_cannot_make(settings: dict[str, Any], code: str, words: str, given: Given) -> None:
    with pytest.raises(PenstockError, match=words) as caught:
        given.write("id INT, account STRING, flag BOOLEAN", (1, "a", True), **settings)
    assert caught.value.code == code


def test_without_a_key_nothing_is_written(given: Given) -> None:
    with pytest.raises(PlanRefused, match="primary key is required for Postgres aggregation sink"):
        given.write(COLUMNS, (1, "a", 10, "i"), primary_key="")


# Once


def test_a_failure_after_the_rows_were_counted_leaves_nothing(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.clients.postgres.sink.ledger import Ledger

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    given.write(COLUMNS, (1, "a", 10, "i"))
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            given.write(COLUMNS, (2, "a", 5, "i"))
    assert given.kept("account, total") == [("a", "10")]
    assert given.write_again(COLUMNS, (2, "a", 5, "i")) == 1
    assert given.write_again(COLUMNS, (2, "a", 5, "i")) == 0
    assert given.kept("account, total") == [("a", "15")]


def test_a_rehearsal_counts_nothing(given: Given) -> None:
    given.write(COLUMNS, (1, "a", 10, "i"))
    rows = given.spark.createDataFrame([(2, "a", 5, "i")], COLUMNS)
    given.sink().trial(rows, replace(FIRST, batch_id=1))
    assert given.kept("account, total") == [("a", "10")]


PIPELINE = """
sources:
  transfers:
    type: file
    path: in
    format: json
    mode: {{type: bounded}}
transforms:
  sound:
    type: sql
    primary_key: id
    sql: SELECT id, account, amount FROM transfers
sinks:
  balances:
    type: postgres_aggregate
    from: sound
    schema: {schema}
    landing_table: log
    agg_table: sums
    group_by:
      account:
    aggregate:
      total: {{from: amount, fn: sum}}
"""


@pytest.fixture
def pipeline(running: Running, given: Given, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK_CONNECTIONS__BALANCES__PORT", str(given.database.port))
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__USER", dev.USER)
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__PASS", dev.PASSWORD)
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__DB", dev.DATABASE)
    running.write({"pipeline.yml": PIPELINE.format(schema=given.schema)})
    return Running(running.root, running.spark, "pipeline.yml")


def test_of_several_files_in_a_batch_the_last_that_came_is_counted(pipeline: Running, given: Given) -> None:
    for name, amount in {"small": 1, "large": 2}.items():
        padding = "".join(f'{{"id": {n}, "account": "b", "amount": 0}}\n' for n in range(100, 100 + 300 * amount))
        pipeline.write({f"in/{name}.json": f'{padding}{{"id": 1, "account": "a", "amount": {amount}}}\n'})
        os.utime(pipeline.root / "in" / f"{name}.json", (1_700_000_000 + amount, 1_700_000_000 + amount))
    pipeline.run()
    assert given.kept("account, total") == [("a", "2"), ("b", "0")]


def test_a_pipeline_counts_each_batch_once_and_keeps_what_cannot_be_summed_up(pipeline: Running, given: Given) -> None:
    amounts = [f'{{"id": {n}, "account": "a", "amount": "{"much" if n == 7 else n}"}}\n' for n in range(10)]
    pipeline.write({"in/1.json": "".join(amounts)})
    progress = pipeline.run()
    assert progress["transfers"].rejected == 1
    assert given.kept("account, total") == [("a", "38")]
    pipeline.uncommit("transfers", 0)
    pipeline.run()
    assert given.kept("account, total") == [("a", "38")]


@pytest.mark.parametrize("on_error", ["dead_letter", "stop"])
def test_a_sum_that_is_out_of_range(on_error: str, pipeline: Running, given: Given) -> None:
    narrow = PIPELINE.format(schema=given.schema).replace("fn: sum", 'fn: sum, type: "numeric(5,2)"')
    amounts = [f'{{"id": {n}, "account": "{n % 2}", "amount": {1000 if n == 7 else n}}}\n' for n in range(10)]
    pipeline.write({"in/1.json": "".join(amounts), "pipeline.yml": f"{narrow}    on_error: {on_error}\n"})
    if on_error == "stop":
        with pytest.raises(QueryFailed, match="numeric field overflow") as caught:
            pipeline.run_on()
        assert (caught.value.code, caught.value.retriable) == ("rows-refused", False)
        assert "sink `balances`" in str(caught.value)
        assert given.kept() == []
        return
    assert pipeline.run_on()["transfers"].rejected == 1
    assert given.kept("account, total") == [("0", "20.00"), ("1", "18.00")]
    (dead_letter,) = pipeline.topic("balances.errors")
    assert (json.loads(dead_letter["value"])["id"], "numeric field overflow" in dead_letter["message"]) == (7, True)
