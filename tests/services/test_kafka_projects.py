"""Projects on a real broker: the same files that run on directories."""

import json
import shutil
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.dev import postgres as dev_postgres
from penstock.errors import PlanRefused
from penstock.plan.explain import explain
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.postgres import Database
from tests.spark.running import Running, order

SHOP = """
project: {{name: shop}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - name: orders
    topic: {orders}
    columns:
      - {{name: id, type: BIGINT}}
      - {{name: country, type: STRING}}
      - {{name: amount, type: DOUBLE}}
      - {{name: at, type: TIMESTAMP(3)}}
    event_time: {{column: at, watermark: {{max_out_of_orderness_ms: 0}}}}
models:
  - name: large
    key: id
    sql: SELECT id, country, amount, at FROM {{{{ source("orders") }}}} WHERE amount > 5
    advanced: {{topic: {{name: {orders}.large, partitions: 2, config: {{retention.ms: 3600000}}}}}}
  - name: by_country
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{{{ ref("large") }}}} GROUP BY country
    advanced: {{topic: {{name: {orders}.countries}}}}
  - name: by_hour
    sql: |
      SELECT country, TUMBLE_START(at, INTERVAL '1' HOUR) AS hour, COUNT(*) AS n
      FROM {{{{ ref("large") }}}} GROUP BY country, TUMBLE(at, INTERVAL '1' HOUR)
    advanced: {{topic: {{name: {orders}.hours}}}}
"""
OUT = """
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
  - name: orders_in_files
    from: large
    advanced: {{connector: {{type: s3-sink, config: {{path: store}}}}}}
"""


@pytest.fixture
def shop(running: Running, broker: Broker) -> tuple[Running, str]:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 2, 1, {})
    return running.write({"stream_project.yml": SHOP.format(servers=broker.plain.servers, orders=topic)}), topic


def steps(running: Running) -> list[str]:
    checked = check(running.root)
    return [str(explain(step)) for step in plan_project(checked, compile_project(checked)).steps]


def test_rows_go_from_topic_to_topic(shop: tuple[Running, str], broker: Broker) -> None:
    running, topic = shop
    rows = [order(1), order(2, amount=3.0), order(3, country="FR"), order(4, at="2026-01-01T02:00:00Z")]
    produce(broker.plain, topic, *((str(row["id"]), row) for row in rows))
    progress = running.run()
    assert (progress["large"].rows_in, progress["large"].rows_out) == (4, 3)
    large = consume(broker.plain, f"{topic}.large")
    assert sorted((r.key or "", row["id"]) for r, row in zip(large, rows_of(large), strict=True)) == [
        ("1", 1),
        ("3", 3),
        ("4", 4),
    ]
    assert {row["at"] for row in rows_of(large)} == {"2026-01-01T00:00:00.000000Z", "2026-01-01T02:00:00.000000Z"}
    hours = rows_of(consume(broker.plain, f"{topic}.hours"))
    assert sorted((row["country"], row["n"]) for row in hours) == [("DE", 1), ("FR", 1)]
    countries = consume(broker.plain, f"{topic}.countries")
    assert {r.key: (r.headers, row["n"]) for r, row in zip(countries, rows_of(countries), strict=True)} == {
        "DE": ({"dbz.op": "c"}, 2),
        "FR": ({"dbz.op": "c"}, 1),
    }


