"""Joins with versions of a view: the version is that of the row's own time, and of equal times the last that came."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

LATEST = """
      SELECT currency, rate, since FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY since DESC) AS rn FROM {{ source("rates") }}
      ) WHERE rn = 1
"""
PROJECT = f"""
project: {{name: versions}}
sources:
  - name: orders
    topic: orders.v1
    columns: [{{name: id, type: BIGINT}}, {{name: currency, type: STRING}}, {{name: at, type: TIMESTAMP(3)}}]
    event_time: {{column: at, watermark: {{max_out_of_orderness_ms: 0}}, max_future_ms: 0}}
  - name: rates
    topic: rates.v1
    columns: [{{name: currency, type: STRING}}, {{name: rate, type: BIGINT}}, {{name: since, type: TIMESTAMP(3)}}]
    event_time: {{column: since, watermark: {{max_out_of_orderness_ms: 0}}, max_future_ms: 0}}
models:
  - name: versioned
    materialized: virtual_topic
    sql: |{LATEST}
  - name: latest
    sql: |{LATEST}
  - name: converted
    sql: |
      SELECT o.id, r.rate FROM {{{{ source("orders") }}}} AS o
      LEFT JOIN {{{{ ref("versioned") }}}} FOR SYSTEM_TIME AS OF o.at AS r ON o.currency = r.currency
"""


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02d}:00Z"


def test_a_view_of_the_latest_rows_has_all_its_versions(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "stream_project.yml").write_text(PROJECT, encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    rates = [(1, 1), (5, 2), (9, 3), (9, 4)]
    stream.send("rates", [{"currency": "EUR", "rate": rate, "since": at(minute)} for minute, rate in rates])
    stream.send("orders", [{"id": minute, "currency": "EUR", "at": at(minute)} for minute in (0, 2, 7, 9)])
    stream.run()
    stream.send(
        "rates", [{"currency": "EUR", "rate": 5, "since": at(9)}, {"currency": "USD", "rate": 6, "since": at(8)}]
    )
    stream.run()
    stream.until("2026-01-02T00:00:00Z")
    assert sorted((row["id"], row["rate"]) for row in stream.rows("converted"))[:3] == [(0, None), (2, 1), (7, 2)]
    assert sorted((row["currency"], row["rate"]) for row in stream.table("latest")) == [("EUR", 5), ("USD", 6)]
