"""A real schema registry: columns that a project does not declare are asked of it, schemas are registered in it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.registry.client import Registry
from penstock.errors import ProjectInvalid, ServiceError
from penstock.graph.external_schemas import CACHE_FILE
from penstock.manifest.model import Step
from penstock.plan.explain import explain
from penstock.plan.steps import Plan, PutSchema
from penstock.sql.types.columns import Column
from penstock.workflow.stages import Target, check, compile_project, plan_project
from tests.services import registry as registries
from tests.services.kafka import Broker, new_topic
from tests.spark.running import Running
from tests.support import only, write

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
CUSTOMER = {"type": "object", "properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}


@pytest.fixture(scope="module")
def address(registry: str) -> str:
    registries.register(registry, "orders-value", ORDER)
    registries.register(registry, "customers-value", CUSTOMER, "JSON")
    return registry


def _project(root: Path, address: str, sql: str = "SELECT order_id, amount FROM {{ source('orders') }}") -> Target:
    text = f"""
    project: {{name: shop}}
    runtime: {{schema_registry: {{url: "{address}"}}}}
    sources:
      - {{name: orders, topic: orders, schema: {{registry: confluent}}}}
      - {{name: customers, topic: c, schema: {{subject: customers-value, version: 1}}}}
    models:
      - {{name: m, sql: "{sql}"}}
    """
    write(root, {"stream_project.yml": text})
    return Target(root, ask_registry=True)


def test_the_columns_of_a_referenced_schema_are_asked_for_and_remembered(tmp_path: Path, address: str) -> None:
    graph = check(_project(tmp_path, address)).graph
    assert graph["source.orders"].columns == (
        Column("order_id", "BIGINT"),
        Column("amount", "DECIMAL(10, 2)"),
        Column("note", "STRING"),
        Column("at", "TIMESTAMP"),
    )
    assert graph["source.customers"].columns == (Column("id", "BIGINT"), Column("email", "STRING"))
    assert graph["model.m"].columns == (Column("order_id", "BIGINT"), Column("amount", "DECIMAL(10, 2)"))
    later = _project(tmp_path, "http://127.0.0.1:1", "SELECT order_id, amuont FROM {{ source('orders') }}")
    with pytest.raises(ProjectInvalid) as invalid:
        check(Target(later.path))
    assert only(invalid.value.diagnostics).hint == "did you mean `amount`?"


def test_a_subject_that_is_not_there_is_a_mistake_at_its_place(tmp_path: Path, address: str) -> None:
    text = f"""
    project: {{name: shop}}
    runtime: {{schema_registry: {{url: "{address}"}}}}
    sources:
      - name: orders
        topic: orders
        schema: {{subject: gone-value}}
    """
    write(tmp_path, {"stream_project.yml": text})
    with pytest.raises(ProjectInvalid) as invalid:
        check(Target(tmp_path, ask_registry=True))
    found = only(invalid.value.diagnostics)
    assert (found.code, found.params) == ("schema-unknown", {"subject": "gone-value"})
    assert found.origin is not None
    assert found.origin.line == 6


def test_declared_columns_are_held_against_the_schema(tmp_path: Path, address: str) -> None:
    text = f"""
    project: {{name: shop}}
    runtime: {{schema_registry: {{url: ["http://127.0.0.1:1", "{address}"]}}}}
    sources:
      - name: orders
        topic: orders
        schema: {{registry: confluent}}
        columns: [{{name: order_id, type: BIGINT}}, {{name: ammount}}]
    """
    write(tmp_path, {"stream_project.yml": text})
    with pytest.raises(ProjectInvalid) as invalid:
        check(Target(tmp_path, ask_registry=True))
    found = only(invalid.value.diagnostics)
    assert (found.code, found.params) == ("contract-broken", {"column": "ammount"})


def test_a_registry_that_does_not_answer_is_said_and_nobody_asks_it_by_default(tmp_path: Path) -> None:
    wanted = _project(tmp_path, "http://127.0.0.1:1")
    assert check(Target(wanted.path)).graph["source.orders"].columns is None
    with pytest.raises(ServiceError) as error:
        check(wanted)
    assert error.value.code == "unreachable"


# Schemas that a project writes out

WRITTEN = """
project: {{name: shop}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}, schema_registry: {{url: "{address}"}}}}
sources:
  - name: orders
    topic: {topic}
    schema: {{format: avro, compatibility: {level}, definition: '{definition}'}}
