"""Sources of a project with a key on a real Kafka: tables of latest rows, from which tombstones delete."""

import json
from typing import Any

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.registry.client import Registry
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check
from tests.services.kafka import Broker, Record, consume, new_topic, produce
from tests.services.test_kafka_avro import FIRST, value
from tests.spark.running import Running

PROJECT = """
project: {{name: p}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  schema_registry: {{url: "{registry}"}}
sources:
  - name: names
    topic: {topic}
    key: id
    {schema}
models:
  - name: {topic}-count
    sql: SELECT name, COUNT(*) AS n FROM {{{{ source("names") }}}} GROUP BY name
  - name: {topic}-long
    sql: SELECT id, name FROM {{{{ source("names") }}}} WHERE LENGTH(name) > 1
"""
SCHEMAS = {
    "json": "columns: [{name: id, type: BIGINT}, {name: name, type: STRING}]",
    "avro": "schema: {registry: confluent, format: avro}",
}


def latest(records: list[Record], key: str) -> dict[Any, dict[str, Any]]:
    """The rows that a reader of changes is left with."""
    found: dict[Any, dict[str, Any]] = {}
    for record in records:
        row = json.loads(record.value or b"")
        if record.headers["dbz.op"] == "d":
            found.pop(row[key], None)
        else:
            found[row[key]] = row
    return found


@pytest.mark.parametrize("form", ["json", "avro"])
def test_a_tombstone_deletes_the_row_of_its_key(form: str, running: Running, broker: Broker, registry: str) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {"cleanup.policy": "compact"})
    number = Registry([registry]).register(f"{topic}-value", json.dumps(FIRST)) if form == "avro" else 0
    text = PROJECT.format(servers=broker.plain.servers, registry=registry, topic=topic, schema=SCHEMAS[form])
    running.write({"stream_project.yml": text})

    def put(id: int, name: str | None) -> tuple[str, Any]:
        row = value(number, id, name) if form == "avro" else {"id": id, "name": name}
        return str(id), None if name is None else row

    def counts() -> dict[str, int]:
        found = latest(consume(broker.plain, f"{topic}-count"), "name")
        return {name: row["n"] for name, row in found.items()}

    produce(broker.plain, topic, put(1, "ab"), put(2, "ab"), put(3, "c"), put(3, "de"))
    running.run()
    assert counts() == {"ab": 2, "de": 1}
    produce(broker.plain, topic, put(1, None), put(2, "x"), ("no number", None), put(4, None))
    running.run()
    assert counts() == {"x": 1, "de": 1}
    assert latest(consume(broker.plain, f"{topic}-long"), "id") == {3: {"id": 3, "name": "de"}}
    assert {dead_letter.code for dead_letter in pending_dead_letters(check(running.root), None)} == {"key-unreadable"}
