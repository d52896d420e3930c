"""Pipelines on a real broker: operations in headers, deletes, positions to begin at, and Avro on the way out."""

import json
import random
import time
from dataclasses import replace
from typing import Any

import pytest

from penstock.clients.dead_letters.model import DeadLetter
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.registry.client import Registry
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.errors import ProjectInvalid, QueryFailed, ServiceError
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import Target, check
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.spark.running import Running
from tests.support import only

pytestmark = pytest.mark.as_deployed

PIPELINE = """
sources:
  events:
    type: kafka
    topic: {topic}
    data_format: json
    schema: {{id: int64, name: string}}
    primary_key: id
{source}
transforms:
  named:
    type: sql
    primary_key: id
    sql: {sql}
sinks:
  out:
    type: kafka
    from: named
    topic: {topic}.out
    data_format: {form}
    primary_key: id
    deduplicate: {deduplicate}
"""


class Given:
    """A pipeline from one topic to another, and what comes out of it."""

    def __init__(self, running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch, registry: str) -> None:
        self.running = Running(running.root, running.spark, "pipeline.yml")
        self.broker = broker
        self.topic = new_topic()
        KafkaAdmin(broker.plain).create(self.topic, 1, 1, {})
        monkeypatch.setenv("STREAMLING__KAFKA_SOURCE__BROKERS", broker.plain.servers)
        monkeypatch.setenv("PENSTOCK__KAFKA_SINK__BROKERS", broker.plain.servers)
        for side in ("SOURCE", "SINK"):
            monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__SCHEMA_REGISTRY_URL", registry)

    def written(
        self,
        source: str = "",
        sql: str = "SELECT id, name FROM events",
        form: str = "json",
        *,
        deduplicate: bool = True,
    ) -> "Given":
        lines = "".join(f"    {line}\n" for line in source.splitlines())
        values = {
            "topic": self.topic,
            "source": lines,
            "sql": sql,
            "form": form,
            "deduplicate": str(deduplicate).lower(),
        }
        self.running.write({"pipeline.yml": PIPELINE.format(**values)})
        return self

    def sent(self, *records: Any) -> "Given":
        produce(self.broker.plain, self.topic, *records)
        return self

    def dead_letters(self) -> list[DeadLetter]:
        """What is kept of its records."""
        waiting = pending_dead_letters(check(self.running.root / "pipeline.yml"), None)
        return [dead_letter for dead_letter in waiting if dead_letter.about["topic"] == self.topic]

    def changes(self) -> list[tuple[str, str | None, dict[str, Any]]]:
        """The operation, the key and the row of every record that came out."""
        self.running.run()
        found = consume(self.broker.plain, f"{self.topic}.out")
        rows = [(r.headers["dbz.op"], r.key, row) for r, row in zip(found, rows_of(found), strict=True)]
        return sorted(rows, key=lambda change: str(change[1]))


@pytest.fixture
def given(running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch, registry: str) -> Given:
    return Given(running, broker, monkeypatch, registry)


def op(word: str) -> list[tuple[str, bytes]]:
    return [("dbz.op", word.encode())]


