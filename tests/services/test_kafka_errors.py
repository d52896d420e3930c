"""Dead letters in Kafka: listed, and delivered again once their cause is mended."""

import json
import secrets
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.errors import app
from penstock.cli.main import app as penstock_app
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import PlanRefused
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.run.lock import run_lock
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check
from tests.process.cli import penstock
from tests.services.dead_letters import deliver
from tests.services.kafka import Broker, consume, delete_all, new_topic, produce, rows_of
from tests.spark.running import Running

PROJECT = """
project: {{name: mended}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - name: {topic}
    topic: {topic}
    columns: [{{name: id, type: {kind}}}, {{name: n, type: INT}}]
models:
  - name: {topic}-out
    sql: SELECT id, 100 / n AS share FROM {{{{ source("{topic}") }}}}
"""


def test_records_wait_and_are_delivered_once_when_the_cause_is_mended(running: Running, broker: Broker) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    values = {"servers": broker.plain.servers, "topic": topic}
    running.write({"stream_project.yml": PROJECT.format(kind="BIGINT", **values)})
    produce(broker.plain, topic, {"id": 1, "n": 4}, {"id": "two", "n": 5}, {"id": 3, "n": 0}, b"gibberish")
    running.run()
    waiting = pending_dead_letters(check(running.root), None)
    assert [(x.about["code"], x.about["offset"], x.kept_in) for x in waiting] == [
        ("row-failed", 2, f"{topic}-out.errors"),
        ("field-mismatch", 1, f"{topic}.errors"),
        ("not-json", 3, f"{topic}.errors"),
    ]
    assert [x.about["value"] for x in waiting if x.about["code"] == "not-json"] == ["gibberish"]
    assert pending_dead_letters(check(running.root), topic) == [x for x in waiting if x.kept_in == f"{topic}.errors"]

    running.write(
        {"stream_project.yml": PROJECT.format(kind="STRING", **values).replace("100 / n", "100 / NULLIF(n, 0)")}
    )
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(2, 1)}
    rows = rows_of(consume(broker.plain, f"{topic}-out"))
    assert sorted((str(row["id"]), row["share"]) for row in rows) == [("1", 25), ("3", None), ("two", 20)]

    (left,) = pending_dead_letters(check(running.root), None)
    assert (left.about["code"], left.about["offset"], left.value) == ("not-json", 3, b"gibberish")
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(0, 1)}
    assert len(consume(broker.plain, f"{topic}-out")) == 3


def test_a_record_is_not_written_twice_for_the_sake_of_another_that_still_fails(
    running: Running, broker: Broker
) -> None:
    topic, admin = new_topic(), KafkaAdmin(broker.plain)
    admin.create(topic, 1, 1, {})
    text = PROJECT.replace("name: n, type: INT", "name: n, type: STRING").replace("100 / n AS share", "n")
    limit = "    advanced: {topic: {config: {max.message.bytes: 20000}}}\n"
    values = {"servers": broker.plain.servers, "topic": topic, "kind": "BIGINT"}
    running.write({"stream_project.yml": text.format(**values) + limit})
    produce(broker.plain, topic, *({"id": id, "n": secrets.token_hex(id)} for id in (10, 15_000, 30_000)))
    assert running.run()[f"{topic}-out"].rejected == 2
    admin.set_config(f"{topic}-out", {"max.message.bytes": "40000"})
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(1, 1)}
    written = [row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))]
    assert (written.count(15_000), written.count(30_000)) == (1, 0)
    (left,) = pending_dead_letters(check(running.root), None)
    assert (left.about["offset"], left.code) == (2, "row-failed")


RULES = """
tests:
  - name: shares
    model: {topic}-out
    type: continuous
    assertions: [{{range: {{column: share, max: {most}}}}}]
    on_failure: [{{dlq: {{}}}}]
"""


def test_records_whose_rows_break_a_test_are_kept_as_they_came_and_delivered_when_it_is_mended(
    running: Running, broker: Broker
) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})

    def written(most: int) -> None:
        text = PROJECT.format(kind="BIGINT", servers=broker.plain.servers, topic=topic)
        running.write({"stream_project.yml": text + RULES.format(topic=topic, most=most)})

    def waiting() -> list[tuple[object, ...]]:
        names = ("code", "topic", "partition", "offset", "key", "value", "message")
        return [tuple(x.about[name] for name in names) for x in pending_dead_letters(check(running.root), None)]

    written(20)
    produce(broker.plain, topic, {"id": 1, "n": 10}, ("k", b'{"id": 2, "n": 2}'), {"id": 3, "n": 4}, {"id": 4, "n": 0})
    progress = running.run()[f"{topic}-out"]
    assert (progress.rows_out, progress.rejected) == (1, 3)
    said = "shares: `share` is above 20"
    broken = ("rule-failed", topic, 0, 2, None, '{"id": 3, "n": 4}', said)
    assert waiting()[:2] == [("rule-failed", topic, 0, 1, "k", '{"id": 2, "n": 2}', said), broken]
    assert [code for code, *_ in waiting()] == ["rule-failed", "rule-failed", "row-failed"]
    written(30)
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(1, 2)}
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))) == [1, 3]
    assert sorted((code, offset) for code, _, _, offset, *_ in waiting()) == [("row-failed", 3), ("rule-failed", 1)]
    written(50)
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(1, 1)}
    assert sorted(row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))) == [1, 2, 3]


