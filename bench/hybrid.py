"""A table, then a topic, as one stream: what memory it takes to fill up from a table of ClickHouse, small and large.

    python bench/hybrid.py [--rows 2000000] [--records 1000] [--pages 20]

The real engine and a real broker are started for it. Rows have six columns; they go into Parquet files, first a tenth
of them, then all, each in a Spark of its own with a heap of 1 GB. Pages are of one size, so that ten times the rows are
ten times the pages: all rows make `--pages`. Memory is what our Python, Spark's JVM and Python
workers have in use, sampled five times a second; the most of it counts. That of ClickHouse is not in it. After each run
the ids in the files are counted: every one of table and topic is there once. Bar: flat, so ten times the rows take at
most a fifth more memory.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from machine import Memory, Others, end_in_order
from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.jvm.maven import fetch
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import clickhouse, kafka, processes
from penstock.manifest.model import SparkSpec
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import spark_session
from penstock.workflow.stages import check, compile_project, plan_project

FLAT = 1.2
HEAP = {"spark.driver.memory": "1g"}
PIPELINE = """
sources:
  events:
    type: hybrid
    bounded_sources:
      - {{source_type: clickhouse, table_name: {name}}}
    unbounded_source:
      source_type: kafka
      topic: {name}
      data_format: json
      schema: {{id: int64, user_id: string, email: string, country: string, amount: double, ts: int64}}
      start_at: earliest
    primary_key: id
transforms: {{}}
sinks:
  out: {{type: file, from: events, path: out, format: parquet}}
"""


@dataclass(frozen=True, slots=True)
class Bench:
    server: ClickHouse
    cluster: KafkaCluster
    folder: Path

    def fill(self, name: str, rows: int, records: int) -> None:
        """A table, and a topic of the same name that goes on where the table ends."""
        self.server.execute(
            f"CREATE TABLE {name} (id Int64, user_id String, email String, country String, amount Float64, ts Int64)"
            " ENGINE = MergeTree ORDER BY id"
        )
        self.server.execute(
            f"INSERT INTO {name} SELECT number, concat('user-', toString(number % 10000)), "
            "concat('user', toString(number), '@mail.test'), ['DE', 'FR', 'US', 'JP'][number % 4 + 1], number * 1.5, "
            f"1767225600000 + number FROM numbers({rows})"
        )
        KafkaAdmin(self.cluster).create(name, 2, 1, {})
        producer = Producer({"bootstrap.servers": self.cluster.servers})
        for n in range(rows, rows + records):
            row = {"id": n, "user_id": "u", "email": "e", "country": "DE", "amount": 0.5, "ts": n}
            producer.produce(name, json.dumps(row))
        producer.flush()

    def run(self, name: str, rows: int, records: int) -> tuple[float, Memory, int]:
        """The seconds of a run from the first row of the table to the last record, its memory and its batches."""
        home = self.folder / name
        home.mkdir()
        (home / "bench.yml").write_text(PIPELINE.format(name=name), encoding="utf-8")
        with spark_session(SparkSpec(master="local[*]", config=HEAP), home / "logs", fetch(KAFKA)) as spark:
            assert spark.sparkContext._gateway is not None
            memory = Memory(spark.sparkContext._gateway.proc.pid)
            begun = time.perf_counter()
            with memory.watched():
                checked = check(home / "bench.yml")
                plan = plan_project(checked, compile_project(checked))
                given = {"environ": checked.environ, "clusters": checked.clusters}
                run = start(plan, spark, checked.place, checked.store, **given)  # type: ignore[arg-type]
                try:
                    run.run_once(lambda: time.sleep(0.05))
                finally:
                    run.close()
            seconds = time.perf_counter() - begun
            found = spark.read.option("recursiveFileLookup", "true").parquet(str(home / "out"))
            told = found.selectExpr("count(*)", "count(DISTINCT id)", "max(id)").first()
            assert told == (rows + records, rows + records, rows + records - 1), told
        shutil.rmtree(home)
        return seconds, memory, run.board.batch_count("events")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--pages", type=int, default=20)
    arguments = parser.parse_args()
    page = -(-arguments.rows // arguments.pages)
    end_in_order()
    with tempfile.TemporaryDirectory() as text, ExitStack() as stack:
        folder = Path(text)
        for name in ("kafka", "clickhouse"):
            stack.callback(processes.stop, folder / name)
        cluster = KafkaCluster(kafka.up(folder / "kafka").about["bootstrap_servers"])
        url = str(clickhouse.up(folder / "clickhouse").about["url"])
        os.environ["PENSTOCK__KAFKA_SOURCE__BROKERS"] = cluster.servers
        os.environ["PENSTOCK__CLICKHOUSE_SOURCE__URL"] = url
        os.environ["PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE"] = str(page)
        bench = Bench(ClickHouse(url), cluster, folder)
        others, peaks = Others(), []
        for name, rows in (("a_tenth", arguments.rows // 10), ("whole", arguments.rows)):
            bench.fill(name, rows, arguments.records)
            seconds, memory, batches = bench.run(name, rows, arguments.records)
            peaks.append(memory.peak_bytes)
            told = f"{rows:,} rows in pages of {page:,}, and {arguments.records:,} records: {batches} batches"
            print(f"  {told}, {seconds:.1f} s, {memory} at most", flush=True)
    ratio = peaks[1] / peaks[0]
    print(f"  ten times the rows take {ratio:.2f} of the memory (bar {FLAT}: {'met' if ratio <= FLAT else 'NOT met'})")
    print(f"  {others}")


if __name__ == "__main__":
    main()