def test_operations_come_and_go_in_a_header(given: Given) -> None:
    row = {"name": "a"}
    given.written().sent(
        ("1", {"id": 1, **row}),
        ("2", {"id": 2, **row}, op("r")),
        ("3", {"id": 3, **row}, op("c")),
        ("4", {"id": 4, **row}, op("u")),
        ("5", {"id": 5, **row}, op("d")),
        ("6", {"id": 6, **row}, op("x")),
    )
    assert given.changes() == [(word, str(n), {"id": n, **row}) for n, word in enumerate("cccud", 1)]
    (dead_letter,) = [
        r for r in consume(given.broker.plain, "events.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    assert dead_letter.headers["penstock.code"] == "unknown-operation"


def test_a_record_without_a_value_deletes_by_its_key(given: Given) -> None:
    given.written().sent(("7", None), ('{"id": 8}', None), ('{"payload": {"id": 9}}', None))
    given.sent(("seven", None), ('{"no": 7}', None), (b"\0\0\x007", None))
    assert given.changes() == [("d", str(n), {"id": n, "name": None}) for n in (7, 8, 9)]
    assert [dead_letter.about["code"] for dead_letter in given.dead_letters()] == ["key-unreadable"] * 3


def test_the_topic_of_a_sink_is_made_and_left_alone(given: Given) -> None:
    given.written().sent({"id": 1, "name": "a"})
    text = (given.running.root / "pipeline.yml").read_text(encoding="utf-8")
    given.running.write({"pipeline.yml": text + "    message_max_bytes: 5000000\n"})
    given.running.run()
    admin, name = KafkaAdmin(given.broker.plain), f"{given.topic}.out"
    assert admin.topics()[name].partitions == 4
    chosen = {"retention.ms": "-1", "cleanup.policy": "compact", "max.message.bytes": "5000000"}
    assert admin.chosen_config([name])[name] == chosen


@pytest.mark.parametrize("deduplicate", [True, False])
def test_a_record_that_the_broker_refuses_is_told_of_its_sink(given: Given, *, deduplicate: bool) -> None:
    KafkaAdmin(given.broker.plain).create(f"{given.topic}.out", 1, 1, {"max.message.bytes": "20000"})
    large = random.Random(1).randbytes(40_000).hex()  # it cannot be packed
    rows = [{"id": n, "name": large if 1 < n < 150 else "a"} for n in range(1, 152)]
    given.written(deduplicate=deduplicate).sent(*rows)
    text = (given.running.root / "pipeline.yml").read_text(encoding="utf-8")
    given.running.write({"pipeline.yml": text + "    on_error: stop\n"})
    with pytest.raises(QueryFailed) as caught:
        given.running.run()
    assert caught.value.node == "out"
    assert caught.value.context[-1] == "query `events` stopped"
    assert "was not written to sink `out`" in caught.value.context[0]
    assert caught.value.message.startswith("The request included a message larger than the max message size")
    given.running.write({"pipeline.yml": text})
    progress = given.running.run()["events"]
    assert (progress.rows_out, progress.rejected) == (3, 148)
    assert {row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))} == {1, 150, 151}
    dead_letter, *more = given.dead_letters()
    assert len(more) == 147
    assert (dead_letter.about["offset"], json.loads(dead_letter.value or b"")["name"]) == (1, large)
    assert dead_letter.about["message"].endswith(f"bytes as a record, and the topic `{given.topic}.out` takes 20,000")


def test_records_are_put_together_only_as_far_as_their_topic_takes_them(given: Given) -> None:
    KafkaAdmin(given.broker.plain).create(f"{given.topic}.out", 1, 1, {"max.message.bytes": "2000"})
    names = random.Random(1)
    given.written().sent(*({"id": n, "name": names.randbytes(200).hex()} for n in range(100)))
    assert given.running.run()["events"].rows_out == 100
    assert sorted(row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))) == [*range(100)]


def test_a_dead_letter_is_not_confused_by_the_headers_of_its_record(given: Given) -> None:
    own = [("node", b"app-7"), ("offset", b"abc"), ("trace", b"\xff\x01")]
    given.written().sent((b"k", b"gibberish", own)).running.run()
    (dead_letter,) = given.dead_letters()
    assert (dead_letter.node, dead_letter.about["offset"], dead_letter.value, dead_letter.headers) == (
        "sink.out",
        0,
        b"gibberish",
        tuple(own),
    )


def test_what_a_source_keeps_does_not_stop_a_sink_that_would_stop(given: Given) -> None:
    given.written().sent({"id": 1, "name": "a"}, b"gibberish", {"id": 2, "name": "b"})
    text = (given.running.root / "pipeline.yml").read_text(encoding="utf-8")
    nothing = "sinks: {nothing: {type: blackhole, from: named, on_error: stop}}\n"
    given.running.write({"pipeline.yml": text[: text.index("sinks:")] + nothing})
    progress = given.running.run()["events"]
    assert (progress.rows_out, progress.rejected) == (2, 1)


@pytest.mark.parametrize("deduplicate", [True, False])
def test_rows_that_fail_are_kept_out_before_the_others_are_written(given: Given, *, deduplicate: bool) -> None:
    given.written(sql="SELECT id, 100 / CAST(name AS INT) AS share FROM events", deduplicate=deduplicate)
    given.sent(*({"id": n, "name": {500: "0", 501: "many"}.get(n, "5")} for n in range(1000)))
    progress = given.running.run()["events"]
    ids = [row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))]
    assert sorted(ids) == [n for n in range(1000) if n not in (500, 501)]
    assert (progress.rows_out, progress.rejected) == (998, 2)
    assert sorted(dead_letter.about["offset"] for dead_letter in given.dead_letters()) == [500, 501]


