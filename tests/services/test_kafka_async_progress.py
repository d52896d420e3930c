"""Progress that is kept while a query goes on: nothing is lost by that, not even when the process is killed."""

import json
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.clients.kafka.admin import KafkaAdmin
from tests.process.cli import Inside, background, wait_until
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.live_runs import done, live
from tests.spark.running import Running

PROJECT = """
project: {{name: quick}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - {{name: {topic}, topic: {topic}, columns: [{{name: id, type: BIGINT}}, {{name: n, type: INT}}]}}
models:
  - name: {topic}-out
    key: id
    sql: SELECT id, 100 / n AS share FROM {{{{ source("{topic}") }}}}
    advanced: {{spark: {{async_progress: {wanted}}}}}
"""


@pytest.fixture
def topic(broker: Broker) -> str:
    name = new_topic()
    KafkaAdmin(broker.plain).create(name, 1, 1, {})
    return name


def text(broker: Broker, topic: str, *, wanted: bool = True) -> str:
    return PROJECT.format(servers=broker.plain.servers, topic=topic, wanted=str(wanted).lower())


def ids(broker: Broker, topic: str) -> list[int]:
    return sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out")))


def dead_letters(broker: Broker, topic: str) -> list[int]:
    """The places of the records that were kept; one may be kept again."""
    topics = KafkaAdmin(broker.plain).topics()
    kept = [name for name in (f"{topic}.errors", f"{topic}-out.errors") if name in topics]
    return sorted({int(r.headers["penstock.offset"]) for name in kept for r in consume(broker.plain, name)})


def writes_meanwhile(spark: SparkSession) -> bool:
    """Whether Spark has a thread that keeps progress beside a query."""
    jvm: Any = spark._jvm
    return any(thread.getName() == "async-log-write" for thread in jvm.java.lang.Thread.getAllStackTraces().keySet())


def told(broker: Broker, topic: str) -> int:
    return KafkaAdmin(broker.plain).committed_offsets(f"penstock-quick-{topic}-out", [topic]).get((topic, 0), 0)


def test_rows_arrive_what_is_left_out_is_kept_and_later_runs_go_on(
    running: Running, broker: Broker, topic: str
) -> None:
    running.write({"stream_project.yml": text(broker, topic)})
    live(
        running,
        done(lambda: produce(broker.plain, topic, {"id": 0, "n": 4})),
        lambda _: ids(broker, topic) == [0] and writes_meanwhile(running.spark),
        done(lambda: produce(broker.plain, topic, b"gibberish", {"id": 2, "n": 0}, {"id": 3, "n": 5})),
        lambda _: ids(broker, topic) == [0, 3],
        lambda run: dead_letters(broker, topic) == [1, 2] and run.board.snapshot()[0].rejected == 2,
        lambda _: told(broker, topic) == 4,
    )
    (mark,) = running.root.glob(".penstock/**/looked-through.json")
    assert json.loads(mark.read_text()) == {topic: {"0": 4}}
    produce(broker.plain, topic, {"id": 4, "n": 1})
    assert running.run()[f"{topic}-out"].rows_in == 1  # once, in plain batches
    running.write({"stream_project.yml": text(broker, topic, wanted=False)})
    live(
        running,
        done(lambda: produce(broker.plain, topic, {"id": 5, "n": 1})),
        lambda _: ids(broker, topic) == [0, 3, 4, 5] and not writes_meanwhile(running.spark),
    )
    running.write({"stream_project.yml": text(broker, topic)})
    live(
        running,
        done(lambda: produce(broker.plain, topic, {"id": 6, "n": 1})),
        lambda _: ids(broker, topic) == [0, 3, 4, 5, 6],
    )


def test_nothing_is_lost_when_the_process_is_killed(tmp_path: Path, broker: Broker, topic: str, inside: Inside) -> None:
    (tmp_path / "stream_project.yml").write_text(text(broker, topic), encoding="utf-8")
    for begin in (0, 400):
        with background("run", cwd=tmp_path) as process:
            _send(broker, topic, range(begin, begin + 20))
            wait_until(partial(_has, broker, topic, begin), "the first rows of a run")
            for place in range(begin + 20, begin + 400, 20):
                _send(broker, topic, range(place, place + 20))
            process.send_signal(signal.SIGKILL)
            process.wait()
    ended = inside("run", "--once", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    failing = [n for n in range(800) if n % 100 == 7]
    assert sorted(set(ids(broker, topic))) == [n for n in range(800) if n not in failing]
    assert dead_letters(broker, topic) == failing


def _send(broker: Broker, topic: str, numbers: Iterable[int]) -> None:
    produce(broker.plain, topic, *({"id": n, "n": 0 if n % 100 == 7 else 1} for n in numbers))


def _has(broker: Broker, topic: str, number: int) -> bool:
    return f"{topic}-out" in KafkaAdmin(broker.plain).topics() and number in ids(broker, topic)
