"""Joins by time over several batches with gaps, beside the same SQL over all rows at once: no pair may be missing.

Every form of condition is here: bounds that hold for all rows, bounds that a row brings in a column of its own, bounds
on one side, and those that nothing can be told from. Between two batches event time passes the rows of the first.
"""

from collections import Counter
from pathlib import Path
from textwrap import indent
from typing import Any

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

PROJECT = """
project: {name: bounds}
sources:
  - name: a
    topic: a.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: n, type: INT}
      - {name: at, type: TIMESTAMP(3)}
      - {name: opens, type: TIMESTAMP(3)}
      - {name: expires, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 4000}, max_future_ms: 0}
  - name: b
    topic: b.v1
    columns:
      - {name: auction, type: BIGINT}
      - {name: price, type: BIGINT}
      - {name: bt, type: TIMESTAMP(3)}
      - {name: since, type: TIMESTAMP(3)}
    event_time: {column: bt, watermark: {max_out_of_orderness_ms: 4000}, max_future_ms: 0}
models:
"""
TABLES = {
    "a": "id BIGINT, n INT, at STRING, opens STRING, expires STRING",
    "b": "auction BIGINT, price BIGINT, bt STRING, since STRING",
}

CONDITIONS: dict[str, str] = {
    "until_own_column": "b.bt BETWEEN a.at AND a.expires",
    "own_column_minus": "b.bt >= a.at AND b.bt - INTERVAL '10' MINUTE < a.expires",
    "other_side": "b.since BETWEEN a.at AND a.at + INTERVAL '1' HOUR AND b.bt >= a.at",
    "by_case": """b.bt >= a.at AND b.bt <= CASE WHEN a.n > 40 THEN a.expires
        ELSE a.at + INTERVAL '1' HOUR END""",
    "not_after": "b.bt >= a.at AND (NOT (b.bt > a.expires) OR a.n = 10)",
    "month": "b.bt BETWEEN a.at AND a.at + INTERVAL '1' MONTH",
    "equal_own_column": "a.opens = b.bt AND b.bt >= a.at",
    "equal_earlier": "a.at = b.bt - INTERVAL '30' MINUTE",
    "event_times": "b.bt BETWEEN a.at AND a.at + INTERVAL '1' HOUR",
}


def moment(minute: int) -> str:
    return f"2026-01-01T{10 + minute // 60:02d}:{minute % 60:02d}:00Z"


def rows_a(*numbers: tuple[int, int, int, int, int]) -> list[dict[str, Any]]:
    return [
        {"id": i, "n": n, "at": moment(at), "opens": moment(opens), "expires": moment(ends)}
        for i, n, at, opens, ends in numbers
    ]


def rows_b(*numbers: tuple[int, int, int, int]) -> list[dict[str, Any]]:
    return [{"auction": i, "price": p, "bt": moment(at), "since": moment(since)} for i, p, at, since in numbers]


BATCHES: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    (rows_a((1, 30, 0, 5, 60), (2, 90, 0, 30, 10), (3, 10, 1, 90, 240)), rows_b((2, 1, 0, 0), (9, 2, 1, 0))),
    (rows_a((4, 60, 30, 30, 31), (9, 50, 29, 60, 180)), rows_b((1, 9, 30, 0), (2, 4, 30, 29), (4, 5, 29, 30))),
    (rows_a((1, 20, 90, 0, 300), (5, 5, 91, 92, 100)), rows_b((1, 10, 90, 30), (3, 11, 91, 1), (9, 12, 90, 29))),
    (rows_a((2, 45, 200, 90, 230), (7, 10, 201, 0, 0)), rows_b((3, 13, 200, 90), (1, 16, 202, 91), (2, 14, 201, 200))),
]


def project(models: dict[str, str]) -> str:
    texts = (f"  - name: {name}\n    sql: |\n{indent(sql, ' ' * 6)}\n" for name, sql in models.items())
    return PROJECT + "".join(texts).replace("{a}", '{{ source("a") }}').replace("{b}", '{{ source("b") }}')


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((k, str(v)) for k, v in row.items())) for row in rows)


def assert_all_rows_come(root: Path, spark: SparkSession, models: dict[str, str]) -> None:
    """The models over the batches, one after the other, give what one look at all rows gives."""
    (root / "stream_project.yml").write_text(project(models), encoding="utf-8")
    stream = Rehearsal(root, spark)
    for ones, others in BATCHES:
        stream.send("a", ones).send("b", others).run()
    stream.until("2026-03-01T00:00:00Z")
    session = spark.newSession()
    for name, schema in TABLES.items():
        rows = [tuple(row.values()) for batch in BATCHES for row in batch["ab".index(name)]]
        frame = session.createDataFrame(rows, schema)
        times = {c: frame[c].cast("timestamp") for c in frame.columns if dict(frame.dtypes)[c] == "string"}
        frame.withColumns(times).createOrReplaceTempView(name)
    wrong = {}
    for name, sql in models.items():
        table = counted([row.asDict() for row in session.sql(sql.format(a="a", b="b")).collect()])
        found = counted(stream.table(name))
        if found != table:
            wrong[name] = {"missing": table - found, "too many": found - table}
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())


