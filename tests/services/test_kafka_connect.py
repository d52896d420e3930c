"""Connectors of a real Kafka Connect: made, changed, restarted and taken away by the steps of a plan."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka_connect import Connect
from penstock.dev import connect as dev_connect
from penstock.dev import postgres as dev_postgres
from penstock.dev import processes
from penstock.errors import PlanRefused, ServiceError
from penstock.plan.explain import explain
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.kafka import Broker, delete_all, new_topic, produce
from tests.services.postgres import Database
from tests.spark.running import Running

PROJECT = """
project: {{name: out}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  connect: {{default: main, clusters: {{main: {{rest_url: "{url}"}}}}}}
sources:
  - {{name: people, topic: {topic}, columns: [{{name: id, type: BIGINT}}]}}
models:
{models}
"""
SINK = """
  - name: {topic}-to-postgres
    from: {{source: people}}
    advanced:
      connector:
        type: io.debezium.connector.jdbc.JdbcSinkConnector
        tasks_max: 1
        config:
          connection.url: {database}
          connection.username: {user}
          connection.password: ${{PG_PASSWORD}}
          insert.mode: upsert
          primary.key.mode: record_value
          primary.key.fields: id
          schema.evolution: basic
          collection.name.format: {table}
          key.converter: org.apache.kafka.connect.storage.StringConverter
          value.converter: org.apache.kafka.connect.json.JsonConverter
          value.converter.schemas.enable: true
"""
COLUMNS = [{"field": "id", "type": "int64"}, {"field": "name", "type": "string", "optional": True}]


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    home = tmp_path_factory.mktemp("connect")
    try:
        yield Connect(str(dev_connect.up(home, broker.plain.servers).about["url"]))
    finally:
        processes.stop(home)


class Given:
    """A project whose one model is a connector into a table."""

    def __init__(self, running: Running, broker: Broker, worker: Connect, database: Database) -> None:
        self.running = running
        self.broker = broker
        self.worker = worker
        self.topic = new_topic()
        self.table = self.topic.replace("-", "_")
        self.name = f"{self.topic}-to-postgres"
        self.sink = SINK.format(topic=self.topic, table=self.table, database=database.url, user=dev_postgres.USER)
        KafkaAdmin(broker.plain).create(self.topic, 1, 1, {})

    def written(self, models: str) -> "Given":
        values = {"servers": self.broker.plain.servers, "url": self.worker.url, "topic": self.topic}
        self.running.write({"stream_project.yml": PROJECT.format(**values, models=models or "  []")})
        return self

    def sent(self, *people: tuple[int, str]) -> "Given":
        schema = {"type": "struct", "name": "person", "fields": COLUMNS}
        rows: list[Any] = [{"schema": schema, "payload": {"id": number, "name": name}} for number, name in people]
        produce(self.broker.plain, self.topic, *rows)
        return self

    def steps(self) -> list[str]:
        checked = check(self.running.root)
        plan = plan_project(checked, compile_project(checked))
        if plan.refusals:
            raise PlanRefused.from_refusals(plan.refusals)
        return [str(explain(step)) for step in plan.changes]


@pytest.fixture
def given(
    running: Running, broker: Broker, worker: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Given]:
    monkeypatch.setenv("PG_PASSWORD", dev_postgres.PASSWORD)
    found = Given(running, broker, worker, database)
    yield found
    worker.delete(found.name)


def eventually(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 300
    while not true():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.5)


def test_rows_come_to_a_table_and_a_connector_lives_as_long_as_its_model(given: Given, database: Database) -> None:
    given.written(given.sink).sent((1, "Ada"), (2, "Béla"), (1, "Ada L."))
    assert given.steps() == [f"+ create connector {given.name}: Kafka Connect `main` has none"]
    given.running.run()
    eventually(lambda: database.has(given.table))
    query = f"SELECT id, name FROM {given.table} ORDER BY id"
    eventually(lambda: database.rows(query) == [("1", "Ada L."), ("2", "Béla")])
    assert given.steps() == []

    given.written(given.sink.replace("tasks_max: 1", "tasks_max: 2"))
    assert given.steps() == [f"~ change connector {given.name}: tasks.max 1 -> 2"]
    given.running.run()
    assert given.worker.connectors()[given.name].config["tasks.max"] == "2"
    assert given.steps() == []

    given.written("")
    assert given.steps() == [f"- delete connector {given.name}: no longer in the project; what it has written stays"]
    given.running.run()
    assert given.name not in given.worker.connectors()
    assert given.steps() == []
    assert database.rows(f"SELECT count(*) FROM {given.table}") == [("2",)]


def test_a_connector_that_has_failed_begins_again(given: Given, database: Database) -> None:
    given.written(given.sink)
    produce(given.broker.plain, given.topic, b"no JSON at all")
    given.running.run()
    eventually(lambda: given.worker.connectors()[given.name].failure is not None)
    (step,) = given.steps()
    assert step.startswith(f"~ restart connector {given.name}: it has failed: ")
    delete_all(given.broker.plain, given.topic)
    given.sent((1, "Ada")).running.run()
    eventually(lambda: database.has(given.table))  # its task reads on: of itself, one that has failed never does
    eventually(lambda: database.rows(f"SELECT id, name FROM {given.table}") == [("1", "Ada")])
    assert given.steps() == []


def test_a_connector_that_somebody_else_made_is_left_alone(given: Given) -> None:
    given.written(given.sink).running.run()
    config = given.worker.connectors()[given.name].config
    theirs = {**config, "tasks.max": "3"}
    given.written("").running.run()
    given.worker.put(given.name, theirs)
    given.written(given.sink)
    with pytest.raises(PlanRefused, match=r"did not create, with other settings: tasks\.max 3 -> 1") as no:
        given.steps()
    assert no.value.code == "connector-taken"
    given.written(given.sink.replace("tasks_max: 1", "tasks_max: 3"))
    assert given.steps() == []
    given.running.run()
    given.written("")
    assert given.steps() == []
    given.running.run()
    assert given.worker.connectors()[given.name].config == theirs


def test_a_secret_is_sent_and_never_shown(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    given.written(given.sink).running.run()
    assert given.worker.connectors()[given.name].config["connection.password"] == dev_postgres.PASSWORD
    monkeypatch.setenv("PG_PASSWORD", "another one")
    assert given.steps() == [f"~ change connector {given.name}: connection.password changed"]
    folder = given.running.root / ".penstock"
    kept = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"another one" not in kept
    monkeypatch.delenv("PG_PASSWORD")
    with pytest.raises(PlanRefused, match="environment variable `PG_PASSWORD` is not set"):
        given.steps()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("insert.mode: upsert", "errors.tolerance: ${PG_PASSWORD}", r"errors.tolerance: Invalid value \*\*\*\* "),
        ("io.debezium.connector.jdbc.JdbcSinkConnector", "snowflake-sink", "has `com.snowflake.kafka.connector"),
    ],
)
def test_what_a_worker_does_not_take_is_refused_before_anything_is_changed(
    given: Given, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    monkeypatch.setenv("PG_PASSWORD", "no-such-mode")
    given.written(given.sink.replace(old, new))
    with pytest.raises(PlanRefused, match=said) as refused:
        given.steps()
    assert refused.value.code == "connector-refused"
    assert "no-such-mode" not in str(refused.value)
    assert given.name not in given.worker.connectors()


def test_nobody_there(given: Given) -> None:
    given.written(given.sink)
    text = (given.running.root / "stream_project.yml").read_text()
    given.running.write({"stream_project.yml": text.replace(given.worker.url, "http://127.0.0.1:9")})
    with pytest.raises(ServiceError, match=r"Kafka Connect at http://127\.0\.0\.1:9 does not answer") as failed:
        given.steps()
    assert failed.value.code == "unreachable"
    with pytest.raises(ServiceError, match="answers 404") as failed:
        given.worker.restart("nobody")
    assert failed.value.code == "connect-failed"
