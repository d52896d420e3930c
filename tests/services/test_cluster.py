"""A Spark cluster: a real standalone master with two workers, each a process of its own."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from penstock.clients.jvm.java import find_java
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.dev.processes import free_port
from tests.process.cli import penstock, wait_until
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of

PROJECT = """
project: {{name: far}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  spark:
    master: {master}
    config:
      spark.executor.memory: 1g
      spark.driver.host: 127.0.0.1
      spark.sql.shuffle.partitions: 2
      spark.cores.max: 2
      spark.scheduler.minRegisteredResourcesRatio: 1
      spark.scheduler.maxRegisteredResourcesWaitingTime: 300s
      spark.archives: packed.tar.gz#env
      spark.pyspark.python: ./env/bin/python
      spark.eventLog.enabled: true
      spark.eventLog.dir: {events}
      spark.eventLog.compress: false
      spark.eventLog.rolling.enabled: false
sources:
  - {{name: events, topic: {topic}, columns: [{{name: id, type: BIGINT}}, {{name: kind, type: STRING}}]}}
models:
  - name: {topic}-even
    key: id
    sql: SELECT id, kind FROM {{{{ source("events") }}}} WHERE MOD(id, 2) = 0
    advanced: {{topic: {{partitions: 2}}}}
  - {{name: {topic}-kinds, sql: 'SELECT kind, COUNT(*) AS n FROM {{{{ ref("{topic}-even") }}}} GROUP BY kind'}}
  - {{name: {topic}-carried, from: {topic}-even, advanced: {{connector: {{type: courier, config: {{to: {to}}}}}}}}}
"""
CARRYING = """
import uuid


def carry(rows, to):
    found = [f"{__file__} {row['id']}" for row in rows]
    with open(f"{to}/{uuid.uuid4()}", "w") as file:
        file.write("\\n".join(found))
    yield len(found)
"""
COURIER = """
from functools import partial
from typing import Literal

from penstock.connectors.contract import Sink, WriteResult


class CourierSink(Sink):
    type: Literal["courier"] = "courier"
    delivery = "at least once"
    to: str

    def write(self, batch, ref, keep=None):
        from carrying import carry

        return WriteResult(batch.rdd.mapPartitions(partial(carry, to=self.to)).sum())
"""


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[None]:
    """A class of Spark's as a process, which ends with the block. It finds nothing of ours but what it is sent."""
    home = Path(pyspark.__file__).parent
    environ = {"PATH": os.environ["PATH"], "SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home)}
    environ |= {name: os.environ[name] for name in ("JAVA_TOOL_OPTIONS",) if name in os.environ}
    with log.open("wb") as output:
        command = [str(home / "bin" / "spark-class"), *arguments]
        started = subprocess.Popen(command, stdout=output, stderr=output, env=environ, cwd=log.parent)
        try:
            yield
        finally:
            started.terminate()
            started.wait(timeout=120)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where programs are sent, and where the master tells what it has."""
    port, shown = free_port(), free_port()
    address, told = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{shown}/json/"
    own = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(shown))
    worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "2g")
    with ExitStack() as started:
        started.enter_context(process(tmp_path / "master.log", "org.apache.spark.deploy.master.Master", *own))
        for number in range(2):
            folder = str(tmp_path / f"worker-{number}")
            more = ("--webui-port", "0", "--work-dir", folder, address)
            started.enter_context(process(tmp_path / f"worker-{number}.log", *worker, *more))
        wait_until(lambda: alive(told) == 2, "two workers")
        yield address, told


def pack(env: Path, target: Path) -> None:
    """A Python as it would be packed: it has every package but ours, and a module that no other Python has.

    It does not look at the note that says where our package is.
    """
    (env / "bin").mkdir(parents=True)
    (env / "lib").mkdir()
    (env / "lib" / "carrying.py").write_text(CARRYING)
    wrapper, packages = env / "bin" / "python", sysconfig.get_path("purelib")
    wrapper.write_text(
        '#!/bin/sh\nlib="$(cd "$(dirname "$0")/../lib" && pwd)"\n'
        f'PYTHONPATH="$lib:{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n'
    )
    wrapper.chmod(0o755)
    asked = [wrapper, "-c", "import pyspark, carrying, penstock"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    assert "No module named 'penstock'" in ended.stderr
    with tarfile.open(target, "w:gz") as archive:
        archive.add(env, ".")


def install(folder: Path) -> Path:
    """A sink of another package, as it would be installed beside ours, with the module that it needs."""
    about = folder / "courier-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: courier\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[penstock.connectors]\nsink:courier = courier:CourierSink\n")
    (folder / "courier.py").write_text(COURIER)
    (folder / "carrying.py").write_text(CARRYING)
    return folder


def alive(told: str) -> int:
    try:
        with urllib.request.urlopen(told, timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # its pages come one after the other
        return 0


def test_a_project_runs_on_a_cluster_with_its_own_code(broker: Broker, tmp_path: Path, master: tuple[str, str]) -> None:
    topic, project = new_topic(), tmp_path / "project"
    KafkaAdmin(broker.plain).create(topic, 2, 1, {})
    produce(broker.plain, topic, *((str(n), {"id": n, "kind": "abc"[n % 3]}) for n in range(600)))
    events, carried = tmp_path / "events", tmp_path / "carried"
    for folder in (project, events, carried):
        folder.mkdir()
    pack(project / "env", project / "packed.tar.gz")
    about = {"servers": broker.plain.servers, "master": master[0], "events": events.as_uri(), "to": carried}
    (project / "stream_project.yml").write_text(PROJECT.format(topic=topic, **about), encoding="utf-8")
    known = os.pathsep.join(filter(None, (str(install(tmp_path / "installed")), os.environ.get("PYTHONPATH"))))
    ended = penstock("run", "--once", cwd=project, timeout=600, env={"PYTHONPATH": known})
    assert ended.returncode == 0, ended.stderr
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}-even"))) == list(range(0, 600, 2))
    counts = {row["kind"]: row["n"] for row in rows_of(consume(broker.plain, f"{topic}-kinds"))}
    assert counts == {"a": 100, "b": 100, "c": 100}
    assert set(tasks_done(events)) == {"0", "1"}, "both executors have done work"
    places = [line.rsplit(" ", 1) for file in carried.iterdir() for line in file.read_text().splitlines()]
    assert sorted(int(number) for _, number in places) == list(range(0, 600, 2))
    workers = {Path(place).relative_to(tmp_path).parts[0] for place, _ in places}
    assert workers == {"worker-0", "worker-1"}, "both have what was packed"


def tasks_done(events: Path) -> Counter[str]:
    """How many tasks each executor has done, by what Spark notes of a program."""
    (log,) = events.iterdir()
    noted = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    ended = [event for event in noted if event["Event"] == "SparkListenerTaskEnd"]
    return Counter(
        event["Task Info"]["Executor ID"] for event in ended if event["Task End Reason"]["Reason"] == "Success"
    )
