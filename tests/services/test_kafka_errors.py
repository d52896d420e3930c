"""Letters in Kafka: listed, and delivered again once their cause is mended."""

from penstock.cli.errors import letters_of
from penstock.cli.line import check
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.runtime.replay import Replayed
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.services.letters import deliver
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
    waiting = letters_of(check(running.root), None)
    assert [(x.about["code"], x.about["offset"], x.kept_in) for x in waiting] == [
        ("row-failed", 2, f"{topic}-out.errors"),
        ("field-mismatch", 1, f"{topic}.errors"),
        ("not-json", 3, f"{topic}.errors"),
    ]
    assert [x.about["value"] for x in waiting if x.about["code"] == "not-json"] == ["gibberish"]
    assert letters_of(check(running.root), topic) == [x for x in waiting if x.kept_in == f"{topic}.errors"]

    running.write(
        {"stream_project.yml": PROJECT.format(kind="STRING", **values).replace("100 / n", "100 / NULLIF(n, 0)")}
    )
    assert deliver(running) == {f"model.{topic}-out": Replayed(2, 1)}
    rows = rows_of(consume(broker.plain, f"{topic}-out"))
    assert sorted((str(row["id"]), row["share"]) for row in rows) == [("1", 25), ("3", None), ("two", 20)]

    (left,) = letters_of(check(running.root), None)
    assert (left.about["code"], left.about["offset"], left.value) == ("not-json", 3, b"gibberish")
    assert deliver(running) == {f"model.{topic}-out": Replayed(0, 1)}
    assert len(consume(broker.plain, f"{topic}-out")) == 3
