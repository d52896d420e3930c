"""The sink `clickhouse`, on ClickHouse's real engine."""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import ANY

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.batch import BatchRef
from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.clickhouse.client import ClickHouseSinkServer as Target
from penstock.connectors.clickhouse_sink import ClickHouseSink
from penstock.connectors.contract import WriteResult
from penstock.dev import processes
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.runtime.delivery.batch_writer import BatchWriter
from penstock.testing.contract import FIRST
from tests.services import clickhouse
from tests.spark.running import Running

PLAIN = "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100"


@dataclass(frozen=True)
class Database:
    """A database of its own for each test."""

    server: ClickHouse
    client: Any

    def sink(self, **settings: Any) -> ClickHouseSink:
        said = {"from": "rows", "table": "t", "primary_key": "id", **settings}
        return ClickHouseSink.model_validate(said).with_target(Target(self.server))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.client.query(sql).result_rows
        return found

    def types(self, table: str = "t") -> dict[str, str]:
        return dict(
            self.rows(f"SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = '{table}'")
        )


@pytest.fixture
def database(clickhouse_url: str) -> Database:
    name = f"d_{uuid.uuid4().hex[:12]}"
    clickhouse.client(clickhouse_url).command(f"CREATE DATABASE {name}")
    return Database(ClickHouse(clickhouse_url, database=name), clickhouse.client(clickhouse_url, database=name))


def batch(number: int) -> BatchRef:
    return replace(FIRST, batch_id=number, offsets=(f"numbers:{number}",))


def frame(spark: SparkSession, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), schema).coalesce(1)


def refused(sink: ClickHouseSink, rows: DataFrame) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        sink.write(rows, FIRST)
    return caught.value


# Batches that are begun again


def test_of_an_interrupted_batch_only_what_is_missing_is_inserted(database: Database, spark: SparkSession) -> None:
    database.client.command(f"CREATE TABLE t (id Int64, name Nullable(String), c UInt64 DEFAULT rand64()) {PLAIN}")
    rows = spark.range(0, 20_000, 1, 3).selectExpr("id", "'x' || id AS name")
    sink = database.sink(batch_size=4000)
    assert sink.write(rows, FIRST).rows == 20_000
    before = database.rows("SELECT sum(c), count() FROM t")
    database.client.command("TRUNCATE TABLE penstock_batches")
    assert sink.write(rows, FIRST).rows == 20_000
    assert database.rows("SELECT sum(c), count() FROM t") == before


def test_rows_that_come_split_up_otherwise_are_not_taken_for_written(database: Database, spark: SparkSession) -> None:
    sink = database.sink(batch_size=3000)
    sink.write(spark.range(0, 10_000, 1, 2).selectExpr("id", "1 AS n"), FIRST)
    database.client.command("TRUNCATE TABLE penstock_batches")
    sink.write(spark.range(5_000, 15_000, 1, 3).selectExpr("id", "1 AS n"), FIRST)
    assert database.rows("SELECT count(), uniqExact(id) FROM t FINAL") == [(15_000, 15_000)]


def test_batches_with_equal_rows_are_both_written(database: Database, spark: SparkSession) -> None:
    database.client.command(f"CREATE TABLE t (id Int64) {PLAIN}")
    for number in (0, 1):
        database.sink().write(frame(spark, "id BIGINT", (7,)), batch(number))
    assert database.rows("SELECT id FROM t") == [(7,), (7,)]


def test_a_batch_whose_insert_fails_half_way_is_not_noted(database: Database, spark: SparkSession) -> None:
    sink = database.sink(batch_size=1)
    with pytest.raises(QueryFailed):
        sink.write(frame(spark, "id BIGINT", (1,), (None,)), FIRST)
    assert sink.write(frame(spark, "id BIGINT", (1,), (2,)), FIRST).rows == 2
    assert database.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


# Inserts, updates, deletes


CHANGES = "id BIGINT, name STRING, _gs_op STRING"


