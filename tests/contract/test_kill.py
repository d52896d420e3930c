"""A run into every sink at once that is killed in the middle of a batch, goes on, and then lacks the commit of it.

Sinks that have the batch do not get it when the run goes on. Without the note of that they get it once more. And a run
from a topic that is killed after a batch is written, and before it is committed.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.connectors.registry import BUILT_INS, find_sink
from penstock.dev import postgres as dev_postgres
from penstock.plan.deployed.place import last_number
from penstock.runtime.delivery.sink_progress import NOTE
from tests.contract.services import Mortal, MortalClickHouse, MortalKafka, MortalPostgres
from tests.contract.subjects import SUBJECTS, Database, World, parsed
from tests.endpoint import endpoint
from tests.services import clickhouse, kafka
from tests.spark.running import Running

pytestmark = pytest.mark.process

LINE = "a_kill_before_the_commit_loses_nothing"
IDS = range(1000)
PIPELINE = """
sources:
  numbers: {{type: file, path: in, format: json, mode: {{type: bounded}}, primary_key: id}}
transforms: {{}}
sinks:
  print: {{type: print, from: numbers}}
  file: {{type: file, from: numbers, path: files, format: json}}
  postgres: {{type: postgres, from: numbers, schema: kill, table: kept}}
  postgres_aggregate:
    type: postgres_aggregate
    from: numbers
    schema: kill
    landing_table: log
    agg_table: sums
    group_by: {{id: {{}}}}
    aggregate: {{n: {{fn: count}}}}
  webhook: {{type: webhook, from: numbers, url: "{url}", batch_size: 100}}
  clickhouse: {{type: clickhouse, from: numbers, table: kept, primary_key: id}}
  kafka: {{type: kafka, from: numbers, topic: {topic}, data_format: json, topic_partitions: 1}}
  jdbc-sink:
    type: jdbc-sink
    from: numbers
    connection.url: "jdbc:postgresql://127.0.0.1:{port}/postgres"
    connection.user: {user}
    connection.password: {password}
    table.name.format: kill.by_jdbc
    auto.create: true
  s3-sink: {{type: s3-sink, from: numbers, path: store}}
  topic: {{type: topic, from: numbers, topic: numbers, directory: topics}}
  blackhole: {{type: blackhole, from: numbers}}
"""
KILL = """
import os, signal
from penstock.cli.main import main
from penstock.clients.clickhouse import tables

def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)

