"""Settings of Kafka and of the registry, told by what the real ones have seen: codecs, bounds, addresses, passwords."""

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.cli.line import Target, check, compiled
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import QueryFailed, ServiceError
from tests.services import registry as registries
from tests.services.kafka import CODECS, Broker, codecs_of, consume, new_topic, produce, rows_of
from tests.spark.running import Running

PIPELINE = """
sources:
  {topic}: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64, name: string}}{source}}}
sinks:
  out: {{type: kafka, from: {topic}, topic: {topic}.out, data_format: json, topic_partitions: 1, primary_key: id,
        deduplicate: false{sink}}}
"""


@pytest.fixture
def topic(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    name = new_topic()
    KafkaAdmin(broker.plain).create(name, 1, 1, {})
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)
    return name


def pipeline(running: Running, topic: str, source: str = "", sink: str = "") -> Running:
    found = Running(running.root, running.spark, "pipeline.yml")
    return found.write({"pipeline.yml": PIPELINE.format(topic=topic, source=source, sink=sink)})


@pytest.mark.parametrize("said", [None, *CODECS])
def test_batches_are_packed_as_the_sink_says(running: Running, broker: Broker, topic: str, said: str | None) -> None:
    produce(broker.plain, topic, *({"id": n, "name": "a" * 200} for n in range(20)))
    pipeline(running, topic, sink="" if said is None else f", compression: {said}").run()
    assert len(consume(broker.plain, f"{topic}.out")) == 20
    assert codecs_of(broker, f"{topic}.out") == {said or "lz4"}


def test_records_are_as_large_as_the_sink_says(running: Running, broker: Broker, topic: str) -> None:
    produce(broker.plain, topic, {"id": 1, "name": "a" * 2_000_000})
    pipeline(running, topic).run()
    assert [len(row["name"]) for row in rows_of(consume(broker.plain, f"{topic}.out"))] == [2_000_000]
    produce(broker.plain, topic, {"id": 2, "name": "a" * 2_000_000})
    with pytest.raises(QueryFailed, match="larger than 1000000"):
        pipeline(running, topic, sink=", message_max_bytes: 1000000").run()


def test_a_batch_has_no_more_records_than_it_may(running: Running, broker: Broker, topic: str) -> None:
    produce(broker.plain, topic, *({"id": n, "name": "a"} for n in range(10)))
    found = pipeline(running, topic, source=", max_offsets_per_trigger: 4")
    assert found.run()[topic].rows_out == 10
    offsets = sorted((found.place.checkpoint(topic) / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[-1].partition(":")[2]) for path in offsets]
    assert [end[topic]["0"] for end in ends] == [4, 8, 10]


@contextmanager
def relay(servers: str) -> Iterator[tuple[str, list[object]]]:
    """Another address of a broker, and everybody who has come in by it."""
    host, _, port = servers.rpartition(":")
    seen: list[object] = []

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            seen.append(self.client_address)
            with socket.create_connection((host, int(port))) as there:
                back = threading.Thread(target=_copy, args=(there, self.request), daemon=True)
                back.start()
                _copy(self.request, there)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", seen
        finally:
            server.shutdown()


def _copy(here: socket.socket, there: socket.socket) -> None:
    try:
        while data := here.recv(65536):
            there.sendall(data)
        there.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them has gone


INSIDE = """
project: {{name: inside}}
runtime:
  kafka: {{bootstrap_servers: "{servers}", bootstrap_servers_internal: "{inside}"}}
  spark: {{master: "{master}"}}
sources:
  - {{name: {topic}, topic: {topic}, columns: [{{name: id, type: BIGINT}}]}}
models:
  - {{name: {topic}-out, sql: 'SELECT id FROM {{{{ source("{topic}") }}}}'}}
"""