@pytest.mark.parametrize("deduplicate", [True, False])
def test_appended_changes_leave_the_newest_row_of_each_key(
    deduplicate: bool, database: Database, spark: SparkSession
) -> None:
    sink = database.sink(deduplicate=deduplicate)
    sink.write(frame(spark, CHANGES, (1, "a", "i"), (2, "b", "i"), (1, "c", "u"), (3, "d", None)), batch(0))
    sink.write(frame(spark, CHANGES, (2, "b", "D"), (4, "e", "i"), (4, "e", "d"), (3, "f", "?")), batch(1))
    assert database.rows("SELECT id, name FROM t FINAL ORDER BY id") == [(1, "c"), (3, "f")]
    assert database.types() == {
        "id": "Int64", "name": "Nullable(String)", "is_deleted": "UInt8", "insert_time": "DateTime",
    }  # fmt: skip
    (engine,) = database.rows("SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 't'")
    assert engine[0].startswith("ReplacingMergeTree(insert_time, is_deleted) ORDER BY (id) ")


def test_without_append_only_mode_rows_are_deleted(database: Database, spark: SparkSession) -> None:
    sink = database.sink(append_only_mode=False, primary_key="id, name", batch_size=2)
    odd = "it's `\\ ä"
    sink.write(frame(spark, CHANGES, (1, odd, "i"), (2, "b", "i"), (3, "c", "i")), batch(0))
    rows = frame(spark, CHANGES, (1, odd, "d"), (2, "b", "d"), (2, "b", "i"), (3, "c", "u"), (9, "z", "d"))
    assert sink.write(rows, batch(1)).rows == 5
    assert database.rows("SELECT * FROM t FINAL ORDER BY id") == [(2, "b"), (3, "c")]
    database.client.command("TRUNCATE TABLE penstock_batches")
    sink.write(rows, batch(1))
    assert database.rows("SELECT * FROM t FINAL ORDER BY id") == [(2, "b"), (3, "c")]
    assert database.types() == {"id": "Int64", "name": "String"}


def test_a_key_that_is_deleted_and_inserted_again_is_there(database: Database, spark: SparkSession) -> None:
    sink = database.sink(append_only_mode=False, deduplicate=False)
    sink.write(frame(spark, CHANGES, (1, "a", "i"), (1, "a", "d"), (1, "b", "i")), batch(0))
    assert database.rows("SELECT id, name FROM t FINAL") == [(1, "b")]


@pytest.mark.parametrize(
    ("spark_type", "values", "column"),
    [
        ("BOOLEAN", (True, False), None),
        ("BOOLEAN", (True, False), "Bool"),
        ("DATE", (date(2026, 1, 1), date(1969, 1, 1)), None),
        ("TIMESTAMP", (datetime(2026, 1, 1, 0, 30), datetime(2026, 1, 1, 1, 30, 0, 123456)), None),
        ("TIMESTAMP", (datetime(2026, 1, 1, 0, 30), datetime(2026, 1, 1, 1, 30)), "DateTime"),
        ("TIMESTAMP", (datetime(2026, 1, 1, 0, 30), datetime(2026, 1, 1, 1, 30)), "DateTime('Europe/Berlin')"),
        (
            "TIMESTAMP",
            (datetime(2026, 1, 1, 0, 30), datetime(2026, 1, 1, 1, 30, 0, 123999)),
            "DateTime64(3, 'Europe/Berlin')",
        ),
        ("BIGINT", (12, 1767225600), "DateTime('Europe/Berlin')"),
        ("DECIMAL(10, 2)", (Decimal("1.10"), Decimal("-2.00")), None),
        ("DOUBLE", (0.1, -1e30), None),
    ],
)
def test_rows_are_deleted_by_keys_of_any_type(
    spark_type: str, values: tuple[Any, Any], column: str | None, database: Database, spark: SparkSession
) -> None:
    first, second = values
    types = {} if column is None else {"k": column}
    sink = database.sink(append_only_mode=False, primary_key="k", schema_override=types)
    schema = f"k {spark_type}, n INT, _gs_op STRING"
    sink.write(frame(spark, schema, (first, 1, "i"), (second, 2, "i")), batch(0))
    assert sink.write(frame(spark, schema, (second, None, "d")), batch(1)).rows == 1
    assert database.rows("SELECT n FROM t FINAL") == [(1,)]


