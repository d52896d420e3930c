"""Rows into a table of PostgreSQL: our sink, one client by hand, and Spark's own JDBC writer, in turns.

    python bench/postgres.py [--rows 1000000] [--repeat 3] [--small 40] [--only large,small]

A real server is started for it. Rows have six columns and a primary key, whose order is mixed up, the same way for all.
They meet a table that is empty, one that has every second key, and one that has every key, in an order of its own. By
hand, text that is ready goes by COPY into a table that is not logged and from there by INSERT … ON CONFLICT into the
other, in one transaction. JDBC only adds, so it has the first case alone: as Spark uses it, and with the driver's
`reWriteBatchedInserts`, which puts many rows into one statement. Before every turn the table is made anew,
vacuumed and checkpointed; after it, what is in there must be the same for all. The first turn does not count. Small
batches are new rows for a table of 100,000; Spark alone takes the same rows through the same Python workers to nowhere.
Bars: ours at least 0.7 of by hand in each case, at least JDBC's rate where it has one, as Spark uses it; small batches
within 60 ms over Spark alone.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow
from pyspark.sql import DataFrame, SparkSession

from machine import Others, end_in_order
from penstock.batch import BatchRef
from penstock.clients.jvm.maven import fetch
from penstock.clients.jvm.packages import POSTGRES
from penstock.clients.postgres.server import PostgresServer
from penstock.connectors.postgres import PostgresSink
from penstock.dev import postgres, processes
from penstock.manifest.model import SparkSpec
from penstock.runtime.spark.session import spark_session

COLUMNS = "id bigint, name text, email text, amount double precision, ts timestamp, total bigint"
NAMES = "id, name, email, amount, ts, total"
CHANGES = ", ".join(f"{name} = EXCLUDED.{name}" for name in NAMES.split(", ")[1:])
STEP, OLDER_STEP = 3**18, 7**10
"""Keys come in a mixed order and each once, if the number of rows is a power of ten. Older rows lie in another one."""
CASES = {"all new": "false", "every second there": "id % 2 = 0", "all there": "true"}
THERE = 100_000
HAND, JDBC, PACKED, OURS = "by hand", "Spark's JDBC", "Spark's JDBC with rows put together", "ours"
BARS = {HAND: 0.7, JDBC: 1.0, PACKED: None}


def frame(spark: SparkSession, begin: int, rows: int, of: int, parts: int) -> DataFrame:
    return spark.range(begin, begin + rows, 1, parts).selectExpr(
        f"id * {STEP} % {of} AS id",
        f"concat('order-', id * {STEP} % {of}) AS name",
        "concat('user', id % 1000, '@mail.test') AS email",
        "id * 1.5D AS amount",
        "timestamp_millis(1767225600000 + id) AS ts",
        "id * 3 AS total",
    )


def text(begin: int, rows: int, of: int) -> bytes:
    """The same rows, as COPY wants them."""
    day = "2026-01-01"

    def lines() -> Iterator[str]:
        for n in range(begin, begin + rows):
            key, (secs, ms) = n * STEP % of, divmod(n, 1000)
            clock = f"{secs // 3600:02}:{secs // 60 % 60:02}:{secs % 60:02}.{ms:03}"
            yield f"{key}\torder-{key}\tuser{n % 1000}@mail.test\t{n * 1.5}\t{day} {clock}\t{n * 3}\n"

    return "".join(lines()).encode()


@dataclass(frozen=True, slots=True)
class Bench:
    """A server, and the tables that are written in turns."""

    spark: SparkSession
    server: PostgresServer

    def connected(self) -> "psycopg.Connection[tuple[Any, ...]]":
        server = self.server
        return psycopg.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, dbname=server.database
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.connected() as db:
            db.autocommit = True
            for statement in statements:
                last = db.execute(statement.encode())
            return last.fetchall() if last.description else []

    def make(self, where: str, rows: int) -> None:
        """The table anew, with older rows of the keys that it is to have."""
        older = "id, 'older', 'older@mail.test', 0, timestamp '2025-01-01', 0"
        self.run(
            "DROP TABLE IF EXISTS target",
            f"CREATE TABLE target ({COLUMNS})",
            f"INSERT INTO target SELECT {older} FROM (SELECT n * {OLDER_STEP} % {rows} AS id"
            f" FROM generate_series(0::bigint, {rows - 1}) AS n) AS each WHERE {where}",
            "ALTER TABLE target ADD PRIMARY KEY (id)",
            f"CREATE UNLOGGED TABLE IF NOT EXISTS staging ({COLUMNS})",
            "TRUNCATE staging",
            "VACUUM ANALYZE target",
            "CHECKPOINT",
        )

    def content(self) -> tuple[Any, ...]:
        return self.run("SELECT count(*), sum(hashtextextended(target::text, 0)) FROM target")[0]

    def by_hand(self, ready: bytes) -> None:
        with self.connected() as db:
            with db.cursor() as cursor, cursor.copy("COPY staging FROM STDIN") as copy:
                copy.write(ready)
            db.execute(
                f"INSERT INTO target SELECT {NAMES} FROM staging ON CONFLICT (id) DO UPDATE SET {CHANGES}".encode()
            )

    def by_jdbc(self, rows: DataFrame, more: str = "") -> None:
        server = self.server
        url = f"jdbc:postgresql://{server.host}:{server.port}/{server.database}{more}"
        login = {"user": server.user, "password": server.password, "driver": "org.postgresql.Driver"}
        rows.write.format("jdbc").mode("append").options(url=url, dbtable="target", **login).save()

    def sink(self) -> PostgresSink:
        said = {"from": "rows", "table": "target", "primary_key": "id"}
        return PostgresSink.model_validate(said).with_server(self.server)

    def ours(self, rows: DataFrame) -> None:
        self.sink().write(rows, BatchRef("bench", "sink.bench", uuid.uuid4().hex, 0, ()))


def seconds_of(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def large(bench: Bench, rows: int, repeat: int) -> None:
    ready, made = text(0, rows, rows), frame(bench.spark, 0, rows, rows, 4)
    ways: dict[str, Callable[[], None]] = {
        HAND: partial(bench.by_hand, ready),
        JDBC: partial(bench.by_jdbc, made),
        PACKED: partial(bench.by_jdbc, made, "?reWriteBatchedInserts=true"),
        OURS: partial(bench.ours, made),
    }
    took: dict[tuple[str, str], list[float]] = {}
    others = Others()
    for turn in range(repeat + 1):
        for case, where in CASES.items():
            contents = set()
            for way, work in ways.items():
                if way in (JDBC, PACKED) and where != "false":
                    continue
                bench.make(where, rows)
                seconds = seconds_of(work)
                contents.add(bench.content())
                print(f"turn {turn}, {case}, {way}: {seconds:.2f} s", flush=True)
                if turn:
                    took.setdefault((case, way), []).append(seconds)
            assert len(contents) == 1, contents
    print(f"{rows:,} rows, best and median of {repeat}, {others}")
    for (case, way), times in took.items():
        best, median = rows / min(times), rows / statistics.median(times)
        print(f"  {case}, {way}: {best:,.0f} and {median:,.0f} rows/s{_ratios(took, case, way)}", flush=True)


def _ratios(took: dict[tuple[str, str], list[float]], case: str, way: str) -> str:
    if way != OURS:
        return ""
    texts = []
    for other, bar in BARS.items():
        if theirs := took.get((case, other)):
            best = min(theirs) / min(took[case, way])
            median = statistics.median(theirs) / statistics.median(took[case, way])
            verdict = "" if bar is None else f" (bar {bar}: {'met' if best >= bar else 'NOT met'})"
            texts.append(f"; {best:.2f} and {median:.2f} of {other}{verdict}")
    return "".join(texts)


def to_nowhere(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"rows": pyarrow.array([rows], pyarrow.int64())})


def small(bench: Bench, size: int, repeat: int) -> None:
    of = 1_000_000
    bench.make(f"id < {THERE}", of)
    sink, checkpoint = bench.sink(), uuid.uuid4().hex
    took: dict[str, list[float]] = {HAND: [], "Spark alone": [], OURS: []}
    others = Others()
    for turn in range(repeat + 5):
        begin = 2 * turn * size
        ready, hand_s = text(begin, size, of), frame(bench.spark, begin, size, of, 2)
        rows = frame(bench.spark, begin + size, size, of, 2)
        ref = BatchRef("bench", "sink.small", checkpoint, turn, ())
        ways: dict[str, Callable[[], object]] = {
            HAND: partial(bench.by_hand, ready),
            "Spark alone": lambda frame=hand_s: frame.mapInArrow(to_nowhere, "rows BIGINT").collect(),  # type: ignore[misc]
            OURS: partial(sink.write, rows, ref),
        }
        bench.run("TRUNCATE staging")
        for way, work in ways.items():
            seconds = seconds_of(work)
            if turn >= 5:
                took[way].append(seconds)
    print(f"batches of {size:,}, best and median of {repeat}, {others}")
    for way, times in took.items():
        print(f"  {way}: {min(times) * 1000:.1f} and {statistics.median(times) * 1000:.1f} ms")
    over = [(each(took[OURS]) - each(took["Spark alone"])) * 1000 for each in (min, statistics.median)]
    verdict = "met" if over[1] <= 60 else "NOT met"
    print(f"  ours over Spark alone: {over[0]:.1f} and {over[1]:.1f} ms (bar 60: {verdict})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--small", type=int, default=40, help="how many small batches of each size")
    parser.add_argument("--only", default="small,large")
    arguments = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        try:
            port = int(postgres.up(home / "postgres").about["port"])
            server = PostgresServer("127.0.0.1", port, postgres.USER, postgres.PASSWORD, postgres.DATABASE)
            with spark_session(SparkSpec(master="local[*]"), home / "logs", fetch(POSTGRES)) as spark:
                bench = Bench(spark, server)
                if "small" in arguments.only:
                    for size in (1, 1000):
                        small(bench, size, arguments.small)
                if "large" in arguments.only:
                    large(bench, arguments.rows, arguments.repeat)
        finally:
            processes.stop(home / "postgres")


if __name__ == "__main__":
    main()
