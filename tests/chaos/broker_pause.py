"""Let a broker stand still while a project reads and writes it with the timeouts that everybody has, then count.

    python tests/chaos/broker_pause.py [--seconds 60]

A producer goes on sending ids meanwhile. When the broker goes on, every id must come out, and none twice, unless a
batch was interrupted: the sink writes at least once. Exits 1 when that is not so.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka.record_reader import read_records
from penstock.dev import kafka as dev_kafka
from penstock.dev import processes

PENSTOCK = str(Path(sys.executable).parent / "penstock")
PROJECT = """
project: {{name: pause}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - {{name: events, topic: events, columns: [{{name: id, type: BIGINT}}]}}
models:
  - {{name: seen, sql: 'SELECT id FROM {{{{ source("events") }}}}'}}
"""


class Sending:
    """Sends ids, one after the other, until it is told to end."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.sent = 0
        self._thread.start()

    def _work(self) -> None:
        while not self._ending.wait(0.02):
            self._producer.produce("events", json.dumps({"id": self.sent}))
            self._producer.poll(0)
            self.sent += 1

    def end(self) -> int:
        """How many were sent in all."""
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(120)
        assert left == 0, f"the broker did not take {left} ids"
        return self.sent


def status(project: Path) -> dict[str, Any]:
    told = subprocess.run([PENSTOCK, "status", "--format", "json"], cwd=project, capture_output=True, text=True)
    queries = json.loads(told.stdout)["queries"] if told.returncode == 0 else []
    return dict(queries[0]) if queries else {"state": "unknown", "rows_out": 0}


def until(true: Callable[[], bool], what: str, seconds: int = 180) -> None:
    ends = time.monotonic() + seconds
    while not true():
        if time.monotonic() > ends:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(1)


def come_out(cluster: KafkaCluster) -> Counter[int]:
    return Counter(json.loads(record.value())["id"] for record in read_records(KafkaAdmin(cluster), ["seen"]))


def stood_still(project: Path, home: Path, seconds: int) -> list[str]:
    """The states of the query while the broker stood still, and in the minute after."""
    broker = processes.find(home)
    assert broker is not None
    states: list[str] = []
    os.killpg(broker.pid, signal.SIGSTOP)
    resumes = time.monotonic() + seconds
    ends, is_still = resumes + 60, True
    while time.monotonic() < ends:
        if is_still and time.monotonic() >= resumes:
            os.killpg(broker.pid, signal.SIGCONT)
            is_still = False
        if (state := status(project)["state"]) not in states[-1:]:
            states.append(state)
        time.sleep(1)
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        project, home = Path(folder) / "project", Path(folder) / "kafka"
        cluster = KafkaCluster(str(dev_kafka.up(home).about["bootstrap_servers"]))
        runner = None
        try:
            KafkaAdmin(cluster).create("events", 2, 1, {})
            project.mkdir()
            (project / "stream_project.yml").write_text(PROJECT.format(servers=cluster.servers), encoding="utf-8")
            log = (Path(folder) / "run.log").open("w", encoding="utf-8")
            runner = subprocess.Popen([PENSTOCK, "run"], cwd=project, stdout=log, stderr=log)
            sending = Sending(cluster.servers)
            until(lambda: status(project)["rows_out"] > 500, "the project never began")
            states = stood_still(project, home, seconds)
            sent = sending.end()
            until(lambda: runner.poll() is not None or len(come_out(cluster)) >= sent, "not everything came out")
            ended = runner.poll()
            found = come_out(cluster)
        finally:
            if runner is not None and runner.poll() is None:
                runner.terminate()
                runner.wait(60)
            processes.stop(home)
        twice, missing = [i for i, times in found.items() if times > 1], sent - len(found)
        print(f"the broker stood still for {seconds} s; the query was {', then '.join(states)}")
        print(f"{sent:,} sent, {missing} missing, {len(twice)} twice")
        if ended is not None:
            print(f"the run had ended with {ended}:", (Path(folder) / "run.log").read_text(encoding="utf-8")[-2000:])
        sys.exit(0 if not missing and ended is None and (not twice or "retrying" in states) else 1)


if __name__ == "__main__":
    main()
