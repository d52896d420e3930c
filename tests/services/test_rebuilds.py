"""Rebuilds, adopted state and cleaning up beside real services: what topics and tables hold afterwards."""

import json
import uuid
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.dev import postgres as dev_postgres
from penstock.runtime.delivery.progress import QueryProgress
from penstock.workflow.stages import check
from tests.services import clickhouse
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.postgres import Database
from tests.spark.running import Running, order

SHOP = """
project: {{name: shop}}
{runtime}
sources:
  - name: orders
    topic: {orders}
    columns: [{{name: id, type: BIGINT}}, {{name: country, type: STRING}}, {{name: amount, type: DOUBLE}}]
models:
  - name: large
    key: id
    sql: SELECT id, country, amount FROM {{{{ source("orders") }}}} WHERE amount > 5
    advanced: {{topic: {{name: {orders}.large, partitions: 2, config: {{retention.ms: 3600000}}}}}}
  - name: by_country
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{{{ ref("large") }}}} GROUP BY country
    advanced: {{topic: {{name: {orders}.countries, config: {{cleanup.policy: compact}}}}}}
  - name: countries_in_a_table
    from: by_country
    key: country
    advanced:
      connector:
        type: jdbc-sink
        config:
          connection.url: {url}
          connection.user: {user}
          connection.password: ${{PG_PASSWORD}}
          table.name.format: "{table}"
          insert.mode: upsert
          pk.mode: record_key
          auto.create: true
"""
PASSING = """
  - name: passing
    sql: SELECT id FROM {{{{ source("orders") }}}}
    advanced: {{topic: {{name: {orders}.passing}}}}
"""


def run(running: Running, **options: Any) -> dict[str, QueryProgress]:
    begun = running.begun(**options)
    try:
        begun.run_once(lambda: None)
    finally:
        begun.close()
    return {row.query: row for row in begun.board.snapshot()}


def clean(running: Running, *options: str) -> list[tuple[str, str]]:
    ended = CliRunner().invoke(app, ["clean", str(running.root / running.entry), "--format", "json", *options])
    assert ended.exit_code == 0, ended.output
    return sorted((found["kind"], found["name"]) for found in json.loads(ended.stdout)["leftovers"])


def test_a_project_on_kafka_is_rebuilt_adopted_and_cleaned(
    running: Running, broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_PASSWORD", dev_postgres.PASSWORD)
    topic, admin = new_topic(), KafkaAdmin(broker.plain)
    foreign, table = f"{topic}.foreign", topic.replace("-", "_")
    for name in (topic, foreign):
        admin.create(name, 1, 1, {})
    runtime = f'runtime: {{kafka: {{bootstrap_servers: "{broker.plain.servers}"}}}}'
    about = {"orders": topic, "url": database.url, "user": dev_postgres.USER, "table": table}
    shop = SHOP.format(runtime=runtime, **about)
    running.write({"stream_project.yml": shop + PASSING.format(**about)})
    produce(broker.plain, topic, order(1), order(2), order(3, country="FR"))
    running.run()
    database.rows(f"INSERT INTO {table} (country, n, total) VALUES ('XX', 1, 1)")

    produce(broker.plain, topic, order(4))
    progress = run(running, allow_rebuild=["large"], truncate=True)
    assert {name: progress[name].rows_in for name in ("large", "by_country", "passing")} == {
        "large": 4, "by_country": 4, "passing": 1
    }  # fmt: skip
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}.large"))) == [1, 2, 3, 4]
    counts = rows_of(consume(broker.plain, f"{topic}.countries"))
    assert sorted((row["country"], row["n"]) for row in counts) == [("DE", 3), ("FR", 1)]
    assert database.rows(f"SELECT country, n FROM {table} ORDER BY 1") == [("DE", "3"), ("FR", "1")]
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}.passing"))) == [1, 2, 3, 4]
    assert (admin.topics()[f"{topic}.large"].partitions, admin.topics()[f"{topic}.countries"].partitions) == (2, 1)
    chosen = admin.chosen_config([f"{topic}.large", f"{topic}.countries"])
    assert chosen == {
        f"{topic}.large": {"retention.ms": "3600000"},
        f"{topic}.countries": {"cleanup.policy": "compact"},
    }

    running.write({"environments/local.yml": runtime + "\n"})
    running.write({"stream_project.yml": (shop + PASSING.format(**about)).replace(runtime, "")})
    assert check(running.root).adoption is not None
    produce(broker.plain, topic, order(5))
    assert {p.rows_in for p in run(running, adopts_state=True).values()} == {1}
    assert check(running.root).adoption is None
    assert database.rows(f"SELECT country, n FROM {table} ORDER BY 1") == [("DE", "4"), ("FR", "1")]

    running.write({"stream_project.yml": shop.replace(runtime, "")})
    produce(broker.plain, topic, order(6))
    running.run()
    before = {name for name in admin.topics() if name.startswith(topic)}
    left = clean(running)
    assert [found for found in left if found[0] == "kafka topic"] == [("kafka topic", f"{topic}.passing")]
    aside = {name.partition("@")[0] for kind, name in left if kind == "checkpoint"}
    assert aside == {"large", "by_country", "countries_in_a_table", "passing"}
    assert clean(running, "--remove") == left
    assert {name for name in admin.topics() if name.startswith(topic)} == before - {f"{topic}.passing"}
    assert clean(running) == []
    assert {p.rows_in for p in running.run().values()} == {0}
    assert database.rows(f"SELECT country, n FROM {table} ORDER BY 1") == [("DE", "5"), ("FR", "1")]


