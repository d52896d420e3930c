"""How long a record takes from Kafka to Kafka: ours against the same job written by hand, in batches and in real time.

    python bench/latency.py [--rate 1000] [--seconds 60] [--repeat 2] [--only batches,async,realtime]

A real broker is started for it. One record in is one record out, with the moment in it when it was sent. Ours and by
hand take turns in one Spark session; with `async`, only our batches begin before the progress of the last one is kept.
Records are sent and received by processes of their own (`meter.py`), whose own share is measured first, without Spark.
Times count from `--warm-up` seconds after the first record came through, and after a round that does not count. In real
time no batch may end while times are taken, or the benchmark fails; with `--checkpoint-secs` shorter than a turn it
may. Bar: 99 % of records within 20 ms in real time.
"""

import argparse
import shutil
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from machine import Others, end_in_order
from meter import measured
from penstock.clients.jvm.maven import fetch
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import kafka, processes
from penstock.manifest.model import SparkSpec
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import spark_session
from penstock.workflow.stages import check, compile_project, plan_project
from streaming import plain

QUANTILES = (0.5, 0.9, 0.99, 0.999)
PROJECT = """
project: {{name: latency}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - {{name: events, topic: {topic}, columns: [{{name: id, type: BIGINT}}, {{name: sent, type: DOUBLE}}]}}
models:
  - name: passed
    sql: SELECT id, sent FROM {{{{ source("events") }}}} WHERE id >= 0
    advanced: {{topic: {{name: {topic}.out, partitions: 1}}, spark: {spark}}}
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: a topic in, and a topic out."""

    servers: str
    topic: str

    @classmethod
    def new(cls, cluster: KafkaCluster) -> "Turn":
        turn = cls(cluster.servers, f"events-{uuid.uuid4().hex[:8]}")
        for name in (turn.topic, turn.out):
            KafkaAdmin(cluster).create(name, 1, 1, {})
        return turn

    @property
    def out(self) -> str:
        return f"{self.topic}.out"


@contextmanager
def by_hand(spark: SparkSession, turn: Turn, folder: Path, realtime_secs: int | None) -> Iterator[Callable[[], int]]:
    """What a person would write who knows Spark."""
    options = {"kafka.bootstrap.servers": turn.servers}
    raw = spark.readStream.format("kafka").options(**options, subscribe=turn.topic, startingOffsets="earliest").load()
    row = f.from_json(f.col("value").cast("string"), "id BIGINT, sent DOUBLE")
    rows = raw.select(row.alias("row")).select("row.*").where("id >= 0")
    out = rows.select(f.to_json(f.struct("id", "sent")).alias("value"))
    writer = out.writeStream.format("kafka").options(**options, topic=turn.out).outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "by-hand"))
    if realtime_secs is not None:
        writer = writer.trigger(realTime=f"{realtime_secs} seconds")  # type: ignore[call-overload]
    query = writer.start()
    try:
        yield lambda: len(query.recentProgress)
    finally:
        query.stop()
        shutil.rmtree(folder / "by-hand")


@contextmanager
def ours(
    spark: SparkSession, turn: Turn, folder: Path, realtime_secs: int | None, *, async_progress: bool = False
) -> Iterator[Callable[[], int]]:
    trigger = f"{{trigger: realtime, checkpoint_interval_ms: {realtime_secs}000}}" if realtime_secs else "{}"
    trigger = "{async_progress: true}" if async_progress else trigger
    written = PROJECT.format(servers=turn.servers, topic=turn.topic, spark=trigger)
    (folder / "stream_project.yml").write_text(written, encoding="utf-8")
    checked = check(folder)
    plan = plan_project(checked, compile_project(checked))
    store = checked.store
    run = start(plan, spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    working = threading.Thread(target=run.run_until_stopped, args=(lambda: time.sleep(0.2),))
    working.start()
    try:
        yield lambda: sum(row.batches for row in run.board.snapshot())
    finally:
        run.stop()
        working.join()
        run.close()
        shutil.rmtree(folder / ".penstock")


def shown(took_ms: list[float]) -> str:
    ordered = sorted(took_ms)
    parts = [f"p{q * 100:g} {ordered[min(len(ordered) - 1, int(q * len(ordered)))]:,.1f}" for q in QUANTILES]
    return ", ".join([*parts, f"max {ordered[-1]:,.1f} ms", f"{len(ordered):,} records"])


def p99(took_ms: list[float]) -> float:
    return sorted(took_ms)[int(0.99 * len(took_ms))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=15)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--checkpoint-secs", type=int, default=300, help="length of a batch in real time")
    parser.add_argument("--only", default="batches,async,realtime")
    parser.add_argument("--conf", action="append", default=[], help="a property of Spark, such as key=value")
    arguments = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        try:
            cluster = KafkaCluster(kafka.up(folder / "kafka").about["bootstrap_servers"])
            turn = Turn.new(cluster)
            took_ms = measured(turn.servers, turn.topic, turn.topic, arguments.rate, arguments.warm_up, 10)
            print(f"without Spark: {shown(took_ms)}", flush=True)
            spec = SparkSpec(master="local[*]", config=dict(pair.split("=", 1) for pair in arguments.conf))
            with spark_session(spec, folder / "logs", fetch(KAFKA)) as spark:
                for mode in arguments.only.split(","):
                    secs = arguments.checkpoint_secs if mode == "realtime" else None
                    compare(spark, cluster, mode, secs, folder, arguments)
        finally:
            processes.stop(folder / "kafka")


def compare(
    spark: SparkSession,
    cluster: KafkaCluster,
    mode: str,
    realtime_secs: int | None,
    folder: Path,
    arguments: argparse.Namespace,
) -> None:
    own_way = partial(ours, async_progress=mode == "async")
    ways: dict[str, Callable[..., AbstractContextManager[Callable[[], int]]]] = {"by hand": by_hand, "ours": own_way}
    found: dict[str, list[float]] = {name: [] for name in ways}
    may_end = realtime_secs is None or realtime_secs < arguments.warm_up + arguments.seconds
    for number in range(arguments.repeat + 1):
        for name, way in ways.items():
            turn = Turn.new(cluster)
            own = plain(spark) if name == "by hand" else spark
            with way(own, turn, folder, realtime_secs) as batches:
                seconds = arguments.seconds if number else 1
                others = Others()
                took_ms = measured(turn.servers, turn.topic, turn.out, arguments.rate, arguments.warm_up, seconds)
                share = str(others)
                if batches() and not may_end:
                    raise SystemExit(f"{name}: a batch ended while times were taken")
            if number:
                found[name].append(p99(took_ms))
                print(f"{mode}, {name}: {shown(took_ms)}; {share}", flush=True)
    ratio = statistics.median(found["ours"]) / statistics.median(found["by hand"])
    print(f"{mode}: the p99 of ours is {ratio:.2f} x that by hand", flush=True)


if __name__ == "__main__":
    main()