def test_an_inner_join_keeps_rows_for_as_long_as_its_condition_can_hold(tmp_path: Path, spark: SparkSession) -> None:
    joined = "SELECT a.id, a.at, b.price, b.bt FROM {{a}} AS a JOIN {{b}} AS b ON a.id = b.auction AND {}"
    assert_all_rows_come(tmp_path, spark, {name: joined.format(when) for name, when in CONDITIONS.items()})


def test_outer_joins_keep_rows_until_a_time_of_their_own(tmp_path: Path, spark: SparkSession) -> None:
    joined = "SELECT a.id, a.at, b.price, b.bt FROM {{a}} AS a {} JOIN {{b}} AS b ON a.id = b.auction AND {}"
    models = {
        "lefts": joined.format("LEFT", CONDITIONS["until_own_column"]),
        "lefts_able": joined.format("LEFT", "a.n > 20 AND b.price > 4 AND " + CONDITIONS["own_column_minus"]),
        "lefts_case": joined.format("LEFT", CONDITIONS["by_case"]),
        "lefts_equal": joined.format("LEFT", CONDITIONS["equal_earlier"]),
        "rights": joined.format("RIGHT", "a.at >= b.since AND b.bt >= a.at"),
        "fulls": joined.format("FULL", CONDITIONS["until_own_column"]),
    }
    assert_all_rows_come(tmp_path, spark, models)


def test_joins_in_other_places_keep_their_rows(tmp_path: Path, spark: SparkSession) -> None:
    pairs = """SELECT a.id, a.at, b.price, b.bt, a.expires FROM {a} AS a JOIN {b} AS b
        ON a.id = b.auction AND b.bt >= a.at"""
    models = {
        "grouped": f"SELECT id, MAX(price) AS top, COUNT(*) AS n FROM ({pairs} AND b.bt <= a.expires) AS t GROUP BY id",
        "lefts_grouped": "SELECT a.id, COUNT(b.price) AS n FROM {a} AS a LEFT JOIN {b} AS b "
        "ON a.id = b.auction AND b.bt BETWEEN a.at AND a.expires GROUP BY a.id",
        "filtered": f"SELECT id, price FROM ({pairs}) AS t WHERE bt <= expires",
        "by_comma": "SELECT a.id, b.price FROM {a} AS a, {b} AS b WHERE a.id = b.auction "
        "AND b.bt BETWEEN a.at AND a.expires",
        "with_itself": "SELECT x.id, x.at, y.at AS then FROM {a} AS x JOIN {a} AS y ON x.id = y.id "
        "AND y.at BETWEEN x.at AND x.expires",
        "three": "SELECT a.id, b.price, c.price AS again FROM {a} AS a JOIN {b} AS b ON a.id = b.auction "
        "AND b.bt BETWEEN a.at AND a.at + INTERVAL '2' HOUR "
        "JOIN {b} AS c ON c.auction = b.auction AND c.bt BETWEEN b.bt AND b.bt + INTERVAL '2' HOUR",
    }
    assert_all_rows_come(tmp_path, spark, models)


def test_a_window_over_the_topic_of_a_join_waits_for_its_rows(tmp_path: Path, spark: SparkSession) -> None:
    models = {
        "pairs": "SELECT a.id, a.at, b.bt FROM {a} AS a JOIN {b} AS b ON a.id = b.auction "
        "AND b.bt BETWEEN a.at AND a.at + INTERVAL '2' HOUR",
        "hours": "SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS n "
        "FROM {{ ref(\"pairs\") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)",
    }
    (tmp_path / "stream_project.yml").write_text(project(models), encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    stream.send("a", rows_a((1, 0, 0, 0, 0), (2, 0, 90, 0, 0))).send("b", rows_b((2, 1, 90, 0))).run()
    stream.send("a", rows_a((3, 0, 95, 0, 0))).send("b", rows_b((3, 1, 95, 0))).run()
    stream.send("b", rows_b((1, 2, 110, 0))).run()
    stream.send("a", rows_a((4, 0, 600, 0, 0))).send("b", rows_b((4, 1, 600, 0))).run()
    stream.until("2026-03-01T00:00:00Z")
    assert sorted((row["hour"].hour, row["n"]) for row in stream.table("hours")) == [(10, 1), (11, 2), (20, 1)]
