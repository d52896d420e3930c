"""Streaming SQL over many events: against the same query written by hand, and by itself where nothing can be compared.

    python bench/streaming.py [--events 2000000] [--repeat 5] [--only filter,tumble,interval,ttl,temporal,memory]

Ours and by hand read the same Parquet files as streams that drain what is there, take turns in one Spark session, and
begin with new checkpoints every time. Bars: filter, tumble and interval within 1.15 x of by hand (best against best);
an aggregate over 100,000 keys with a TTL at least 150,000 events/s; a temporal join at least 50,000 events/s; 1,000,000
keys of state in a driver of less than 2 GB.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.runtime.run.start import start
from penstock.runtime.spark.session import DEFAULTS, spark_session
from penstock.workflow.stages import check, compile_project, plan_project

FILES = 8
KEYS = 1_000
MANY_KEYS = 100_000
SIDES = """
project: {name: bench}
runtime: {spark: {config: {spark.driver.memory: 2g}}}
sources:
  - name: events
    topic: events
    columns:
      - {name: id, type: BIGINT}
      - {name: k, type: STRING}
      - {name: many, type: STRING}
      - {name: amount, type: DOUBLE}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 5000}}
  - name: payments
    topic: payments
    columns:
      - {name: order_id, type: BIGINT}
      - {name: paid, type: DOUBLE}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 5000}}
  - name: versions
    topic: versions
    columns:
      - {name: k, type: STRING}
      - {name: name, type: STRING}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 5000}}
models:
  - name: filter
    sql: |
      SELECT id, UPPER(k) AS k, amount * 2 AS twice, at FROM {{ source("events") }} WHERE amount > 50
  - name: tumble
    sql: |
      SELECT k, TUMBLE_START(at, INTERVAL '1' MINUTE) AS start, COUNT(*) AS n, SUM(amount) AS total
      FROM {{ source("events") }} GROUP BY k, TUMBLE(at, INTERVAL '1' MINUTE)
  - name: interval
    sql: |
      SELECT e.id, e.amount, p.paid FROM {{ source("events") }} e JOIN {{ source("payments") }} p
      ON e.id = p.order_id AND p.at BETWEEN e.at AND e.at + INTERVAL '1' HOUR
  - name: ttl
    sql: SELECT many, COUNT(*) AS n, SUM(amount) AS total FROM {{ source("events") }} GROUP BY many
    advanced: {spark: {state_ttl_ms: 3600000}}
  - name: temporal
    sql: |
      SELECT e.id, v.name FROM {{ source("events") }} e
      JOIN {{ source("versions") }} FOR SYSTEM_TIME AS OF e.at AS v ON e.k = v.k
  - name: memory
    sql: SELECT id % 1000000 AS id, COUNT(*) AS n FROM {{ source("events") }} GROUP BY id % 1000000
    advanced: {spark: {state_ttl_ms: 3600000}}
