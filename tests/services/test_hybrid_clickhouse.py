"""Sources that read tables of ClickHouse to their end and then a topic in Avro, from where a table says."""

import uuid
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.clickhouse.client import ClickHouseSinkServer as Target
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.connectors.clickhouse_sink import ClickHouseSink
from penstock.dev import postgres as dev
from penstock.errors import PenstockError, PlanRefused
from penstock.testing.contract import FIRST as BATCH
from tests.services import clickhouse
from tests.services import registry as registries
from tests.services.kafka import Broker, new_topic, produce
from tests.services.postgres import Database
from tests.services.test_kafka_avro import FIRST, value
from tests.spark.running import Running

PIPELINE = """
sources:
  orders:
    type: hybrid
    bounded_sources:
      - {{source_type: clickhouse, table_name: oldest, filter: "name != 'left out'"}}
      - {{source_type: clickhouse, table_name: newer, start_at: 10}}
    unbounded_source: {{source_type: kafka, topic: {topic}, filter: "id <> 29"}}
    offset_table: {{topic_name: live, table_name: copied}}
    primary_key: id
transforms: {{}}
sinks:
  out: {{type: postgres, from: orders, table: {table}}}
"""
TABLE = "(id Int64, name String, changed UInt32, gone UInt8) ENGINE = ReplacingMergeTree(changed, gone) ORDER BY id"


@dataclass(frozen=True)
class Archive:
    """Two tables, a topic of which they have the first records, and a table that says which."""

    client: Any
    running: Running
    broker: Broker
    database: Database
    topic: str
    schema: int

    @property
    def table(self) -> str:
        return f"t_{self.topic.replace('-', '_')}"

    def written(self) -> "Archive":
        self.running.write({"pipeline.yml": PIPELINE.format(topic=self.topic, table=self.table)})
        return self

    def sent(self, partition: int, *ids: int) -> None:
        records = [value(self.schema, number, f"topic {number}") for number in ids]
        produce(self.broker.plain, self.topic, *records, partition=partition)

    def rows(self) -> list[tuple[int, str]]:
        found = self.database.rows(f'SELECT id, name FROM public."{self.table}" ORDER BY id')
        return [(int(number), str(name)) for number, name in found]


@pytest.fixture
def archive(
    clickhouse_url: str,
    broker: Broker,
    registry: str,
    database: Database,
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
) -> Archive:
    name, topic = f"d_{uuid.uuid4().hex[:12]}", new_topic()
    clickhouse.client(clickhouse_url).command(f"CREATE DATABASE {name}")
    client = clickhouse.client(clickhouse_url, database=name)
    for table in ("oldest", "newer"):
        client.command(f"CREATE TABLE {table} {TABLE}")
    columns = "topic String, partition UInt32, offset UInt64"
    client.command(f"CREATE TABLE copied ({columns}) ENGINE = MergeTree ORDER BY topic")
    KafkaAdmin(broker.plain).create(topic, 2, 1, {})
    for key, found in {
        "CLICKHOUSE_SOURCE__URL": clickhouse_url,
        "CLICKHOUSE_SOURCE__DATABASE": name,
        "CLICKHOUSE_SOURCE__PAGE_SIZE": "4",
        "KAFKA_SOURCE__BROKERS": broker.plain.servers,
        "KAFKA_SOURCE__SCHEMA_REGISTRY_URL": registry,
        "POSTGRES_SINK__HOST": "127.0.0.1",
        "POSTGRES_SINK__PORT": str(database.port),
        "POSTGRES_SINK__USER": dev.USER,
        "POSTGRES_SINK__PASS": dev.PASSWORD,
        "POSTGRES_SINK__DB": dev.DATABASE,
    }.items():
        monkeypatch.setenv(f"STREAMLING__{key}", found)
    schema = registries.register(registry, f"{topic}-value", FIRST)
    return Archive(client, replace(running, entry="pipeline.yml"), broker, database, topic, schema)