models:
  - {{name: {topic}-out, sql: 'SELECT order_id FROM {{{{ source("orders") }}}}'}}
"""


class Shop:
    """A project with the schema of a source in it."""

    def __init__(self, running: Running, broker: Broker, address: str) -> None:
        self.running = running
        self.values = {"servers": broker.plain.servers, "address": address, "topic": new_topic()}
        self.subject = f"{self.values['topic']}-value"
        KafkaAdmin(broker.plain).create(self.values["topic"], 1, 1, {})

    def written(self, *fields: Mapping[str, Any], level: str = "backward") -> "Shop":
        definition = json.dumps({"type": "record", "name": "Order", "fields": fields})
        text = WRITTEN.format(**self.values, level=level, definition=definition)
        self.running.write({"stream_project.yml": text})
        return self

    def plan(self) -> Plan:
        checked = check(self.running.root)
        return plan_project(checked, compile_project(checked))

    def steps(self) -> list[str]:
        return [str(explain(step)) for step in self.plan().steps if isinstance(step, PutSchema)]


ID, AMOUNT = {"name": "order_id", "type": "long"}, {"name": "amount", "type": "double"}


@pytest.fixture
def shop(running: Running, broker: Broker, address: str) -> Shop:
    return Shop(running, broker, address)


def test_a_schema_is_registered_and_changed_as_far_as_its_subject_allows(shop: Shop, address: str) -> None:
    assert shop.written(ID, AMOUNT).steps() == [f"+ register schema {shop.subject}: the registry has no such subject"]
    shop.running.run()
    asked = Registry([address])
    assert asked.compatibility(shop.subject) == "BACKWARD"
    assert shop.steps() == []

    more = {"name": "note", "type": ["null", "string"], "default": None}
    assert shop.written(ID, AMOUNT, more).steps() == [f"~ change schema {shop.subject}: `note` is new"]
    shop.running.run()
    assert len(asked.versions(shop.subject)) == 2
    assert shop.steps() == []

    (refusal,) = shop.written(ID, AMOUNT, more, {"name": "due", "type": "long"}).plan().refusals
    assert refusal.code == "schema-incompatible"
    assert "cannot change like this: `due` is new" in refusal.message
    assert f"It is read by `{shop.values['topic']}-out`" in refusal.message
    (refusal,) = shop.written({**ID, "type": "string"}, AMOUNT, more).plan().refusals
    assert "`order_id` BIGINT -> STRING" in refusal.message
    assert len(asked.versions(shop.subject)) == 2

    loose = shop.written({**ID, "type": "string"}, AMOUNT, more, level="none")
    assert loose.plan().refusals == ()
    assert loose.steps() == [
        f"~ change schema {shop.subject}: `order_id` BIGINT -> STRING, compatibility BACKWARD -> NONE"
    ]
    shop.running.run()
    assert len(asked.versions(shop.subject)) == 3


def test_types_of_the_registry_are_known_to_every_run(tmp_path: Path, address: str) -> None:
    wanted = replace(
        _project(tmp_path, address, "SELECT order_id / 2 AS half FROM {{ source('orders') }}"),
        ask_registry=False,
        ask_read=True,
    )
    (step,) = compile_project(check(wanted)).query("m").steps
    assert isinstance(step, Step)
    assert "DIV 2" in step.sql
    (tmp_path / CACHE_FILE).unlink()
    assert "DIV 2" in str(compile_project(check(wanted)).query("m").steps)


def test_a_source_that_nobody_reads_is_not_asked_about(tmp_path: Path, address: str) -> None:
    wanted = replace(_project(tmp_path, address), ask_registry=False, ask_read=True)
    text = (tmp_path / "stream_project.yml").read_text(encoding="utf-8")
    write(tmp_path, {"stream_project.yml": text.replace("customers-value", "nowhere-value")})
    assert check(wanted).notes == ()


def test_columns_without_types_have_those_of_the_registry(tmp_path: Path, address: str) -> None:
    wanted = _project(tmp_path, address, "SELECT note, SUM(amount) AS total FROM {{ source('orders') }} GROUP BY note")
    text = (tmp_path / "stream_project.yml").read_text(encoding="utf-8")
    described = "schema: {registry: confluent}, columns: [{name: order_id, description: x}, {name: amount}]"
    write(tmp_path, {"stream_project.yml": text.replace("schema: {registry: confluent}", described)})
    graph = check(wanted).graph
    assert [c.name for c in graph["source.orders"].columns or ()] == ["order_id", "amount", "note", "at"]