def test_keys_that_are_deleted_may_be_longer_than_a_statement(database: Database, spark: SparkSession) -> None:
    sink = database.sink(append_only_mode=False, primary_key="name")
    names = [f"{number:0>300}" for number in range(1500)]
    sink.write(frame(spark, CHANGES, *((1, name, "i") for name in names)), batch(0))
    sink.write(frame(spark, CHANGES, *((1, name, "d") for name in names[:-1])), batch(1))
    assert database.rows("SELECT name FROM t FINAL") == [(names[-1],)]


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("append_only", [True, False])
def test_where_the_newest_row_is_refused_an_older_one_of_its_key_counts(
    append_only: bool, deduplicate: bool, database: Database, spark: SparkSession
) -> None:
    columns = "id Int64, name String, is_deleted UInt8, CONSTRAINT c CHECK name != 'bad'"
    database.client.command(f"CREATE TABLE t ({columns}) ENGINE = ReplacingMergeTree ORDER BY id")
    sink = database.sink(append_only_mode=append_only, deduplicate=deduplicate)
    rows = frame(spark, CHANGES, (1, "ok", "i"), (1, "bad", "u"), (2, "x", "i")).coalesce(1)
    written, dead_letters = dead_letters_of(sink, rows)
    assert (written.refused, [said for _, said in dead_letters.values()]) == (1, [ANY])
    assert database.rows("SELECT id, name FROM t FINAL ORDER BY id") == [(1, "ok"), (2, "x")]


def test_one_task_has_all_rows_of_a_key_where_a_delete_knows_no_versions(database: Database) -> None:
    assert database.sink(append_only_mode=False, version_column_name="v").capabilities.last_arrival_wins
    assert not database.sink(version_column_name="v").capabilities.last_arrival_wins


def test_a_version_decides_which_row_is_the_newest(database: Database, spark: SparkSession) -> None:
    sink = database.sink(version_column_name="v")
    schema = "id BIGINT, v BIGINT, name STRING, _gs_op STRING"
    sink.write(frame(spark, schema, (1, 5, "new", "i"), (1, 4, "old", "u"), (2, 1, "x", "i")), batch(0))
    sink.write(frame(spark, schema, (1, 3, "older", "u"), (2, 2, "x", "d")), batch(1))
    assert database.rows("SELECT id, v, name FROM t FINAL") == [(1, 5, "new")]
    assert database.types()["v"] == "Int64"


def test_a_delete_for_a_table_that_cannot_say_so_is_refused(database: Database, spark: SparkSession) -> None:
    database.client.command("CREATE TABLE t (id Int64, name String) ENGINE = MergeTree ORDER BY id")
    database.sink().write(frame(spark, CHANGES, (1, "a", "i")), batch(1))
    error = refused(database.sink(), frame(spark, CHANGES, (1, "a", "d")))
    assert (error.code, error.retriable) == ("table-mismatch", False)
    assert "is_deleted" in error.message


@pytest.mark.parametrize("on_error", ["dead_letter", "stop"])
def test_a_delete_without_a_key_is_refused_as_a_row(on_error: str, database: Database, spark: SparkSession) -> None:
    sink = database.sink(append_only_mode=False, on_error=on_error, primary_key="id, name")
    sink.write(frame(spark, CHANGES, (1, "a", "i"), (2, "b", "i")), batch(1))
    rows = frame(spark, CHANGES, (1, "a", "d"), (2, None, "d"), (3, "c", "i"), (2**40, "d", "d"))
    if on_error == "stop":
        assert refused(sink, rows).code == "field-mismatch"
    else:
        written, dead_letters = dead_letters_of(sink, rows)
        assert (written, dead_letters.keys()) == (WriteResult(3, 1), {2})
        assert "column `name` of table `t` is String: null" in dead_letters[2][1]
        assert database.rows("SELECT id, name FROM t FINAL ORDER BY id") == [(2, "b"), (3, "c")]


def test_a_delete_may_be_no_more_than_a_key(database: Database, spark: SparkSession) -> None:
    columns = "id Int64, name String, at DateTime, kind Enum8('a' = 1), n Array(Int8), is_deleted UInt8, v UInt32, "
    columns += "u UUID, ip IPv4, wide UInt256"
    database.client.command(f"CREATE TABLE t ({columns}) ENGINE = ReplacingMergeTree(v, is_deleted) ORDER BY id")
    schema = "id BIGINT, name STRING, at TIMESTAMP, kind STRING, n ARRAY<INT>, u STRING, ip STRING, wide STRING"
    schema += ", v INT, _gs_op STRING"
    some = ("x", datetime(2026, 1, 1), "a", [1], str(uuid.uuid4()), "127.0.0.1", "7")
    full = [(number, *some, 1, "i") for number in (1, 2, 3)]
    database.sink().write(frame(spark, schema, *full), batch(1))
    nothing = [None] * len(some)
    gone = [(1, *nothing, 2, "d"), (2, *nothing, None, "d"), (4, *nothing, 1, "i"), (3, *some, 0, "d")]
    written, dead_letters = dead_letters_of(database.sink(), frame(spark, schema, *gone))
    assert (written, dead_letters.keys()) == (WriteResult(2, 2), {2, 4})
    assert "column `v` of table `t` is UInt32: null in a row that is deleted" in dead_letters[2][1]
    assert database.rows("SELECT id FROM t FINAL ORDER BY id") == [(2,), (3,)]
    database.client.command("DROP TABLE t")
    database.sink(schema_override={"name": "String"}).write(frame(spark, CHANGES, (1, "a", "i")), batch(2))
    assert database.sink().write(frame(spark, CHANGES, (1, None, "d")), batch(3)).rows == 1
    assert database.rows("SELECT id, name FROM t FINAL") == []


