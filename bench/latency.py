"""How long a record takes from Kafka to Kafka: ours against the same job written by hand, in batches and in real time.

    python bench/latency.py [--rate 1000] [--seconds 60] [--repeat 2] [--only batches,async,realtime]

A real broker is started for it. One record in is one record out, with the moment in it when it was sent. Ours and by
hand take turns in one Spark session; with `async`, only our batches begin before the progress of the last one is kept.
The first seconds of each turn are not counted, nor is the first round. In real time the end of a batch is, unless
`--checkpoint-secs` puts it after the end of the turn.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.cli.line import check, compiled, planned
from penstock.clients.jars import fetch
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.spark_packages import KAFKA
from penstock.dev import kafka, processes
from penstock.manifest.model import SparkSpec
from penstock.plan.state import SqliteStore
from penstock.runtime.session import spark_session
from penstock.runtime.start import start
from streaming import plain

WARM_UP_SECS = 10
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


class Turn:
    """One turn: a topic in, a topic out, and how long the records between them took."""

    def __init__(self, cluster: KafkaCluster, rate: int, seconds: int) -> None:
        self.cluster = cluster
        self.rate = rate
        self.seconds = seconds
        self.topic = f"events-{uuid.uuid4().hex[:8]}"
        for name in (self.topic, f"{self.topic}.out"):
            KafkaAdmin(cluster).create(name, 1, 1, {})
        self.took_ms: list[float] = []
        self.over = threading.Event()

    def measure(self) -> None:
        """Send records at a steady rate, and take the times of those that come out."""
        counted_from = time.time() + WARM_UP_SECS
        listening = threading.Thread(target=self._listen, args=(counted_from,))
        listening.start()
        producer = Producer({"bootstrap.servers": self.cluster.servers, "linger.ms": 0})
        begun, sent = time.time(), 0
        while (now := time.time()) < begun + WARM_UP_SECS + self.seconds:
            while sent < (now - begun) * self.rate:
                producer.produce(self.topic, json.dumps({"id": sent, "sent": time.time()}))
                sent += 1
            producer.poll(0)
            time.sleep(0.0005)
        producer.flush()
        time.sleep(2)
        self.over.set()
        listening.join()

    def _listen(self, counted_from: float) -> None:
        consumer = Consumer({"bootstrap.servers": self.cluster.servers, "group.id": "latency", "fetch.wait.max.ms": 10})
        consumer.assign([TopicPartition(f"{self.topic}.out", 0, 0)])
        while not self.over.is_set():
            for message in consumer.consume(500, 0.01):
                sent = json.loads(message.value())["sent"]
                if sent >= counted_from:
                    self.took_ms.append((time.time() - sent) * 1000)
        consumer.close()


@contextmanager
def by_hand(spark: SparkSession, turn: Turn, folder: Path, realtime_secs: int | None) -> Iterator[None]:
    """What a person would write who knows Spark."""
    options = {"kafka.bootstrap.servers": turn.cluster.servers}
    raw = spark.readStream.format("kafka").options(**options, subscribe=turn.topic, startingOffsets="earliest").load()
    row = f.from_json(f.col("value").cast("string"), "id BIGINT, sent DOUBLE")
    rows = raw.select(row.alias("row")).select("row.*").where("id >= 0")
    out = rows.select(f.to_json(f.struct("id", "sent")).alias("value"))
    writer = out.writeStream.format("kafka").options(**options, topic=f"{turn.topic}.out").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "by-hand"))
    if realtime_secs is not None:
        writer = writer.trigger(realTime=f"{realtime_secs} seconds")  # type: ignore[call-overload]
    query = writer.start()
    try:
        yield
    finally:
        query.stop()
        shutil.rmtree(folder / "by-hand")


@contextmanager
def ours(
    spark: SparkSession, turn: Turn, folder: Path, realtime_secs: int | None, *, async_progress: bool = False
) -> Iterator[None]:
    trigger = f"{{trigger: realtime, checkpoint_interval_ms: {realtime_secs}000}}" if realtime_secs else "{}"
    trigger = "{async_progress: true}" if async_progress else trigger
    written = PROJECT.format(servers=turn.cluster.servers, topic=turn.topic, spark=trigger)
    (folder / "stream_project.yml").write_text(written, encoding="utf-8")
    checked = check(folder)
    plan = planned(checked, compiled(checked))
    store = SqliteStore(checked.place.state_file)
    run = start(plan, spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    working = threading.Thread(target=run.run_on, args=(lambda: time.sleep(0.2),))
    working.start()
    try:
        yield
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
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--checkpoint-secs", type=int, default=300, help="length of a batch in real time")
    parser.add_argument("--only", default="batches,async,realtime")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        try:
            cluster = KafkaCluster(kafka.up(folder / "kafka").about["bootstrap_servers"])
            with spark_session(SparkSpec(master="local[*]"), folder / "logs", fetch(KAFKA)) as spark:
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
    ways: dict[str, Callable[..., object]] = {"by hand": by_hand, "ours": own_way}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(arguments.repeat + 1):
        for name, way in ways.items():
            turn = Turn(cluster, arguments.rate, arguments.seconds if number else WARM_UP_SECS)
            own = plain(spark) if name == "by hand" else spark
            with way(own, turn, folder, realtime_secs):  # type: ignore[attr-defined]
                turn.measure()
            if number:
                found[name].append(p99(turn.took_ms))
                print(f"{mode}, {name}: {shown(turn.took_ms)}", flush=True)
    ratio = statistics.median(found["ours"]) / statistics.median(found["by hand"])
    print(f"{mode}: the p99 of ours is {ratio:.2f} x that by hand", flush=True)


if __name__ == "__main__":
    main()
