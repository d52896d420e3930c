"""Kafka and Avro at full speed: a pipeline into nothing, against the same job written by hand, and on a tuned Flink.

    python bench/kafka.py [--records 5000000] [--repeat 5] [--partitions 1,2] [--only projection,filter]
        [--without-flink]

A real broker and a real schema registry are started for it. Records are of 76 bytes, 1,000 different ones, as in the
benchmark that Streamling publishes. All take turns over the same topics, each from the first record to the last, ours
and by hand in one Spark session with a new checkpoint every time, Flink in a JVM that stays (`flink.py`). The start of
its job is what the same job takes over an empty topic. Ours is measured from reading the file to the end of the run.

Memory is what our Python, Spark's JVM and Python workers have in use while ours runs; the JVM is the one that also runs
the job by hand. Bar: less than 3 GB for 5,000,000 records.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from flink import Flink, flink
from machine import Memory, Others, end_in_order
from penstock.clients.jvm.maven import fetch
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.confluent_wire import schema_header
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.registry.client import Registry
from penstock.dev import kafka, processes, registry
from penstock.manifest.model import SparkSpec
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import spark_session
from penstock.workflow.stages import check, compile_project, plan_project
from streaming import plain

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "user_id", "type": "string"},
            {"name": "email", "type": "string"},
            {"name": "country", "type": "string"},
            {"name": "device", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
            {"name": "ts", "type": "long"},
            {"name": "sel_key", "type": "int"},
        ],
    }
)
QUERIES = {
    "projection": (
        "SELECT id, user_id, email, lower(country) AS country, device, amount, amount * 1.1 AS amount_with_fee, "
        "price, ts FROM kafka_source"
    ),
    "filter": "SELECT id, user_id, email, country, ts FROM kafka_source WHERE sel_key = 0",
}
BY_HAND, OURS = "by hand", "ours"
FLINK, STARTED_FLINK = "Flink by wall clock", "Flink without the start of its job"
FLINK_COLUMNS = (
    "id BIGINT NOT NULL, user_id STRING NOT NULL, email STRING NOT NULL, country STRING NOT NULL, "
    "device STRING NOT NULL, amount DOUBLE NOT NULL, price DECIMAL(20, 4) NOT NULL, ts BIGINT NOT NULL, "
    "sel_key INT NOT NULL"
)
PIPELINE = """
sources:
  kafka_source: {{type: kafka, topic: {topic}, primary_key: id}}
transforms:
  result: {{type: sql, primary_key: id, sql: "{sql}"}}