# Types


def test_every_type_comes_back_as_it_was(database: Database, spark: SparkSession) -> None:
    schema = (
        "id BIGINT, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, f FLOAT, d DOUBLE, s STRING, bin BINARY, "
        "day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, dec DECIMAL(38, 10), a ARRAY<INT>, m MAP<STRING, BIGINT>, "
        "st STRUCT<x: INT, `y z`: ARRAY<STRING>>, aa ARRAY<STRUCT<q: DECIMAL(5, 2)>>"
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678901)
    full = (
        1, True, -128, -32768, 2**31 - 1, 1.5, float("nan"), "ä\0'`\\ 🦆", b"\x00\xff", date(1931, 5, 6),
        at.replace(tzinfo=UTC), at,
        Decimal("-1234567890123456789012345678.0123456789"), [1, None], {"k": 2, "n": None},
        (7, ["p", None]), [(Decimal("1.25"),)],
    )  # fmt: skip
    database.sink().write(frame(spark, schema, full, (2, *[None] * 16)), FIRST)
    first, second = database.rows(
        "SELECT * EXCEPT (is_deleted, insert_time) REPLACE (hex(bin) AS bin) FROM t ORDER BY id"
    )
    assert first[6] != first[6]
    assert first[:6] == (1, 1, -128, -32768, 2**31 - 1, 1.5)
    assert first[7:10] == ("ä\0'`\\ 🦆", "00FF", date(1931, 5, 6))
    assert [value.replace(tzinfo=None) for value in first[10:12]] == [at, at]
    assert first[12] == Decimal("-1234567890123456789012345678.0123456789")
    assert first[13:15] == ([1, None], {"k": 2, "n": None})
    assert first[15] == {"x": 7, "y z": ["p", None]}
    assert first[16] == [{"q": Decimal("1.25")}]
    assert second == (2, *[None] * 12, [], {}, {"x": None, "y z": []}, [])
    found = database.types()
    assert (found["b"], found["at"], found["day"]) == (
        "Nullable(UInt8)",
        "Nullable(DateTime64(6, 'UTC'))",
        "Nullable(Date32)",
    )
    assert found["dec"] == "Nullable(Decimal(38, 10))"


def test_wide_numbers_are_text_in_rows_and_numbers_in_the_table(database: Database, spark: SparkSession) -> None:
    override = {"u": "UInt256", "i": "Nullable(Int256)", "d": "Nullable(Decimal(76, 10))", "n": "UInt64", "w": "Int128"}
    sink = database.sink(schema_overrides=override)
    schema = "id BIGINT, u STRING, i STRING, d STRING, n BIGINT, w DECIMAL(38, 0)"
    most = "9" * 66 + "." + "8" * 10
    rows = [
        (1, str(2**256 - 1), str(-(2**255)), most, 2**63 - 1, Decimal(10**37)),
        (2, "0", str(2**255 - 1), "-" + most, 0, Decimal(-1)),
        (3, "007", None, None, 1, Decimal(0)),
    ]
    sink.write(frame(spark, schema, *rows), FIRST)
    assert database.rows("SELECT id, u, i, d, n, w FROM t ORDER BY id") == [
        (1, 2**256 - 1, -(2**255), Decimal(most), 2**63 - 1, 10**37),
        (2, 0, 2**255 - 1, Decimal("-" + most), 0, -1),
        (3, 7, None, None, 1, 0),
    ]
    assert database.types()["u"] == "UInt256"


