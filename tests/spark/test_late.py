"""Late rows on Spark: windows that are corrected, rows that are counted and kept, in virtual time."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

HOUR = "INTERVAL '1' HOUR"
HOURLY = f"""SELECT TUMBLE_START(at, {HOUR}) AS hour_start, country, COUNT(*) AS n, SUM(amount) AS total
      FROM {{{{ source("orders") }}}} WHERE amount > 0 GROUP BY TUMBLE(at, {HOUR}), country"""


def project(root: Path, event_time: str, **models: str) -> None:
    text = f"""
project: {{name: late}}
sources:
  - name: orders
    topic: orders.v1
    columns: [{{name: id, type: BIGINT}}, {{name: country, type: STRING}}, {{name: amount, type: BIGINT}}, {{name: at, type: TIMESTAMP(3)}}]
    event_time: {{column: at, watermark: {{max_out_of_orderness_ms: 0}}, {event_time}}}
models:
"""
    for name, sql in models.items():
        kind, _, body = sql.rpartition("view:")
        text += (
            f"  - name: {name}\n" + ("    materialized: virtual_topic\n" if _ else "") + f"    sql: |\n      {body}\n"
        )
    (root / "stream_project.yml").write_text(text, encoding="utf-8")


def order(number: int, at: str, amount: int = 1, country: str = "DE") -> dict[str, Any]:
    return {"id": number, "country": country, "amount": amount, "at": f"2026-01-01T{at}:00Z"}


def at(clock: str) -> str:
    return f"2026-01-01T{clock}:00Z"


def hours(stream: Rehearsal, model: str = "hourly") -> list[tuple[Any, ...]]:
    return [(f"{r['hour_start']:%H:%M}", r["n"], r["total"], r["_gs_op"]) for r in stream.rows(model)]


def errors(root: Path, spark: SparkSession) -> list[dict[str, Any]]:
    folder = root / ".penstock" / "topics" / "orders.errors"
    if not folder.is_dir():
        return []
    rows = spark.read.option("recursiveFileLookup", "true").parquet(str(folder)).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: str(row["value"]))


def test_an_order_after_its_hour_corrects_it_within_the_lateness_and_is_late_beyond(
    tmp_path: Path, spark: SparkSession
) -> None:
    project(tmp_path, "allowed_lateness_ms: 600000, late: dead_letter", hourly=HOURLY)
    stream = Rehearsal(tmp_path, spark, at("09:00"))
    stream.send("orders", [order(1, "09:10", 10), order(2, "09:50", 20)]).run()
    assert hours(stream) == []
    assert stream.until(at("10:00"))["hourly"].late == 0
    assert hours(stream) == [("09:00", 2, 30, "i")]
    stream.send("orders", [order(3, "09:55", 5), order(4, "10:01", 7)])
    assert stream.until(at("10:05"))["hourly"].late == 0
    assert hours(stream) == [("09:00", 2, 30, "i"), ("09:00", 3, 35, "u")]
    stream.until(at("10:10"))
    stream.send("orders", [order(5, "09:56", 100), order(6, "10:02", 1), order(7, "09:58", 0)])
    assert stream.run()["hourly"].late == 1
    stream.until(at("12:00"))
    assert hours(stream) == [("09:00", 2, 30, "i"), ("09:00", 3, 35, "u"), ("10:00", 2, 8, "i")]
    (letter,) = errors(tmp_path, spark)
    assert (letter["code"], letter["node"], letter["topic"]) == ("late", "model.hourly", "orders.v1")
    row = {"id": 5, "country": "DE", "amount": 100, "at": "2026-01-01T09:56:00.000000Z"}
    assert json.loads(letter["value"]) == row