@pytest.mark.parametrize("deduplicate", [True, False])
def test_what_cannot_be_read_is_only_counted_or_stops_the_query_where_that_is_wanted(
    given: Given, *, deduplicate: bool
) -> None:
    given.written("on_error: skip", deduplicate=deduplicate)
    given.sent({"id": 1, "name": "a"}, b"gibberish", {"id": 2, "name": "b"})
    progress = given.running.run()["events"]
    assert (progress.rows_out, progress.rejected, progress.kept_in) == (2, 1, ())
    given.written("on_error: stop", deduplicate=deduplicate).sent(b"more gibberish")
    with pytest.raises(QueryFailed, match="a record of `events` cannot be read") as caught:
        given.running.run()
    assert caught.value.code == "not-json"
    assert given.dead_letters() == []
    assert sorted(row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))) == [1, 2]


def test_metadata_of_records(given: Given) -> None:
    recent = "__kafka_timestamp > now() - interval '1 hour'"
    sql = f"SELECT id, __kafka_partition AS p, __kafka_offset AS o, {recent} AS t FROM events"
    given.written("include_metadata: true", sql).sent({"id": 5}, {"id": 6})
    assert [row for _, _, row in given.changes()] == [
        {"id": 5, "p": 0, "o": 0, "t": True},
        {"id": 6, "p": 0, "o": 1, "t": True},
    ]


def test_where_to_begin(given: Given) -> None:
    given.sent({"id": 1, "name": "early"})
    time.sleep(0.05)
    middle = round(time.time() * 1000)
    time.sleep(0.05)
    given.sent({"id": 2, "name": "late"})
    assert [row["id"] for _, _, row in given.written(f"starting_offsets: {middle}").changes()] == [2]


def test_avro_is_registered_and_read_back(given: Given, registry: str) -> None:
    sql = "SELECT id, name, CAST(id AS DECIMAL(10, 2)) AS price, TIMESTAMP '2026-01-01 00:00:00' AS at FROM events"
    given.written(sql=sql, form="avro").sent({"id": 1, "name": "ä"})
    given.running.run()
    (record,) = consume(given.broker.plain, f"{given.topic}.out")
    ((version, found),) = Registry([registry]).versions(f"{given.topic}.out-value").items()
    assert version == 1
    assert record.value is not None
    assert record.value[:5] == b"\0" + found.number.to_bytes(4, "big")
    schema = json.loads(found.text)
    assert [field["name"] for field in schema["fields"]] == ["id", "name", "price", "at"]
    assert json.loads(schema["doc"]) == {"primaryKeys": ["id"]}


def test_a_schema_that_does_not_fit_the_ones_before_is_refused(given: Given, registry: str) -> None:
    asked, subject = Registry([registry]), f"{given.topic}.out-value"
    first = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}]}
    asked.register(subject, json.dumps(first))
    Registry([registry]).set_compatibility(subject, "BACKWARD")
    given.written(form="avro").sent({"id": 1, "name": "a"})
    with pytest.raises(ServiceError, match="refuses the new schema") as failed:
        given.running.run()
    assert failed.value.code == "schema-refused"


def test_a_schema_that_has_the_same_fields_is_written_by_and_null_stays_allowed(given: Given, registry: str) -> None:
    asked, subject = Registry([registry]), f"{given.topic}.out-value"
    fields = [{"name": "name", "type": ["string", "null"]}, {"name": "id", "type": ["null", "long"], "default": None}]
    record = {"type": "record", "name": "Other", "namespace": "shop", "fields": fields}
    number = asked.register(subject, json.dumps(["null", record]))
    asked.set_compatibility(subject, "FULL")
    given.written(form="avro").sent({"id": 1, "name": "a"}, {"id": 2}).running.run()
    found = [record.value for record in consume(given.broker.plain, f"{given.topic}.out")]
    begins = b"\0" + number.to_bytes(4, "big") + b"\x02"  # the second of null and the record
    assert sorted(found, key=str) == sorted([begins + b"\x00\x02a\x02\x02", begins + b"\x02\x02\x04"], key=str)

    more = {**record, "name": "given", "fields": [*fields, {"name": "n", "type": ["null", "int"], "default": None}]}
    chosen = SchemaCache(asked).writer_schema(subject, json.dumps(more))
    assert list(asked.versions(subject)) == [1, 2]
    assert json.loads(asked.versions(subject)[2].text) == ["null", {**more, "name": "Other"}]
    assert chosen.number == asked.versions(subject)[2].number