tables.record_batch = dies
main()
"""


OTHERS = [
    kind
    for kind in SUBJECTS
    if f"type: {kind}," not in PIPELINE and f"type: {kind}\n" not in PIPELINE and " " not in kind and kind != "memory"
]
"""Sinks whose subject says everything that a pipeline must know of them."""


def test_a_run_that_is_killed_and_goes_on_leaves_every_row(
    tmp_path: Path,
    service: Callable[[type[Mortal]], Any],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Some sinks have written then, ClickHouse has not noted what it has, and others have nothing yet."""
    server, engine, broker = service(MortalPostgres), service(MortalClickHouse), service(MortalKafka)
    cluster, topic = KafkaCluster(f"127.0.0.1:{broker.port}"), kafka.new_topic()
    client, db = clickhouse.client(engine.url), Database(server, "kill")
    client.command("CREATE DATABASE kill")
    login = {"user": dev_postgres.USER, "password": dev_postgres.PASSWORD}
    environ = {
        "PENSTOCK__POSTGRES_SINK__PORT": str(server.port),
        "PENSTOCK__POSTGRES_SINK__USER": login["user"],
        "PENSTOCK__POSTGRES_SINK__PASS": login["password"],
        "PENSTOCK__CLICKHOUSE_SINK__URL": engine.url,
        "PENSTOCK__CLICKHOUSE_SINK__DATABASE": "kill",
        "PENSTOCK__KAFKA_SINK__BROKERS": cluster.servers,
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    running = Running(tmp_path, spark, "pipeline.yml")
    with endpoint() as hook, ExitStack() as opened:
        text = PIPELINE.format(url=hook.url, topic=topic, port=server.port, **login)
        world = World(tmp_path / "others", spark, service)
        others = {kind: opened.enter_context(SUBJECTS[kind](world)) for kind in OTHERS}
        for kind, other in others.items():
            config = other.sink.model_dump(mode="json", by_alias=True, exclude_unset=True)
            text += f"  {kind}: {json.dumps({**config, 'type': kind, 'from': 'numbers'})}\n"
        lines = "".join(f'{{"id": {n}}}\n' for n in IDS)
        running.write({"pipeline.yml": text, "kill.py": KILL, "in/1.json": lines})
        printed = _killed(tmp_path)
        assert client.query("SELECT count() FROM kill.kept").result_rows == [(len(IDS),)]
        assert db.rows("by_jdbc") == []
        running.run()
        running.uncommit("numbers", 0)
        (running.place.checkpoint("numbers") / NOTE).unlink()
        running.run()
        printed += capsys.readouterr().out
        hooked = hook.taken
        found = {kind: other.written_ids() for kind, other in others.items()}
    found |= {
        "print": [parsed(line.partition(" ")[2])["id"] for line in printed.splitlines() if line.startswith("INSERT ")],
        "file": _ids(tmp_path / "files"),
        "postgres": [row["id"] for row in db.rows("kept")],
        "postgres_aggregate": [row["id"] for row in db.rows("sums") for _ in range(row["n"])],
        "webhook": [row["id"] for request in hooked for row in request.rows],
        "clickhouse": [row[0] for row in client.query("SELECT id FROM kill.kept").result_rows],
        "kafka": [row["id"] for row in kafka.rows_of(kafka.consume(cluster, topic))],
        "jdbc-sink": [row["id"] for row in db.rows("by_jdbc")],
        "s3-sink": _ids(tmp_path / "store"),
        "topic": [
            row["id"]
            for file in (tmp_path / "topics").rglob("part-*.parquet")
            if "_staging" not in file.parts
            for row in pq.read_table(file).to_pylist()
        ],
    }
    waived = set()
    for built_in in (b for b in BUILT_INS if b.role == "sink"):
        model = find_sink(built_in.type)
        assert model is not None
        if LINE in model.waives:
            waived.add(built_in.type)
            continue
        ids = found[built_in.type]
        once = "a_replayed_batch_leaves_no_duplicates" not in model.waives
        assert (sorted(ids) if once else sorted(set(ids))) == list(IDS), built_in.type
    assert not waived & found.keys()
    assert set(Counter(found["print"]).values()) == {2}
    keys = Counter(request.headers["Idempotency-Key"] for request in hooked)
    assert set(keys.values()) == {2}, "a request that is sent again has the same key"


FROM_A_TOPIC = """
sources:
  numbers: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64}}, max_offsets_per_trigger: 300,
            primary_key: id}}
sinks:
  postgres: {{type: postgres, from: numbers, schema: {name}, table: kept}}
  clickhouse: {{type: clickhouse, from: numbers, table: kept, primary_key: id, isolate: true}}
"""
KILL_BEFORE_THE_COMMIT = """
import os, signal, threading
from penstock.cli.main import main
from penstock.runtime.delivery.batch_writer import BatchWriter

both, write = threading.Barrier(2), BatchWriter.__call__

def dies(self, batch, batch_id):
    write(self, batch, batch_id)
    if batch_id == 1:
        both.wait()
        os.kill(os.getpid(), signal.SIGKILL)

BatchWriter.__call__ = dies
main()
"""


def test_a_run_from_a_topic_that_is_killed_before_the_commit_leaves_every_row_once(
    tmp_path: Path, service: Callable[[type[Mortal]], Any], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two sinks reads for itself, has two batches by then, and the second one is not committed."""
    server, engine, broker = service(MortalPostgres), service(MortalClickHouse), service(MortalKafka)
    cluster, topic, name = KafkaCluster(f"127.0.0.1:{broker.port}"), kafka.new_topic(), "topic_kill"
    client, db = clickhouse.client(engine.url), Database(server, name)
    client.command(f"CREATE DATABASE {name}")
    environ = {
        "PENSTOCK__POSTGRES_SINK__PORT": str(server.port),
        "PENSTOCK__POSTGRES_SINK__USER": dev_postgres.USER,
        "PENSTOCK__POSTGRES_SINK__PASS": dev_postgres.PASSWORD,
        "PENSTOCK__CLICKHOUSE_SINK__URL": engine.url,
        "PENSTOCK__CLICKHOUSE_SINK__DATABASE": name,
        "PENSTOCK__KAFKA_SOURCE__BROKERS": cluster.servers,
    }
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    KafkaAdmin(cluster).create(topic, 2, 1, {})
    kafka.produce(cluster, topic, *({"id": number} for number in range(800)))
    running = Running(tmp_path, spark, "pipeline.yml")
    running.write({"pipeline.yml": FROM_A_TOPIC.format(topic=topic, name=name), "kill.py": KILL_BEFORE_THE_COMMIT})
    _killed(tmp_path)

    def ids() -> tuple[list[int], list[int]]:
        found = client.query(f"SELECT id FROM {name}.kept ORDER BY id").result_rows
        return sorted(row["id"] for row in db.rows("kept")), [number for (number,) in found]

    for query, found in zip(("numbers", "clickhouse"), ids(), strict=True):
        assert 300 < len(found) <= 600
        assert last_number(running.place.checkpoint(query) / "commits") == 0
    kafka.produce(cluster, topic, *({"id": number} for number in range(800, 1000)))
    running.run()
    assert ids() == (list(IDS), list(IDS))


def _killed(folder: Path) -> str:
    """Run the pipeline in a process of its own, which kills itself; what it has printed until then."""
    with (folder / "out.txt").open("w+") as out, (folder / "err.txt").open("w") as err:
        command = [sys.executable, "kill.py", "run", "pipeline.yml"]
        ended = subprocess.run(command, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL, timeout=300)
        out.seek(0)
        assert ended.returncode == -signal.SIGKILL, (folder / "err.txt").read_text()
        return out.read()


def _ids(folder: Path) -> list[int]:
    files = folder.glob("*-*/part-*.json")
    return [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]