"""
READS = {
    "filter": ("events",),
    "tumble": ("events",),
    "interval": ("events", "payments"),
    "ttl": ("events",),
    "temporal": ("events", "versions"),
    "memory": ("events",),
}


def write_topics(spark: SparkSession, topics: Path, events: int) -> None:
    """Events over a few hours, a payment for every second one, and versions of every key."""
    begun = f.timestamp_seconds(f.lit(1_767_225_600) + f.col("id") / (events / 7200))
    rows = spark.range(events).select(
        "id",
        f.concat(f.lit("key "), f.abs(f.hash("id")) % KEYS).alias("k"),
        f.concat(f.lit("many "), f.abs(f.xxhash64("id")) % MANY_KEYS).alias("many"),
        (f.abs(f.hash("id")) % 100).cast("double").alias("amount"),
        begun.alias("at"),
    )
    rows.repartitionByRange(FILES, "id").sortWithinPartitions("id").write.parquet(str(topics / "events"))
    paid = rows.where("id % 2 = 0").selectExpr("id AS order_id", "amount AS paid", "at + INTERVAL 5 MINUTES AS at")
    paid.repartitionByRange(FILES, "order_id").write.parquet(str(topics / "payments"))
    versions = spark.range(KEYS * 50).select(
        f.concat(f.lit("key "), f.col("id") % KEYS).alias("k"),
        f.concat(f.lit("name "), f.col("id")).alias("name"),
        f.timestamp_seconds(f.lit(1_767_225_000) + f.col("id") / (KEYS * 50 / 7200)).alias("at"),
    )
    versions.coalesce(1).write.parquet(str(topics / "versions"))


def by_hand(name: str, spark: SparkSession, project: Path) -> int:
    """What a person would write who knows Spark."""

    def read(topic: str) -> DataFrame:
        path = str(project / ".penstock" / "topics" / topic)
        return spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)

    match name:
        case "filter":
            events = read("events")
            result = events.where("amount > 50").selectExpr("id", "upper(k) AS k", "amount * 2 AS twice", "at")
        case "tumble":
            windows = read("events").withWatermark("at", "5 seconds").groupBy("k", f.window("at", "1 minute"))
            result = windows.agg(f.count("*").alias("n"), f.sum("amount").alias("total")).selectExpr(
                "k", "window.start AS start", "n", "total"
            )
        case _:
            events = read("events").withWatermark("at", "5 seconds").alias("e")
            payments = read("payments").withWatermark("at", "5 seconds").alias("p")
            within = f.expr("e.id = p.order_id AND p.at >= e.at AND p.at <= e.at + INTERVAL 1 HOUR")
            result = events.join(payments, within).selectExpr("e.id", "e.amount", "p.paid")
    work = Path(tempfile.mkdtemp(dir=project.parent))
    writer = result.writeStream.format("parquet").option("checkpointLocation", str(work / "checkpoint"))
    writer.trigger(availableNow=True).start(str(work / "out")).awaitTermination()
    return spark.read.parquet(str(work / "out")).count()


def ours(name: str, spark: SparkSession, project: Path) -> int:
    checked = check(project)
    plan = plan_project(checked, compile_project(checked), select=[name])
    run = start(plan, spark, checked.place, checked.store)
    run.run_once(lambda: time.sleep(0.01))
    (row,) = (r for r in run.board.snapshot() if r.query == name)
    return row.rows_out


def plain(spark: SparkSession) -> SparkSession:
    """A session as Spark comes, but for the state store, which a person would choose too."""
    session = spark.newSession()
    kept = ("timeZone", "providerClass", "changelogCheckpointing.enabled")
    for key in DEFAULTS:
        if key.startswith("spark.sql.") and not key.endswith(kept):
            session.conf.unset(key)
    return session


def forget(project: Path, name: str) -> None:
    for path in (project / ".penstock").iterdir():
        if path.name not in ("topics", "logs"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(project / ".penstock" / "topics" / name, ignore_errors=True)


def timed(job: Callable[[], int]) -> tuple[float, int]:
    begun = time.perf_counter()
    rows = job()
    return time.perf_counter() - begun, rows


def compare(name: str, spark: SparkSession, project: Path, repeat: int) -> None:
    hand: list[float] = []
    own: list[float] = []
    for turn in range(repeat + 1):
        hand_secs, hand_rows = timed(lambda: by_hand(name, plain(spark), project))
        our_secs, our_rows = timed(lambda: ours(name, spark, project))
        forget(project, name)
        if hand_rows != our_rows:
            raise SystemExit(f"{name}: by hand {hand_rows} rows, ours {our_rows}: not the same job")
        if turn:  # the first round warms the JVM up
            hand.append(hand_secs)
            own.append(our_secs)
    ratios = min(own) / min(hand), statistics.median(own) / statistics.median(hand)
    print(
        f"{name:>8}: {our_rows:,} rows out; by hand best {min(hand):.2f} s, ours best {min(own):.2f} s; "
        f"ours / by hand {ratios[0]:.2f} by best, {ratios[1]:.2f} by median",
        flush=True,
    )


def measure(name: str, spark: SparkSession, project: Path, events: int, repeat: int) -> None:
    taken = []
    for turn in range(repeat + 1):
        seconds, rows = timed(lambda: ours(name, spark, project))
        forget(project, name)
        if turn:
            taken.append(seconds)
    best, middle = events / min(taken), events / statistics.median(taken)
    print(f"{name:>8}: {rows:,} rows out; best {best:,.0f} events/s, median {middle:,.0f} events/s", flush=True)


def peak_mb(pid: int) -> float:
    """The most memory that a process has had in use."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default=",".join(READS))
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "bench"
        project.mkdir()
        (project / "stream_project.yml").write_text(SIDES, encoding="utf-8")
        spec = compile_project(check(project)).spark
        with spark_session(spec, project / ".penstock" / "logs") as spark:
            write_topics(spark, project / ".penstock" / "topics", arguments.events)
            for name in ("filter", "tumble", "interval"):
                if name in chosen:
                    compare(name, spark, project, arguments.repeat)
            for name in ("ttl", "temporal"):
                if name in chosen:
                    measure(name, spark, project, arguments.events, min(arguments.repeat, 3))
            if "memory" in chosen:
                seconds, rows = timed(lambda: ours("memory", spark, project))
                jvm = spark.sparkContext._gateway.proc.pid if spark.sparkContext._gateway else 0
                print(f"  memory: {rows:,} keys in {seconds:.1f} s; the JVM had {peak_mb(jvm):,.0f} MB at most")


if __name__ == "__main__":
    main()
