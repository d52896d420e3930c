"""The same events through the stream, in random batches with restarts between, and through batch SQL: one answer."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.testing.rehearsal import Rehearsal

PROJECT = """
project: {name: differential}
sources:
  - name: orders
    topic: orders.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: customer, type: STRING}
      - {name: amount, type: BIGINT}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 600000}, max_future_ms: 0}
  - name: customers
    topic: customers.v1
    columns:
      - {name: id, type: STRING}
      - {name: name, type: STRING}
      - {name: since, type: TIMESTAMP(3)}
    event_time: {column: since, watermark: {max_out_of_orderness_ms: 600000}, max_future_ms: 0}
  - name: payments
    topic: payments.v1
    columns:
      - {name: order_id, type: BIGINT}
      - {name: paid, type: BIGINT}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 600000}, max_future_ms: 0}
models:
"""

SHAPES: dict[str, str] = {
    "grouped": """SELECT customer, COUNT(*) AS n, SUM(amount) AS total, MIN(amount) AS least, MAX(at) AS last_at,
        COUNT(DISTINCT amount) AS different FROM {orders} GROUP BY customer""",
    "having": "SELECT amount, COUNT(*) AS n FROM {orders} GROUP BY amount HAVING COUNT(*) > 2",
    "distinct": "SELECT DISTINCT customer, amount FROM {orders}",
    "top": """SELECT customer, id, amount, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer
        ORDER BY amount DESC, id) AS rn FROM {orders}) AS t WHERE rn <= 3""",
    "top_without_rank": """SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer
        ORDER BY amount DESC, id) AS rn FROM {orders}) AS t WHERE rn <= 2""",
    "last": """SELECT customer, id, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer
        ORDER BY at DESC, id DESC) AS rn FROM {orders}) AS t WHERE rn = 1""",
    "nested": """SELECT n, COUNT(*) AS customers FROM
        (SELECT customer, COUNT(*) AS n FROM {orders} GROUP BY customer) AS t GROUP BY n""",
    "left_join": """SELECT o.id, o.amount, p.paid FROM {orders} AS o LEFT JOIN {payments} AS p ON o.id = p.order_id""",
    "full_join": """SELECT o.id, p.order_id, p.paid FROM {orders} AS o
        FULL JOIN {payments} AS p ON o.id = p.order_id""",
    "joined_group": """SELECT o.customer, COUNT(p.paid) AS payments, SUM(p.paid) AS paid FROM {orders} AS o
        LEFT JOIN {payments} AS p ON o.id = p.order_id GROUP BY o.customer""",
    "interval_join": """SELECT o.id, p.paid FROM {orders} AS o JOIN {payments} AS p ON o.id = p.order_id
        AND p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR""",
    "left_interval_join": """SELECT o.id, p.paid FROM {orders} AS o LEFT JOIN {payments} AS p ON o.id = p.order_id
        AND o.amount > 3 AND p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR""",
    "full_interval_join": """SELECT o.id, p.order_id, p.paid FROM {orders} AS o FULL JOIN {payments} AS p
        ON NULLIF(o.amount, 1) = NULLIF(p.paid, 1) AND o.amount < 5 AND p.paid > 0
        AND p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR""",
    "over": """SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
        AS recent, LAG(amount) OVER (PARTITION BY customer ORDER BY at) AS previous FROM {orders}""",
}
TEMPORAL = """SELECT o.id, c.name FROM {{ source("orders") }} AS o
    JOIN {{ source("customers") }} FOR SYSTEM_TIME AS OF o.at AS c ON o.customer = c.id"""
CHAINED = 'SELECT n, COUNT(*) AS customers FROM {{ ref("grouped") }} GROUP BY n'


def moment(minute: int) -> str:
    return f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z"


def events(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Orders of a few customers in some hours, their payments, versions of the customers; no two times are equal."""
    minutes = rng.sample(range(600), 60)
    orders = [
        {"id": n, "customer": rng.choice("abcd"), "amount": rng.randint(1, 6), "at": moment(m)}
        for n, m in enumerate(minutes)
    ]
    payments = [
        {"order_id": rng.randrange(70), "paid": rng.randint(1, 9), "at": moment(rng.randrange(660))} for _ in range(50)
    ]
    customers = [
        {"id": rng.choice("abcd"), "name": f"name {n}", "since": moment(m)}
        for n, m in enumerate(rng.sample(range(600), 20))
    ]
    return {"orders": orders, "payments": payments, "customers": customers}


def indented(sql: str) -> str:
    return "\n".join(f"      {line.strip()}" for line in sql.splitlines())


def project() -> str:
    named = {table: f'{{{{ source("{table}") }}}}' for table in ("orders", "payments", "customers")}
    models = {name: sql.format(**named) for name, sql in SHAPES.items()} | {"temporal": TEMPORAL, "chained": CHAINED}
    return PROJECT + "".join(f"  - name: {name}\n    sql: |\n{indented(sql)}\n" for name, sql in models.items())


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((k, str(v)) for k, v in row.items())) for row in rows)


def test_streams_and_tables_agree(tmp_path: Path, spark: SparkSession) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(10**6))
    print(f"PENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    (tmp_path / "stream_project.yml").write_text(project(), encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    sent = events(rng)
    batches = 2
    for number in range(batches):
        for source, rows in sent.items():
            by_time = sorted(rows, key=lambda r: r.get("at") or r["since"])
            share = by_time[len(rows) * number // batches : len(rows) * (number + 1) // batches]
            rng.shuffle(share)
            stream.send(source, share)
        stream.run()
    stream.until("2026-01-03T00:00:00Z")

    session = spark.newSession()
    for source, rows in sent.items():
        schema = {
            "orders": "id BIGINT, customer STRING, amount BIGINT, at STRING",
            "payments": "order_id BIGINT, paid BIGINT, at STRING",
            "customers": "id STRING, name STRING, since STRING",
        }[source]
        time = "since" if source == "customers" else "at"
        frame = session.createDataFrame([tuple(r.values()) for r in rows], schema)
        frame.withColumn(time, frame[time].cast("timestamp")).createOrReplaceTempView(source)
    expected = {
        name: sql.format(orders="orders", payments="payments", customers="customers") for name, sql in SHAPES.items()
    }
    expected["chained"] = (
        "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n"
    )
    expected["temporal"] = """SELECT o.id, max_by(c.name, c.since) AS name FROM orders o JOIN customers c
        ON o.customer = c.id AND c.since <= o.at GROUP BY o.id"""
    wrong = {}
    for name, sql in expected.items():
        table = [row.asDict() for row in session.sql(sql).collect()]
        if counted(stream.table(name)) != counted(table):
            wrong[name] = (counted(stream.table(name)) - counted(table), counted(table) - counted(stream.table(name)))
    assert not wrong, f"seed {seed}: {wrong}"
