"""Whole numbers of 256 bits on their whole way: Avro or JSON in Kafka, SQL, and tables that hold every digit."""

import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.dev import postgres as dev
from penstock.errors import ServiceError
from tests.services import clickhouse
from tests.services import registry as registries
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.postgres import Database
from tests.spark.running import Running

pytestmark = pytest.mark.as_deployed

MOST = 2**256 - 1
LEAST = -(2**255)


def _decimal(digits: int, scale: int = 0) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale}


TRANSFER = {
    "type": "record",
    "name": "Transfer",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", _decimal(78)]},
        {"name": "fee", "type": _decimal(78)},
        {"name": "delta", "type": {**_decimal(76), "type": "fixed", "size": 32, "name": "Delta"}},
        {"name": "token", "type": {**_decimal(78), "type": "fixed", "size": 32, "name": "Token"}},
        {"name": "rate", "type": _decimal(60, 20)},
    ],
}


def _varint(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _bytes(number: int) -> bytes:
    """The bytes of a decimal, with their length."""
    found = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    return _varint(len(found)) + found


def transfer(schema: int, number: int, amount: int | None, fee: int, delta: int = 0, token: int = 0) -> bytes:
    return b"".join(
        (
            struct.pack(">bI", 0, schema),
            _varint(number),
            _varint(0) if amount is None else _varint(1) + _bytes(amount),
            _bytes(fee),
            delta.to_bytes(32, "big", signed=True),
            token.to_bytes(32, "big"),
            _bytes(12345 * 10**18),
        )
    )


@dataclass(frozen=True)
class Given:
    """A pipeline from a topic, which stands in the environment of the test."""

    running: Running
    broker: Broker
    registry: str
    database: Database
    client: Any
    topic: str
    schema: str

    def write(self, source: str, sql: str, sinks: str) -> "Given":
        text = f"""
            sources:
              transfers: {{type: kafka, topic: {self.topic}, primary_key: id, {source}}}
            transforms:
              sums: {{type: sql, primary_key: id, sql: "{sql}"}}
            sinks: {{{sinks}}}
            """
        self.running.write({"pipeline.yml": text})
        return self

    def registered(self) -> int:
        return registries.register(self.registry, f"{self.topic}-value", TRANSFER)

    def dead_letters(self) -> list[tuple[str, str]]:
        """The codes and messages of what was kept of the records of the topic."""
        found: list[tuple[str, str]] = []
        for node in ("transfers.errors", "out.errors"):
            if node in KafkaAdmin(self.broker.plain).topics():
                heads = [r.headers for r in consume(self.broker.plain, node)]
                found += [
                    (h["penstock.code"], h["penstock.message"]) for h in heads if h.get("penstock.topic") == self.topic
                ]
        return found


@pytest.fixture
def given(
    running: Running,
    broker: Broker,
    registry: str,
    database: Database,
    clickhouse_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Given]:
    own = f"w{uuid.uuid4().hex[:10]}"
    clickhouse.client(clickhouse_url).command(f"CREATE DATABASE {own}")
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    settings = {
        "KAFKA_SOURCE__BROKERS": broker.plain.servers,
        "KAFKA_SINK__BROKERS": broker.plain.servers,
        "KAFKA_SOURCE__SCHEMA_REGISTRY_URL": registry,
        "KAFKA_SINK__SCHEMA_REGISTRY_URL": registry,
        "CLICKHOUSE_SINK__URL": clickhouse_url,
        "CLICKHOUSE_SINK__DATABASE": own,
        "POSTGRES_SINK__PORT": str(database.port),
        "POSTGRES_SINK__USER": dev.USER,
        "POSTGRES_SINK__PASS": dev.PASSWORD,
        "POSTGRES_SINK__DB": dev.DATABASE,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PENSTOCK__{name}", value)
    entered = Running(running.root, running.spark, "pipeline.yml")
    yield Given(entered, broker, registry, database, clickhouse.client(clickhouse_url, database=own), topic, own)
    database.rows(f"DROP SCHEMA IF EXISTS {own} CASCADE")


TABLES = (
    "pg: {{type: postgres, from: sums, schema: {schema}, table: t, primary_key: {key}}}, "
    "ch: {{type: clickhouse, from: sums, table: t, primary_key: {key}}}"
)
SUMS = "SELECT id, amount, amount + fee AS total, delta - 1 AS d, token, rate FROM transfers WHERE fee > 0"


def test_avro_goes_through_sql_into_both_databases_without_losing_a_digit(given: Given) -> None:
    number = given.registered()
    produce(
        given.broker.plain,
        given.topic,
        transfer(number, 1, MOST - 1, 1, 2**255 - 1, MOST),
        transfer(number, 2, 10**77 + 1, 10**76, LEAST + 1, 2**255),
        transfer(number, 3, None, 7),
        transfer(number, 4, 5, 0),
    )
    given.write("data_format: avro", SUMS, TABLES.format(schema=given.schema, key="id")).running.run()
    rows = [
        (1, MOST - 1, MOST, 2**255 - 2, MOST),
        (2, 10**77 + 1, 11 * 10**76 + 1, LEAST, 2**255),
        (3, None, None, -1, 0),
    ]
    found = given.client.query("SELECT id, amount, total, d, token FROM t ORDER BY id").result_rows
    assert found == rows
    columns = "SELECT name, type FROM system.columns WHERE table = 't' AND database = currentDatabase()"
    types = dict(given.client.query(columns).result_rows)
    assert (types["total"], types["d"]) == ("Nullable(UInt256)", "Nullable(Int256)")
    assert types["rate"] == "Nullable(Decimal(60, 20))"
    told = given.database.rows(f"SELECT id, amount, total, d, token, rate FROM {given.schema}.t ORDER BY id")
    assert [row[:5] for row in told] == [tuple("" if cell is None else str(cell) for cell in row) for row in rows]
    assert {row[5] for row in told} == {"123.45000000000000000000"}
    kinds = given.database.rows(
        f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '{given.schema}.t'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert dict(kinds) == {
        "id": "bigint",
        "amount": "numeric(78,0)",
        "total": "numeric(78,0)",
        "d": "numeric(78,0)",
        "token": "numeric(78,0)",
        "rate": "numeric(60,20)",
    }
    assert given.dead_letters() == []


PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", _decimal(100, 18)]},
        {"name": "rate", "type": _decimal(60, 20)},
    ],
}


def test_decimals_with_a_fraction_are_filtered_computed_and_written_without_losing_a_digit(given: Given) -> None:
    number = registries.register(given.registry, f"{given.topic}-value", PAYMENT)
    large, small = 10**99 + 7, -1

    def payment(id: int, amount: int | None, rate: int) -> bytes:
        money = _varint(0) if amount is None else _varint(1) + _bytes(amount)
        return struct.pack(">bI", 0, number) + _varint(id) + money + _bytes(rate)

    records = (payment(1, large, 10**20), payment(2, small, 5), payment(3, 0, 1), payment(4, None, 1))
    produce(given.broker.plain, given.topic, *records, payment(5, 15 * 10**17, -(10**21)))
    sql = (
        "SELECT id, amount, amount * rate AS product, amount / 3 AS third FROM transfers"
        " WHERE amount > 0.000000000000000001 OR amount < 0 OR amount IS NULL"
    )
    topic = f"{given.topic}-out"
    written = f"out: {{type: kafka, from: sums, topic: {topic}, data_format: avro, primary_key: id}}"
    given.write("data_format: avro", sql, f"{TABLES.format(schema=given.schema, key='id')}, {written}").running.run()
    assert given.dead_letters() == []
    name = f"{given.schema}.t"
    kinds = given.database.rows(
        f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = '{name}'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert dict(kinds) == {
        "id": "bigint", "amount": "numeric(100,18)", "product": "numeric(160,38)", "third": "numeric(100,18)"
    }  # fmt: skip
    whole = str(10**81)
    expected = [
        ("1", f"{whole}.{'0' * 17}7", f"{whole}.{'0' * 17}7{'0' * 20}", f"{'3' * 81}.{'3' * 17}6"),
        ("2", "-0.000000000000000001", f"-0.{'0' * 37}5", "0.000000000000000000"),
        ("4", "", "", ""),
        ("5", "1.500000000000000000", f"-15.{'0' * 38}", "0.500000000000000000"),
    ]  # fmt: skip
    assert given.database.rows(f"SELECT id, amount, product, third FROM {name} ORDER BY id") == expected
    found = given.client.query("SELECT id, amount FROM t ORDER BY id").result_rows
    assert found == [(int(id), amount or None) for id, amount, *_ in expected]
    again = given.write(
        "data_format: avro",
        "SELECT id, amount - product AS rest FROM transfers WHERE product = amount * -10",
        f"pg: {{type: postgres, from: sums, schema: {given.schema}, table: again, primary_key: id}}",
    )
    text = (again.running.root / "pipeline.yml").read_text().replace(f"topic: {given.topic},", f"topic: {topic},")
    again.running.write({"pipeline.yml": text})
    again.running.run(allow_rebuild=["transfers"])
    rest = given.database.rows(f"SELECT id, rest FROM {given.schema}.again")
    assert rest == [("5", f"16.5{'0' * 37}")]


def test_a_wide_number_is_a_key_and_filters_tell_its_last_digit(given: Given) -> None:
    schema = "data_format: json, schema: {id: u256, n: i256}"
    sql = f"SELECT id, n FROM transfers WHERE id >= {MOST - 1} AND n IN (-1, {LEAST})"
    given.write(schema, sql, TABLES.format(schema=given.schema, key="id"))
    produce(
        given.broker.plain,
        given.topic,
        {"id": str(MOST), "n": "-1"},
        {"id": MOST - 1, "n": LEAST},
        {"id": str(MOST - 2), "n": "-1"},
        {"id": str(MOST), "n": str(LEAST)},
        {"id": str(MOST + 1), "n": "-1"},
        {"id": "0x10", "n": "-1"},
        {"id": 1.5, "n": "-1"},
    )
    given.running.run()
    wanted = [(MOST - 1, LEAST), (MOST, LEAST)]
    assert given.client.query("SELECT id, n FROM t FINAL ORDER BY id").result_rows == wanted
    told = given.database.rows(f"SELECT id, n FROM {given.schema}.t ORDER BY id")
    assert told == [(str(a), str(b)) for a, b in wanted]
    assert [code for code, _ in given.dead_letters()] == ["field-mismatch"] * 3


def test_a_row_that_does_not_fit_becomes_a_dead_letter_and_the_others_are_written(given: Given) -> None:
    number = given.registered()
    records = [transfer(number, n, amount, 1) for n, amount in ((1, 5), (2, MOST), (3, MOST - 1))]
    produce(given.broker.plain, given.topic, *records)
    sink = f"out: {{type: postgres, from: sums, schema: {given.schema}, table: t, primary_key: id}}"
    given.write("data_format: avro", "SELECT id, amount + fee AS total FROM transfers", sink)
    progress = given.running.run()["transfers"]
    assert (progress.rows_out, progress.rejected) == (2, 1)
    assert given.database.rows(f"SELECT id, total FROM {given.schema}.t ORDER BY id") == [("1", "6"), ("3", str(MOST))]
    (dead_letter,) = given.dead_letters()
    assert dead_letter == ("row-failed", f"[WIDE_NUMBER] {MOST} + 1 does not fit into UINT256")


def test_kafka_gets_decimals_in_avro_and_digits_in_json_and_reads_its_own_again(given: Given) -> None:
    number = given.registered()
    produce(given.broker.plain, given.topic, transfer(number, 1, MOST, 1, LEAST))
    sinks = ", ".join(
        f"{form}: {{type: kafka, from: sums, topic: {given.topic}.{form}, data_format: {form}, primary_key: amount}}"
        for form in ("avro", "json")
    )
    given.write("data_format: avro", "SELECT id, amount, delta FROM transfers", sinks).running.run()
    assert rows_of(consume(given.broker.plain, f"{given.topic}.json")) == [
        {"id": 1, "amount": str(MOST), "delta": str(LEAST)}
    ]
    (record,) = consume(given.broker.plain, f"{given.topic}.avro")
    assert record.key == str(MOST)
    again = f"""
        sources:
          back: {{type: kafka, topic: {given.topic}.avro}}
        transforms:
          same: {{type: sql, primary_key: amount, sql: "SELECT amount, delta FROM back WHERE delta < 0"}}
        sinks:
          ch: {{type: clickhouse, from: same, table: t, primary_key: amount}}
        """
    given.running.write({"again.yml": again})
    Running(given.running.root, given.running.spark, "again.yml").run()
    assert given.client.query("SELECT amount, delta FROM t").result_rows == [(MOST, LEAST)]


@pytest.mark.parametrize("kind", ["numeric(38,0)", "text", "double precision", "bigint"])
def test_a_table_of_postgres_that_cannot_hold_every_digit_is_refused(given: Given, kind: str) -> None:
    given.database.rows(f"CREATE SCHEMA {given.schema}")
    given.database.rows(f"CREATE TABLE {given.schema}.t (id bigint PRIMARY KEY, n {kind})")
    produce(given.broker.plain, given.topic, {"id": 1, "n": "1"})
    sink = f"out: {{type: postgres, from: sums, schema: {given.schema}, table: t, primary_key: id}}"
    given.write("data_format: json, schema: {id: int64, n: u256}", "SELECT id, n FROM transfers", sink)
    with pytest.raises(ServiceError, match="does not hold every numeric") as failed:
        given.running.run()
    assert failed.value.code == "table-mismatch"


def test_a_filter_of_the_source_and_show_know_wide_numbers(given: Given) -> None:
    produce(given.broker.plain, given.topic, {"id": 1, "n": str(MOST)}, {"id": 2, "n": str(MOST - 1)})
    source = f"data_format: json, schema: {{id: int64, n: u256}}, filter: n > {MOST - 1}"
    sink = "out: {type: clickhouse, from: sums, table: t, primary_key: id}"
    given.write(source, "SELECT id, n - 1 AS m FROM transfers", sink).running.run()
    assert given.client.query("SELECT id, m FROM t").result_rows == [(1, MOST - 1)]
    assert given.running.show("transform.sums") == [{"id": 1, "m": str(MOST - 1), "_gs_op": "i"}]


def test_declared_decimals_of_more_digits_than_spark_has_lose_none_of_them(given: Given) -> None:
    whole, long = "7" * 76, f"{'1' * 26}.{'3' * 50}"
    produce(
        given.broker.plain,
        given.topic,
        f'{{"id": 1, "n": {whole}, "r": "{long}"}}'.encode(),
        f'{{"id": 2, "n": "-{whole}", "r": "-{long}"}}'.encode(),
    )
    source = "data_format: json, schema: {id: int64, n: decimal256(76), r: string}"
    sink = f"out: {{type: postgres, from: sums, schema: {given.schema}, table: t, primary_key: id}}"
    given.write(source, "SELECT id, n + 1 AS n, r FROM transfers", sink).running.run()
    told = given.database.rows(f"SELECT id, n, r FROM {given.schema}.t ORDER BY id")
    assert told == [("1", str(int(whole) + 1), long), ("2", str(1 - int(whole)), f"-{long}")]
