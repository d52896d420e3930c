"""A run into every sink at once that is killed: in the middle of a batch, and between the write and the commit."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.connectors.registry import BUILT_INS, find_sink
from penstock.dev import postgres as dev_postgres
from tests.contract.subjects import Database, parsed
from tests.endpoint import endpoint
from tests.services import clickhouse, kafka

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
import os, signal, sys
from penstock.cli.main import main
from penstock.clients.clickhouse import tables
from penstock.runtime.writing import Writing

moment = sys.argv.pop(1)

def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def writes_and_dies(*batch):
    write(*batch)
    dies()

if moment == "before ClickHouse notes the batch":
    tables.note_written = dies
elif moment == "before Spark commits the batch":
    write, Writing.__call__ = Writing.__call__, writes_and_dies
main()
"""


def test_a_run_that_is_killed_and_goes_on_leaves_every_row(tmp_path: Path, service: Callable[[str], Any]) -> None:
    server, engine, broker = service("postgres"), service("clickhouse"), service("kafka")
    cluster, topic = KafkaCluster(f"127.0.0.1:{broker.port}"), kafka.new_topic()
    with endpoint() as hook:
        login = {"user": dev_postgres.USER, "password": dev_postgres.PASSWORD}
        text = PIPELINE.format(url=hook.url, topic=topic, port=server.port, **login)
        (tmp_path / "pipeline.yml").write_text(text)
        (tmp_path / "kill.py").write_text(KILL)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "1.json").write_text("".join(f'{{"id": {n}}}\n' for n in IDS))
        client = clickhouse.client(engine.url)
        client.command("CREATE DATABASE kill")
        environ = {
            "PENSTOCK__POSTGRES_SINK__PORT": str(server.port),
            "PENSTOCK__POSTGRES_SINK__USER": login["user"],
            "PENSTOCK__POSTGRES_SINK__PASS": login["password"],
            "PENSTOCK__CLICKHOUSE_SINK__URL": engine.url,
            "PENSTOCK__CLICKHOUSE_SINK__DATABASE": "kill",
            "PENSTOCK__KAFKA_SINK__BROKERS": cluster.servers,
        }
        printed = ""
        for moment in ("before ClickHouse notes the batch", "before Spark commits the batch", "never"):
            command = [sys.executable, "kill.py", moment, "run", "pipeline.yml"]
            with (tmp_path / "out.txt").open("w+") as out, (tmp_path / "err.txt").open("w") as err:
                ended = subprocess.run(
                    command, cwd=tmp_path, env={**os.environ, **environ}, stdout=out, stderr=err, timeout=180
                )
                out.seek(0)
                printed += out.read()
            assert ended.returncode == (0 if moment == "never" else -signal.SIGKILL), (tmp_path / "err.txt").read_text()
            if moment == "before ClickHouse notes the batch":
                assert client.query("SELECT count() FROM kill.kept").result_rows == [(len(IDS),)]
                assert topic not in KafkaAdmin(cluster).topics() or not kafka.consume(cluster, topic)
        hooked = hook.taken
    db = Database(server, "kill")
    found = {
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
            for file in (tmp_path / "topics").rglob("*-*/part-*.parquet")
            if "_staging" not in file.parts
            for row in pq.read_table(file).to_pylist()
        ],
    }
    for name, ids in found.items():
        model = find_sink(name)
        assert model is not None
        once = "a_replayed_batch_leaves_no_duplicates" not in model.waives
        assert (sorted(ids) if once else sorted(set(ids))) == list(IDS), name
    assert set(Counter(found["print"]).values()) == {3}
    keys = Counter(request.headers["Idempotency-Key"] for request in hooked)
    assert set(keys.values()) == {3}, "a request that is sent again has the same key"
    waived = {b.type for b in BUILT_INS if b.role == "sink" and LINE in find_sink(b.type).waives}  # type: ignore[union-attr]
    assert {b.type for b in BUILT_INS if b.role == "sink"} == found.keys() | waived


def _ids(folder: Path) -> list[int]:
    files = folder.glob("*-*/part-*.json")
    return [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]