WITH_NULLS = """
sources:
  events: {{type: kafka, topic: {topic}, data_format: json, schema: {{a: string, b: string}}, primary_key: "a,b"}}
sinks:
  out: {{type: kafka, from: events, topic: {topic}.out, data_format: json}}
"""


def test_keys_with_nulls_are_not_those_of_other_rows(given: Given) -> None:
    given.running.write({"pipeline.yml": WITH_NULLS.format(topic=given.topic)})
    given.sent(*({"a": a, "b": b} for a, b in [("x", None), (None, "x"), ("x", ""), ("x", "y"), (None, None)]))
    assert {key: (row["a"], row["b"]) for _, key, row in given.changes()} == {
        '{"a":"x","b":null}': ("x", None),
        '{"a":null,"b":"x"}': (None, "x"),
        "x:": ("x", ""),
        "x:y": ("x", "y"),
        '{"a":null,"b":null}': (None, None),
    }


def test_bytes_as_they_are(given: Given) -> None:
    text = given.written(sql="SELECT hex(value) AS id FROM events").running.root / "pipeline.yml"
    raw = text.read_text().replace(
        "data_format: json\n    schema: {id: int64, name: string}\n    primary_key: id", "data_format: raw"
    )
    text.write_text(raw)
    given.sent(b"\xff\x00", b"a")
    assert [row for _, _, row in given.changes()] == [{"id": "61"}, {"id": "ff00"}]


def test_only_what_comes_after_the_first_start(given: Given) -> None:
    given.sent({"id": 1, "name": "before"}).written("starting_offsets: latest")
    assert given.running.run()["events"].rows_in == 0
    given.sent({"id": 2, "name": "after"})
    assert [row["id"] for _, _, row in given.changes()] == [2]


INTO_NOTHING = """
sources:
  events: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, n: int64}}}}
transforms:
  shares: {{type: sql, primary_key: id, sql: "SELECT id, 100 / n AS share FROM events"}}
sinks:
  out: {{type: blackhole, from: shares}}
"""


