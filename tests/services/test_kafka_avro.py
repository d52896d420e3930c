"""Avro through a real schema registry: many writers' schemas in one topic, and what does not fit any."""

import io
import json
import struct
from typing import Any

import pytest

from penstock.clients.clusters import Cluster
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.registry.client import RegisteredSchema, Registry
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.connectors.contract import ReadRequest
from penstock.connectors.kafka import KafkaSource
from penstock.errors import ServiceError
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.sql.types.columns import Column
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check
from tests.services import registry as registries
from tests.services.dead_letters import deliver
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.live_runs import done, live, paused, resumed
from tests.spark.running import Running

pytestmark = pytest.mark.as_deployed

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "paid", "type": ["null", "double"], "default": None}]}
PROJECT = """
project: {{name: shop}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  schema_registry: {{url: "{registry}"}}
sources:
  - name: orders
    topic: {topic}
    schema: {{registry: confluent, format: avro}}
models:
  - name: seen
    sql: SELECT * FROM {{{{ source("orders") }}}}
    advanced: {{topic: {{name: {topic}.seen}}}}
"""


@pytest.fixture
def topic(broker: Broker) -> str:
    name = new_topic()
    KafkaAdmin(broker.plain).create(name, 1, 1, {})
    return name


def given(running: Running, broker: Broker, registry: str, topic: str) -> Running:
    text = PROJECT.format(servers=broker.plain.servers, registry=registry, topic=topic)
    return running.write({"stream_project.yml": text})


def value(number: int, *fields: Any) -> bytes:
    """A record of longs, texts and optional doubles, as its writer would send it."""
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, number))
    for field in fields:
        match field:
            case int():
                out.write(_varint(field))
            case str():
                out.write(_varint(len(field.encode())) + field.encode())
            case float():
                out.write(_varint(1) + struct.pack("<d", field))
            case None:
                out.write(_varint(0))
    return out.getvalue()


