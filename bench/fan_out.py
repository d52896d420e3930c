"""Three sinks from one topic: one pipeline that reads it once, against three pipelines that each read it for one sink.

    python bench/fan_out.py [--records 2000000] [--repeat 3] [--partitions 2] [--all-rows]

A real broker and a real schema registry are started for it. Records are those of `kafka.py`, in Avro. Sinks are
directories: a tenth of the records as Parquet, a quarter of them (one country) with some columns as Parquet, and a
tenth (large amounts) as JSON. Three ways take turns in one Spark session, with new checkpoints every time: all sinks in
one pipeline, three pipelines one after the other, and the three of them at the same time (`isolate` on each sink). The
first turn does not count. What is in the directories must be the same for all.

Bytes are those of the topic that the broker says it has sent, by its own metric. Bars: the broker sends the topic once,
and one pipeline takes at most 0.6 of the time of three. With `--all-rows` the same is done once more with sinks that
take every record: there most of the work is writing, which nobody is spared.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafka import made
from machine import Others, core_secs, end_in_order
from penstock.clients.jvm.maven import fetch
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import kafka, processes, registry
from penstock.manifest.model import SparkSpec
from penstock.runtime.run.start import start
from penstock.runtime.spark.session import spark_session
from penstock.workflow.stages import check, compile_project, plan_project

TOPIC = "events"
SINKS = {
    "tenth": ("parquet", "SELECT id, user_id, email, country, amount, price, ts FROM events WHERE sel_key = 0"),
    "one_country": ("parquet", "SELECT id, email, amount * 1.1 AS amount FROM events WHERE country = 'FR'"),
    "large": ("json", "SELECT id, user_id, upper(device) AS device, amount FROM events WHERE amount >= 1350"),
}
ALL_ROWS = {name: (form, sql.partition(" WHERE ")[0]) for name, (form, sql) in SINKS.items()}
TOGETHER, ONE_BY_ONE, SIDE_BY_SIDE = "one pipeline", "three, one after the other", "three at the same time"


@dataclass(frozen=True, slots=True)
class Bench:
    """A topic with records, the broker that has it, and where pipelines and what they write are put."""

    spark: SparkSession
    broker: int
    records: int
    folder: Path

    def run(self, sinks: Mapping[str, tuple[str, str]], *, isolate: bool = False) -> int:
        """Run a pipeline with these sinks over the whole topic. How many records its queries have read."""
        file = self.folder / "bench.yml"
        file.write_text(pipeline(sinks, isolate=isolate), encoding="utf-8")
        checked = check(file)
        plan = plan_project(checked, compile_project(checked))
        run = start(plan, self.spark, checked.place, checked.store, environ=checked.environ, clusters=checked.clusters)
        try:
            run.run_once(lambda: time.sleep(0.01))
        finally:
            run.close()
        shutil.rmtree(self.folder / ".penstock")
        return sum(row.rows_in for row in run.board.snapshot())

    def content(self, sinks: Mapping[str, tuple[str, str]]) -> tuple[Any, ...]:
        """What is in the directories; they are gone then."""
        found: list[Any] = []
        for name, (form, _) in sinks.items():
            path = self.folder / name
            rows = self.spark.read.format(form).option("recursiveFileLookup", "true").load(str(path))
            found.append(rows.selectExpr("count(*)", "sum(xxhash64(id, amount) % 1000003)").first())
            shutil.rmtree(path)
        return tuple(found)

    def sent(self) -> int:
        """How many bytes of the topic the broker has sent so far."""
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        machine = jvm.com.sun.tools.attach.VirtualMachine.attach(str(self.broker))
        try:
            address = machine.startLocalManagementAgent()
        finally:
            machine.detach()
        remote = jvm.javax.management.remote
        connector = remote.JMXConnectorFactory.connect(remote.JMXServiceURL(address))
        try:
            name = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={TOPIC}"
            known = connector.getMBeanServerConnection()
            metric = jvm.javax.management.ObjectName(name)
            return int(known.getAttribute(metric, "Count")) if known.isRegistered(metric) else 0
        finally:
            connector.close()


def pipeline(sinks: Mapping[str, tuple[str, str]], *, isolate: bool) -> str:
    alone = ", isolate: true" if isolate else ""
    steps = "".join(f'  t_{name}: {{type: sql, primary_key: id, sql: "{sql}"}}\n' for name, (_, sql) in sinks.items())
    ends = "".join(
        f"  {name}: {{type: file, from: t_{name}, path: {name}, format: {form}{alone}}}\n"
        for name, (form, _) in sinks.items()
    )
    source = f"  events: {{type: kafka, topic: {TOPIC}, primary_key: id}}\n"
    return f"sources:\n{source}transforms:\n{steps}sinks:\n{ends}"


def measured(bench: Bench, sinks: Mapping[str, tuple[str, str]], repeat: int) -> None:
    ways: dict[str, Callable[[], int]] = {
        TOGETHER: lambda: bench.run(sinks),
        ONE_BY_ONE: lambda: sum(bench.run({name: sink}) for name, sink in sinks.items()),
        SIDE_BY_SIDE: lambda: bench.run(sinks, isolate=True),
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    cores: dict[str, list[float]] = {way: [] for way in ways}
    sent: dict[str, list[int]] = {way: [] for way in ways}
    others = Others()
    for turn in range(repeat + 1):
        contents = set()
        for way, work in ways.items():
            before, busy, begun = bench.sent(), core_secs(bench.broker), time.perf_counter()
            read = work()
            seconds, busy = time.perf_counter() - begun, core_secs(bench.broker) - busy
            sent[way].append(bench.sent() - before)
            contents.add(bench.content(sinks))
            told = f"{seconds:.2f} s, {busy:.2f} s of cores, {read:,} records, {sent[way][-1]:,} bytes"
            print(f"turn {turn}, {way}: {told}", flush=True)
            if turn:
                took[way].append(seconds)
                cores[way].append(busy)
        assert len(contents) == 1, contents
    print(f"{bench.records:,} records, best and median of {repeat}, {others}")
    for way, times in took.items():
        told = f"{min(times):.2f} and {statistics.median(times):.2f} s, {min(cores[way]):.2f} s of cores"
        print(f"  {way}: {told}, {max(sent[way]):,} bytes from the broker")
    for way in (ONE_BY_ONE, SIDE_BY_SIDE):
        best = min(took[TOGETHER]) / min(took[way])
        median = statistics.median(took[TOGETHER]) / statistics.median(took[way])
        bar = f" (bar 0.6: {'met' if best <= 0.6 else 'NOT met'})" if way == ONE_BY_ONE else ""
        busy = min(cores[TOGETHER]) / min(cores[way])
        print(f"  one pipeline takes {best:.2f} and {median:.2f} of {way}{bar}, {busy:.2f} of the time of cores")
    share = max(sent[TOGETHER]) / min(sent[ONE_BY_ONE])
    once = "met" if share <= 0.34 else "NOT met"
    print(f"  the broker sends {share:.3f} of the bytes (bar, a third: {once})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--all-rows", action="store_true", help="also with sinks that take every record")
    arguments = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory() as text, ExitStack() as stack:
        folder = Path(text)
        stack.callback(processes.stop, folder / "kafka")
        stack.callback(processes.stop, folder / "registry")
        broker = kafka.up(folder / "kafka")
        cluster = KafkaCluster(broker.about["bootstrap_servers"])
        address = registry.up(folder / "registry").about["url"]
        os.environ["PENSTOCK__KAFKA_SOURCE__BROKERS"] = cluster.servers
        os.environ["PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL"] = address
        made(cluster, address, TOPIC, arguments.partitions, arguments.records)
        spark = stack.enter_context(spark_session(SparkSpec(master="local[*]"), folder / "logs", fetch(KAFKA)))
        bench = Bench(spark, broker.pid, arguments.records, folder)
        print("sinks that take a part of the records", flush=True)
        measured(bench, SINKS, arguments.repeat)
        if arguments.all_rows:
            print("sinks that take every record", flush=True)
            measured(bench, ALL_ROWS, arguments.repeat)


if __name__ == "__main__":
    main()
