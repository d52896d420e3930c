"""A Spark cluster: a real standalone master with two workers, each a process of its own."""

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from penstock.clients.java import find_java
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
      spark.pyspark.python: {python}
sources:
  - {{name: events, topic: {topic}, columns: [{{name: id, type: BIGINT}}, {{name: kind, type: STRING}}]}}
models:
  - {{name: {topic}-even, sql: 'SELECT id, kind FROM {{{{ source("events") }}}} WHERE MOD(id, 2) = 0'}}
  - {{name: {topic}-kinds, sql: 'SELECT kind, COUNT(*) AS n FROM {{{{ ref("{topic}-even") }}}} GROUP BY kind'}}
"""


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[None]:
    """A class of Spark's as a process, which ends with the block. It finds nothing of ours but what it is sent."""
    home = Path(pyspark.__file__).parent
    environ = {"PATH": os.environ["PATH"], "SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home)}
    with log.open("wb") as output:
        command = [str(home / "bin" / "spark-class"), *arguments]
        started = subprocess.Popen(command, stdout=output, stderr=output, env=environ, cwd=log.parent)
        try:
            yield
        finally:
            started.terminate()
            started.wait(timeout=30)


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


def without_penstock(folder: Path) -> Path:
    """A Python that has every package but ours: it does not look at the note that says where ours is."""
    wrapper = folder / "python"
    packages = sysconfig.get_path("purelib")
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    wrapper.chmod(0o755)
    asked = subprocess.run([wrapper, "-c", "import pyspark, penstock"], capture_output=True, text=True, check=False)
    assert "No module named 'penstock'" in asked.stderr
    return wrapper


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
    project.mkdir()
    python = without_penstock(tmp_path)
    text = PROJECT.format(servers=broker.plain.servers, master=master[0], topic=topic, python=python)
    (project / "stream_project.yml").write_text(text, encoding="utf-8")
    ended = penstock("run", "--once", cwd=project, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}-even"))) == list(range(0, 600, 2))
    counts = {row["kind"]: row["n"] for row in rows_of(consume(broker.plain, f"{topic}-kinds"))}
    assert counts == {"a": 100, "b": 100, "c": 100}
    for number in range(2):
        assert list((tmp_path / f"worker-{number}").glob("app-*/*/stderr")), "both workers have had work"