sinks:
  nothing: {{type: blackhole, from: result}}
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with records, and one like it without."""

    name: str
    empty: str
    partitions: int
    records: int


def payloads(number: int) -> list[bytes]:
    """1,000 records as their writer sends them."""

    def zigzag(value: int) -> bytes:
        left, out = value << 1, bytearray()
        while left > 0x7F:
            out.append(left & 0x7F | 0x80)
            left >>= 7
        return bytes([*out, left])

    def text(value: str) -> bytes:
        return zigzag(len(value)) + value.encode()

    found = []
    for i in range(1000):
        price = (i * 10_001).to_bytes(4, "big")
        fields = (
            zigzag(i),
            text(f"user-{i:07d}"),
            text(f"user{i:04d}@customers.mail.test"),
            text(("DE", "FR", "US", "JP")[i % 4]),
            text(("ios", "web", "tv")[i % 3]),
            struct.pack("<d", i * 1.5),
            zigzag(len(price)) + price,
            zigzag(1_767_225_600_000 + i),
            zigzag(i % 10),
        )
        found.append(schema_header(number) + b"".join(fields))
    assert round(statistics.mean(map(len, found))) == 76
    return found


def made(cluster: KafkaCluster, address: str, topic: str, partitions: int, records: int) -> str:
    """A topic with records, by a process of its own: what it needs of memory is not ours."""
    number = Registry([address]).register(f"{topic}-value", SCHEMA)
    KafkaAdmin(cluster).create(topic, partitions, 1, {})
    wanted = (cluster.servers, topic, partitions, records, payloads(number))
    filling = multiprocessing.get_context("spawn").Process(target=fill, args=wanted)
    filling.start()
    filling.join()
    if filling.exitcode:
        raise SystemExit(f"{topic} cannot be filled")
    return topic


def fill(servers: str, topic: str, partitions: int, records: int, values: list[bytes]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for place in range(records):
        while True:
            try:
                producer.produce(topic, values[place % len(values)], partition=place % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if place % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def by_hand(spark: SparkSession, cluster: KafkaCluster, topic: str, name: str, folder: Path) -> int:
    """What a person would write who knows Spark. How many records it read."""
    options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    raw = spark.readStream.format("kafka").options(**options).load()
    decoded = raw.select(from_avro(f.expr("substring(value, 6)"), SCHEMA).alias("row")).select("row.*")
    decoded.createOrReplaceTempView("kafka_source")
    result = spark.sql(QUERIES[name])
    writer = result.writeStream.format("noop").option("checkpointLocation", str(folder / "by-hand"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(folder / "by-hand")
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def ours(spark: SparkSession, topic: str, name: str, folder: Path) -> int:
    file = folder / "bench.yml"
    file.write_text(PIPELINE.format(topic=topic, sql=QUERIES[name]), encoding="utf-8")
    checked = check(file)
    plan = plan_project(checked, compile_project(checked))
    store = checked.store
    run = start(plan, spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    try:
        run.run_once(lambda: time.sleep(0.01))
    finally:
        run.close()
    shutil.rmtree(folder / ".penstock")
    return sum(row.rows_in for row in run.board.snapshot())


def timed(job: Callable[[], int], records: int) -> float:
    """The seconds of a job that reads so many records."""
    begun = time.perf_counter()
    read = job()
    seconds = time.perf_counter() - begun
    if read != records:
        raise SystemExit(f"{read:,} records were read of {records:,}: not the same job")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--partitions", default="1,2")
    parser.add_argument("--only", default=",".join(QUERIES))
    parser.add_argument("--without-flink", action="store_true")
    arguments = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as text, ExitStack() as stack:
        folder = Path(text)
        stack.callback(processes.stop, folder / "kafka")
        stack.callback(processes.stop, folder / "registry")
        cluster = KafkaCluster(kafka.up(folder / "kafka").about["bootstrap_servers"])
        address = registry.up(folder / "registry").about["url"]
        os.environ["PENSTOCK__KAFKA_SOURCE__BROKERS"] = cluster.servers
        os.environ["PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL"] = address
        other = None
        if not arguments.without_flink:
            other = stack.enter_context(flink(cluster.servers, address, FLINK_COLUMNS, folder))
        spec = SparkSpec(master="local[*]")
        spark = stack.enter_context(spark_session(spec, folder / "logs", fetch(KAFKA)))
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        for partitions in map(int, arguments.partitions.split(",")):
            full = made(cluster, address, f"events-{partitions}", partitions, arguments.records)
            empty = made(cluster, address, f"empty-{partitions}", partitions, 0)
            topic = Topic(full, empty, partitions, arguments.records)
            if other is not None and (read := other.count(topic.name, partitions)) != topic.records:
                raise SystemExit(f"Flink reads {read:,} records of {topic.records:,}: not the same job")
            for name in arguments.only.split(","):
                taken: dict[str, list[float]] = {}
                others, memory = Others(), Memory(gateway.proc.pid)
                for turn in range(arguments.repeat + 1):
                    found = a_turn(spark, cluster, other, memory, topic, name, folder)
                    if turn:  # the first round warms the JVM up
                        for way, seconds in found.items():
                            taken.setdefault(way, []).append(seconds)
                tell(f"{topic.name} {name} ({others})", taken, topic.records)
                print(f"    memory while ours ran: {memory} at most", flush=True)


def a_turn(
    spark: SparkSession,
    cluster: KafkaCluster,
    other: Flink | None,
    memory: Memory,
    topic: Topic,
    name: str,
    folder: Path,
) -> dict[str, float]:
    """The seconds of each way, by its name."""
    found = {BY_HAND: timed(lambda: by_hand(plain(spark), cluster, topic.name, name, folder), topic.records)}
    with memory.watched():
        found[OURS] = timed(lambda: ours(spark, topic.name, name, folder), topic.records)
    if other is not None:
        start_secs = other.run(topic.empty, topic.partitions, QUERIES[name])
        found[FLINK] = other.run(topic.name, topic.partitions, QUERIES[name])
        found[STARTED_FLINK] = found[FLINK] - start_secs
    return found


def tell(what: str, taken: dict[str, list[float]], records: int) -> None:
    own = taken.pop(OURS)
    best, middle = records / min(own), records / statistics.median(own)
    print(f"{what}: {OURS} best {best:,.0f} records/s, median {middle:,.0f}", flush=True)
    for way, seconds in taken.items():
        best, middle = records / min(seconds), records / statistics.median(seconds)
        ratios = min(seconds) / min(own), statistics.median(seconds) / statistics.median(own)
        print(
            f"    {way}: best {best:,.0f}, median {middle:,.0f}; "
            f"{OURS} is {ratios[0]:.2f} x as fast by best, {ratios[1]:.2f} x by median",
            flush=True,
        )


if __name__ == "__main__":
    main()