def test_a_second_run_goes_on_where_the_first_stopped(
    shop: tuple[Running, str], broker: Broker, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, topic = shop
    monkeypatch.setenv("PG_PASSWORD", dev_postgres.PASSWORD)
    table = topic.replace("-", "_")
    written = (running.root / "stream_project.yml").read_text()
    out = OUT.format(url=database.url, user=dev_postgres.USER, table=table)
    running.write({"stream_project.yml": written + out})
    produce(broker.plain, topic, order(1), order(2))
    running.run()
    produce(broker.plain, topic, order(3))
    progress = running.run()
    assert progress["large"].rows_in == 1
    assert len(consume(broker.plain, f"{topic}.large")) == 3
    changes = consume(broker.plain, f"{topic}.countries")
    assert [(r.headers["dbz.op"], row["n"]) for r, row in zip(changes, rows_of(changes), strict=True)] == [
        ("c", 2),
        ("u", 3),
    ]
    assert (progress["countries_in_a_table"].rows_out, progress["orders_in_files"].rows_out) == (1, 1)
    assert database.rows(f"SELECT country, n, total FROM {table}") == [("DE", "3", "30")]
    files = running.spark.read.option("recursiveFileLookup", "true").json(str(running.root / "store"))
    assert sorted(row["id"] for row in files.collect()) == [1, 2, 3]


def test_topics_are_made_grown_set_and_never_made_smaller(shop: tuple[Running, str], broker: Broker) -> None:
    running, topic = shop
    assert f"+ create topic {topic}.large: it does not exist yet" in steps(running)
    shown = CliRunner().invoke(app, ["show", "large", str(running.root), "--format", "json"])
    assert (shown.exit_code, shown.stdout.strip()) == (0, "[]")
    produce(broker.plain, topic, order(1))
    running.run()
    admin = KafkaAdmin(broker.plain)
    assert admin.topics()[f"{topic}.large"].partitions == 2
    assert admin.chosen_config([f"{topic}.large"]) == {f"{topic}.large": {"retention.ms": "3600000"}}
    assert not [line for line in steps(running) if "topic" in line.split(":")[0]]
    written = (running.root / "stream_project.yml").read_text()
    changed = written.replace("partitions: 2", "partitions: 3").replace(
        "retention.ms: 3600000", "retention.ms: 7200000"
    )
    running.write({"stream_project.yml": changed})
    assert f"~ change topic {topic}.large: 2 -> 3 partitions, retention.ms 3600000 -> 7200000" in steps(running)
    running.run(select=["large"])
    assert admin.topics()[f"{topic}.large"].partitions == 3
    admin.set_config(f"{topic}.large", {"cleanup.policy": "compact"})
    running.write({"stream_project.yml": written.replace("partitions: 2", "partitions: 2, replication_factor: 3")})
    found = [
        "it has 3 partitions, not 2: Kafka cannot remove partitions",
        "its replication factor is 1, not 3",
        "cleanup.policy is compact, which the project does not set",
    ]
    left = f"= leave topic {topic}.large: {'; '.join(found)}"
    assert [line for line in steps(running) if f"topic {topic}.large:" in line] == [
        f"~ change topic {topic}.large: retention.ms 7200000 -> 3600000",
        left,
    ]
    running.run(select=["large"])
    assert admin.topics()[f"{topic}.large"] == TopicState(3, 1)
    chosen = {"retention.ms": "3600000", "cleanup.policy": "compact"}
    assert admin.chosen_config([f"{topic}.large"]) == {f"{topic}.large": chosen}
    assert [line for line in steps(running) if f"topic {topic}.large:" in line] == [left]


def test_a_topic_that_is_only_read_is_never_made(running: Running, broker: Broker) -> None:
    topic = new_topic()
    running.write({"stream_project.yml": SHOP.format(servers=broker.plain.servers, orders=topic)})
    with pytest.raises(PlanRefused, match=f"reads the topic `{topic}`, which Kafka does not have") as refused:
        running.run()
    assert refused.value.code == "topic-missing"
    assert topic not in KafkaAdmin(broker.plain).topics()


def test_what_cannot_be_read_is_kept_with_its_bytes_and_its_place(shop: tuple[Running, str], broker: Broker) -> None:
    running, topic = shop
    bad: list[Any] = [b"not json", b"\xff\xfe", b'{"id": "one", "amount": 9}', b"[]", b"", ("k", None)]
    produce(broker.plain, topic, order(1), *bad, order(2))
    progress = running.run()["large"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (8, 2, 6)
    assert progress.kept_in == ("orders.errors",)
    dead_letters = [r for r in consume(broker.plain, "orders.errors") if r.headers.get("penstock.topic") == topic]
    assert sorted((r.headers["penstock.code"], r.value or b"") for r in dead_letters) == [
        ("field-mismatch", b'{"id": "one", "amount": 9}'),
        ("no-value", b""),
        ("no-value", b""),
        ("not-json", b"[]"),
        ("not-json", b"not json"),
        ("not-text", b"\xff\xfe"),
    ]
    about = next(r for r in dead_letters if r.value == b"[]").headers
    assert about["penstock.node"] == "model.large"
    assert about["penstock.offset"].isdigit()
    assert about["penstock.message"] == "it is an array, not an object"
    of_record = ("topic", "partition", "offset", "timestamp")
    assert set(about) == {f"penstock.{name}" for name in (*of_record, "code", "message", "node", "owner", "time")}


def test_what_is_not_exactly_one_object_or_would_be_changed_is_kept(running: Running, broker: Broker) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    columns = "[{name: id, type: BIGINT}, {name: price, type: 'DECIMAL(10, 2)'}, {name: at, type: TIMESTAMP(3)}]"
    text = f"""
project: {{name: p}}
runtime: {{kafka: {{bootstrap_servers: "{broker.plain.servers}"}}}}
sources: [{{name: {topic}, topic: {topic}, columns: {columns}}}]
models: [{{name: {topic}-out, sql: 'SELECT id, price, at FROM {{{{ source("{topic}") }}}}'}}]
"""
    running.write({"stream_project.yml": text})
    bad = [
        b'{"id":78}{"id":79}',
        b'{"id":3} trailing',
        '{"id":3}\u2028{"id":4}'.encode(),
        b'{"id":1,"id":2}',
        b'{"id":1,"price":12.345}',
        b'{"id":1,"at":50000000000}',
        b'{"id":1,"at":"58803-01-01"}',
        b'{"id":1,"more":{"a":1,"a":2}}',
        b'{"id":1,"price":1e999999999}',
    ]
    good = [{"id": 1, "price": 1.5}, {"id": 2, "at": 1704067200123}, {"id": 3, "at": 1704067200}]
    produce(broker.plain, topic, *good, *bad)
    progress = running.run()[f"{topic}-out"]
    assert (progress.rows_out, progress.rejected) == (3, len(bad))
    rows = {row["id"]: row for row in rows_of(consume(broker.plain, f"{topic}-out"))}
    assert (rows[2]["at"][:23], rows[3]["at"][:19]) == ("2024-01-01T00:00:00.123", "2024-01-01T00:00:00")
    dead_letters = {r.value: r.headers for r in consume(broker.plain, f"{topic}.errors")}
    assert [dead_letters[value]["penstock.code"] for value in bad] == [
        "not-json", "not-json", "not-json", "duplicate-key", "field-mismatch", "field-mismatch", "field-mismatch",
        "duplicate-key", "field-mismatch",
    ]  # fmt: skip
    assert dead_letters[bad[4]]["penstock.message"] == "`price`: `12.345` is not a DECIMAL(10,2) without rounding it"
    shown = CliRunner().invoke(app, ["show", f"{topic}.errors", str(running.root), "-n", "4", "--format", "json"])
    assert [(row["offset"], row["code"]) for row in json.loads(shown.stdout)] == [
        (3, "not-json"), (4, "not-json"), (5, "not-json"), (6, "duplicate-key"),
    ]  # fmt: skip


WAYS = {
    "with_password": "sasl_username: ada, sasl_password: '${KAFKA_PASSWORD}'",
    "with_scram": "sasl_mechanism: SCRAM-SHA-256, sasl_username: ada, sasl_password: scrambled",
    "with_longer_scram": "sasl_mechanism: SCRAM-SHA-512, sasl_username: bob, sasl_password: more scrambled",
    "with_certificate": (
        "ssl_ca_location: ca.pem, ssl_certificate_location: certificate.pem, ssl_key_location: key.pem"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_spark_comes_in_by_password_and_by_certificate(
    shop: tuple[Running, str], broker: Broker, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    running, topic = shop
    for file in ("ca", "certificate", "key"):
        shutil.copy(broker.home / "certificates" / f"{file}.pem", running.root)
    monkeypatch.setenv("KAFKA_PASSWORD", 'secret "of" ada')
    written = (running.root / "stream_project.yml").read_text()
    own = f'bootstrap_servers: "{getattr(broker, way).servers}", {WAYS[way]}'
    running.write({"stream_project.yml": written.replace(f'bootstrap_servers: "{broker.plain.servers}"', own)})
    produce(broker.plain, topic, order(1))
    assert running.run(select=["large"])["large"].rows_out == 1
    assert "secret" not in compile_project(check(running.root)).to_json()


LATEST = """
project: {{name: latest}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - name: words
    topic: {topic}
    columns: [{{name: id, type: BIGINT}}, {{name: word, type: STRING}}, {{name: pt, proctime: true}}]
models:
  - name: {topic}-latest
    key: id
    sql: |
      SELECT id, word FROM (
        SELECT id, word, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt DESC) AS place
        FROM {{{{ source("words") }}}}
      ) WHERE place = 1
"""


def test_of_several_records_in_a_batch_the_one_with_the_highest_offset_is_the_last(
    running: Running, broker: Broker
) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 2, 1, {})
    running.write({"stream_project.yml": LATEST.format(servers=broker.plain.servers, topic=topic)})
    rounds = [[(str(key), {"id": key, "word": f"{key}-{n:03}"}) for key in range(20)] for n in range(50)]
    produce(broker.plain, topic, *(record for one in rounds for record in one))
    running.run()
    rows = rows_of(consume(broker.plain, f"{topic}-latest"))
    assert {row["id"]: row["word"] for row in rows} == {key: f"{key}-049" for key in range(20)}