INTO_FILES = """
sources:
  {topic}: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, n: int64}}}}
transforms:
  shares-{topic}: {{type: sql, primary_key: id, sql: 'SELECT id, 100 / n AS share FROM "{topic}"'}}
sinks:
  out-{topic}: {{type: file, from: shares-{topic}, path: out, format: json}}
"""


SEVERAL = """
sources:
  {topic}: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: {kind}, n: int64}}, primary_key: id}}
transforms:
  shares: {{type: sql, primary_key: id, sql: 'SELECT id, 100 / {divisor} AS share FROM "{topic}"'}}
sinks:
  all-{topic}: {{type: file, from: {topic}, path: all, format: json}}
  shares-{topic}: {{type: file, from: shares, path: shares, format: json}}
"""


def test_what_could_not_be_read_is_delivered_again_to_every_sink_that_waits_for_it(
    running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, pipeline = new_topic(), Running(running.root, running.spark, "p.yml")
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)

    def ids(sink: str) -> list[str]:
        files = (pipeline.root / sink).glob("*-*/part-*.json")
        return sorted(str(json.loads(line)["id"]) for file in files for line in file.read_text().splitlines())

    pipeline.write({"p.yml": SEVERAL.format(topic=topic, kind="int64", divisor="n")})
    produce(broker.plain, topic, {"id": 1, "n": 4}, {"id": "b", "n": 5}, {"id": "c", "n": 0}, b"gibberish")
    pipeline.run()
    assert (ids("all"), ids("shares")) == (["1"], ["1"])

    pipeline.write({"p.yml": SEVERAL.format(topic=topic, kind="string", divisor="n")})
    assert deliver(pipeline) == {f"sink.all-{topic}": ReplayResult(2 + 1, 1 + 1)}
    assert (ids("all"), ids("shares")) == (["1", "b", "c"], ["1", "b"])
    waiting = pending_dead_letters(check(pipeline.root / "p.yml"), None)
    assert [(x.code, x.node) for x in waiting] == [
        ("row-failed", f"sink.shares-{topic}"),
        ("not-json", f"sink.all-{topic}"),
    ]

    pipeline.write({"p.yml": SEVERAL.format(topic=topic, kind="string", divisor="NULLIF(n, 0)")})
    assert deliver(pipeline) == {f"sink.shares-{topic}": ReplayResult(1, 0), f"sink.all-{topic}": ReplayResult(0, 1)}
    assert (ids("all"), ids("shares")) == (["1", "b", "c"], ["1", "b", "c"])


REPLACED = """
sources:
  {topic}: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, n: int64}}, primary_key: id}}
transforms:
  shares: {{type: sql, primary_key: id, sql: 'SELECT id, 100 / {divisor} AS share FROM "{topic}"'}}
sinks:
  shares-{topic}: {{type: kafka, from: shares, topic: {topic}-out, data_format: json}}
"""


def test_a_sink_that_replaces_rows_by_key_gets_no_record_that_a_newer_one_has_come_behind(
    running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, pipeline, admin = new_topic(), Running(running.root, running.spark, "p.yml"), KafkaAdmin(broker.plain)
    admin.create(topic, 2, 1, {})
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)

    def shares() -> dict[int, int | None]:
        return {row["id"]: row["share"] for row in rows_of(consume(broker.plain, f"{topic}-out"))}

    pipeline.write({"p.yml": REPLACED.format(topic=topic, divisor="n")})
    deleted = ("2", {"id": 2, "n": 5}, [("dbz.op", b"d")])
    produce(broker.plain, topic, *((str(id), {"id": id, "n": 0}) for id in (1, 2, 3)))
    produce(broker.plain, topic, ("1", {"id": 1, "n": 4}), deleted, ("4", {"id": 4, "n": 0}), ("4", {"id": 4, "n": 0}))
    pipeline.run()
    assert shares() == {1: 25, 2: 20}
    pipeline.write({"p.yml": REPLACED.format(topic=topic, divisor="NULLIF(n, 0)")})
    assert deliver(pipeline) == {f"sink.shares-{topic}": ReplayResult(2, 0, superseded=3)}
    assert shares() == {1: 25, 2: 20, 3: None, 4: None}
    assert pending_dead_letters(check(pipeline.root / "p.yml"), None) == []


