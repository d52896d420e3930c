"""Models whose records are Avro: their schema is registered by the plan, and held to what readers can take."""

import json

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.registry.client import Registry
from penstock.errors import PlanRefused, ProjectInvalid
from penstock.plan.steps import PutSchema
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.spark.running import Running

PROJECT = """
project: {{name: shop}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  schema_registry: {{url: "{registry}"}}
sources:
  - name: orders
    topic: {topic}
    columns:
      - {{name: id, type: BIGINT}}
      - {{name: country, type: STRING}}
      - {{name: amount, type: "DECIMAL(10, 2)"}}
models:
  - name: large
    key: id
    schema: {{format: avro, compatibility: BACKWARD}}
    sql: {sql}
    advanced: {{topic: {{name: {topic}.large}}}}
  - name: per_country
    schema: {{format: avro}}
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{{{ ref("large") }}}} GROUP BY country
    advanced: {{topic: {{name: {topic}.per_country}}}}
  - name: shown
    sql: SELECT country, n, total FROM {{{{ ref("per_country") }}}}
    advanced: {{topic: {{name: {topic}.shown}}}}
"""
LARGE = 'SELECT id, country, amount FROM {{ source("orders") }} WHERE amount > 10'


class Shop:
    def __init__(self, running: Running, broker: Broker, registry: str) -> None:
        self.running, self.broker, self.registry = running, broker, registry
        self.topic = new_topic()
        KafkaAdmin(broker.plain).create(self.topic, 1, 1, {})

    def written(self, sql: str = LARGE) -> "Shop":
        text = PROJECT.format(servers=self.broker.plain.servers, registry=self.registry, topic=self.topic, sql=sql)
        self.running.write({"stream_project.yml": text})
        return self

    def put(self) -> list[PutSchema]:
        checked = check(self.running.root)
        return [step for step in plan_project(checked, compile_project(checked)).steps if isinstance(step, PutSchema)]


@pytest.fixture
def shop(running: Running, broker: Broker, registry: str) -> Shop:
    return Shop(running, broker, registry)


def test_models_write_and_read_avro_by_a_schema_that_the_plan_registers(shop: Shop) -> None:
    shop.written()
    assert [step.schema.subject for step in shop.put()] == [
        f"{shop.topic}.large-value",
        f"{shop.topic}.per_country-value",
    ]
    orders = [(1, "DE", 5), (2, "DE", 20), (3, "FR", "30.50")]
    produce(shop.broker.plain, shop.topic, *({"id": i, "country": c, "amount": a} for i, c, a in orders))
    shop.running.run()
    assert shop.put() == []
    registered = json.loads(Registry((shop.registry,)).newest(f"{shop.topic}.large-value") or "")
    assert [field["name"] for field in registered["fields"]] == ["id", "country", "amount"]
    assert json.loads(registered["doc"]) == {"primaryKeys": ["id"]}
    assert Registry((shop.registry,)).compatibility(f"{shop.topic}.large-value") == "BACKWARD"
    (first, *_) = consume(shop.broker.plain, f"{shop.topic}.large")
    assert (first.value or b"")[:1] == b"\x00"
    shown = rows_of(consume(shop.broker.plain, f"{shop.topic}.shown"))
    assert {(row["country"], row["n"], float(row["total"])) for row in shown} == {("DE", 1, 20.0), ("FR", 1, 30.5)}


def test_a_change_that_would_break_readers_is_refused_with_the_field_and_the_readers(shop: Shop) -> None:
    shop.written().running.run()
    shop.written(LARGE.replace("country, amount", "country, CAST(amount AS DOUBLE) AS amount"))
    with pytest.raises(PlanRefused) as caught:
        shop.running.run(allow_rebuild=["large", "per_country"])
    (refusal,) = (r for r in caught.value.refusals if r.code == "schema-incompatible")
    assert "-> DOUBLE" in refusal.message
    assert "`per_country`" in refusal.message
    shop.written(LARGE.replace("country, amount", "country, amount, CAST(amount * 2 AS DOUBLE) AS twice"))
    (step,) = shop.put()
    assert "`twice` is new" in step.reason


def test_a_model_in_avro_needs_a_registry_and_names_that_avro_takes(shop: Shop) -> None:
    shop.written(LARGE.replace("country, amount", "country, amount, amount AS `so much`"))
    main = shop.running.root / "stream_project.yml"
    lines = [line for line in main.read_text().splitlines() if "schema_registry" not in line]
    main.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ProjectInvalid) as caught:
        check(shop.running.root)
    codes = {d.code for d in caught.value.diagnostics}
    assert {"missing-field", "schema-unknown"} <= codes
    assert "`so much` cannot be the name of a field in Avro" in str(caught.value)
