"""Flink as a competitor, tuned: in one JVM that stays, its connectors on the system class path, objects reused.

PyFlink cannot share an environment with us. It gets one of its own in the cache directory when it is first asked for,
which takes a few minutes and 900 MB. Nothing of it is a dependency of ours.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.clients.jvm.java import find_java
from penstock.clients.jvm.maven import Package, cache_home, fetch

VERSION = "2.3.0"
JARS = (
    Package("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2", alone=True),
    Package("org.apache.flink", "flink-sql-avro-confluent-registry", VERSION, alone=True),
)
SETTINGS = {"pipeline.object-reuse": "true"}
SOURCE = """
CREATE TABLE kafka_source ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'format' = 'avro-confluent', 'avro-confluent.url' = '{registry}'
)
"""


@dataclass(frozen=True, slots=True)
class Flink:
    """A Flink that waits for work. Topics are Avro by a registry."""

    process: "subprocess.Popen[str]"
    servers: str
    registry: str
    columns: str
    log: Path

    def run(self, topic: str, partitions: int, query: str) -> float:
        """The seconds of a query over all records of a topic, into nothing."""
        return float(self._ask(topic, partitions, timed=query))

    def count(self, topic: str, partitions: int) -> int:
        """How many records of a topic it can read."""
        return int(self._ask(topic, partitions, number="SELECT COUNT(*) FROM kafka_source"))

    def _ask(self, topic: str, partitions: int, **what: str) -> Any:
        source = SOURCE.format(columns=self.columns, topic=topic, servers=self.servers, registry=self.registry)
        asked = {"settings": {**SETTINGS, "parallelism.default": str(partitions)}, "table": source, **what}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"Flink has failed:\n{self.log.read_text(encoding='utf-8')[-3000:]}")
        return json.loads(answer)


@contextmanager
def flink(servers: str, registry: str, columns: str, folder: Path) -> Iterator[Flink]:
    """A Flink that ends with the block. `columns` are those of every topic, in its own words."""
    log = folder / "flink.log"
    environ = {**os.environ, "JAVA_HOME": str(find_java().home), "FLINK_LOG_DIR": str(folder)}
    environ.pop("PYTHONPATH", None)  # what is ours is not for its Python
    with log.open("w") as sink:
        process = subprocess.Popen(
            [python(), Path(__file__).with_name("flink_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            env=environ,
        )
    try:
        yield Flink(process, servers, registry, columns, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def python() -> Path:
    """The Python that has PyFlink, with the connectors where Flink's own libraries are."""
    home = cache_home() / "bench" / f"flink-{VERSION}"
    found = home / "bin" / "python"
    ready = home / "ready"
    if not ready.is_file():
        print(f"PyFlink {VERSION} is fetched …", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([found, "-m", "pip", "install", "-q", f"apache-flink=={VERSION}"], check=True)
        (libraries,) = home.glob("lib/python*/site-packages/pyflink/lib")
        for jar in fetch(JARS):
            shutil.copy(jar, libraries)
        ready.touch()
    return found
