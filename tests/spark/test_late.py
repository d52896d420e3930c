"""Late rows on Spark: windows that are corrected, rows that are counted and kept, in virtual time."""

import json
import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal
from tests.spark.running import Running, parquet_rows

HOUR = "INTERVAL '1' HOUR"
HOURLY = f"""SELECT TUMBLE_START(at, {HOUR}) AS hour_start, country, COUNT(*) AS n, SUM(amount) AS total
      FROM {{{{ source("orders") }}}} WHERE amount > 0 GROUP BY TUMBLE(at, {HOUR}), country"""


def project(root: Path, event_time: str, **models: str) -> None:
    text = f"""
project: {{name: late}}
sources:
  - name: orders
    topic: orders.v1
    columns:
      - {{name: id, type: BIGINT}}
      - {{name: country, type: STRING}}
      - {{name: amount, type: BIGINT}}
      - {{name: at, type: TIMESTAMP(3)}}
    event_time: {{column: at, watermark: {{max_out_of_orderness_ms: 0}}, {event_time}}}
  - name: rates
    topic: rates.v1
    columns: [{{name: country, type: STRING}}, {{name: rate, type: BIGINT}}, {{name: since, type: TIMESTAMP(3)}}]
    event_time: {{column: since, watermark: {{max_out_of_orderness_ms: 0}}}}
models:
"""
    for name, sql in models.items():
        _, is_view, body = sql.rpartition("view:")
        kind = "    materialized: virtual_topic\n" if is_view else ""
        text += f"  - name: {name}\n{kind}    sql: |\n      {body}\n"
    (root / "stream_project.yml").write_text(text, encoding="utf-8")


def order(number: int, at: str, amount: int = 1, country: str = "DE") -> dict[str, Any]:
    return {"id": number, "country": country, "amount": amount, "at": f"2026-01-01T{at}:00Z"}


def at(clock: str) -> str:
    return f"2026-01-01T{clock}:00Z"


def hours(stream: Rehearsal, model: str = "hourly") -> list[tuple[Any, ...]]:
    return [(f"{r['hour_start']:%H:%M}", r["n"], r["total"], r["_gs_op"]) for r in stream.rows(model)]


def errors(root: Path) -> list[dict[str, Any]]:
    folder = root / ".penstock" / "topics" / "orders.errors"
    if not folder.is_dir():
        return []
    return sorted(parquet_rows(folder), key=lambda row: (str(row["value"]), row["node"]))


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
    (dead_letter,) = errors(tmp_path)
    assert (dead_letter["code"], dead_letter["node"], dead_letter["topic"]) == ("late", "model.hourly", "orders.v1")
    row = {"id": 5, "country": "DE", "amount": 100, "at": "2026-01-01T09:56:00.000000Z"}
    assert json.loads(dead_letter["value"]) == row


CLEAN = 'view:SELECT id, at FROM {{ source("orders") }} WHERE amount > 0'
HALVES = f"""SELECT window_start, window_end, COUNT(*) AS n
      FROM TABLE(HOP(TABLE {{{{ ref("clean") }}}}, DESCRIPTOR(at), INTERVAL '30' MINUTE, {HOUR}))
      GROUP BY window_start, window_end HAVING COUNT(*) > 1"""
TOTALS = 'SELECT id, SUM(amount) OVER (PARTITION BY country ORDER BY at) AS total FROM {{ source("orders") }}'
PRICED = """SELECT o.id, r.rate FROM {{ source("orders") }} AS o
      JOIN {{ source("rates") }} FOR SYSTEM_TIME AS OF o.at AS r ON o.country = r.country"""


def test_rows_that_come_too_late_are_kept_for_every_operator_that_finds_them(
    tmp_path: Path, spark: SparkSession
) -> None:
    project(tmp_path, "late: dead_letter", clean=CLEAN, halves=HALVES, totals=TOTALS, priced=PRICED)
    stream = Rehearsal(tmp_path, spark, at("09:00"))
    stream.send("orders", [order(1, "09:35", 5), order(2, "09:45", 6)])
    stream.send("rates", [{"country": "DE", "rate": 3, "since": at("08:00")}])
    stream.until(at("10:00"))
    stream.send("orders", [order(3, "09:40", 9), order(5, "09:41", 0)])
    found = stream.run()
    assert {name: row.late for name, row in found.items()} == {"halves": 1, "totals": 2, "priced": 2}
    dead_letters = [(row["node"], json.loads(row["value"])) for row in errors(tmp_path)]
    assert sorted((node, row["id"]) for node, row in dead_letters) == [
        ("model.halves", 3),
        ("model.priced", 3),
        ("model.priced", 5),
        ("model.totals", 3),
        ("model.totals", 5),
    ]
    (missed,) = [row for node, row in dead_letters if node == "model.halves"]
    assert missed["window_end"] == "2026-01-01T10:00:00.000000Z"
    for query in ("halves", "totals"):
        _die_before_keeping(tmp_path, spark, query)
    stream.send("orders", [order(4, "10:05", 7)])
    stream.until(at("12:00"))
    assert [(row["node"], json.loads(row["value"])) for row in errors(tmp_path)] == dead_letters
    assert [(f"{r['window_start']:%H:%M}", r["n"]) for r in stream.rows("halves")] == [("09:00", 2), ("09:30", 4)]
    assert sorted((r["id"], r["total"]) for r in stream.rows("totals")) == [(1, 5), (2, 11), (4, 18)]
    assert sorted((r["id"], r["rate"]) for r in stream.rows("priced")) == [(1, 3), (2, 3), (4, 3)]


def _die_before_keeping(root: Path, spark: SparkSession, query: str) -> None:
    """As if the process had died when the last batch was written, and its late rows were not kept yet."""
    notes = {note: json.loads(note.read_text()) for note in (root / ".penstock" / "topics").rglob("_batch.json")}
    ((folder, batch),) = [
        (note.parent, told["batch_id"])
        for note, told in notes.items()
        if told["query"] == query and told["output"].endswith(" late")
    ]
    shutil.rmtree(folder)
    running = Running(root, spark)
    commits = running.place.checkpoint(query) / "commits"
    assert batch == max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    running.uncommit(query, batch)