@pytest.mark.parametrize(
    ("kind", "spark_type", "value"),
    [
        ("UInt256", "STRING", str(2**256)),
        ("Nullable(UInt256)", "STRING", "-1"),
        ("Nullable(Int256)", "STRING", "abc"),
        ("Nullable(Int256)", "STRING", str(2**255)),
        ("Nullable(Decimal(76, 2))", "STRING", "1.234"),
        ("UInt64", "BIGINT", -1),
        ("Nullable(Int8)", "BIGINT", 300),
        ("Decimal(5, 2)", "DECIMAL(10, 3)", Decimal("1.234")),
        ("UInt256", "DECIMAL(20, 0)", Decimal(-1)),
        ("Int64", "BIGINT", None),
        ("Array(Int64)", "ARRAY<BIGINT>", [1, None]),
        ("Date", "DATE", date(1931, 5, 6)),
        ("DateTime", "TIMESTAMP", datetime(2107, 1, 1)),
        ("DateTime64(9)", "TIMESTAMP", datetime(2400, 1, 1)),
        ("Nullable(UUID)", "STRING", "no uuid"),
        ("DateTime64(3)", "BIGINT", 1_700_000_000_000_000),
    ],
)
def test_a_value_that_its_column_would_change_stops_the_query(
    kind: str, spark_type: str, value: Any, database: Database, spark: SparkSession
) -> None:
    error = refused(database.sink(schema_override={"v": kind}), frame(spark, f"id BIGINT, v {spark_type}", (1, value)))
    assert (type(error), error.code) == (QueryFailed, "field-mismatch"), error
    assert "column `v` of table `t`" in error.message
    assert database.rows("SELECT count() FROM t") == [(0,)]


def test_whole_numbers_count_what_a_column_of_times_counts(database: Database, spark: SparkSession) -> None:
    types = {"ms": "DateTime64(3)", "us": "Nullable(DateTime64(6, 'UTC'))", "s": "DateTime64(0)"}
    row = (1, 1_700_000_000_123, -1, 1_700_000_000)
    sink = database.sink(schema_override=types)
    sink.write(frame(spark, "id BIGINT, ms BIGINT, us BIGINT, s INT", row), batch(0))
    shown = ", ".join(f"toString({name}, 'UTC')" for name in types)
    times = ("2023-11-14 22:13:20.123", "1969-12-31 23:59:59.999999", "2023-11-14 22:13:20")
    assert database.rows(f"SELECT {shown} FROM t") == [times]


def test_a_type_that_does_not_fit_is_refused_before_a_table_is_made(database: Database, spark: SparkSession) -> None:
    error = refused(
        database.sink(schema_override={"v": "DateTime64(3)"}), frame(spark, "id BIGINT, v DOUBLE", (1, 1.5))
    )
    assert (error.code, "is DateTime64(3), and rows have double" in error.message) == ("table-mismatch", True)
    assert database.rows("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 't'") == [
        (0,)
    ]


# Rows that are refused


def dead_letters_of(sink: ClickHouseSink, rows: DataFrame) -> tuple[WriteResult, dict[int, tuple[dict[str, Any], str]]]:
    """What was written, and the rows that were kept, by id, each with what was said of it."""
    found: dict[int, tuple[dict[str, Any], str]] = {}

    def keep(dead_letters: DataFrame) -> None:
        for dead_letter in dead_letters.collect():
            row = json.loads(dead_letter["value"])
            found[row["id"]] = (row, dead_letter["message"])

    return sink.write(rows, FIRST, keep), found


CHECKED = "CREATE TABLE t (id Int64, n Int8, kind Enum8('a' = 1), CONSTRAINT small CHECK n < 100) " + PLAIN


def test_rows_that_do_not_fit_or_that_the_server_refuses_are_kept(database: Database, spark: SparkSession) -> None:
    database.client.command(CHECKED)
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "id",
        "CASE id WHEN 7 THEN 100 WHEN 13 THEN 300 ELSE 1 END AS n",
        "CASE id WHEN 700 THEN 'z' ELSE 'a' END AS kind",
        "timestamp_seconds(id) AS at",
        "'i' AS _gs_op",
    )
    database.client.command("ALTER TABLE t ADD COLUMN at DateTime64(6, 'UTC')")
    written, dead_letters = dead_letters_of(database.sink(batch_size=300), rows)
    assert written == WriteResult(997, 3)
    assert dead_letters.keys() == {7, 13, 700}
    assert dead_letters[7][0] == {"id": 7, "n": 100, "kind": "a", "at": "1970-01-01T00:00:07.000000Z", "_gs_op": "i"}
    assert "small" in dead_letters[7][1]
    assert "column `n` of table `t` is Int8" in dead_letters[13][1]
    assert "does not take a row" in dead_letters[700][1]
    found = [row[0] for row in database.rows("SELECT id FROM t ORDER BY id")]
    assert found == [n for n in range(1000) if n not in dead_letters]
    again, dead_letters = dead_letters_of(database.sink(batch_size=300), rows)
    assert (again, dead_letters) == (WriteResult(0), {})