def test_records_whose_order_is_not_known_any_more_are_replayed_only_if_they_may_overwrite(
    running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, pipeline, admin = new_topic(), Running(running.root, running.spark, "p.yml"), KafkaAdmin(broker.plain)
    admin.create(topic, 1, 1, {})
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)
    pipeline.write({"p.yml": REPLACED.format(topic=topic, divisor="n")})
    produce(broker.plain, topic, {"id": 1, "n": 0}, {"id": 2, "n": 0}, {"id": 1, "n": 4}, {"id": 3, "n": 5})
    pipeline.run()
    pipeline.write({"p.yml": REPLACED.format(topic=topic, divisor="NULLIF(n, 0)")})
    delete_all(broker.plain, topic)
    (why,) = deliver(pipeline)[f"sink.shares-{topic}"].left.items()
    assert (why[1], "--overwrite" in why[0]) == (2, True)
    assert deliver(pipeline, overwrite=True) == {f"sink.shares-{topic}": ReplayResult(2, 0)}
    rows = {row["id"]: row["share"] for row in rows_of(consume(broker.plain, f"{topic}-out"))}
    assert rows == {1: None, 2: None, 3: 20}


def asked(*arguments: str, at: Path) -> Any:
    """What a command about errors says, as JSON."""
    result = CliRunner().invoke(
        app, [arguments[0], str(at), *arguments[1:], "--format", "json"], catch_exceptions=False
    )
    return json.loads(result.stdout)


