"""The same events through the stream, in random batches with restarts between, and through batch SQL: one answer."""

import os
import random
from collections import Counter
from collections.abc import Mapping
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
COLUMNS = {
    "orders": "id BIGINT, customer STRING, amount BIGINT, at STRING",
    "payments": "order_id BIGINT, paid BIGINT, at STRING",
    "customers": "id STRING, name STRING, since STRING",
    "moves": "id BIGINT, amount BIGINT, at STRING",
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


def project(models: Mapping[str, str], more: str = "") -> str:
    return (
        PROJECT.replace("models:\n", f"{more}models:\n")
        + "".join(f"  - name: {name}\n    sql: |\n{indented(sql)}\n" for name, sql in models.items())
    )  # fmt: skip


def from_sources(sql: str) -> str:
    """A text in which tables are called `{orders}`, over sources."""
    return sql.format(**{table: f'{{{{ source("{table}") }}}}' for table in COLUMNS})


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted((k, str(v)) for k, v in row.items())) for row in rows)


def drawn_seed() -> int:
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(10**6))
    print(f"PENSTOCK_SEED={seed}")
    return seed


def halves(rows: list[dict[str, Any]], rng: random.Random) -> list[list[dict[str, Any]]]:
    """The earlier half of rows and the later one, each in any order."""
    by_time = sorted(rows, key=lambda r: str(r.get("at") or r["since"]))
    found = [by_time[: len(rows) // 2], by_time[len(rows) // 2 :]]
    for half in found:
        rng.shuffle(half)
    return found


def differing(
    stream: Rehearsal, sent: Mapping[str, list[dict[str, Any]]], expected: Mapping[str, str]
) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """The models whose rows are not those of batch SQL over everything that was sent: what is too much, and missing."""
    session = stream.spark.newSession()
    for source, rows in sent.items():
        time = "since" if source == "customers" else "at"
        frame = session.createDataFrame([tuple(r.values()) for r in rows], COLUMNS[source])
        frame.withColumn(time, frame[time].cast("timestamp")).createOrReplaceTempView(source)
    wrong = {}
    for name, sql in expected.items():
        found, table = counted(stream.table(name)), counted([row.asDict() for row in session.sql(sql).collect()])
        if found != table:
            wrong[name] = (found - table, table - found)
    return wrong


def test_streams_and_tables_agree(tmp_path: Path, spark: SparkSession) -> None:
    seed = drawn_seed()
    rng = random.Random(seed)
    models = {name: from_sources(sql) for name, sql in SHAPES.items()} | {"temporal": TEMPORAL, "chained": CHAINED}
    (tmp_path / "stream_project.yml").write_text(project(models), encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    sent = events(rng)
    parts = {source: halves(rows, rng) for source, rows in sent.items()}
    for number in range(2):
        for source, rows in parts.items():
            stream.send(source, rows[number])
        stream.run()
    stream.until("2026-01-03T00:00:00Z")

    expected = {name: sql.format(**{table: table for table in COLUMNS}) for name, sql in SHAPES.items()}
    expected["chained"] = (
        "SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n"
    )
    expected["temporal"] = """SELECT o.id, max_by(c.name, c.since) AS name FROM orders o JOIN customers c
        ON o.customer = c.id AND c.since <= o.at GROUP BY o.id"""
    wrong = differing(stream, sent, expected)
    assert not wrong, f"seed {seed}: {wrong}"


LATE = """  - name: moves
    topic: moves.v1
    columns: [{name: id, type: BIGINT}, {name: amount, type: BIGINT}, {name: at, type: TIMESTAMP(3)}]
    event_time:
      column: at
      watermark: {max_out_of_orderness_ms: 0}
      max_future_ms: 0
      allowed_lateness_ms: 172800000
"""
HOURLY = """SELECT window_start, window_end, COUNT(*) AS n, SUM({value}) AS total
    FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"""
HOURLY_TABLE = """SELECT window.start AS window_start, COUNT(*) AS n, SUM({value}) AS total
    FROM {table} GROUP BY window(at, '1 hour')"""
FIRST = """SELECT id, customer, at FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY at) AS rn
    FROM {orders}) AS t WHERE rn = 1"""
PAIRS = """SELECT o.id, o.at, p.paid FROM {orders} AS o JOIN {payments} AS p ON o.id = p.order_id
    AND p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR"""
RANGED = """SELECT id, SUM(amount) OVER (PARTITION BY customer ORDER BY at
    RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS recent FROM {orders}"""
BY_TIME: dict[str, tuple[str, str]] = {
    "joined_windows": (
        f"""SELECT a.window_start, a.n, a.total, b.total AS paid
        FROM ({HOURLY.replace("{value}", "amount").replace("{table}", "{orders}")}) AS a
        JOIN ({HOURLY.replace("{value}", "paid").replace("{table}", "{payments}")}) AS b
        ON a.window_start = b.window_start AND a.window_end = b.window_end""",
        f"""SELECT window_start, a.n, a.total, b.total AS paid
        FROM ({HOURLY_TABLE.format(value="amount", table="orders")}) AS a
        JOIN ({HOURLY_TABLE.format(value="paid", table="payments")}) AS b USING (window_start)""",
    ),
    "windows_of_pairs": (
        f"""SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS n, SUM(paid) AS paid
        FROM ({PAIRS}) AS t GROUP BY TUMBLE(at, INTERVAL '1' HOUR)""",
        f"SELECT window.start AS hour, COUNT(*) AS n, SUM(paid) AS paid FROM ({PAIRS}) GROUP BY window(at, '1 hour')",
    ),
    "pairs": (PAIRS, PAIRS),
    "windows_over_pairs": (
        """SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS n, SUM(paid) AS paid
        FROM {{{{ ref("pairs") }}}} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)""",
        f"SELECT window.start AS hour, COUNT(*) AS n, SUM(paid) AS paid FROM ({PAIRS}) GROUP BY window(at, '1 hour')",
    ),
    "sessions": (
        "SELECT customer, COUNT(*) AS n FROM {orders} GROUP BY customer, SESSION(at, INTERVAL '30' MINUTE)",
        "SELECT customer, COUNT(*) AS n FROM {orders} GROUP BY customer, session_window(at, '30 minutes')",
    ),
    "firsts": (FIRST, FIRST),
    "firsts_paid": (
        f"SELECT f.id, f.customer, p.paid FROM ({FIRST}) AS f LEFT JOIN {{payments}} AS p ON f.id = p.order_id",
        f"SELECT f.id, f.customer, p.paid FROM ({FIRST}) AS f LEFT JOIN {{payments}} AS p ON f.id = p.order_id",
    ),
    "ranged": (RANGED, RANGED),
    "corrected": (
        """SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS n, SUM(amount) AS total, MIN(id) AS least
        FROM {moves} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)""",
        """SELECT window.start AS hour, COUNT(*) AS n, SUM(amount) AS total, MIN(id) AS least
        FROM {moves} GROUP BY window(at, '1 hour')""",
    ),
}


def test_windows_and_what_stands_on_them_agree_with_tables(tmp_path: Path, spark: SparkSession) -> None:
    """Rows of `moves` come in any batch: many of them are late, and correct the windows they are in."""
    seed = drawn_seed()
    rng = random.Random(seed)
    models = {name: from_sources(sql) for name, (sql, _) in BY_TIME.items()}
    (tmp_path / "stream_project.yml").write_text(project(models, LATE), encoding="utf-8")
    stream = Rehearsal(tmp_path, spark)
    sent = events(rng)
    del sent["customers"]
    parts = {source: halves(rows, rng) for source, rows in sent.items()}
    sent["moves"] = [{"id": r["id"], "amount": r["amount"], "at": r["at"]} for r in sent["orders"]]
    mixed = rng.sample(sent["moves"], len(sent["moves"]))
    parts["moves"] = [mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]]
    for number in range(2):
        for source, rows in parts.items():
            stream.send(source, rows[number])
        stream.run()
    stream.until("2026-01-05T00:00:00Z")
    wrong = differing(stream, sent, {n: sql.format(**{t: t for t in COLUMNS}) for n, (_, sql) in BY_TIME.items()})
    assert not wrong, f"seed {seed}: {wrong}"
