"""Joins: rows without a partner come out once, nothing equals null, and commas are joins too."""

from pathlib import Path
from textwrap import indent
from typing import Any

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

PROJECT = """
project: {name: joins}
sources:
  - name: a
    topic: a.v1
    columns: [{name: id, type: BIGINT}, {name: k, type: STRING}, {name: n, type: INT}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at, max_future_ms: 0}
  - name: b
    topic: b.v1
    columns: [{name: pid, type: BIGINT}, {name: k, type: STRING}, {name: x, type: INT}, {name: bt, type: TIMESTAMP(3)}]
    event_time: {column: bt, max_future_ms: 0}
models:
"""
NEAR = "b.bt BETWEEN a.at AND a.at + INTERVAL '5' MINUTE"


def moment(minute: int) -> str:
    return f"2026-01-01T00:{minute:02d}:00Z"


def rehearsed(root: Path, spark: SparkSession, models: dict[str, str]) -> Rehearsal:
    texts = (f"  - name: {name}\n    sql: |\n{indent(sql, ' ' * 6)}\n" for name, sql in models.items())
    named = "".join(texts).replace("{a}", '{{ source("a") }}').replace("{b}", '{{ source("b") }}')
    (root / "stream_project.yml").write_text(PROJECT + named, encoding="utf-8")
    return Rehearsal(root, spark)


def pairs(stream: Rehearsal, model: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in stream.table(model)), key=str)


def test_rows_without_a_partner_come_out_whatever_is_asked_of_them(tmp_path: Path, spark: SparkSession) -> None:
    outer = "SELECT a.id, b.pid FROM {{a}} a {} JOIN {{b}} b ON a.k = b.k AND {} AND " + NEAR
    models = {
        "lefts": outer.format("LEFT", "a.n > 1"),
        "rights": outer.format("RIGHT", "b.x > 1"),
        "fulls": outer.format("FULL", "a.n > 1 AND b.x > 1"),
        "compared": outer.format("LEFT", "a.n > b.x"),
    }
    stream = rehearsed(tmp_path, spark, models)
    keys = ("x", 1), ("nomatch", 5), ("x", 5), (None, 5), ("x", None)
    stream.send("a", [{"id": i, "k": k, "n": n, "at": moment(i)} for i, (k, n) in enumerate(keys)])
    keys = ("x", 2), ("other", 2), ("x", 1), (None, 2)
    stream.send("b", [{"pid": 10 + i, "k": k, "x": x, "bt": moment(4)} for i, (k, x) in enumerate(keys)])
    stream.run()
    stream.until("2026-01-02T00:00:00Z")
    assert pairs(stream, "lefts") == [(0, None), (1, None), (2, 10), (2, 12), (3, None), (4, None)]
    assert pairs(stream, "rights") == [(0, 10), (2, 10), (4, 10), (None, 11), (None, 12), (None, 13)]
    unmatched = [(0, None), (1, None), (2, 10), (3, None), (4, None), (None, 11), (None, 12), (None, 13)]
    assert pairs(stream, "fulls") == unmatched
    assert pairs(stream, "compared") == [(0, None), (1, None), (2, 10), (2, 12), (3, None), (4, None)]


def test_nothing_equals_null(tmp_path: Path, spark: SparkSession) -> None:
    models = {
        "fulls": f"SELECT a.id, b.pid FROM {{a}} a FULL JOIN {{b}} b ON a.k = b.k AND {NEAR}",
        "made": f"""SELECT a.id, b.pid FROM {{a}} a LEFT JOIN {{b}} b
          ON COALESCE(a.k, NULLIF(CAST(a.n AS STRING), '1')) = COALESCE(b.k, NULLIF(CAST(b.x AS STRING), '1'))
          AND {NEAR}""",
        "found": f"""SELECT a.id, b.pid FROM {{a}} a JOIN {{b}} b
          ON COALESCE(a.k, NULLIF(CAST(a.n AS STRING), '1')) = COALESCE(b.k, NULLIF(CAST(b.x AS STRING), '1'))
          AND {NEAR}""",
        "ours": "SELECT a.id, b.pid FROM {a} a FULL JOIN {b} b ON a.k = b.k",
        "versions": "SELECT a.id, b.pid FROM {a} a LEFT JOIN {b} FOR SYSTEM_TIME AS OF a.at AS b ON a.k = b.k",
    }
    stream = rehearsed(tmp_path, spark, models)
    stream.send("a", [{"id": 1, "k": None, "n": 1, "at": moment(1)}, {"id": 2, "k": "x", "n": 1, "at": moment(1)}])
    stream.send("b", [{"pid": 1, "k": None, "x": 1, "bt": moment(1)}, {"pid": 2, "k": "x", "x": 1, "bt": moment(1)}])
    stream.run()
    stream.until("2026-01-02T00:00:00Z")
    assert pairs(stream, "fulls") == pairs(stream, "ours") == [(1, None), (2, 2), (None, 1)]
    assert pairs(stream, "made") == pairs(stream, "versions") == [(1, None), (2, 2)]
    assert pairs(stream, "found") == [(2, 2)]


def test_several_inputs_are_joined_by_comma(tmp_path: Path, spark: SparkSession) -> None:
    models = {
        "three": """SELECT a.id, b.pid, c.x FROM {a} a, {b} b, {b} c
          WHERE a.id = c.pid AND b.k = c.k AND b.x > 1""",
        "best": """SELECT id, pid, x FROM (SELECT a.id, b.pid, c.x, ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.pid)
          AS rn FROM {a} a, {b} b, {b} c WHERE a.id = c.pid AND b.k = c.k AND b.x > 1) WHERE rn = 1""",
        "two": f"SELECT a.id, b.pid FROM {{a}} a, {{b}} b WHERE a.k = b.k AND {NEAR}",
    }
    stream = rehearsed(tmp_path, spark, models)
    stream.send("a", [{"id": i, "k": "x", "n": 1, "at": moment(i)} for i in (1, 2)])
    stream.send("b", [{"pid": i, "k": k, "x": i, "bt": moment(4)} for i, k in enumerate("yxxx")])
    stream.run()
    assert pairs(stream, "three") == [(1, 2, 1), (1, 3, 1), (2, 2, 2), (2, 3, 2)]
    assert pairs(stream, "best") == [(1, 2, 1), (2, 2, 2)]
    assert pairs(stream, "two") == [(i, pid) for i in (1, 2) for pid in (1, 2, 3)]