def test_spark_on_a_cluster_takes_the_address_inside_and_nobody_else(
    running: Running, broker: Broker, topic: str
) -> None:
    produce(broker.plain, topic, {"id": 1})
    with relay(broker.plain.servers) as (inside, seen):
        values = {"servers": broker.plain.servers, "inside": inside, "topic": topic}
        running.write({"stream_project.yml": INSIDE.format(**values, master="local[2]")})
        running.run()
        assert not seen
        produce(broker.plain, topic, {"id": 2})
        running.write({"stream_project.yml": INSIDE.format(**values, master="spark://elsewhere:7077")})
        running.run()
        assert seen
    assert [row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))] == [1, 2]


GUARDED = """
project: {{name: guarded}}
runtime:
  kafka: {{bootstrap_servers: "{servers}"}}
  schema_registry: {{url: "{address}", username: ada, password: "${{REGISTRY_PASSWORD}}", ssl: {ssl}}}
sources:
  - {{name: {topic}, topic: {topic}, schema: {{registry: confluent, format: avro}}}}
models:
  - {{name: {topic}-out, sql: 'SELECT id FROM {{{{ source("{topic}") }}}}'}}
"""


def test_a_registry_that_wants_a_password_gets_it_and_nobody_sees_it(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    number = registries.register(registry, f"{topic}-value", schema)
    produce(broker.plain, topic, b"\0" + number.to_bytes(4, "big") + b"\x54")
    monkeypatch.setenv("REGISTRY_PASSWORD", "s:cret")
    with registries.guarded(registry, "ada", "s:cret") as address:
        text = GUARDED.format(servers=broker.plain.servers, address=address, topic=topic, ssl="{}")
        running.write({"stream_project.yml": text})
        checked = check(Target(running.root, ask_registry=True))
        assert [column.name for column in checked.graph[f"source.{topic}"].columns or ()] == ["id"]
        assert "s:cret" not in compiled(checked).to_json()
        running.run()
        assert rows_of(consume(broker.plain, f"{topic}-out")) == [{"id": 42}]
        monkeypatch.setenv("REGISTRY_PASSWORD", "a guess")
        with pytest.raises(ServiceError, match="does not let us in: it answers 401") as failed:
            running.run()
    assert (failed.value.code, failed.value.retriable) == ("registry-refused", False)
    assert "a guess" not in f"{failed.value} {failed.value.hint}"


def test_a_registry_with_a_certificate_is_trusted_by_a_file_of_the_project(
    running: Running, broker: Broker, registry: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    number = registries.register(registry, f"{topic}-value", schema)
    odd = (b"\0" + identity + b"\x54" for identity in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"))
    produce(broker.plain, topic, b"\0" + number.to_bytes(4, "big") + b"\x54", *odd)
    monkeypatch.setenv("REGISTRY_PASSWORD", "s:cret")
    certificates = broker.home / "certificates"
    (running.root / "trusted").mkdir()
    (running.root / "trusted" / "ca.pem").write_bytes((certificates / "ca.pem").read_bytes())
    (running.root / "trusted" / "none.pem").write_text("no certificate")
    with registries.guarded(registry, "ada", "s:cret", certificates / "server.pem") as address:

        def trusting(said: str) -> Running:
            text = GUARDED.format(servers=broker.plain.servers, address=address, topic=topic, ssl=said)
            return running.write({"stream_project.yml": text})

        for said, code, told in (
            ("{}", "registry-refused", "cannot be trusted"),
            ("{ca_location: trusted/gone.pem}", "certificate-unreadable", "trusted/gone.pem cannot be read"),
            ("{ca_location: trusted/none.pem}", "certificate-unreadable", "trusted/none.pem has no certificate"),
        ):
            with pytest.raises(ServiceError, match=told) as failed:
                trusting(said).run()
            assert (failed.value.code, failed.value.retriable) == (code, False)
        progress = trusting("{ca_location: trusted/ca.pem}").run()[f"{topic}-out"]
    assert (progress.rows_out, progress.rejected) == (1, 2)
    assert {row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))} == {42}
    letters = consume(broker.plain, f"{topic}.errors")
    assert {letter.headers["penstock.code"] for letter in letters} == {"schema-id-unknown"}
