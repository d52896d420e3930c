"""How far queries are behind, as `status --lag` says it and as everybody else sees it: by groups of consumers."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.plan.deployed.state import record_progress
from penstock.workflow.stages import check
from tests.services.kafka import Broker, new_topic, produce
from tests.spark.running import Running

PROJECT = """
project: {{name: behind}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - {{name: events, topic: {topic}, columns: [{{name: id, type: BIGINT}}]}}
models:
  - {{name: {topic}-out, sql: 'SELECT id FROM {{{{ source("events") }}}}'}}
"""
PIPELINE = """
sources:
  here: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64}}}}
  there: {{type: kafka, topic: {topic}.there, data_format: json, schema: {{id: int64}}, starting_offsets: {begins}}}
transforms:
  both: {{type: sql, primary_key: id, sql: SELECT id FROM here UNION ALL SELECT id FROM there}}
sinks:
  out: {{type: blackhole, from: both}}
"""


@pytest.fixture
def topic(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    name = new_topic()
    KafkaAdmin(broker.plain).create(name, 2, 1, {})
    KafkaAdmin(broker.plain).create(f"{name}.there", 1, 1, {})
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__BROKERS", broker.plain.servers)
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__CONSUMER_GROUP_ID", name)
    return name


def ran(running: Running) -> None:
    """Run, and write down how far it is where `status` looks for it, as the command does."""
    progress = {name: row.to_json() for name, row in running.run().items()}
    checked = check(running.root / running.entry)
    record_progress(checked.store, checked.place, {}, progress)


def status(running: Running, *options: str) -> str:
    told = CliRunner().invoke(app, ["status", str(running.root / running.entry), "--lag", *options])
    assert told.exit_code == 0, told.output
    return told.stdout


def lag(running: Running) -> list[dict[str, Any]]:
    (query,) = json.loads(status(running, "--format", "json"))["queries"]
    found: list[dict[str, Any]] = query["lag"]
    return found


def numbers(running: Running) -> dict[tuple[str, int], tuple[int | None, int, int]]:
    return {(p["topic"], p["partition"]): (p["position"], p["end"], p["records"]) for p in lag(running)}


def seen_by_others(broker: Broker, group: str) -> dict[tuple[str, int], int]:
    """What `kafka-consumer-groups --describe` asks for."""
    client = AdminClient(broker.plain.librdkafka_settings())
    (asked,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(place.topic, place.partition): place.offset for place in asked.result(30).topic_partitions}


def test_a_project_is_behind_in_records_and_in_seconds(running: Running, broker: Broker, topic: str) -> None:
    running.write({"stream_project.yml": PROJECT.format(servers=broker.plain.servers, topic=topic)})
    produce(broker.plain, topic, {"id": 1}, {"id": 2}, partition=0)
    produce(broker.plain, topic, {"id": 3}, partition=1)
    ran(running)
    assert seen_by_others(broker, f"penstock-behind-{topic}-out") == {(topic, 0): 2, (topic, 1): 1}
    assert numbers(running) == {(topic, 0): (2, 2, 0), (topic, 1): (1, 1, 0)}
    producer = Producer(broker.plain.librdkafka_settings())
    for age_secs in (3600, 60):
        producer.produce(topic, b'{"id": 4}', partition=0, timestamp=int((time.time() - age_secs) * 1000))
    assert producer.flush(30) == 0
    first, second = lag(running)
    assert (first["position"], first["end"], first["records"], second["records"]) == (2, 4, 2, 0)
    assert first["seconds"] >= 3600
    assert second["seconds"] == 0
    lines = [line.strip() for line in status(running).splitlines()]
    assert [line.partition(", ")[0] for line in lines if "behind" in line and "/" in line] == [
        f"{topic}/0: 2 behind",
        f"{topic}/1: 0 behind",
    ]
    client = AdminClient(broker.plain.librdkafka_settings())
    client.delete_topics([topic])[topic].result(30)
    time.sleep(1)
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    produce(broker.plain, topic, {"id": 5})
    assert numbers(running) == {(topic, 0): (None, 1, 1)}


def test_every_source_of_a_pipeline_has_a_group_of_its_own(running: Running, broker: Broker, topic: str) -> None:
    found = Running(running.root, running.spark, "pipeline.yml")
    found.write({"pipeline.yml": PIPELINE.format(topic=topic, begins="latest")})
    other = f"{topic}.there"
    produce(broker.plain, other, {"id": 1}, {"id": 2})
    ran(found)
    nothing = {(topic, 0): (0, 0, 0), (topic, 1): (0, 0, 0)}
    assert numbers(found) == {**nothing, (other, 0): (2, 2, 0)}
    produce(broker.plain, other, {"id": 3})
    assert numbers(found) == {**nothing, (other, 0): (2, 3, 1)}
    produce(broker.plain, topic, {"id": 4}, partition=1)
    ran(found)
    assert seen_by_others(broker, f"{topic}-here") == {(topic, 0): 0, (topic, 1): 1}
    assert seen_by_others(broker, f"{topic}-there") == {(other, 0): 3}
    assert numbers(found) == {(topic, 0): (0, 0, 0), (topic, 1): (1, 1, 0), (other, 0): (3, 3, 0)}