def test_dead_letters_are_kept_in_the_kafka_that_is_read_where_no_other_is_named(
    running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, pipeline = new_topic(), Running(running.root, running.spark, "p.yml")
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__BROKERS", broker.plain.servers)
    pipeline.write({"p.yml": INTO_FILES.format(topic=topic)})
    of_a_dead_letter = [
        ("penstock.offset", b"77"),
        ("penstock.node", b"sink.other"),
        ("penstock.code", b"\xff"),
        ("t", b"1"),
    ]
    produce(broker.plain, topic, {"id": 1, "n": 4}, (None, b"gibberish", of_a_dead_letter), {"id": 2, "n": 0})
    progress = pipeline.run()[topic]
    assert (progress.rows_out, progress.rejected) == (1, 2)
    listed = asked("list", at=running.root / "p.yml")
    assert [(x["offset"], x["code"], x["kept_in"]) for x in listed] == [
        (2, "row-failed", f"out-{topic}.errors"),
        (1, "not-json", f"{topic}.errors"),
    ]
    (kept,) = pending_dead_letters(check(running.root / "p.yml"), topic)
    assert kept.headers == (("t", b"1"),)
    assert kept.topic_id == KafkaAdmin(broker.plain).describe_topics([f"{topic}.errors"])[f"{topic}.errors"].id
    foreign = [
        ("penstock.node", f"sink.out-{topic}".encode()),
        ("penstock.offset", b"\xff"),
        ("penstock.code", b"\xfe"),
    ]
    produce(broker.plain, f"{topic}.errors", (None, b"\xff", foreign))
    (_, last) = asked("list", "--node", topic, at=running.root / "p.yml")
    assert (last["offset"], last["code"], last["value"]) == (None, "\ufffd", "base64:/w==")

    monkeypatch.setenv("PENSTOCK__APPLICATION_ID", "another")
    assert [x["code"] for x in asked("list", at=running.root / "p.yml")] == ["\ufffd"], (
        "others have letters of their own"
    )


@pytest.mark.process
def test_dead_letters_are_listed_shown_delivered_and_discarded_by_commands(running: Running, broker: Broker) -> None:
    topic, root = new_topic(), running.root
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    text = (PROJECT + RULES).format(servers=broker.plain.servers, topic=topic, kind="BIGINT", most=50)
    running.write({"stream_project.yml": text})
    produce(broker.plain, topic, ("k", {"id": 1, "n": 4}), ("k", {"id": 2, "n": 1}), ("k", {"id": 3, "n": 0}), b"\xff")
    assert running.run()[f"{topic}-out"].rejected == 3
    found = asked("list", at=root)
    assert [(x["code"], x["topic"], x["partition"], x["offset"], x["key"]) for x in found] == [
        ("rule-failed", topic, 0, 1, "k"),
        ("row-failed", topic, 0, 2, "k"),
        ("not-text", topic, 0, 3, None),
    ]
    names = {"topic", "partition", "offset", "timestamp", "key", "value", "code", "message", "node", "time", "kept_in"}
    assert {frozenset(x) for x in found} == {frozenset(names)}
    assert datetime.fromisoformat(found[1]["timestamp"]) <= datetime.fromisoformat(found[1]["time"])
    assert (json.loads(found[0]["value"]), found[2]["value"]) == ({"id": 2, "n": 1}, "base64:/w==")
    assert asked("list", "--limit", "1", at=root) == found[:1]
    assert asked("list", "--node", topic, at=root) == found[2:]
    shown = CliRunner().invoke(app, ["show", "3", str(root), "--format", "json"])
    assert json.loads(shown.stdout) == found[2]

    running.write({"stream_project.yml": text.replace("100 / n", "100 / NULLIF(n, 0)")})
    ended = penstock("errors", "replay", "--format", "json", cwd=root)
    assert ended.returncode == 0, ended.stderr
    (done,) = json.loads(ended.stdout)
    assert done == {"node": f"model.{topic}-out", "records": 3, "rows": 1, "failed": 2, "left": [], "superseded": 0}
    rows = rows_of(consume(broker.plain, f"{topic}-out"))
    assert [(row["id"], row["share"]) for row in rows] == [(1, 25), (3, None)]
    assert [x["code"] for x in asked("list", at=root)] == ["rule-failed", "not-text"]

    with (
        run_lock(running.place.replay_lock),
        pytest.raises(PlanRefused, match="already replaying the dead letters of this project, in process"),
    ):
        asked("discard", "--node", f"{topic}-out", at=root)
    assert asked("discard", "--node", f"{topic}-out", "--code", "rule-failed", at=root) == {"discarded": 1}
    assert [x["code"] for x in asked("list", at=root)] == ["not-text"]


MASKED = """    security: {{masking: [{{column: n, policy: hash}}]}}
"""


def test_records_with_masked_columns_stay_in_their_topic_and_are_read_there_again(
    running: Running, broker: Broker
) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    values = {"servers": broker.plain.servers, "topic": topic, "kind": "BIGINT"}
    text = PROJECT.replace("name: n, type: INT", "name: n, type: STRING")
    text = text.replace("100 / n AS share", "n, {computed} AS share")

    def written(computed: str) -> None:
        running.write({"stream_project.yml": (text + MASKED).format(computed=computed, **values)})

    written("CAST(n AS INT)")
    produce(broker.plain, topic, ("ada", b'{"id": 1, "n": "ada"}'), b'{"id": "x"}', b"ada", {"id": 2, "n": "7"})
    running.run()
    kept = [record for name in (topic, f"{topic}-out") for record in consume(broker.plain, f"{name}.errors")]
    assert len(kept) == 3
    assert "ada" not in str(kept)
    waiting = {x.about["offset"]: x for x in pending_dead_letters(check(running.root), None)}
    assert {at: (x.code, x.about["value"]) for at, x in waiting.items()} == {
        0: ("row-failed", '{"id":1,"n":"***"}'),
        1: ("field-mismatch", '{"id":"x"}'),
        2: ("not-json", None),
    }
    written("LENGTH(n)")
    assert deliver(running) == {f"model.{topic}-out": ReplayResult(1, 2)}
    rows = rows_of(consume(broker.plain, f"{topic}-out"))
    assert {row["id"]: row["share"] for row in rows} == {1: len("ada"), 2: 7}
    assert "ada" not in str(rows)


def test_records_that_were_kept_before_a_mask_are_covered_when_their_topic_is_shown(
    running: Running, broker: Broker
) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    text = PROJECT.replace("name: n, type: INT", "name: n, type: STRING")
    text = text.replace("100 / n AS share", "n, CAST(n AS INT) AS share") + MASKED
    masked = text.format(servers=broker.plain.servers, topic=topic, kind="BIGINT")
    running.write({"stream_project.yml": masked + "defaults: {dead_letters: clear}\n"})
    produce(broker.plain, topic, ("ada", b'{"id": 1, "n": "ada"}'))
    running.run()
    assert "ada" in str(consume(broker.plain, f"{topic}-out.errors"))
    asked = ["show", f"{topic}-out.errors", str(running.root), "--format", "json"]
    assert '"ada"' in CliRunner().invoke(penstock_app, asked).stdout.replace("\\", "")
    running.write({"stream_project.yml": masked})
    shown = CliRunner().invoke(penstock_app, asked)
    assert "ada" not in shown.stdout
    (row,) = json.loads(shown.stdout)
    assert (row["code"], row["key"], json.loads(row["value"])) == ("row-failed", None, {"id": 1, "n": "***"})