PIPELINE = """
sources:
  orders: {{type: kafka, topic: {topic}, data_format: json, primary_key: id, schema: {{id: int64, country: string}}}}
transforms:
  marked: {{type: sql, primary_key: id, sql: "SELECT id, upper(country) AS country FROM orders"}}
sinks:
  kept: {{type: postgres, from: marked, table: {table}, primary_key: id}}
  logged: {{type: postgres, from: marked, table: {table}_log}}
  found: {{type: clickhouse, from: marked, table: found, primary_key: id}}
"""


def test_tables_of_a_pipeline_are_emptied_before_it_is_rebuilt(
    running: Running, broker: Broker, database: Database, clickhouse_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, topic = f"r{uuid.uuid4().hex[:10]}", new_topic()
    clickhouse.client(clickhouse_url).command(f"CREATE DATABASE {own}")
    client = clickhouse.client(clickhouse_url, database=own)
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    settings = {
        "KAFKA_SOURCE__BROKERS": broker.plain.servers,
        "CLICKHOUSE_SINK__URL": clickhouse_url,
        "CLICKHOUSE_SINK__DATABASE": own,
        "POSTGRES_SINK__PORT": str(database.port),
        "POSTGRES_SINK__USER": dev_postgres.USER,
        "POSTGRES_SINK__PASS": dev_postgres.PASSWORD,
        "POSTGRES_SINK__DB": dev_postgres.DATABASE,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PENSTOCK__{name}", value)
    pipeline = Running(running.root, running.spark, "pipeline.yml")
    pipeline.write({"pipeline.yml": PIPELINE.format(topic=topic, table=own)})

    def kept() -> list[list[int]]:
        tables = [
            [int(n) for (n,) in database.rows(f"SELECT id FROM {name} ORDER BY 1")] for name in (own, f"{own}_log")
        ]
        return [*tables, [n for (n,) in client.query("SELECT id FROM found ORDER BY id").result_rows]]

    produce(broker.plain, topic, *({"id": n, "country": "de"} for n in (1, 2)))
    pipeline.run()
    assert kept() == [[1, 2]] * 3
    database.rows(f"INSERT INTO {own} (id) VALUES (99)")
    client.command("INSERT INTO found (id) VALUES (99)")
    produce(broker.plain, topic, {"id": 3, "country": "fr"})
    run(pipeline, allow_rebuild=["orders"], truncate=True)
    assert kept() == [[1, 2, 3]] * 3
    assert {kind for kind, _ in clean(pipeline, "--remove")} == {"checkpoint"}
    assert clean(pipeline) == []
    produce(broker.plain, topic, {"id": 4, "country": "fr"})
    pipeline.run()
    assert kept() == [[1, 2, 3, 4]] * 3
