"""Kafka and Avro at full speed: a pipeline into nothing, against the same job written by hand.

    python bench/kafka.py [--records 5000000] [--repeat 5] [--partitions 1,2] [--only projection,filter]

A real broker and a real schema registry are started for it. Records are of 76 bytes, 1,000 different ones, as in the
benchmark that Streamling publishes. Ours and by hand take turns in one Spark session, each from the first record to the
last, with a new checkpoint every time.
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from penstock.cli.line import check, compiled, planned
from penstock.clients.jars import fetch
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.avro import head
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.schema_registry import Registry
from penstock.clients.spark_packages import KAFKA
from penstock.dev import kafka, processes, registry
from penstock.manifest.model import SparkSpec
from penstock.plan.state import SqliteStore
from penstock.runtime.session import spark_session
from penstock.runtime.start import start
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
PIPELINE = """
sources:
  kafka_source: {{type: kafka, topic: {topic}, primary_key: id}}
transforms:
  result: {{type: sql, primary_key: id, sql: "{sql}"}}
sinks:
  nothing: {{type: blackhole, from: result}}
"""


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
            text(f"user-{i:04d}"),
            text(f"user{i:04d}@mail.test"),
            text(("DE", "FR", "US", "JP")[i % 4]),
            text(("ios", "web", "tv")[i % 3]),
            struct.pack("<d", i * 1.5),
            zigzag(len(price)) + price,
            zigzag(1_767_225_600_000 + i),
            zigzag(i % 10),
        )
        found.append(head(number) + b"".join(fields))
    return found


def fill(cluster: KafkaCluster, topic: str, partitions: int, records: int, values: list[bytes]) -> None:
    KafkaAdmin(cluster).create(topic, partitions, 1, {})
    producer = Producer(
        {
            "bootstrap.servers": cluster.servers,
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


def by_hand(spark: SparkSession, cluster: KafkaCluster, topic: str, name: str, folder: Path) -> None:
    """What a person would write who knows Spark."""
    options = {"kafka.bootstrap.servers": cluster.servers, "subscribe": topic, "startingOffsets": "earliest"}
    raw = spark.readStream.format("kafka").options(**options).load()
    decoded = raw.select(from_avro(f.expr("substring(value, 6)"), SCHEMA).alias("row")).select("row.*")
    decoded.createOrReplaceTempView("kafka_source")
    result = spark.sql(QUERIES[name])
    writer = result.writeStream.format("noop").option("checkpointLocation", str(folder / "by-hand"))
    writer.trigger(availableNow=True).start().awaitTermination()
    shutil.rmtree(folder / "by-hand")


def ours(spark: SparkSession, topic: str, name: str, folder: Path) -> None:
    file = folder / "bench.yml"
    file.write_text(PIPELINE.format(topic=topic, sql=QUERIES[name]), encoding="utf-8")
    checked = check(file)
    plan = planned(checked, compiled(checked))
    store = SqliteStore(checked.place.state_file)
    run = start(plan, spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    try:
        run.run_once(lambda: time.sleep(0.01))
    finally:
        run.close()
    shutil.rmtree(folder / ".penstock")


def timed(job: Callable[[], None]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--partitions", default="1,2")
    parser.add_argument("--only", default=",".join(QUERIES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        try:
            cluster = KafkaCluster(kafka.up(folder / "kafka").about["bootstrap_servers"])
            address = registry.up(folder / "registry").about["url"]
            os.environ["PENSTOCK__KAFKA_SOURCE__BROKERS"] = cluster.servers
            os.environ["PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL"] = address
            with spark_session(SparkSpec(master="local[*]"), folder / "logs", fetch(KAFKA)) as spark:
                for partitions in map(int, arguments.partitions.split(",")):
                    topic = f"events-{partitions}"
                    number = Registry([address]).register(f"{topic}-value", SCHEMA)
                    fill(cluster, topic, partitions, arguments.records, payloads(number))
                    for name in arguments.only.split(","):
                        compare(spark, cluster, topic, name, folder, arguments.records, arguments.repeat)
        finally:
            processes.stop(folder / "registry")
            processes.stop(folder / "kafka")


def compare(
    spark: SparkSession, cluster: KafkaCluster, topic: str, name: str, folder: Path, records: int, repeat: int
) -> None:
    hand: list[float] = []
    own: list[float] = []
    for turn in range(repeat + 1):
        hand_secs = timed(lambda: by_hand(plain(spark), cluster, topic, name, folder))
        our_secs = timed(lambda: ours(spark, topic, name, folder))
        if turn:  # the first round warms the JVM up
            hand.append(hand_secs)
            own.append(our_secs)
    rates = [records / min(taken) for taken in (hand, own)]
    middle = statistics.median(hand) / statistics.median(own)
    print(
        f"{topic} {name}: by hand {rates[0]:,.0f} records/s, ours {rates[1]:,.0f}; "
        f"ours is {rates[1] / rates[0]:.2f} x as fast by best, {middle:.2f} x by median",
        flush=True,
    )


if __name__ == "__main__":
    main()