def fill(archive: Archive) -> None:
    """Ids 0 to 9 in one table, 10 to 19 in the other, 10 to 19 in the topic too, and 20 to 29 only there."""
    archive.client.command("INSERT INTO oldest SELECT number, 'table', 1, 0 FROM numbers(10)")
    archive.client.command("INSERT INTO oldest VALUES (3, 'newest', 2, 0), (4, 'table', 2, 1), (100, 'left out', 1, 0)")
    archive.client.command("INSERT INTO newer SELECT number, 'table', 1, 0 FROM numbers(5, 15)")
    archive.sent(0, *range(10, 15), *range(20, 25))
    archive.sent(1, *range(15, 20), *range(25, 30))
    archive.client.command("INSERT INTO copied VALUES ('live', 0, 3), ('live', 0, 4), ('live', 1, 4), ('other', 0, 9)")


def test_tables_come_first_and_the_topic_from_where_they_end(archive: Archive) -> None:
    fill(archive)
    progress = archive.written().running.run()["orders"]
    assert (progress.state, progress.phase) == ("finished", "3 of 3")
    expected = {number: "table" for number in range(20) if number != 4}
    expected |= {3: "newest"} | {number: f"topic {number}" for number in range(20, 29)}
    assert archive.rows() == sorted(expected.items())
    assert progress.rows_out == len(expected) + 1  # the row that is deleted
    archive.sent(1, 30)
    assert archive.running.run()["orders"].rows_out == 1
    assert archive.rows()[-1] == (30, "topic 30")


def test_a_job_ends_with_the_tables(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLING__JOB_MODE", "true")
    fill(archive)
    archive.written().running.run()
    assert [number for number, _ in archive.rows()] == [n for n in range(20) if n != 4]
    assert archive.running.run()["orders"].rows_out == 0


def test_a_table_that_lacks_a_column_of_the_topic_is_refused_before_anything_is_read(archive: Archive) -> None:
    archive.client.command("ALTER TABLE newer DROP COLUMN name")
    with pytest.raises(PlanRefused) as refused:
        archive.written().running.run()
    assert refused.value.code == "phase-mismatch"
    assert "unbounded source column 'name' not found in bounded source" in refused.value.message
    assert "table `newer`" in refused.value.message


def test_bytes_and_truth_values_that_the_sink_has_kept_are_read_as_such(
    archive: Archive, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ClickHouse has them as texts and as small numbers."""
    monkeypatch.setenv("STREAMLING__KAFKA_SINK__BROKERS", archive.broker.plain.servers)
    rows = archive.running.spark.createDataFrame(
        [(1, True, bytearray(b"\x00\xff")), (2, False, bytearray(b"")), (3, None, None)],
        "id BIGINT, ok BOOLEAN, raw BINARY",
    )
    place = urlsplit(archive.client.url)
    server = ClickHouse(f"http://{place.netloc}", database=archive.client.database)
    sink = ClickHouseSink.model_validate({"from": "rows", "table": "kept", "primary_key": "id"})
    sink.with_target(Target(server)).write(rows, BATCH)
    archive.client.command("INSERT INTO kept (id, ok) VALUES (4, 2)")
    optional = [{"name": "ok", "type": ["null", "boolean"]}, {"name": "raw", "type": ["null", "bytes"]}]
    fields = [{"name": "id", "type": "long"}, *optional]
    registries.register(registry, f"{archive.topic}-value", {"type": "record", "name": "Kept", "fields": fields})
    pipeline = f"""
    sources:
      kept:
        type: hybrid
        bounded_sources: [{{source_type: clickhouse, table_name: kept}}]
        unbounded_source: {{source_type: kafka, topic: {archive.topic}}}
        primary_key: id
    transforms: {{}}
    sinks: {{out: {{type: postgres, from: kept, table: {archive.table}}}}}
    """
    archive.running.write({"pipeline.yml": pipeline})
    assert archive.running.run()["kept"].rejected == 1  # 2 is neither
    found = archive.database.rows(f'SELECT id, ok, raw FROM public."{archive.table}" ORDER BY id')
    assert found == [("1", "t", "\\x00ff"), ("2", "f", "\\x"), ("3", "", "")]


def test_an_offset_table_that_is_not_there_is_named(archive: Archive) -> None:
    archive.client.command("DROP TABLE copied")
    with pytest.raises(PenstockError) as failed:
        archive.written().running.run()
    assert "copied" in failed.value.message