def test_a_batch_with_refused_rows_that_was_interrupted_is_not_inserted_twice(
    database: Database, spark: SparkSession
) -> None:
    database.client.command(CHECKED)
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "CASE id % 500 WHEN 7 THEN 100 ELSE 1 END AS n", "'a' AS kind")
    for _ in range(2):
        written, dead_letters = dead_letters_of(database.sink(batch_size=300), rows)
        assert (written, dead_letters.keys()) == (WriteResult(998, 2), {7, 507})
        assert database.rows("SELECT count(), uniqExact(id) FROM t") == [(998, 998)]
        database.client.command("TRUNCATE TABLE penstock_batches")


@pytest.mark.parametrize("value", [300, 101])
def test_an_older_row_counts_where_the_newest_of_its_key_is_refused(
    value: int, database: Database, spark: SparkSession
) -> None:
    database.client.command(CHECKED)
    rows = frame(spark, "id BIGINT, n INT, kind STRING", (1, 1, "a"), (1, 2, "a"), (1, value, "a"), (2, 5, "a"))
    written, dead_letters = dead_letters_of(database.sink(), rows)
    assert written == WriteResult(2, 1)
    assert dead_letters[1][0]["n"] == value
    assert database.rows("SELECT id, n FROM t ORDER BY id") == [(1, 2), (2, 5)]


def test_refused_rows_may_be_skipped_or_stop_the_query(database: Database, spark: SparkSession) -> None:
    database.client.command(CHECKED)
    rows = frame(spark, "id BIGINT, n INT, kind STRING", (1, 101, "a"), (2, 5, "a"))
    assert dead_letters_of(database.sink(on_error="skip"), rows) == (WriteResult(1, 1), {})
    with pytest.raises(QueryFailed) as caught:
        database.sink(on_error="stop").write(rows, batch(1), lambda dead_letters: None)
    assert (caught.value.code, caught.value.retriable) == ("rows-refused", False)
    assert database.rows("SELECT id FROM t") == [(2,)]


def test_a_table_that_refuses_everything_ends_the_query(database: Database, spark: SparkSession) -> None:
    database.client.command(CHECKED)
    rows = spark.range(0, 10_000, 1, 1).selectExpr("id", "101 AS n", "'a' AS kind")
    with pytest.raises(QueryFailed, match="more than 100 rows of a part of the batch are refused"):
        dead_letters_of(database.sink(), rows)


def test_names_may_be_anything(database: Database, spark: SparkSession) -> None:
    sink = database.sink(table="order `by` \\ table", primary_key="select")
    rows = spark.sql("SELECT 1 AS `select`, 2 AS `a``b`, 3 AS `FORMAT \\ Arrow`, 4 AS `q'\"{x}`, 5 AS `ä ö`")
    sink.write(rows, FIRST)
    found = database.client.query("SELECT * EXCEPT (is_deleted, insert_time) FROM `order \\`by\\` \\\\ table`")
    assert found.result_rows == [(1, 2, 3, 4, 5)]
    assert found.column_names == ("select", "a`b", "FORMAT \\ Arrow", "q'\"{x}", "ä ö")


# Tables that are there, and servers that are not