def test_what_spark_writes_by_itself_stops_at_nothing(given: Given) -> None:
    given.running.write({"pipeline.yml": INTO_NOTHING.format(topic=given.topic)})
    given.sent({"id": 1, "n": 4}, {"id": 2, "n": 5})
    first = given.running.run()["events"]
    assert (first.rows_in, first.rows_out, first.rejected) == (2, 2, 0)
    given.sent({"id": 3, "n": 2}, b"gibberish", {"id": 4, "n": 0}, {"id": 5, "n": 1})
    second = given.running.run()["events"]
    assert (second.rows_in, second.rows_out, second.rejected) == (4, 2, 2)
    dead_letters = [
        r for r in consume(given.broker.plain, "events.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    dead_letters += [
        r for r in consume(given.broker.plain, "out.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    assert sorted(r.headers["penstock.code"] for r in dead_letters) == ["not-json", "row-failed"]


ENVELOPE = "envelope: debezium"


def wrapped(before: Any, after: Any, op: str) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "t"}, "ts_ms": 1}


def test_rows_are_taken_out_of_the_envelopes_of_debezium(given: Given) -> None:
    first, second = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    given.written(ENVELOPE, deduplicate=False).sent(
        wrapped(None, first, "c"),
        {"schema": {"type": "struct"}, "payload": wrapped(None, second, "r")},
        wrapped(first, {"id": 1, "name": "c"}, "u"),
        wrapped(second, None, "d"),
        ('{"schema": {}, "payload": {"id": 2}}', None),
        wrapped(None, None, "u"),
        wrapped(None, first, "x"),
        wrapped(None, {"id": "x", "name": "d"}, "c"),
        b"gibberish",
    )
    assert given.changes() == [
        ("c", "1", {"id": 1, "name": "a"}),
        ("u", "1", {"id": 1, "name": "c"}),
        ("c", "2", {"id": 2, "name": "b"}),
        ("d", "2", {"id": 2, "name": "b"}),
        ("d", "2", {"id": 2, "name": None}),
    ]
    dead_letters = [
        r for r in consume(given.broker.plain, "events.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    codes = sorted(r.headers["penstock.code"] for r in dead_letters)
    assert codes == ["field-mismatch", "no-row", "not-json", "unknown-operation"]
    (unfit,) = (r for r in dead_letters if r.headers["penstock.code"] == "field-mismatch")
    assert unfit.headers["penstock.message"] == "`after.id`: `x` is not a BIGINT"


def test_a_filter_keeps_rows_away_and_not_what_cannot_be_read(given: Given) -> None:
    given.written("filter: id > 1 AND name <> 'c'", sql="SELECT id FROM events")
    given.sent({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}, b"gibberish", {"id": 4})
    progress = given.running.run()["events"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (5, 1, 1)
    assert [row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))] == [2]


def test_what_a_filter_asks_of_places_is_asked_before_records_are_read(given: Given) -> None:
    given.written("filter: __kafka_offset >= 2 AND id > 1\ninclude_metadata: true", sql="SELECT id FROM events")
    given.sent(b"gibberish", {"id": 2}, {"id": 1}, {"id": 3}, b"later gibberish")
    progress = given.running.run()["events"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (5, 1, 1)
    assert [row["id"] for row in rows_of(consume(given.broker.plain, f"{given.topic}.out"))] == [3]
    dead_letters = [
        r for r in consume(given.broker.plain, "events.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    assert [r.value for r in dead_letters] == [b"later gibberish"]


OF_AVRO = """
sources:
  events: {{type: kafka, topic: {topic}{more}}}
sinks:
  out: {{type: kafka, from: events, topic: {topic}.out, data_format: json}}
"""


def test_a_schema_that_names_its_key_names_that_of_the_pipeline(given: Given, registry: str) -> None:
    fields = [{"name": name, "type": "long"} for name in ("n", "id")]
    schema = {"type": "record", "name": "r", "doc": json.dumps({"primaryKeys": ["id"]}), "fields": fields}
    number = Registry([registry]).register(f"{given.topic}-value", json.dumps(schema))
    given.running.write({"pipeline.yml": OF_AVRO.format(topic=given.topic, more="")})
    asking = Target(given.running.root / "pipeline.yml", ask_read=True)
    assert check(asking).graph["sink.out"].key == ("id",)
    given.sent(b"\0" + number.to_bytes(4, "big") + b"\x02\x0e", ("8", None))
    assert given.changes() == [("c", "7", {"n": 1, "id": 7}), ("d", "8", {"n": None, "id": 8})]
    name = f"{given.topic}.out"
    assert KafkaAdmin(given.broker.plain).chosen_config([name])[name]["cleanup.policy"] == "compact"
    given.running.write({"pipeline.yml": OF_AVRO.format(topic=given.topic, more=", primary_key: n")})
    assert check(asking).graph["sink.out"].key == ("n",)


def test_columns_that_a_registry_was_asked_for_are_asked_for_again(given: Given, registry: str) -> None:
    def register(*names: str) -> None:
        fields = [{"name": name, "type": "long", "default": 0} for name in names]
        schema = {"type": "record", "name": "r", "fields": fields}
        Registry([registry]).register(f"{given.topic}-value", json.dumps(schema))

    register("id")
    more = ", primary_key: id, filter: later > 1"
    given.running.write({"pipeline.yml": OF_AVRO.format(topic=given.topic, more=more)})
    wanted = Target(given.running.root / "pipeline.yml", ask_read=True)
    assert check(replace(wanted, ask_read=False)).notes == ()  # nobody was asked
    with pytest.raises(ProjectInvalid, match="column 'later' in the source filter does not exist"):
        check(wanted)
    register("id", "later")
    assert check(wanted).notes == ()


def test_a_pipeline_is_told_that_its_subject_is_not_there(given: Given) -> None:
    given.running.write({"pipeline.yml": OF_AVRO.format(topic=given.topic, more="")})
    with pytest.raises(ProjectInvalid) as invalid:
        check(Target(given.running.root / "pipeline.yml", ask_read=True))
    found = only(invalid.value.diagnostics)
    assert (found.code, found.path) == ("schema-unknown", "sources.events.topic")


SEVERAL = [
    ("1", {"id": 1, "name": "a"}),
    ("2", {"id": 2, "name": "b"}),
    ("1", {"id": 1, "name": "c"}, op("u")),
    ("3", {"id": 3, "name": "d"}),
    ("2", {"id": 2, "name": "b"}, op("d")),
    ("1", {"id": 1, "name": "e"}, op("u")),
]


def test_of_several_rows_with_one_key_only_the_last_is_written(given: Given) -> None:
    given.written().sent(*SEVERAL)
    progress = given.running.run()["events"]
    assert (progress.rows_in, progress.rows_out) == (6, 3)
    assert given.changes() == [
        ("u", "1", {"id": 1, "name": "e"}),
        ("d", "2", {"id": 2, "name": "b"}),
        ("c", "3", {"id": 3, "name": "d"}),
    ]


def test_every_row_is_written_where_that_is_wanted(given: Given) -> None:
    given.written(deduplicate=False).sent(*SEVERAL)
    assert [(word, row["name"]) for word, _, row in given.changes()] == [
        ("c", "a"),
        ("u", "c"),
        ("u", "e"),
        ("c", "b"),
        ("d", "b"),
        ("c", "d"),
    ]


def test_the_last_row_is_the_one_with_the_highest_offset(given: Given) -> None:
    rounds = [[(str(key), {"id": key, "name": f"{key}-{n:03}"}) for key in range(50)] for n in range(200)]
    KafkaAdmin(given.broker.plain).add_partitions(given.topic, 3)
    given.written("max_offsets_per_trigger: 4000").sent(*(record for one in rounds for record in one))
    found = given.changes()
    assert len(found) < 50 * 6
    assert {row["id"]: row["name"] for _, _, row in found} == {key: f"{key}-199" for key in range(50)}
    places = {(record.key, record.partition) for record in consume(given.broker.plain, f"{given.topic}.out")}
    assert len(places) == 50  # records of one key stand in one partition
    assert len({partition for _, partition in places}) == 4


def test_the_last_row_that_can_be_worked_out_is_written(given: Given) -> None:
    given.written(sql="SELECT id, 100 / CAST(name AS INT) AS name FROM events")
    given.sent(*({"id": key, "name": name} for key, name in [(1, "4"), (1, "5"), (2, "2"), (1, "0"), (2, "x")]))
    progress = given.running.run()["events"]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (5, 2, 2)
    assert [row for _, _, row in given.changes()] == [{"id": 1, "name": 20}, {"id": 2, "name": 50}]


BOTH_WAYS = """
sources:
  events: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, name: string}}, primary_key: id}}
sinks:
  every: {{type: kafka, from: events, topic: {topic}.every, data_format: json, deduplicate: false}}
  last: {{type: kafka, from: events, topic: {topic}.last, data_format: json}}
"""


def test_sinks_that_share_a_source_each_get_what_they_want(given: Given) -> None:
    given.running.write({"pipeline.yml": BOTH_WAYS.format(topic=given.topic)})
    given.sent(*SEVERAL).running.run()
    counts = [len(consume(given.broker.plain, f"{given.topic}.{name}")) for name in ("every", "last")]
    assert counts == [6, 3]


def found_columns(given: Given, sql: str, form: str = "json") -> Given:
    """The pipeline, whose columns are found in its records."""
    text = given.written(sql=sql, form=form).running.root / "pipeline.yml"
    text.write_text(text.read_text().replace("    schema: {id: int64, name: string}\n", ""))
    return given


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([{"id": 1, "n": 1, "N": 2}], "cannot have the columns `N` and `n`"),
        ([{"id": 1, "n": 1}, {"id": 2, "N": 2}], "cannot have the columns `N` and `n`"),
        ([{"id": 1, "_error": "no"}], "cannot have a column `_error`"),
        ([{"id": 1, "_GS_OP": "d"}], "must be written `_gs_op`"),
    ],
)
def test_columns_of_records_that_cannot_be_told_apart_are_refused(
    given: Given, records: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(ServiceError) as refused:
        found_columns(given, "SELECT * FROM events").sent(*records).running.run()
    assert (refused.value.code, refused.value.node) == ("column-names", "events")
    assert said in refused.value.message


def test_fields_may_be_called_by_whatever_else_json_has(given: Given) -> None:
    row = {"id": 1, "a.b": 2, "_corrupt": 3, "value": 4}
    assert found_columns(given, "SELECT * FROM events").sent(("1", row)).changes() == [("c", "1", row)]


def test_a_column_that_avro_cannot_have_is_named(given: Given) -> None:
    with pytest.raises(QueryFailed) as failed:
        given.written(sql='SELECT id, name AS "a.b" FROM events', form="avro").sent({"id": 1}).running.run()
    assert failed.value.code == "column-type"
    assert "`a.b` cannot be the name of a field in Avro" in failed.value.message
    assert failed.value.hint is not None


def test_a_column_that_is_always_null_is_written_in_avro(given: Given, registry: str) -> None:
    given.written(sql="SELECT id, NULL AS nothing FROM events", form="avro").sent({"id": 1}).running.run()
    registered = Registry([registry]).newest(f"{given.topic}.out-value")
    assert registered is not None
    (_, field) = json.loads(registered)["fields"]
    assert field == {"name": "nothing", "type": ["null", "string"], "default": None}
