"""An aggregate without GROUP BY is a running total: one row, which goes when another one takes its place."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

PROJECT = """
project: {name: totals}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: amount, type: BIGINT}]
models:
  - name: totals
    sql: SELECT COUNT(*) AS n, SUM(amount) AS total FROM {{ source("orders") }}
  - name: larger
    sql: SELECT MAX(amount) AS most FROM {{ source("orders") }} HAVING COUNT(*) > 2
  - name: doubled
    sql: SELECT n * 2 AS n FROM {{ ref("totals") }}
  - name: keyed
    key: what
    sql: SELECT 'all' AS what, COUNT(DISTINCT amount) AS n FROM {{ source("orders") }}
"""


def test_a_total_has_one_row_after_every_batch(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "stream_project.yml").write_text(PROJECT, encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    stream.send("orders", [{"id": 1, "amount": 5}, {"id": 2, "amount": 7}]).run()
    assert stream.table("totals") == [{"n": 2, "total": 12}]
    assert stream.rows("larger") == []
    stream.send("orders", [{"id": 3, "amount": 7}]).run()
    assert stream.table("totals") == [{"n": 3, "total": 19}]
    assert stream.table("larger") == [{"most": 7}]
    assert stream.table("doubled") == [{"n": 6}]
    assert stream.table("keyed") == [{"what": "all", "n": 2}]
    assert [row["_gs_op"] for row in stream.rows("totals")] == ["i", "d", "i"]