def test_a_table_that_is_there_is_taken_as_it_is(database: Database, spark: SparkSession) -> None:
    database.client.command(
        "CREATE TABLE t (id UInt32, name LowCardinality(String), more String DEFAULT 'x', kind Enum8('a' = 1), "
        "at DateTime('UTC'), f Float32) ENGINE = ReplacingMergeTree ORDER BY id"
    )
    rows = spark.sql(
        "SELECT 1L AS id, 'n' AS name, 'a' AS kind, timestamp_seconds(1000.25) AS at, 1.5D AS f, "
        "CAST(NULL AS STRING) AS more"
    )
    database.sink(create=False).write(rows, FIRST)
    at = datetime.fromtimestamp(1000, UTC).replace(tzinfo=None)
    ((*found, moment, f),) = database.rows("SELECT id, name, more, kind, at, f FROM t")
    assert (found, moment.replace(tzinfo=None), f) == ([1, "n", "x", "a"], at, 1.5)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("id Int64", "has no column `name`"),
        ("id Int64, name Int32", "column `name` of table `t` is Int32, and rows have string"),
        ("id String, name String", "column `id` of table `t` is String, and rows have int64"),
        ("id Int64, name Array(String)", "column `name` of table `t` is Array(String)"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_column(
    columns: str, named: str, database: Database, spark: SparkSession
) -> None:
    database.client.command(f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY id")
    error = refused(database.sink(schema_change="fail"), frame(spark, "id BIGINT, name STRING", (1, "a")))
    assert (type(error), error.code, error.retriable) == (ServiceError, "table-mismatch", False)
    assert named in error.message
    assert error.hint


def test_a_table_that_is_missing_is_made_only_if_it_may_be(database: Database, spark: SparkSession) -> None:
    error = refused(database.sink(create=False), frame(spark, "id BIGINT", (1,)))
    assert error.code == "table-mismatch"
    assert "there is no table `t`" in error.message
    assert database.rows("SHOW TABLES") == []


def test_columns_that_the_table_lacks_are_left_out_or_added(
    database: Database, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    database.client.command("CREATE TABLE t (id Int64, name String) ENGINE = MergeTree ORDER BY id")
    rows = frame(spark, "id BIGINT, `a.b` INT, name STRING, _gs_op STRING", (1, 2, "x", "i"))
    database.sink().write(rows, batch(0))
    database.sink().write(rows, batch(1))
    assert database.types() == {"id": "Int64", "name": "String"}
    assert database.rows("SELECT * FROM t") == [(1, "x"), (1, "x")]
    assert capsys.readouterr().err == "Warning: table `t` has no column `a.b`: left out (`schema_change: ignore`)\n"
    database.sink(schema_change="evolve").write(rows, batch(2))
    assert database.types() == {"id": "Int64", "name": "String", "a.b": "Nullable(Int32)"}
    assert database.rows("SELECT max(`a.b`), count() FROM t") == [(2, 3)]
    database.client.command("CREATE TABLE u (n Int64) ENGINE = MergeTree ORDER BY n")
    assert "`u` has no column `id`" in refused(database.sink(table="u"), frame(spark, "id INT, n INT", (1, 2))).message


def test_columns_that_the_sink_fills_itself_may_be_in_rows(
    database: Database, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = frame(spark, "id BIGINT, is_deleted INT, insert_time TIMESTAMP, n INT", (1, 1, datetime(2001, 1, 1), 5))
    database.sink(table="o").write(rows, batch(0))
    assert "table `o`: the sink fills `is_deleted`, `insert_time` itself" in capsys.readouterr().err
    assert database.rows("SELECT id, is_deleted, insert_time > '2020-01-01', n FROM o FINAL") == [(1, 0, 1, 5)]
    database.sink(table="v", version_column_name="insert_time").write(rows, batch(1))
    assert database.rows("SELECT id, is_deleted, toYear(insert_time), n FROM v FINAL") == [(1, 0, 2001, 5)]
    error = refused(database.sink(primary_key="is_deleted"), rows)
    assert (error.code, "is_deleted" in error.message) == ("table-mismatch", True)


def test_a_table_that_was_written_here_can_be_copied(
    database: Database, spark: SparkSession, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"STREAMLING__CLICKHOUSE_{side}__URL", database.server.url)
        monkeypatch.setenv(f"STREAMLING__CLICKHOUSE_{side}__DATABASE", database.server.database)
    database.sink().write(frame(spark, CHANGES, (1, "a", "i"), (2, "b", "i")), batch(0))
    database.sink().write(frame(spark, CHANGES, (2, None, "d")), batch(1))
    pipeline = """
    sources: {rows: {type: clickhouse, table_name: t}}
    transforms: {}
    sinks: {kept: {type: clickhouse, from: rows, table: copy, primary_key: id}}
    """
    replace(running.write({"pipeline.yml": pipeline}), entry="pipeline.yml").run()
    assert database.rows("SELECT id, name, is_deleted FROM copy ORDER BY id") == [(1, "a", 0), (2, None, 1)]
    assert database.types("copy") == database.types("t")


def test_a_wrong_password_is_said_without_it(database: Database, spark: SparkSession) -> None:
    wrong = replace(database.server, user="ada", password="s3cret-word")
    error = refused(replace(database, server=wrong).sink(), frame(spark, "id BIGINT", (1,)))
    assert (error.code, error.retriable) == ("clickhouse-refused", False)
    assert "ada" in error.message
    assert "s3cret-word" not in f"{error}{error.to_json()}{wrong!r}"


def test_an_unknown_database_is_named(database: Database, spark: SparkSession) -> None:
    wrong = replace(database, server=replace(database.server, database="nowhere"))
    error = refused(wrong.sink(), frame(spark, "id BIGINT", (1,)))
    assert (error.code, error.retriable) == ("clickhouse-failed", False)
    assert "nowhere" in error.message
    assert "PENSTOCK__CLICKHOUSE_SINK__DATABASE" in str(error.hint)


def test_a_server_that_is_gone_may_come_back(spark: SparkSession) -> None:
    gone = Database(ClickHouse(f"http://127.0.0.1:{processes.free_port()}"), None)
    error = refused(gone.sink(), frame(spark, "id BIGINT", (1,)))
    assert (error.code, error.retriable) == ("unreachable", True)


# How rows travel


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "lz4"])
def test_ten_thousand_rows_in_every_packing(compression: str, database: Database, spark: SparkSession) -> None:
    rows = spark.range(0, 10_000, 1, 4).selectExpr("id", "concat('row ', id) AS name")
    sink = database.sink(compression=compression, compression_level=3, parallelism=2, batch_size=3000)
    assert sink.write(rows, FIRST).rows == 10_000
    assert database.rows("SELECT count(), sum(id), uniqExact(name) FROM t") == [(10_000, 49_995_000, 10_000)]


def test_a_pipeline_writes_changes_and_ends_by_itself(
    database: Database, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SINK__URL", database.server.url)
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SINK__DATABASE", database.server.database)
    (running.root / "in").mkdir()
    (running.root / "in" / "a.json").write_text('{"id": 1, "n": 2}\n{"id": 2, "n": 3}\n')
    running.write(
        {
            "pipeline.yml": """
            sources:
              numbers: {type: file, path: in, format: json, mode: {type: bounded}}
            transforms:
              marked:
                type: sql
                primary_key: id
                sql: SELECT id, n, CASE WHEN id = 2 THEN 'd' ELSE 'i' END AS _gs_op FROM numbers
            sinks:
              kept: {type: clickhouse, from: marked, table: kept, primary_key: id, batch_flush_interval: 2s}
            """
        }
    )
    entered = replace(running, entry="pipeline.yml")
    assert entered.run()["numbers"].rows_out == 2
    assert database.rows("SELECT id, n FROM kept FINAL") == [(1, 2)]
    entered.uncommit("numbers", 0)
    entered.run()
    assert database.rows("SELECT id, n, is_deleted FROM kept ORDER BY id") == [(1, 2, 0), (2, 3, 1)]


def test_of_large_files_the_last_row_of_a_key_is_the_newest(
    database: Database, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SINK__URL", database.server.url)
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SINK__DATABASE", database.server.database)
    lines = "".join(f'{{"id": {n % 50}, "n": {n}}}\n' for n in range(20_000))
    running.write(
        {
            "in/a.json": lines,
            "pipeline.yml": """
            sources:
              numbers: {type: file, path: in, format: json, mode: {type: bounded}}
            transforms: {}
            sinks:
              kept: {type: clickhouse, from: numbers, table: kept, primary_key: id, batch_size: 500}
            """,
        }
    )
    monkeypatch.setattr(BatchWriter, "__call__", _in_small_pieces(BatchWriter.__call__))
    replace(running, entry="pipeline.yml").run()
    assert database.rows("SELECT count(), min(n) FROM kept FINAL") == [(50, 19_950)]


def _in_small_pieces(
    write: Callable[[BatchWriter, DataFrame, int], None],
) -> Callable[[BatchWriter, DataFrame, int], None]:
    """A batch as of files so large that Spark reads them in pieces."""

    def pieces(writing: BatchWriter, rows: DataFrame, batch_id: int) -> None:
        write(writing, rows.repartitionByRange(4, "n").sortWithinPartitions("n"), batch_id)

    return pieces