def _varint(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def test_each_record_is_read_by_its_own_writers_schema(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    asked = Registry([registry])
    later = [{"name": "pieces", "type": "long"}, {"name": "channel", "type": "string", "default": "web"}]
    older = {**FIRST, "fields": [*FIRST["fields"], {"name": "pieces", "type": "int"}]}
    newer = {**SECOND, "fields": [*SECOND["fields"], *later]}
    old, new = (asked.register(f"{topic}-value", json.dumps(schema)) for schema in (older, newer))
    records = [value(old, 1, "a", 7), value(new, 2, "b", 2.5, 2**40, "shop")]
    produce(broker.plain, topic, *records, value(old, 3, "c", -(2**31)), value(new, 4, "d", None, 0, ""))
    running = given(running, broker, registry, topic)
    progress = running.run()["seen"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (4, 4, 0)
    assert rows_of(consume(broker.plain, f"{topic}.seen")) == [
        {"id": 1, "name": "a", "paid": None, "pieces": 7, "channel": "web"},
        {"id": 2, "name": "b", "paid": 2.5, "pieces": 2**40, "channel": "shop"},
        {"id": 3, "name": "c", "paid": None, "pieces": -(2**31), "channel": "web"},
        {"id": 4, "name": "d", "paid": None, "pieces": 0, "channel": ""},
    ]


def test_a_schema_that_appears_while_the_query_runs_loses_no_record(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    asked = Registry([registry])
    old = asked.register(f"{topic}-value", json.dumps(FIRST))

    def produce_with_another() -> None:
        new = asked.register(f"{topic}-value", json.dumps(SECOND))
        assert new != old
        produce(broker.plain, topic, value(old, 2, "b"), value(new, 3, "c", 1.5), value(old, 4, "d"))

    def seen() -> set[tuple[Any, ...]]:  # at least once: a batch was begun twice
        return {tuple(row.values()) for row in rows_of(consume(broker.plain, f"{topic}.seen"))}

    live(
        given(running, broker, registry, topic),
        done(lambda: produce(broker.plain, topic, value(old, 1, "a"))),
        lambda run: run.board.snapshot()[0].rows_out >= 1,
        done(produce_with_another),
        lambda _: seen() == {(1, "a"), (2, "b"), (3, "c"), (4, "d")},
        lambda run: (now := run.board.snapshot()[0]).state == "running" and now.rejected == 0,
    )
    assert not [
        dead_letter
        for dead_letter in pending_dead_letters(check(running.root), None)
        if dead_letter.about["topic"] == topic
    ]


def test_a_new_schema_is_learned_by_every_query_when_looking_through_and_when_dead_letters_are_delivered(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    asked = Registry([registry])
    old = asked.register(f"{topic}-value", json.dumps(FIRST))
    elsewhere = asked.register(f"{topic}-other", json.dumps({**SECOND, "name": "Other"}))
    text = PROJECT.format(servers=broker.plain.servers, registry=registry, topic=topic).replace("orders", topic)
    models = f"""
  - name: {topic}-shares
    sql: SELECT 6 / id AS share FROM {{{{ source("{topic}") }}}}
  - name: counted
    sql: SELECT name, COUNT(*) AS n FROM {{{{ source("{topic}") }}}} GROUP BY name
    advanced: {{topic: {{name: {topic}.counted}}}}
"""
    running.write({"stream_project.yml": text + models})
    produce(broker.plain, topic, value(old, 1, "a"), value(elsewhere, 2, "a", 1.5), value(424242, 3, "a"))
    produce(broker.plain, topic, value(elsewhere, 0, "a", None))
    progress = running.run()
    assert [progress[name].rejected for name in ("seen", f"{topic}-shares", "counted")] == [1, 2, 1]
    assert rows_of(consume(broker.plain, f"{topic}.counted"))[-1] == {"name": "a", "n": 3}

    assert {row["id"] for row in running.show(f"source.{topic}")} == {0, 1, 2}
    mark = check(running.root).place.checkpoint("seen") / "looked-through.json"
    mark.write_text(json.dumps({topic: {"0": 0}}))  # as if the process had died before it looked
    dead_letters = len(consume(broker.plain, f"{topic}.errors"))
    running.run()
    assert len(consume(broker.plain, f"{topic}.errors")) == dead_letters + 1

    running.write({"stream_project.yml": text + models.replace("6 / id", "6 / NULLIF(id, 0)")})
    assert deliver(running, f"{topic}-shares") == {f"model.{topic}-shares": ReplayResult(1, 1)}
    shares = {row["share"] for row in rows_of(consume(broker.plain, f"{topic}-shares"))}
    assert shares == {6, 3, None}


def test_a_schema_that_is_registered_after_its_records_is_asked_for_again(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Registry([registry])
    old, late = asked.register(f"{topic}-value", json.dumps(FIRST)), asked.register(f"{topic}-x", json.dumps(SECOND))
    there, number = set[int](), Registry.schema

    def schema(self: Registry, wanted: int) -> RegisteredSchema:
        if wanted == late and not there:
            raise LookupError(wanted)
        return number(self, wanted)

    monkeypatch.setattr(Registry, "schema", schema)
    monkeypatch.setattr("penstock.clients.registry.schema_cache._PAUSE_SECS", 0.5)
    monkeypatch.setattr("penstock.runtime.run.kafka_watch._PAUSE_SECS", 0.5)
    text = PROJECT.format(servers=broker.plain.servers, registry=registry, topic=topic).replace("orders", topic)
    running.write({"stream_project.yml": text})
    produce(broker.plain, topic, value(old, 1, "a"), value(late, 2, "b", 1.5))

    def seen() -> list[int]:
        return [row["id"] for row in rows_of(consume(broker.plain, f"{topic}.seen"))]

    def dead_letters() -> list[str]:
        return [record.headers["penstock.offset"] for record in consume(broker.plain, f"{topic}.errors")]

    live(
        running,
        lambda run: run.board.snapshot()[0].rejected == 1,
        done(lambda: there.add(late)),
        lambda _: 3 in seen() or produce(broker.plain, topic, value(late, 3, "c", 2.5)),
    )
    assert 2 not in seen(), "a batch is read as it was begun"
    assert "1" in dead_letters()
    notes = next((running.place.checkpoint("seen") / "kept").glob("*/schemas.json"))
    assert json.loads(notes.read_text())[str(late)] > 0

    notes.write_text(json.dumps({late: None}))  # as if the process had died before it looked through the first batch
    (running.place.checkpoint("seen") / "looked-through.json").write_text(json.dumps({topic: {"0": 0}}))
    known = dead_letters()
    running.run()
    assert dead_letters()[len(known) :][:1] == ["1"]


def test_what_no_schema_fits_is_kept(running: Running, broker: Broker, registry: str, topic: str) -> None:
    known = Registry([registry]).register(f"{topic}-value", json.dumps(FIRST))
    bad = [b"\x01hello", b"\x00\x00", value(424242, 1, "a"), value(known)]
    produce(broker.plain, topic, value(known, 1, "a"), *bad, value(known, 2, "b"))
    progress = given(running, broker, registry, topic).run()["seen"]
    assert (progress.rows_out, progress.rejected) == (2, 4)
    dead_letters = [r for r in consume(broker.plain, "orders.errors") if r.headers.get("penstock.topic") == topic]
    assert [(r.headers["penstock.code"], r.value) for r in dead_letters] == [
        ("not-avro", bad[0]),
        ("not-avro", bad[1]),
        ("schema-id-unknown", bad[2]),
        ("avro-unreadable", bad[3]),
    ]


def test_a_subject_without_a_schema_and_a_registry_that_is_not_there(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    with pytest.raises(ServiceError, match=f"no subject `{topic}-value`") as failed:
        given(running, broker, registry, topic).run()
    assert failed.value.code == "schema-unknown"
    with pytest.raises(ServiceError, match="the schema registry does not answer") as failed:
        given(running, broker, "http://127.0.0.1:9", topic).run()
    assert failed.value.code == "unreachable"


def test_a_schema_under_another_name_and_numbers_that_stand_for_others(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Registry([registry])
    known, newer = (asked.register(f"{topic}-shared", json.dumps(schema)) for schema in (FIRST, SECOND))
    asked.register(f"{topic}-value", json.dumps({**FIRST, "fields": FIRST["fields"][:1]}))
    produce(broker.plain, topic, value(known, 1, "a"), value(newer, 2, "b", 1.5))
    text = PROJECT.format(servers=broker.plain.servers, registry=registry, topic=topic)
    running.write(
        {"stream_project.yml": text.replace("confluent,", f"confluent, subject: {topic}-shared, version: 1,")}
    )
    assert running.run()["seen"].rejected == 0
    assert rows_of(consume(broker.plain, f"{topic}.seen")) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]

    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__SCHEMA_REGISTRY_URL", registry)
    produce(broker.plain, topic, value(777777, 3, "c"))
    pipeline = f"""
sources:
  {topic}:
    {{type: kafka, topic: {topic}, primary_key: id, schema_subject: {topic}-shared,
     schema_id_overrides: [{{from: 777777, to: NUMBER}}]}}
sinks:
  out: {{type: kafka, from: {topic}, topic: {topic}.out, data_format: json}}
"""
    running = Running(running.root, running.spark, "pipeline.yml")
    running.write({"pipeline.yml": pipeline.replace("NUMBER", str(known))})
    assert running.run()[topic].rejected == 0
    rows = rows_of(consume(broker.plain, f"{topic}.out"))
    assert sorted((row["id"], row["name"], row["paid"]) for row in rows) == [
        (1, "a", None),
        (2, "b", 1.5),
        (3, "c", None),
    ]
    source = KafkaSource.model_validate({"topic": topic, "schema_id_overrides": [{"from": 1, "to": 424242}]})
    cluster = Cluster(broker.plain, SchemaCache(asked))
    with pytest.raises(ServiceError, match="no Avro schema with the id 424242") as failed:
        source.with_cluster(cluster).peek(running.spark, ReadRequest())
    assert failed.value.code == "schema-unknown"


def test_what_a_registry_puts_before_json_is_passed_over(running: Running, broker: Broker, topic: str) -> None:
    produce(broker.plain, topic, b'\0\0\0\0\x07{"id": 1}', {"id": 2}, b"\0\0\0\0\x07[]", b"\0")
    source = KafkaSource(topic=topic, data_format="json").with_cluster(Cluster(broker.plain))
    assert [row["id"] for row in source.peek(running.spark, ReadRequest()).collect()] == [1, 2]


def test_rows_are_taken_out_of_the_envelopes_of_debezium(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", FIRST], "default": None},
            {"name": "after", "type": ["null", "Order"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    number = Registry([registry]).register(f"{topic}-value", json.dumps(envelope))
    produce(
        broker.plain,
        topic,
        value(number, None, 1, 1, "a", "c"),
        value(number, 1, 1, "a", 1, 1, "b", "u"),
        value(number, 1, 1, "b", None, "d"),
    )
    cluster = Cluster(broker.plain, SchemaCache(Registry([registry])))
    source = KafkaSource(topic=topic, envelope="debezium", primary_key=("id",)).with_cluster(cluster)
    found = [(row["id"], row["name"], row["_gs_op"]) for row in source.peek(running.spark, ReadRequest()).collect()]
    assert found == [(1, "a", "i"), (1, "b", "u"), (1, "b", "d")]


KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)

ANY = ReadRequest()


def deleted(
    source: KafkaSource, cluster: Cluster, running: Running, *keys: bytes, request: ReadRequest = ANY
) -> list[Any]:
    """What records without a value delete, by their keys: the columns of the primary key, or what is wrong."""
    records = [(bytearray(key), None, source.topic, 0, at, None, []) for at, key in enumerate(keys)]
    rows = source.with_cluster(cluster).decode_records(running.spark.createDataFrame(records, RECORD), request)
    found = rows.orderBy("_origin.offset").collect()
    assert {row["_gs_op"] for row in found} == {"d"}
    return [row["_error"] or tuple(row[name] for name in source.primary_key) for row in found]


def test_keys_that_are_not_surely_the_primary_key_delete_nothing(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    cluster = Cluster(broker.plain, SchemaCache(Registry([registry])))
    by_number = KafkaSource.model_validate(
        {"topic": topic, "data_format": "json", "schema": {"id": "int64"}, "primary_key": "id"}
    )
    keys = [b"7", b" 8", b'"9"', b'{"id": "10"}', b'{"schema": {"type": "int64"}, "payload": 11}']
    assert deleted(by_number, cluster, running, *keys) == [(7,), (8,), (9,), (10,), (11,)]
    bad = [b"seven", b"1.5", b"", b"null", b"7:8", b'{"id": null}', b'{"no": 7}', b'{"id": 7', b'{"id": {"id": 7}}']
    bad += [b"\xff7", b"\x01\x027", b"\0\0\x007", b"\0\0\0\0\0\0\x007", value(424242, 7), b"9" * 30]
    assert deleted(by_number, cluster, running, *bad) == ["key-unreadable"] * len(bad)

    by_text = ReadRequest(columns=(Column("id", "STRING"), Column("_gs_op", "STRING")))
    keys = [b"abc", b'"abc"', b'"a\\"b"', b'"abc', b'{"id": "abc"}', b'{"schema": {}, "payload": "abc"}']
    assert deleted(by_number, cluster, running, *keys, request=by_text) == [
        ("abc",),
        ("abc",),
        ('a"b',),
        ('"abc',),
        ("abc",),
        ("abc",),
    ]
    assert deleted(by_number, cluster, running, b"\xff", value(1, "a"), request=by_text) == ["key-unreadable"] * 2

    by_both = KafkaSource.model_validate(
        {"topic": topic, "data_format": "json", "schema": {"a": "int64", "b": "string"}, "primary_key": "a,b"}
    )
    keys = [b"1:x:y", b'{"a": 1, "b": "x"}']
    assert deleted(by_both, cluster, running, *keys) == [(1, "x:y"), (1, "x")]
    assert deleted(by_both, cluster, running, b"1", b"x:1", b'{"a": 1}') == ["key-unreadable"] * 3


def test_keys_in_avro_are_read_by_their_own_schema(running: Running, broker: Broker, registry: str, topic: str) -> None:
    asked = Registry([registry])
    asked.register(f"{topic}-value", json.dumps(FIRST))
    shapes: list[Any] = [
        KEY,
        {**KEY, "fields": [{"name": "no", "type": {"type": "array", "items": "int"}}, *KEY["fields"]]},
        ["null", {**KEY, "fields": [{"name": "ID", "type": ["null", "int"]}]}],
        {"type": "long"},
        ["null", "string"],
        {**KEY, "fields": [{"name": "name", "type": "long"}]},
        {**KEY, "fields": [{"name": "id", "type": {"type": "map", "values": "long"}}]},
    ]
    numbers = [asked.register(f"{topic}-key", json.dumps(shape)) for shape in shapes]
    record, wide, optional, number, text, other, strange = numbers
    cluster = Cluster(broker.plain, SchemaCache(asked))
    source = KafkaSource(topic=topic, primary_key=("id",))
    keys = [value(record, 1), value(wide, 1, 5, 0, 2), value(optional, 1, 1, 3), value(number, 4), value(text, 1, "5")]
    assert deleted(source, cluster, running, *keys, b"6") == [(n,) for n in range(1, 7)]
    bad = [value(optional, 1, None), value(optional, None), value(text, 1, "x"), value(other, 7), value(strange, 0)]
    assert deleted(source, cluster, running, *bad, value(record)) == ["key-unreadable"] * 6


def test_a_key_without_a_value_deletes_whatever_its_schema_and_a_wrong_one_is_kept(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Registry([registry])
    row = asked.register(f"{topic}-value", json.dumps(FIRST))
    key = asked.register(f"{topic}-key", json.dumps(KEY))
    elsewhere = asked.register(f"{topic}-other-key", json.dumps({**KEY, "name": "Other"}))
    of_none = registries.register(
        registry, f"{topic}-json", {"type": "object", "properties": {"a": {"type": "string"}}}, "JSON"
    )
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__SCHEMA_REGISTRY_URL", registry)
    pipeline = f"""
sources:
  {topic}: {{type: kafka, topic: {topic}, primary_key: id}}
sinks:
  out: {{type: kafka, from: {topic}, topic: {topic}.out, data_format: json}}
"""
    produce(
        broker.plain,
        topic,
        (value(key, 1), value(row, 1, "a")),
        (value(key, 2), None),
        (value(elsewhere, 3), None),
        (value(424242, 4), None),
        (value(of_none, 5), None),
        (b"none", None),
    )
    running = Running(running.root, running.spark, "pipeline.yml").write({"pipeline.yml": pipeline})
    progress = running.run()[topic]
    assert (progress.rows_in, progress.rejected) == (6, 3)
    found = consume(broker.plain, f"{topic}.out")
    assert {(r.headers["dbz.op"], r.key) for r in found} == {("c", "1"), ("d", "2"), ("d", "3")}
    assert [r.headers["penstock.code"] for r in consume(broker.plain, f"{topic}.errors")] == ["key-unreadable"] * 3


def test_values_that_may_be_null_are_read_and_null_is_as_good_as_none(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    asked = Registry([registry])
    first = asked.register(f"{topic}-value", json.dumps(FIRST))
    last = asked.register(f"{topic}-value", json.dumps([SECOND, "null"]))
    newest = asked.register(f"{topic}-value", json.dumps(["null", SECOND]))
    records = [value(first, 1, "a"), value(newest, 1, 2, "b", 2.5), value(last, 0, 3, "c", None)]
    produce(broker.plain, topic, *records, ("4", value(newest, None)), ("5", value(last, 1)), value(newest, 2))
    cluster = Cluster(broker.plain, SchemaCache(asked))
    source = KafkaSource(topic=topic, primary_key=("id",)).with_cluster(cluster)
    read = source.peek(running.spark, ReadRequest())
    assert [(row["id"], row["name"], row["paid"], row["_gs_op"]) for row in read.collect()] == [
        (1, "a", None, "i"),
        (2, "b", 2.5, "i"),
        (3, "c", None, "i"),
        (4, None, None, "d"),
        (5, None, None, "d"),
    ]
    progress = given(running, broker, registry, topic).run()["seen"]
    assert (progress.rows_out, progress.rejected) == (3, 3)
    dead_letters = [r for r in consume(broker.plain, "orders.errors") if r.headers.get("penstock.topic") == topic]
    assert [r.headers["penstock.code"] for r in dead_letters] == ["no-value", "no-value", "avro-unreadable"]


def test_a_registry_that_does_not_answer_for_a_while_loses_no_record(
    running: Running, broker: Broker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("registry")
    with registries.running(home) as address:
        asked = Registry([address])
        old = asked.register(f"{topic}-value", json.dumps(FIRST))
        elsewhere = asked.register(f"{topic}-other", json.dumps({**SECOND, "name": "Other"}))
        live(
            given(running, broker, address, topic),
            done(lambda: produce(broker.plain, topic, value(old, 1, "a"))),
            lambda run: run.board.snapshot()[0].rows_out >= 1,
            paused(home),
            done(lambda: produce(broker.plain, topic, value(elsewhere, 2, "b", 1.5))),
            lambda run: run.board.snapshot()[0].state == "retrying",
            resumed(home),
            lambda _: {row["id"] for row in rows_of(consume(broker.plain, f"{topic}.seen"))} == {1, 2},
            lambda run: run.board.snapshot()[0].state == "running",
        )


CURRENCY = {"type": "enum", "name": "Currency", "namespace": "money", "symbols": ["EUR", "CHF"]}
PRICE = {
    "type": "record",
    "name": "Price",
    "namespace": "money",
    "fields": [{"name": "amount", "type": "long"}, {"name": "currency", "type": "Currency"}],
}
PRICED = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "net", "type": "money.Price"},
        {"name": "gross", "type": ["null", "money.Price"], "default": None},
        {"name": "paid_in", "type": {"type": "array", "items": "money.Currency"}},
    ],
}


def test_types_of_other_subjects_are_read_where_a_schema_refers_to_them(
    running: Running, broker: Broker, registry: str, topic: str
) -> None:
    registries.register(registry, f"{topic}-currency", CURRENCY)
    registries.register(registry, f"{topic}-price", PRICE, refers={"money.Currency": f"{topic}-currency"})
    both = {"money.Price": f"{topic}-price", "money.Currency": f"{topic}-currency"}
    number = registries.register(registry, f"{topic}-value", PRICED, refers=both)
    produce(broker.plain, topic, value(number, 1, 5, 0, None, 0), value(number, 2, 5, 0, 1, 6, 1, 2, 1, 0, 0))
    assert given(running, broker, registry, topic).run()["seen"].rejected == 0
    assert rows_of(consume(broker.plain, f"{topic}.seen")) == [
        {"id": 1, "net": {"amount": 5, "currency": "EUR"}, "gross": None, "paid_in": []},
        {
            "id": 2,
            "net": {"amount": 5, "currency": "EUR"},
            "gross": {"amount": 6, "currency": "CHF"},
            "paid_in": ["CHF", "EUR"],
        },
    ]


@pytest.mark.parametrize("second", ["ID", "_error", "__kafka_offset"])
def test_fields_that_cannot_be_told_apart_are_refused_if_somebody_reads_them(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    fields = [{"name": name, "type": "long"} for name in ("id", "n", second)]
    number = Registry([registry]).register(f"{topic}-value", json.dumps({**FIRST, "fields": fields}))
    produce(broker.plain, topic, value(number, 1, 2, 3))
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__BROKERS", broker.plain.servers)
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL", registry)
    pipeline = Running(running.root, running.spark, "pipeline.yml")
    source = {"type": "kafka", "topic": topic, "include_metadata": second.startswith("__")}
    sinks = {"kept": {"type": "file", "from": "rows", "path": "out", "format": "json"}}
    pipeline.write({"pipeline.yml": json.dumps({"sources": {"rows": source}, "sinks": sinks})})
    with pytest.raises(ServiceError) as refused:
        pipeline.run()
    assert (refused.value.code, refused.value.node) == ("column-names", "rows")
    assert f"`{second}`" in refused.value.message
    chosen = {"some": {"type": "sql", "primary_key": "n", "sql": "SELECT n FROM rows"}}
    sinks["kept"]["from"] = "some"
    pipeline.write({"pipeline.yml": json.dumps({"sources": {"rows": source}, "transforms": chosen, "sinks": sinks})})
    pipeline.run()
    (file,) = (running.root / "out").glob("*/part-*.json")
    assert json.loads(file.read_text()) == {"n": 2, "_gs_op": "i"}
