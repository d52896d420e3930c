"""Real-time mode: rows go through one by one, and what could not be used is kept all the same."""

import json
from pathlib import Path

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import PlanRefused, QueryFailed
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.kafka import Broker, codecs_of, consume, new_topic, produce, rows_of
from tests.services.live_runs import done, live
from tests.spark.running import Running

pytestmark = pytest.mark.as_deployed

PROJECT = """
project: {{name: quick}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - {{name: {topic}, topic: {topic}, columns: [{{name: id, type: BIGINT}}, {{name: n, type: INT}}]}}
models:
  - name: {topic}-out
    key: id
    sql: SELECT id, 100 / n AS share FROM {{{{ source("{topic}") }}}}
    advanced: {{spark: {{trigger: realtime, checkpoint_interval_ms: {interval_ms}}}}}
"""


@pytest.fixture
def topic(running: Running, broker: Broker) -> str:
    name = new_topic()
    KafkaAdmin(broker.plain).create(name, 1, 1, {})
    written(running, broker, name)
    return name


def written(running: Running, broker: Broker, topic: str, interval_ms: int = 5000) -> Running:
    text = PROJECT.format(servers=broker.plain.servers, topic=topic, interval_ms=interval_ms)
    return running.write({"stream_project.yml": text})


def out(broker: Broker, topic: str) -> list[tuple[int, int]]:
    return sorted((row["id"], row["share"]) for row in rows_of(consume(broker.plain, f"{topic}-out")))


def dead_letters(broker: Broker, topic: str) -> list[str]:
    topics = KafkaAdmin(broker.plain).topics()
    kept = [name for name in (f"{topic}.errors", f"{topic}-out.errors") if name in topics]
    return sorted(r.headers["penstock.code"] for name in kept for r in consume(broker.plain, name))


def mark_of(running: Running) -> Path:
    (found,) = running.root.glob(".penstock/**/looked-through.json")
    return found


def test_rows_go_through_at_once_and_what_is_left_out_is_kept(running: Running, broker: Broker, topic: str) -> None:
    live(
        written(running, broker, topic, interval_ms=30_000),
        done(lambda: produce(broker.plain, topic, {"id": 1, "n": 4})),
        lambda run: out(broker, topic) == [(1, 25)] and not run.board.batch_count(f"{topic}-out"),
        done(lambda: produce(broker.plain, topic, b"gibberish", {"id": 2, "n": 0}, {"id": 3, "n": 5})),
        lambda _: out(broker, topic) == [(1, 25), (3, 20)],
        lambda _: dead_letters(broker, topic) == ["not-json", "row-failed"],
        lambda run: run.board.snapshot()[0].rejected == 2,
    )
    assert codecs_of(broker, f"{topic}-out") == {"none"}


def test_what_is_caught_up_at_once_is_packed(running: Running, broker: Broker, topic: str) -> None:
    produce(broker.plain, topic, {"id": 1, "n": 4})
    running.run()
    assert codecs_of(broker, f"{topic}-out") == {"lz4"}


def test_what_nobody_looked_through_is_looked_through_later(running: Running, broker: Broker, topic: str) -> None:
    live(
        running,
        done(lambda: produce(broker.plain, topic, {"id": 1, "n": 4}, b"gibberish")),
        lambda run: run.board.batch_count(f"{topic}-out") > 1 and dead_letters(broker, topic) == ["not-json"],
    )
    mark = mark_of(running)
    assert json.loads(mark.read_text()) == {topic: {"0": 2}}
    mark.write_text(json.dumps({topic: {"0": 1}}))  # as if the process had died before it looked
    produce(broker.plain, topic, {"id": 2, "n": 2}, {"id": 3, "n": 0})
    progress = running.run()[f"{topic}-out"]
    assert (progress.rows_out, progress.rejected) == (1, 1)
    assert dead_letters(broker, topic) == ["not-json", "not-json", "row-failed"]
    assert json.loads(mark.read_text()) == {topic: {"0": 4}}
    assert out(broker, topic) == [(1, 25), (2, 50)]


def test_cores_that_are_missing_are_asked_for(running: Running, broker: Broker, topic: str) -> None:
    KafkaAdmin(broker.plain).add_partitions(topic, 40)
    checked = check(running.root)
    (refusal,) = plan_project(checked, compile_project(checked)).refusals
    assert (refusal.code, refusal.params["needed"]) == ("cores-missing", "40")
    assert "40 partitions need a core each" in refusal.message
    with pytest.raises(PlanRefused):
        live(running)
    assert plan_project(checked, compile_project(checked), once=True).refusals == ()


def test_cores_that_are_missing_for_partitions_that_were_added_stop_the_query(
    running: Running, broker: Broker, topic: str
) -> None:
    with pytest.raises(QueryFailed, match="40 partitions need a core each") as failed:
        live(
            running,
            done(lambda: produce(broker.plain, topic, {"id": 1, "n": 4})),
            lambda _: out(broker, topic) == [(1, 25)],
            done(lambda: KafkaAdmin(broker.plain).add_partitions(topic, 40)),
            lambda run: run.board.snapshot()[0].state == "failed",
        )
    assert failed.value.code == "cores-missing"
