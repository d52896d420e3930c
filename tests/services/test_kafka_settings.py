"""Settings of Kafka and of the registry, told by what the real ones have seen: codecs, bounds, addresses, passwords."""

import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import QueryFailed, ServiceError
from penstock.workflow.stages import Target, check, compile_project
from tests.process.cli import penstock
from tests.services import registry as registries
from tests.services.kafka import CODECS, Broker, codecs_of, consume, new_topic, produce, producers_of, rows_of
from tests.services.live_runs import live
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
    assert all(number >= 0 for number in producers_of(broker, f"{topic}.out"))  # idempotent, which needs acks=all


def test_records_are_as_large_as_the_sink_says(running: Running, broker: Broker, topic: str) -> None:
    produce(broker.plain, topic, {"id": 1, "name": "a" * 2_000_000})
    pipeline(running, topic).run()
    assert [len(row["name"]) for row in rows_of(consume(broker.plain, f"{topic}.out"))] == [2_000_000]
    produce(broker.plain, topic, {"id": 2, "name": "a" * 2_000_000})
    with pytest.raises(QueryFailed, match="larger than 1000000"):
        pipeline(running, topic, sink=", message_max_bytes: 1000000, on_error: stop").run()
    progress = pipeline(running, topic, sink=", message_max_bytes: 1000000").run()[topic]
    assert (progress.rows_out, progress.rejected) == (0, 1)


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


def test_an_address_that_has_no_name_for_a_while_is_waited_for(running: Running, broker: Broker, topic: str) -> None:
    values = {"servers": broker.plain.servers, "inside": "broker.invalid:9092", "topic": topic}
    running.write({"stream_project.yml": INSIDE.format(**values, master="spark://elsewhere:7077")})
    with pytest.raises(QueryFailed, match="No resolvable bootstrap urls"):
        running.run()
    live(running, lambda run: run.board.snapshot()[0].retry is not None)


def test_no_broker_and_a_wrong_password_end_commands_with_a_message(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "a guess")
    for said, code, commands in (
        ("bootstrap_servers: '127.0.0.1:9'", "unreachable", ("run", "show a")),
        ("bootstrap_servers: 'broker.invalid:9092'", "unreachable", ("plan",)),
        (
            f"bootstrap_servers: '{broker.with_password.servers}', security_protocol: SASL_PLAINTEXT, "
            "sasl_mechanism: PLAIN, sasl_username: ada, sasl_password: '${KAFKA_PASSWORD}'",
            "kafka-refused",
            ("plan", "run", "show b"),
        ),
    ):
        source = "sources: [{name: a, topic: a, columns: [{name: id, type: BIGINT}]}]"
        model = "models: [{name: b, sql: 'SELECT id FROM {{ source(\"a\") }}'}]"
        text = f"project: {{name: alone}}\nruntime: {{kafka: {{{said}}}}}\n{source}\n{model}\n"
        (tmp_path / "stream_project.yml").write_text(text, encoding="utf-8")
        for command in commands:
            ended = penstock(*command.split(), cwd=tmp_path)
            assert ended.returncode == ServiceError.exit_code
            assert code in ended.stderr, ended.stderr
            assert "Kafka at " in ended.stderr
            assert "a guess" not in ended.stderr + ended.stdout


def test_settings_of_a_pipeline_let_it_in_with_a_password_behind_a_certificate(
    running: Running, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(broker.plain, topic, {"id": 1, "name": "a"})
    way = broker.with_both
    said = {"BROKERS": way.servers, "SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN"}
    said |= {"SASL_USERNAME": "ada", "SASL_PASSWORD": str(way.password), "SSL_CA_LOCATION": str(way.ca)}
    for name, value in said.items():
        monkeypatch.setenv(f"PENSTOCK__KAFKA_SOURCE__{name}", value)
        monkeypatch.setenv(f"PENSTOCK__KAFKA_SINK__{name}", value)
    assert pipeline(running, topic).run()[topic].rows_out == 1
    assert [row["id"] for row in rows_of(consume(broker.plain, f"{topic}.out"))] == [1]
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__SASL_PASSWORD", "a guess")
    with pytest.raises(ServiceError) as failed:
        pipeline(running, topic).run()
    assert failed.value.code == "kafka-refused"


def test_the_doctor_asks_kafka_as_a_pipeline_would(
    running: Running, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> dict[str, tuple[bool, str]]:
        told = CliRunner().invoke(app, ["doctor", str(running.root / "pipeline.yml"), "--format", "json"])
        assert told.exit_code in (0, ServiceError.exit_code), told.output
        return {check["check"]: (check["ok"], check["detail"]) for check in json.loads(told.stdout)["checks"]}

    pipeline(running, topic)
    found = asked()
    assert found[f"source {topic}"] == found["sink out"] == (True, "ready")
    pipeline(running, f"{topic}-gone")
    is_fine, said = asked()[f"source {topic}-gone"]
    assert not is_fine
    assert f"has no topic `{topic}-gone`" in said
    monkeypatch.setenv("PENSTOCK__KAFKA_SINK__BROKERS", "127.0.0.1:9")
    is_fine, said = asked()["sink out"]
    assert not is_fine
    assert "Kafka at 127.0.0.1:9" in said


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
        assert "s:cret" not in compile_project(checked).to_json()
        running.run()
        assert rows_of(consume(broker.plain, f"{topic}-out")) == [{"id": 42}]
        monkeypatch.setenv("REGISTRY_PASSWORD", "a guess")
        with pytest.raises(ServiceError, match="refused the user or the password: it answers 401") as failed:
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
            ("{}", "registry-refused", "is not trusted"),
            ("{ca_location: trusted/gone.pem}", "certificate-unreadable", "trusted/gone.pem cannot be read"),
            ("{ca_location: trusted/none.pem}", "certificate-unreadable", "trusted/none.pem has no PEM certificate"),
        ):
            with pytest.raises(ServiceError, match=told) as failed:
                trusting(said).run()
            assert (failed.value.code, failed.value.retriable) == (code, False)
        progress = trusting("{ca_location: trusted/ca.pem}").run()[f"{topic}-out"]
    assert (progress.rows_out, progress.rejected) == (1, 2)
    assert {row["id"] for row in rows_of(consume(broker.plain, f"{topic}-out"))} == {42}
    dead_letters = consume(broker.plain, f"{topic}.errors")
    assert {dead_letter.headers["penstock.code"] for dead_letter in dead_letters} == {"schema-id-unknown"}
