"""Tables of a real PostgreSQL, written batch by batch: each exactly once, and nothing that does not fit."""

import json
import operator
import os
import random
import re
import secrets
import signal
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow
import pytest
from pyspark.sql import SparkSession

from penstock.clients.postgres import pool, tables
from penstock.clients.postgres.pool import pooled_connection
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.sink.merge import Merge
from penstock.clients.postgres.sink.staging import Copier, Stage, StagedRows
from penstock.clients.postgres.sink.writer import TableWriter
from penstock.clients.postgres.tables import QualifiedTable
from penstock.connectors.postgres import PostgresSink
from penstock.dev import postgres as dev
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.runtime.dead_letters.store import DirectoryDeadLetters
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.replay.replay import replay_dead_letters
from penstock.testing.contract import FIRST
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project
from tests.services.postgres import Database
from tests.spark.running import Running


@pytest.fixture
def table(database: Database) -> Iterator[str]:
    """A schema of its own for every test."""
    schema = f"t{uuid4().hex[:8]}"
    yield schema
    database.rows(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def server(database: Database) -> PostgresServer:
    return PostgresServer(port=database.port, user=dev.USER, password=dev.PASSWORD, database=dev.DATABASE)


class Given:
    """A table, and batches that are written to it."""

    def __init__(self, database: Database, schema: str, spark: SparkSession) -> None:
        self.database = database
        self.schema = schema
        self.spark = spark
        self.name = f"{schema}.orders"
        self.batch = -1

    def make(self, columns: str) -> None:
        """Make the table beforehand, as somebody else would."""
        self.database.rows(f"CREATE SCHEMA {self.schema}")
        self.database.rows(f"CREATE TABLE {self.name} ({columns})")

    def sink(self, **settings: Any) -> PostgresSink:
        said = {"from": "rows", "schema": self.schema, "table": "orders", "primary_key": "id", **settings}
        return PostgresSink.model_validate(said).with_server(server(self.database))

    def write(self, columns: str, *rows: tuple[Any, ...], **settings: Any) -> int:
        self.batch += 1
        frame = self.spark.createDataFrame(list(rows), columns).coalesce(1)
        return self.sink(**settings).write(frame, replace(FIRST, batch_id=self.batch)).rows

    def again(self, columns: str, *rows: tuple[Any, ...]) -> int:
        """Write as soon as the server takes rows again."""
        ends = time.monotonic() + 300
        while True:
            try:
                return self.write(columns, *rows)
            except ServiceError as error:
                if not error.retriable or time.monotonic() > ends:
                    raise
                self.batch -= 1
                time.sleep(0.2)

    def rows(self, columns: str = "*", order: str = "1") -> list[tuple[str, ...]]:
        return self.database.rows(f"SELECT {columns} FROM {self.name} ORDER BY {order}")

    def types(self) -> dict[str, str]:
        found = self.database.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{self.name}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        return dict(found)  # type: ignore[arg-type]


@pytest.fixture
def given(database: Database, table: str, spark: SparkSession) -> Given:
    return Given(database, table, spark)


def test_the_last_row_of_a_key_counts_and_deletes_take_rows_out(given: Given) -> None:
    columns = "id BIGINT, name STRING, _gs_op STRING"
    given.write(columns, (1, "a", "i"), (1, "b", "u"), (2, "c", "i"), (3, "d", "i"), (3, None, "d"), (4, "e", None))
    assert given.rows() == [("1", "b"), ("2", "c"), ("4", "e")]
    given.write(columns, (1, None, "d"), (1, "again", "i"), (2, None, "D"), (5, "x", "d"))
    assert given.rows() == [("1", "again"), ("4", "e")]


def test_a_table_is_emptied_if_it_is_there(database: Database, table: str) -> None:
    writer = TableWriter(server(database), QualifiedTable(table, "t"))
    writer.empty()
    database.rows(f"CREATE SCHEMA {table}")
    database.rows(f"CREATE TABLE {table}.t AS SELECT 1 AS id")
    writer.empty()
    assert database.rows(f"SELECT * FROM {table}.t") == []


def test_without_a_key_the_table_is_a_log_of_changes(given: Given) -> None:
    columns = "id BIGINT, name STRING, _gs_op STRING"
    given.write(columns, (1, "a", "i"), (1, "b", "U"), (2, "c", None), (1, None, "d"), primary_key="")
    given.write(columns, (2, None, "D"), primary_key="")
    logged = [("1", "", "d"), ("1", "a", "i"), ("1", "b", "u"), ("2", "", "d"), ("2", "c", "i")]
    assert given.rows("id, coalesce(name, ''), _gs_op", "1, 2") == logged


def test_a_table_that_cannot_log_a_delete_takes_rows_until_one_comes(given: Given, capfd: Any) -> None:
    columns = "id BIGINT, _gs_op STRING"
    given.make("id bigint")
    given.write(columns, (1, "i"), (2, "u"), primary_key="")
    with pytest.raises(ServiceError, match="neither a key nor a column `_gs_op`") as caught:
        given.write(columns, (3, "i"), (1, "d"), primary_key="")
    assert caught.value.code == "table-mismatch"
    assert f'ALTER TABLE "{given.schema}"."orders" ADD COLUMN "_gs_op" text' in str(caught.value.hint)
    assert given.rows() == [("1",), ("2",)]
    given.write(columns, (3, "i"), (1, "d"), primary_key="", schema_change="ignore")
    assert given.rows() == [("1",), ("2",), ("3",)]
    assert "deletes are left out" in capfd.readouterr().err
    given.write(columns, (4, "i"), (1, "d"), primary_key="", schema_change="evolve")
    assert given.rows("id, coalesce(_gs_op, '')", "id, 2") == [
        ("1", ""), ("1", "d"), ("2", ""), ("3", ""), ("4", "i")
    ]  # fmt: skip


@pytest.mark.parametrize("more", [0, 2000])
def test_with_on_conflict_nothing_the_first_row_of_a_key_stays(more: int, given: Given) -> None:
    columns, first = "id INT, name STRING, _gs_op STRING", {"on_conflict": "nothing"}
    others = [(n, "x", "i") for n in range(100, 100 + more)]
    given.write(columns, (1, "a", "i"), (1, "b", "i"), (2, "c", "i"), (2, None, "d"), (2, "e", "i"), *others, **first)
    assert given.rows("id, name")[:2] == [("1", "a"), ("2", "e")]
    given.write(columns, (1, "z", "i"), (2, None, "d"), (2, "f", "i"), (2, "g", "i"), (3, "h", "i"), *others, **first)
    given.write("id INT, name STRING", (3, "y"), (4, "k"), (4, "l"), *(row[:2] for row in others), **first)
    assert given.rows("id, name")[:4] == [("1", "a"), ("2", "f"), ("3", "h"), ("4", "k")]


def test_order_holds_over_many_rows_of_a_key(given: Given) -> None:
    rows = [(n % 7, n) for n in range(10_000)]
    given.write("id INT, n INT", *rows)
    assert given.rows() == [(str(key), str(max(n for k, n in rows if k == key))) for key in range(7)]


def test_many_rows_for_an_empty_table_end_as_they_would_in_one_with_rows(given: Given) -> None:
    columns = "id INT, n INT, _gs_op STRING"
    rows = [(n % 1500, n, "d" if n % 1500 == 7 and n >= 1500 else "i") for n in range(3000)]
    given.write(columns, *rows)
    expected = [(str(key), str(key + 1500)) for key in range(1500) if key != 7]
    assert given.rows() == expected
    given.write(columns, *rows)
    assert given.rows() == expected


def test_a_row_that_comes_from_elsewhere_into_an_empty_table_is_replaced(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.write("id INT, n INT", (5, 0))
    monkeypatch.setattr(Merge, "_size", lambda *_: 0)  # as if it had come right after the look at the table
    given.write("id INT, n INT", *((n, n) for n in range(2000)))
    assert given.rows() == [(str(n), str(n)) for n in range(2000)]


def test_rows_that_are_there_can_be_left_alone(given: Given) -> None:
    given.write("id INT, v INT", (1, 1), on_conflict="nothing")
    given.write("id INT, v INT", (1, 2), (2, 2), (2, 3), on_conflict="nothing")
    assert given.rows() == [("1", "1"), ("2", "2")]


def test_only_newer_versions_replace_a_row(given: Given) -> None:
    given.write("id INT, version INT", (1, 5), (2, 5), update_where={"version": ">"})
    given.write("id INT, version INT", (1, 4), (2, 6), update_where={"version": ">"})
    assert given.rows() == [("1", "5"), ("2", "6")]


def test_rows_of_one_batch_end_as_if_they_had_come_one_by_one(given: Given) -> None:
    columns, newer = "id INT, version INT, _gs_op STRING", {"version": ">"}
    given.write(columns, (1, 1, "i"), (2, 5, "i"), (3, 5, "i"), update_where=newer)
    given.write(
        columns,
        *((1, 3, "u"), (1, 2, "u")),
        *((2, 9, "u"), (2, None, "d"), (2, 1, "i")),
        *((3, 9, "u"), (3, None, "d")),
        update_where=newer,
    )
    assert given.rows() == [("1", "3"), ("2", "1")]


Versioned = tuple[int, int | None, int | None, int, str]
"""A row: key, two numbers that are compared, one that tells it from all others, and its operation."""
SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def replaces(new: Versioned, old: Versioned, where: Mapping[str, str]) -> bool:
    """As SQL has it: nothing can be said of a null."""
    places = {"id": 0, "a": 1, "b": 2}
    pairs = [(sign, new[places[name]], old[places[name]]) for name, sign in where.items()]
    return all(x is not None and y is not None and SIGNS[sign](x, y) for sign, x, y in pairs)


def after(table: Mapping[int, Versioned], rows: Sequence[Versioned], where: Mapping[str, str]) -> dict[int, Versioned]:
    """What is in a table when rows have come one by one."""
    found = dict(table)
    for row in rows:
        if row[4] == "d":
            found.pop(row[0], None)
        elif row[0] not in found or replaces(row, found[row[0]], where):
            found[row[0]] = row
    return found


def merged(db: Any, table: QualifiedTable, where: Mapping[str, str], rows: Sequence[Versioned], deletes: bool) -> None:
    """Put rows into a table as one batch."""
    stage = Stage.create_for(table, FIRST, tables.columns_of(db, table), "true" if deletes else None)
    stage.create_if_missing(db)
    token = secrets.randbits(62)
    lines = (
        [*row[:4], order * 10, *([str(row[4] == "d").lower()] if deletes else []), token]
        for order, row in enumerate(rows)
    )
    text = "".join("\t".join("\\N" if cell is None else str(cell) for cell in line) + "\n" for line in lines)
    staged = StagedRows(stage.table, token, len(rows), 0, 0, f"COPY {stage.table} FROM STDIN", {0: text.encode()})
    with db.transaction():
        stage.complete(db, staged)
        Merge(table, ("id", "a", "b", "n"), ("id",), "update", where, deletes).run(db, staged)


CONDITIONS = [
    *({"a": sign} for sign in SIGNS),
    {"a": ">", "b": ">"},
    {"a": ">=", "b": "<"},
    {"a": "<", "b": "="},
    {"b": "!=", "a": "!="},
    {"a": ">=", "b": "<>"},
    {"id": "=", "a": ">"},
    {"id": ">"},
]


@pytest.mark.parametrize("where", CONDITIONS, ids=str)
@pytest.mark.parametrize("deletes", [True, False])
def test_any_rows_of_a_batch_end_as_if_they_had_come_one_by_one(
    where: dict[str, str], deletes: bool, given: Given
) -> None:
    given.make("id INT PRIMARY KEY, a INT, b INT, n INT")
    table, chance = QualifiedTable(given.schema, "orders"), random.Random(f"{where} {deletes}")
    held: dict[int, Versioned] = {}
    numbers = iter(range(1_000_000))
    with server(given.database).connect() as db:
        for batch in range(40):
            nulls = (None,) * (batch % 3)
            values = (*range(1, 5), *nulls)
            keys, size = (400, 1_500) if batch % 10 == 9 else (chance.choice((1, 4, 30)), chance.randrange(1, 25))
            rows: list[Versioned] = [
                (
                    *(chance.randrange(keys), chance.choice(values), chance.choice(values), next(numbers)),
                    "d" if deletes and chance.random() < 0.15 else "i",
                )
                for _ in range(size)
            ]
            merged(db, table, where, rows, deletes)
            held = after(held, rows, where)
            found = db.execute(f"SELECT id, a, b, n FROM {given.name} ORDER BY id".encode()).fetchall()
            assert found == sorted(row[:4] for row in held.values()), f"batch {batch}: {rows}"


def test_many_rows_are_compared_in_turn_in_one_go(given: Given) -> None:
    """They would take minutes if each of them were written, or looked for among all others."""
    given.make("id INT PRIMARY KEY, a INT, b INT, n INT")
    table, where = QualifiedTable(given.schema, "orders"), {"a": "!=", "b": ">="}
    held: dict[int, Versioned] = {}
    with server(given.database).connect() as db:
        for batch, keys in enumerate((2, 15_000, 15_000, 2)):
            rows: list[Versioned] = [(n % keys, n % 7, n // 9_000, n + batch * 50_000, "i") for n in range(50_000)]
            merged(db, table, where, rows, False)
            held = after(held, rows, where)
            found = db.execute(f"SELECT id, a, b, n FROM {given.name} ORDER BY id".encode()).fetchall()
            assert found == sorted(row[:4] for row in held.values())


def test_equal_versions_of_one_batch_leave_the_first(given: Given) -> None:
    given.write("id INT, version INT, v STRING", (1, 5, "first"), (1, 5, "second"), update_where={"version": ">"})
    assert given.rows() == [("1", "5", "first")]
    given.write("id INT, version INT, v STRING", (1, 5, "third"), (1, 5, "fourth"), update_where={"version": ">="})
    assert given.rows() == [("1", "5", "fourth")]


@pytest.mark.parametrize("more", [{}, {"turn": ">="}])
def test_odd_names_are_compared(more: dict[str, str], given: Given) -> None:
    names = ["comes", "stays", "chosen", "penstock", "each", "kept", "place", "since", "k0", "v0", "turn", "a 'b%\""]
    columns = f"turns INT, {', '.join(f'`{name}` INT' for name in names)}, _gs_op STRING"
    settings = {"primary_key": "turns", "update_where": {"a 'b%\"": ">", **more}}
    given.write(columns, *((1, *[n] * 12, op) for n, op in ((9, "i"), (9, "d"), (1, "i"), (2, "u"))), **settings)
    assert given.rows() == [("1", *["2"] * 12)]
    given.write(columns, *((1, *[n] * 12, "u") for n in (1, 3, 2)), **settings)
    assert given.rows() == [("1", *["3"] * 12)]


def test_rows_that_do_not_stay_take_no_room_from_others(given: Given) -> None:
    given.make("id INT PRIMARY KEY, v INT, w INT, mail TEXT UNIQUE")
    columns, newer = "id INT, v INT, w INT, mail STRING", {"v": ">", "w": ">="}
    given.write(columns, (1, 1, 1, "a"), (1, 2, 2, "b"), (2, 1, 1, "a"), update_where=newer)
    assert given.rows("id, mail") == [("1", "b"), ("2", "a")]
    given.write(columns, (1, 3, 3, "c"), (1, 4, 4, "d"), (3, 1, 1, "c"), (3, 0, 1, "a"), update_where=newer)
    assert given.rows("id, mail") == [("1", "d"), ("2", "a"), ("3", "c")]


def test_domains_and_texts_with_an_order_of_their_own_are_compared_in_turn(given: Given) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(f"CREATE DOMAIN {given.schema}.number AS NUMERIC(6,2) NOT NULL")
    given.database.rows(
        f"CREATE TABLE {given.name}"
        f' (id {given.schema}.number PRIMARY KEY, v {given.schema}.number, t VARCHAR(9) COLLATE "C")'
    )
    columns, newer = "id DECIMAL(6,2), v DECIMAL(6,2), t STRING, _gs_op STRING", {"v": ">", "t": "!="}
    one, two, three = (Decimal(f"{n}.50") for n in (1, 2, 3))
    given.write(columns, (one, two, "b", "i"), (one, one, "c", "u"), (one, three, "b", "u"), update_where=newer)
    assert given.rows() == [("1.50", "2.50", "b")]
    given.write(columns, (one, three, "a", "u"), (one, Decimal("4.50"), "b", "u"), update_where=newer)
    assert given.rows() == [("1.50", "4.50", "b")]
    given.write(columns, (one, None, None, "d"), (one, one, "a", "i"), (one, two, "b", "u"), update_where=newer)
    assert given.rows() == [("1.50", "2.50", "b")]


def test_a_row_that_somebody_else_is_changing_is_compared_as_it_is_then(given: Given) -> None:
    given.make("id INT PRIMARY KEY, a INT, b INT, n INT")
    given.database.rows(f"INSERT INTO {given.name} VALUES (1, 1, 1, 0)")
    rows: list[Versioned] = [(1, 2, 1, 1, "i"), (1, 1, 1, 2, "i")]
    one = server(given.database)
    with one.connect() as other, one.connect() as db, ThreadPoolExecutor(1) as threads:
        with other.transaction():
            other.execute(f"UPDATE {given.name} SET a = 2, n = 9".encode())
            done = threads.submit(
                merged, db, QualifiedTable(given.schema, "orders"), {"a": "!=", "b": "="}, rows, False
            )
            waits = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {db.info.backend_pid}"
            while given.database.rows(waits) != [("Lock",)]:
                assert not done.done()
        done.result(60)
    assert given.rows() == [("1", "1", "1", "2")]


def test_what_is_deleted_makes_room_for_what_comes(given: Given) -> None:
    given.make("id INT PRIMARY KEY, mail TEXT UNIQUE")
    columns = "id INT, mail STRING, _gs_op STRING"
    given.write(columns, (1, "a", "i"))
    given.write(columns, (2, "a", "i"), (1, None, "d"))
    assert given.rows() == [("2", "a")]


@pytest.mark.parametrize("there", ["id INT UNIQUE, v INT", "id INT, v INT, UNIQUE (id) DEFERRABLE"])
def test_a_key_that_may_be_null_or_twice_for_a_while_is_refused(there: str, given: Given) -> None:
    given.make(f"{there}")
    with pytest.raises(ServiceError, match="without nulls"):
        given.write("id INT, v INT", (1, 1))


def test_words_of_an_enum_and_odd_names(given: Given) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(f"CREATE TYPE {given.schema}.mood AS ENUM ('sad', 'glad')")
    given.database.rows(f"CREATE TABLE {given.name} (id INT PRIMARY KEY, mood {given.schema}.mood)")
    given.write("id INT, mood STRING", (1, "glad"))
    assert given.rows() == [("1", "glad")]
    with pytest.raises(QueryFailed, match="invalid input value for enum"):
        given.write("id INT, mood STRING", (2, "so so"))
    with pytest.raises(ServiceError, match="too long for a column"):
        given.write(f"id INT, {'x' * 64} INT", (1, 1))
    odd = given.sink(schema=f'{given.schema} 50% "off"')
    assert odd.write(given.spark.createDataFrame([(1,)], "id INT"), FIRST).rows == 1
    assert odd.write(given.spark.createDataFrame([(1,)], "id INT"), FIRST).rows == 0
    given.database.rows(f'DROP SCHEMA "{given.schema} 50% ""off""" CASCADE')


def test_a_table_of_nothing_but_its_key(given: Given) -> None:
    given.write("id INT", (1,), (1,))
    given.write("id INT", (1,), (2,))
    assert given.rows() == [("1",), ("2",)]


def test_every_type_arrives_as_it_was(given: Given) -> None:
    columns = {
        "id": ("INT", 1),
        "tiny": ("TINYINT", -128),
        "small": ("SMALLINT", 32767),
        "big": ("BIGINT", -(2**63)),
        "real": ("FLOAT", 1.5),
        "double": ("DOUBLE", float("nan")),
        "large": ("DOUBLE", 1.7976931348623157e308),
        "flag": ("BOOLEAN", True),
        "text": ("STRING", "tab\there \\N back\\slash\nnew line\r «ünï» 🐟 'quoted' \\."),
        "raw": ("BINARY", bytearray(b"\x00\\\xff")),
        "day": ("DATE", date(2024, 2, 29)),
        "moment": ("TIMESTAMP", datetime(2024, 2, 29, 12, 30, 1, 123456)),
        "exact": ("DECIMAL(38,10)", Decimal("1234567890123456789012345678.0123456789")),
        "list": ("ARRAY<INT>", [1, None, 3]),
        "row": ("STRUCT<a: INT, b: STRING>", (1, 'x"y\\')),
        "nothing": ("STRING", None),
        "select": ("STRING", "reserved"),
        'a "b"': ("INT", 7),
    }
    given.write(", ".join(f"`{n}` {kind}" for n, (kind, _) in columns.items()), tuple(v for _, v in columns.values()))
    assert given.types() == {
        "id": "integer",
        "tiny": "smallint",
        "small": "smallint",
        "big": "bigint",
        "real": "real",
        "double": "double precision",
        "large": "double precision",
        "flag": "boolean",
        "text": "text",
        "raw": "bytea",
        "day": "date",
        "moment": "timestamp without time zone",
        "exact": "numeric(38,10)",
        "list": "jsonb",
        "row": "jsonb",
        "nothing": "text",
        "select": "text",
        'a "b"': "integer",
    }
    (found,) = given.database.rows(f"SELECT to_json(o) FROM {given.name} AS o")
    import json

    row = json.loads(found[0])
    assert row["text"] == columns["text"][1]
    assert row["raw"] == "\\x005cff"
    assert (row["double"], row["large"], row["big"], row["tiny"]) == ("NaN", 1.7976931348623157e308, -(2**63), -128)
    assert (row["day"], row["moment"]) == ("2024-02-29", "2024-02-29T12:30:01.123456")
    assert given.rows("exact::text") == [("1234567890123456789012345678.0123456789",)]
    assert (row["list"], row["row"], row["nothing"]) == ([1, None, 3], {"a": 1, "b": 'x"y\\'}, None)
    assert (row["select"], row['a "b"']) == ("reserved", 7)


def test_a_column_that_the_table_lacks(given: Given) -> None:
    given.write("id INT", (1,))
    with pytest.raises(ServiceError) as caught:
        given.write("id INT, note STRING", (2, "new"))
    assert caught.value.code == "table-mismatch"
    assert not caught.value.retriable
    assert 'ADD COLUMN "note" text' in (caught.value.hint or "")
    given.write("id INT, note STRING", (3, "left out"), schema_change="ignore")
    given.write("id INT, note STRING", (4, "kept"), schema_change="evolve")
    assert given.rows() == [("1", ""), ("3", ""), ("4", "kept")]


@pytest.mark.parametrize(
    ("there", "column", "word"),
    [
        ("id INT PRIMARY KEY, v INTEGER", "v BIGINT", "integer"),
        ("id INT PRIMARY KEY, v TEXT", "v BIGINT", "text"),
        ("id INT PRIMARY KEY, v NUMERIC(10,2)", "v DECIMAL(12,2)", "numeric(10,2)"),
        ("id INT PRIMARY KEY, v NUMERIC(10,2)", "v DOUBLE", "numeric(10,2)"),
        ("id INT PRIMARY KEY, v REAL", "v INT", "real"),
        ("id INT PRIMARY KEY, v DOUBLE PRECISION", "v BIGINT", "double precision"),
        ("id INT PRIMARY KEY, v TIMESTAMP(3)", "v TIMESTAMP", "timestamp(3)"),
        ("id INT PRIMARY KEY, v information_schema.cardinal_number", "v BIGINT", "cardinal_number"),
        ("id INT, v BIGINT", "v BIGINT", "unique index"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(there: str, column: str, word: str, given: Given) -> None:
    given.make(f"{there}")
    with pytest.raises(ServiceError, match=re.escape(word)) as caught:
        given.write(f"id INT, {column}", (1, None))
    assert caught.value.code == "table-mismatch"
    assert given.rows() == []


def test_a_table_of_somebody_else_is_written_as_it_is(given: Given) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(
        f"CREATE TABLE {given.name} (extra TEXT DEFAULT 'd', v NUMERIC, at TIMESTAMPTZ, id BIGINT PRIMARY KEY, u UUID)"
    )
    uuid = "b5f0f5a8-6b1c-4c57-9a43-1f8a3f0d8a11"
    given.write("id INT, u STRING, v DECIMAL(10,2), at TIMESTAMP", (1, uuid, None, None))
    assert given.rows("id, extra, u") == [("1", "d", uuid)]


def test_wider_types_and_domains_hold_every_value(given: Given) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(f"CREATE DOMAIN {given.schema}.amount AS NUMERIC(12,2) CHECK (VALUE >= 0)")
    given.database.rows(f"CREATE DOMAIN {given.schema}.price AS {given.schema}.amount")
    columns = {
        "n": ("NUMERIC", "DOUBLE", 0.1),
        "large": ("NUMERIC", "DOUBLE", 1.5e300),
        "nan": ("NUMERIC", "FLOAT", float("nan")),
        "d": ("DOUBLE PRECISION", "INT", -(2**31)),
        "r": ("REAL", "SMALLINT", 32767),
        "at": ("TIMESTAMP(6)", "TIMESTAMP", datetime(2024, 2, 29, 12, 30, 1, 123456)),
        "day": ("TIMESTAMPTZ", "DATE", date(2024, 2, 29)),
        "price": (f"{given.schema}.price", "DECIMAL(12,2)", Decimal("9.99")),
    }
    there = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    given.database.rows(f"CREATE TABLE {given.name} (id INT PRIMARY KEY, {there})")
    spoken = ", ".join(f"{name} {kind}" for name, (_, kind, _) in columns.items())
    given.write(f"id INT, {spoken}", (1, *(value for _, _, value in columns.values())))
    assert given.rows("n, nan, d::bigint, r, at, day AT TIME ZONE 'UTC', price, large = 1.5e300") == [
        ("0.1", "NaN", "-2147483648", "32767", "2024-02-29 12:30:01.123456", "2024-02-29 00:00:00", "9.99", "t")
    ]
    with pytest.raises(QueryFailed, match="amount"):
        given.write("id INT, price DECIMAL(12,2)", (2, Decimal("-1.00")))


def test_a_delete_needs_only_its_key_where_a_domain_takes_no_nulls(given: Given) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(f"CREATE DOMAIN {given.schema}.word AS VARCHAR(5) NOT NULL CHECK (VALUE <> '')")
    given.database.rows(f"CREATE DOMAIN {given.schema}.number AS INT CHECK (VALUE IS NOT NULL)")
    given.database.rows(
        f"CREATE TABLE {given.name}"
        f" (id {given.schema}.number PRIMARY KEY, w {given.schema}.word, n {given.schema}.number)"
    )
    columns = "id INT, w STRING, n INT, _gs_op STRING"
    given.write(columns, (1, "a", 1, "i"), (2, "b", 2, "i"), (3, "c", 3, "i"))
    given.write(columns, (1, None, None, "d"), (2, None, None, "d"), (2, "again", 4, "i"))
    assert given.rows() == [("2", "again", "4"), ("3", "c", "3")]
    refused = ((4, None, 4, "i"), (4, "d", None, "i"), (4, "", 4, "i"), (4, "longer", 4, "i"), (3, None, 3, "u"))
    for row in refused:
        with pytest.raises(QueryFailed, match=r"word|number|too long") as caught:
            given.write(columns, row)
        assert caught.value.code == "rows-refused"
    rows = given.spark.createDataFrame([(n, *row) for n, row in enumerate(refused)], f"place INT, {columns}")
    assert [place for place, _ in given.sink().trial(rows.coalesce(1), FIRST, "place")] == [0, 1, 2, 3, 4]
    assert given.rows() == [("2", "again", "4"), ("3", "c", "3")]


def test_a_text_is_a_time_of_day_where_the_table_has_one(given: Given) -> None:
    given.make("id INT PRIMARY KEY, t TIME, d INTERVAL")
    given.write("id INT, t STRING, d STRING", (1, "12:30:00.5", "90 minutes"), (2, None, None))
    assert given.rows("id, t, d") == [("1", "12:30:00.5", "01:30:00"), ("2", "", "")]


@pytest.mark.parametrize(
    ("constraint", "column", "value", "said"),
    [
        ("v SMALLINT CHECK (v > 0)", "v SMALLINT", -1, "violates check constraint"),
        ("v TEXT", "v STRING", "a\0b", "0x00"),
        ("v TEXT NOT NULL", "v STRING", None, "null value"),
    ],
)
def test_a_row_that_the_database_does_not_take(
    constraint: str, column: str, value: Any, said: str, given: Given
) -> None:
    given.make(f"id INT PRIMARY KEY, {constraint}")
    with pytest.raises(QueryFailed, match=said) as caught:
        given.write(f"id INT, {column}", (1, value))
    assert caught.value.code == "rows-refused"
    assert given.rows() == []


def test_a_delete_without_its_whole_key_is_refused_as_a_row(given: Given) -> None:
    columns, key = "id INT, v STRING, _gs_op STRING", {"primary_key": "id, v"}
    given.write(columns, (1, "a", "i"), (2, "b", "i"), **key)
    gone = ((1, "a", "d"), (2, None, "d"), (None, "b", "D"))
    with pytest.raises(QueryFailed, match=r"a row is to be deleted from .* and its key has no value") as caught:
        given.write(columns, *gone, **key)
    assert caught.value.code == "rows-refused"
    rows = given.spark.createDataFrame([(n, *row) for n, row in enumerate(gone)], f"place INT, {columns}")
    assert [place for place, _ in given.sink(**key).trial(rows.coalesce(1), FIRST, "place")] == [1, 2]
    assert given.rows() == [("1", "a"), ("2", "b")]


def test_a_null_in_the_key_is_refused(given: Given) -> None:
    with pytest.raises(QueryFailed, match="null value in column"):
        given.write("id INT, v INT", (None, 1))


@pytest.mark.parametrize(
    ("settings", "code", "retriable"),
    [
        ({"password": "wrong"}, "database-refused", False),
        ({"password": ""}, "database-refused", False),
        ({"user": "nobody-here"}, "database-refused", False),
        ({"database": "no-such-database"}, "database-refused", False),
        ({"port": 1}, "unreachable", True),
        ({"sslmode": "require"}, "database-refused", False),
    ],
)
def test_a_database_that_cannot_be_entered(settings: dict[str, Any], code: str, retriable: bool, given: Given) -> None:
    with pytest.raises(PenstockError) as caught:
        given.write("id INT", (1,), **settings)
    assert (caught.value.code, caught.value.retriable) == (code, retriable)
    assert "wrong" not in str(caught.value)


@pytest.fixture
def strangers(database: Database) -> Iterator[str]:
    """A database that nobody may enter. Two users are named after it: one may not even log in."""
    name = f"stranger_{uuid4().hex[:8]}"
    database.rows(f"CREATE ROLE {name}_out NOLOGIN PASSWORD 'secret'")
    database.rows(f"CREATE ROLE {name}_in LOGIN PASSWORD 'secret'")
    database.rows(f"CREATE DATABASE {name}")
    database.rows(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    yield name
    database.rows(f"DROP DATABASE {name}")
    database.rows(f"DROP ROLE {name}_in, {name}_out")


@pytest.mark.parametrize(
    ("who", "said"), [("out", "not permitted to log in"), ("in", "permission denied for database")]
)
def test_a_user_without_the_right_to_enter_is_refused_at_once(
    who: str, said: str, given: Given, strangers: str
) -> None:
    with pytest.raises(ServiceError, match=said) as caught:
        given.write("id INT", (1,), user=f"{strangers}_{who}", password="secret", database=strangers)
    assert (caught.value.code, caught.value.retriable) == ("database-refused", False)
    assert "secret" not in str(caught.value)


@pytest.fixture
def hasty(given: Given) -> Iterator[str]:
    """A user whose statements may take five seconds."""
    name = f"hasty_{uuid4().hex[:8]}"
    given.database.rows(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' IN ROLE {dev.USER}")
    given.database.rows(f"ALTER ROLE {name} SET statement_timeout = '5s'")
    yield name
    given.database.rows(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.mark.parametrize(
    ("does", "said", "code", "retriable"),
    [
        ("pg_sleep(30)", "due to statement timeout", "database-refused", False),
        ("pg_cancel_backend(pg_backend_pid())", "due to user request", "unreachable", True),
    ],
)
def test_a_statement_that_takes_too_long_is_final_and_one_that_somebody_cancels_is_not(
    does: str, said: str, code: str, retriable: bool, given: Given, hasty: str
) -> None:
    given.make("id INT PRIMARY KEY")
    given.database.rows(
        f"CREATE FUNCTION {given.schema}.slow() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN PERFORM {does}; PERFORM pg_sleep(0.01); RETURN NEW; END$$"
    )
    given.database.rows(
        f"CREATE TRIGGER slow BEFORE INSERT ON {given.name} FOR EACH ROW EXECUTE FUNCTION {given.schema}.slow()"
    )
    with pytest.raises(ServiceError, match=said) as caught:
        given.write("id INT", (1,), user=hasty, password="secret")
    assert (caught.value.code, caught.value.retriable) == (code, retriable)
    assert (caught.value.hint is not None and "statement_timeout" in caught.value.hint) == (not retriable)


@pytest.fixture
def alone(given: Given) -> Iterator[str]:
    """A user who may have one connection."""
    name = f"alone_{uuid4().hex[:8]}"
    given.database.rows(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1")
    yield name
    given.database.rows(f"DROP ROLE {name}")


def test_a_statement_takes_its_time_where_no_other_connection_is_free_to_ask_about_it(given: Given, alone: str) -> None:
    one = replace(server(given.database), user=alone, password="secret", patience_seconds=1)
    with one.connect() as db:
        with pytest.raises(ServiceError, match="too many connections"), one.connect():
            pass
        assert db.execute("SELECT 'done' FROM pg_sleep(4)").fetchone() == ("done",)


def test_a_failure_after_the_rows_have_arrived_leaves_nothing(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.clients.postgres.sink.ledger import Ledger

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    given.write("id INT", (1,))
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            given.write("id INT", (2,))
    assert given.rows() == [("1",)]
    given.batch -= 1
    assert given.write("id INT", (2,)) == 1
    assert given.rows() == [("1",), ("2",)]


def test_many_and_few_rows_of_tasks_arrive_in_their_order(given: Given) -> None:
    """A task with few rows hands them to the driver, one with many copies them itself."""
    many = given.spark.range(0, 20_000, 1, 1).selectExpr("id", "concat('many ', id) AS v")
    few = given.spark.range(19_990, 20_010, 1, 1).selectExpr("id", "concat('few ', id) AS v")
    for batch, rows in enumerate((many.union(few), few.union(many))):
        assert given.sink().write(rows, replace(FIRST, batch_id=batch)).rows == 20_020
        both = "few" if batch == 0 else "many"
        expected = [(str(n), f"{'many' if n < 19_990 else both if n < 20_000 else 'few'} {n}") for n in range(20_010)]
        assert given.rows() == expected


def test_as_many_tasks_copy_as_are_wanted_and_rows_keep_their_order(given: Given) -> None:
    rows = given.spark.range(0, 40, 1, 4).selectExpr("id % 3 AS id", "id AS n")
    for batch, tasks in enumerate((None, 2, 1)):
        assert given.sink(parallelism=tasks).write(rows, replace(FIRST, batch_id=batch)).rows == 40
        assert given.rows() == [("0", "39"), ("1", "37"), ("2", "38")]
    beside = given.database.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{given.schema}'")
    (parts,) = [name for (name,) in beside if name.startswith("penstock_parts_")]
    found = given.database.rows(f"SELECT count(*) FROM {given.schema}.{parts} GROUP BY token ORDER BY 1")
    assert found == [("1",), ("2",), ("4",)]


def test_rows_beside_the_table_do_not_get_many(given: Given) -> None:
    for _ in range(3):
        given.write("id INT, v STRING", *((n, "x" * 1000) for n in range(700)))
    beside = given.database.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{given.schema}'")
    (rows,) = [name for (name,) in beside if name.startswith("penstock_rows_")]
    assert int(given.database.rows(f"SELECT count(*) FROM {given.schema}.{rows}")[0][0]) == 700
    assert len(given.rows()) == 700


def test_a_crash_of_the_server_in_the_middle_of_a_batch_loses_nothing(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashes(stage: Stage, db: Any, staged: StagedRows) -> None:
        os.kill(db.info.backend_pid, signal.SIGKILL)  # after which the server forgets what is not logged
        complete(stage, db, staged)

    complete = Stage.complete
    rows = [(n, "x" * 100) for n in range(5000)]
    given.write("id INT, v STRING", (1, "old"))
    with monkeypatch.context() as patched:
        patched.setattr(Stage, "complete", crashes)
        with pytest.raises(ServiceError) as caught:
            given.write("id INT, v STRING", *rows)
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)
    given.batch -= 1
    assert given.again("id INT, v STRING", *rows) == 5000
    assert given.rows() == [(str(n), v) for n, v in rows]


def test_a_batch_that_has_lost_rows_on_the_way_is_refused(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    def loses(stage: Stage, db: Any, staged: StagedRows) -> None:
        db.execute(f"TRUNCATE {stage.table}, {stage.parts}")
        complete(stage, db, staged)

    complete = Stage.complete
    monkeypatch.setattr(Stage, "complete", loses)
    with pytest.raises(ServiceError, match="in the middle of a batch"):
        given.write("id INT, v STRING", *((n, "x" * 100) for n in range(5000)))
    assert given.rows() == []


@pytest.mark.parametrize("comes", ["before", "after"])
def test_a_task_that_was_given_up_adds_nothing(comes: str, given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    def comes_late(stage: Stage, db: Any, staged: StagedRows) -> None:
        late = Copier(server(given.database), staged.copy, str(stage.parts), staged.token)
        rows = pyarrow.RecordBatch.from_pydict({"line": [f"7\t1\t{staged.token}\n"]})
        if comes == "before":
            assert late._copy_batches(0, [rows]) == (1, zlib.crc32(rows.column(0)[0].as_py().encode()))
        complete(stage, db, staged)
        lates.append(partial(late._copy_batches, 0, [rows]))

    lates: list[partial[tuple[int, int]]] = []
    complete = Stage.complete
    monkeypatch.setattr(Stage, "complete", comes_late)
    if comes == "before":
        with pytest.raises(ServiceError, match="a task was run twice"):
            given.write("id INT", (1,))
        assert given.rows() == []
    else:
        given.write("id INT", (1,))
        with pytest.raises(ServiceError, match="was run twice"):
            lates[0]()
        assert given.rows() == [("1",)]


def test_a_connection_waits_for_the_next_batch(given: Given) -> None:
    def backend() -> int:
        with pooled_connection(server(given.database)) as db:
            return db.info.backend_pid

    first = backend()
    given.write("id INT", (1,))
    assert backend() == first
    given.database.rows(f"SELECT pg_terminate_backend({first}, 60000)")
    given.write("id INT", (2,))
    second = backend()
    assert second != first
    with pytest.raises(ServiceError), pooled_connection(server(given.database)) as db:
        db.execute("SELECT no_such_column")
    assert backend() != second
    assert given.rows() == [("1",), ("2",)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_off_leaves_connections_alone(given: Given) -> None:
    with pooled_connection(server(given.database)) as db:
        backend = db.info.backend_pid
    child = os.fork()
    if not child:
        os._exit(len(pool._WAITING))
    assert os.waitpid(child, 0)[1] == 0
    with pooled_connection(server(given.database)) as db:
        assert db.info.backend_pid == backend


PIPELINE = """
sources:
  orders:
    type: file
    path: in
    format: json
    mode: {{type: bounded}}
    primary_key: id
transforms:
  sound:
    type: sql
    primary_key: id
    sql: SELECT id, v FROM orders
sinks:
  kept:
    type: postgres
    from: sound
    schema: {schema}
    table: orders
"""


def pipeline(running: Running, given: Given, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("STREAMLING__POSTGRES_SINK__HOST", "127.0.0.1")
    monkeypatch.setenv("STREAMLING__POSTGRES_SINK__PORT", "1")
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK_CONNECTIONS__KEPT__PORT", str(given.database.port))
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__USER", dev.USER)
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__PASS", dev.PASSWORD)
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__DB", dev.DATABASE)
    running.write({"pipeline.yml": PIPELINE.format(schema=given.schema)})
    return Running(running.root, running.spark, "pipeline.yml")


def test_a_pipeline_writes_each_batch_once(running: Running, given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    running = pipeline(running, given, monkeypatch)
    running.write({"in/1.json": '{"id": 1, "v": 10}\n{"id": 2, "v": 20}\n'})
    running.run()
    assert given.rows() == [("1", "10"), ("2", "20")]
    given.database.rows(f"UPDATE {given.name} SET v = 0")
    running.uncommit("orders", 0)
    running.run()
    assert given.rows() == [("1", "0"), ("2", "0")]
    ledger = given.database.rows(f"SELECT query, sink, batch, rows FROM {given.schema}.penstock_ledger")
    assert ledger == [("orders", "sink.kept", "0", "2")]


def test_of_several_files_in_a_batch_the_last_that_came_wins(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads the largest file first; here it came last, and one between has a row that says the same key."""
    running = pipeline(running, given, monkeypatch)
    lines = {"c": 1, "a": 2, "b": 3}
    for name, v in lines.items():
        padding = "".join(f'{{"id": {n}, "v": 5}}\n' for n in range(100, 100 + 200 * v))
        running.write({f"in/{name}.json": f'{padding}{{"id": 1, "v": {v * 10}}}\n{{"id": 1, "v": {v}}}\n'})
        os.utime(running.root / "in" / f"{name}.json", (1_700_000_000 + v, 1_700_000_000 + v))
    progress = running.run()["orders"]
    assert given.database.rows(f"SELECT v FROM {given.name} WHERE id = 1") == [("3",)]
    assert progress.rows_in == 1206


def test_rows_that_are_refused_become_dead_letters(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = pipeline(running, given, monkeypatch)
    given.make("id BIGINT PRIMARY KEY, v BIGINT UNIQUE CHECK (v > 0)")
    running.write({"in/1.json": "".join(f'{{"id": {n}, "v": {-1 if n in (7, 8) else n + 1}}}\n' for n in range(20))})
    progress = running.run()
    assert len(given.rows()) == 18
    assert progress["orders"].rejected == 2
    assert [json.loads(row["value"])["id"] for row in running.topic("kept.errors")] == [7, 8]

    given.database.rows(f"ALTER TABLE {given.name} DROP CONSTRAINT {given.name.partition('.')[2]}_v_check")
    checked = check(running.root / running.entry)
    about = (running.spark, checked.place, checked.store, checked.environ, checked.clusters)
    ((why, count),) = replay_dead_letters(
        compile_project(checked), "sink.kept", pending_dead_letters(checked, None), *about
    ).left.items()
    assert (count, "`--overwrite` replays them anyway" in why) == (2, True)
    done = replay_dead_letters(
        compile_project(checked), "sink.kept", pending_dead_letters(checked, None), *about, overwrite=True
    )
    assert done == ReplayResult(1, 1)
    assert [json.loads(dead_letter.about["value"])["id"] for dead_letter in pending_dead_letters(checked, None)] == [8]
    assert ("7", "-1") in given.rows()


def overflowing(running: Running, given: Given, monkeypatch: pytest.MonkeyPatch, on_error: str) -> Running:
    """Rows of which one is too large for a column that the table itself computes."""
    running = pipeline(running, given, monkeypatch)
    small = "small SMALLINT GENERATED ALWAYS AS (v) STORED"
    given.make(f"id BIGINT PRIMARY KEY, v BIGINT, {small}")
    rows = "".join(f'{{"id": {n}, "v": {40_000 if n == 7 else n}}}\n' for n in range(20))
    chosen = f"{PIPELINE.format(schema=given.schema)}    on_error: {on_error}\n"
    return running.write({"in/1.json": rows, "pipeline.yml": chosen})


def test_a_number_that_is_out_of_range_becomes_a_dead_letter(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = overflowing(running, given, monkeypatch, "dead_letter")
    assert running.run_on()["orders"].rejected == 1
    assert given.rows("id, small") == [(str(n), str(n)) for n in range(20) if n != 7]
    (dead_letter,) = running.topic("kept.errors")
    assert json.loads(dead_letter["value"])["id"] == 7
    assert "smallint out of range" in dead_letter["message"]


def test_a_number_that_is_out_of_range_ends_a_query_that_is_to_stop(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = overflowing(running, given, monkeypatch, "stop")
    with pytest.raises(QueryFailed, match="smallint out of range") as caught:
        running.run_on()
    assert (caught.value.code, caught.value.retriable) == ("rows-refused", False)
    assert "sink `kept`" in str(caught.value)
    assert given.rows() == []


def test_many_rows_that_fail_or_are_refused_become_dead_letters_and_the_others_are_written_once(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = pipeline(running, given, monkeypatch)
    given.make("id BIGINT PRIMARY KEY, v BIGINT UNIQUE CHECK (v > 0)")
    text = (running.root / "pipeline.yml").read_text(encoding="utf-8")
    running.write(
        {"pipeline.yml": text.replace("SELECT id, v FROM", "SELECT id, CAST(v + 0 / (id % 5) AS BIGINT) AS v FROM")}
    )
    values = {n: -n for n in range(11, 5_000, 50)} | {n: n + 1 for n in range(12, 5_000, 100)}
    refused = {n if v < 0 else v for n, v in values.items()}
    running.write({"in/1.json": "".join(f'{{"id": {n}, "v": {values.get(n, n)}}}\n' for n in range(5_000))})
    progress = running.run()["orders"]
    assert (progress.rows_out, progress.rejected) == (4_000 - len(refused), 1_000 + len(refused))
    written = [int(id) for (id,) in given.rows("id")]
    assert written == [n for n in range(5_000) if n % 5 and n not in refused]
    dead_letters = {json.loads(row["value"])["id"]: row["message"] for row in running.topic("kept.errors")}
    assert sorted(dead_letters) == sorted([*range(0, 5_000, 5), *refused])
    assert "violates check constraint" in dead_letters[11]
    assert "violates unique constraint" in dead_letters[13]


def test_a_dead_letter_that_could_not_be_written_is_written_when_the_batch_is_done_again(
    running: Running, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = pipeline(running, given, monkeypatch)
    given.make("id BIGINT PRIMARY KEY, v BIGINT CHECK (v > 0)")
    running.write({"in/1.json": '{"id": 1, "v": 1}\n{"id": 2, "v": -1}\n'})

    def full(*_: Any) -> int:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryDeadLetters, "write", full)
        with pytest.raises(QueryFailed, match="no space left"):
            running.run()
    running.run()
    assert given.rows() == [("1", "1")]
    assert [json.loads(row["value"])["id"] for row in running.topic("kept.errors")] == [2]
