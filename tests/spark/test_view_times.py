"""Event time that a view computes: from a field of a nested column, or by cases."""

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

PROJECT = """
project: {name: views}
sources:
  - name: events
    topic: events.v1
    columns:
      - {name: kind, type: STRING}
      - {name: bid, type: 'ROW<t TIMESTAMP(3), price BIGINT>'}
      - {name: person, type: 'ROW<t TIMESTAMP(3), name STRING>'}
      - {name: tags, type: 'MAP<STRING, STRING>'}
models:
  - name: bids
    materialized: virtual_topic
    event_time: {column: t, watermark: {max_out_of_orderness_ms: 0}, max_future_ms: 0}
    sql: SELECT e.bid.t AS t, e.bid.price AS price FROM {{ source("events") }} AS e WHERE e.kind = 'bid'
  - name: everything
    materialized: virtual_topic
    event_time: {column: t, watermark: {max_out_of_orderness_ms: 0}, max_future_ms: 0}
    sql: |
      SELECT *, CASE kind WHEN 'bid' THEN bid.t ELSE person.t END AS t FROM {{ source("events") }}
  - name: prices
    sql: |
      SELECT window_start, SUM(price) AS total
      FROM TABLE(TUMBLE(TABLE {{ ref("bids") }}, DESCRIPTOR(t), INTERVAL '10' MINUTES))
      GROUP BY window_start, window_end
  - name: kinds
    sql: |
      SELECT window_start, kind, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE {{ ref("everything") }}, DESCRIPTOR(t), INTERVAL '10' MINUTES))
      GROUP BY window_start, window_end, kind
  - name: latest
    sql: SELECT kind, t FROM {{ ref("everything") }}
"""


def bid(minute: int, price: int) -> dict[str, object]:
    return {"kind": "bid", "bid": {"t": f"2026-01-01T00:{minute:02d}:00Z", "price": price}}


def person(minute: int | None) -> dict[str, object]:
    time = None if minute is None else f"2026-01-01T00:{minute:02d}:00Z"
    return {"kind": "person", "person": {"t": time, "name": "a"}}


def test_windows_are_over_times_that_a_view_computes(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "stream_project.yml").write_text(PROJECT, encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    stream.send("events", [bid(1, 10), person(2), bid(5, 5), person(None)]).run()
    progress = stream.send("events", [bid(15, 7), person(16)]).run()
    stream.until("2026-01-01T01:00:00Z")
    prices = sorted((row["window_start"].minute, row["total"]) for row in stream.rows("prices"))
    assert prices == [(0, 15), (10, 7)]
    kinds = sorted((row["window_start"].minute, row["kind"], row["n"]) for row in stream.rows("kinds"))
    assert kinds == [(0, "bid", 2), (0, "person", 1), (10, "bid", 1), (10, "person", 1)]
    assert set(stream.rows("latest")[0]) == {"kind", "t"}
    assert progress["prices"].rows_in is not None
