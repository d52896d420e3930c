"""State on Kafka: topics that are empty at first, and a restart between."""

from typing import Any

from penstock.clients.kafka.admin import KafkaAdmin
from tests.services.kafka import Broker, consume, new_topic, produce, rows_of
from tests.spark.running import Running

PAIRS = """
project: {{name: pairs}}
runtime: {{kafka: {{bootstrap_servers: "{servers}"}}}}
sources:
  - name: o
    topic: {o}
    columns: [{{name: oid, type: BIGINT}}, {{name: ts, type: TIMESTAMP(3)}}]
    event_time: {{column: ts, watermark: {{max_out_of_orderness_ms: 0}}}}
  - name: p
    topic: {p}
    columns: [{{name: pid, type: BIGINT}}, {{name: oid, type: BIGINT}}, {{name: ts, type: TIMESTAMP(3)}}]
    event_time: {{column: ts, watermark: {{max_out_of_orderness_ms: 0}}}}
models:
  - name: pairs
    sql: >
      SELECT o.oid, p.pid FROM {{{{ source("o") }}}} AS o, {{{{ source("p") }}}} AS p
      WHERE o.oid = p.oid AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR
    advanced: {{topic: {{name: {o}.pairs}}}}
"""


def test_a_join_goes_on_whichever_topic_had_records_first(running: Running, broker: Broker) -> None:
    o, p = new_topic(), new_topic()
    for topic in (o, p):
        KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    running.write({"stream_project.yml": PAIRS.format(servers=broker.plain.servers, o=o, p=p)})

    def send(topic: str, **row: Any) -> None:
        produce(broker.plain, topic, ("k", {**row, "ts": "2026-01-01T00:00:00Z"}))
        running.run()

    running.run()
    send(o, oid=1)
    send(p, oid=1, pid=11)
    send(o, oid=2)
    send(p, oid=2, pid=12)
    found = rows_of(consume(broker.plain, f"{o}.pairs"))
    assert sorted((row["oid"], row["pid"]) for row in found) == [(1, 11), (2, 12)]
