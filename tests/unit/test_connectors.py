import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.connectors import registry
from penstock.connectors.contract import Sink
from penstock.connectors.file import FileSource
from penstock.connectors.file_sink import FileSink
from penstock.connectors.generator import GeneratorSource
from penstock.connectors.postgres import JdbcSink
from penstock.connectors.print import PrintSink
from penstock.connectors.topic import TopicSource
from penstock.connectors.webhook import WebhookSink
from penstock.errors import ServiceError
from penstock.sql.types.columns import Column

EXAMPLES: dict[tuple[str, str], dict[str, Any]] = {
    ("source", "clickhouse"): {"table_name": "orders", "columns": "id, amount", "start_at": 5},
    ("source", "file"): {"path": "in", "format": "csv"},
    ("source", "generator"): {"columns": {"id": {"kind": "sequence"}}},
    ("source", "hybrid"): {
        "bounded_sources": [{"source_type": "clickhouse", "table_name": "orders"}],
        "unbounded_source": {"source_type": "kafka", "topic": "orders"},
    },
    ("source", "postgres"): {"table": "orders", "user": "me", "database": "db", "password": "secret"},
    ("source", "postgres_cdc"): {"table": "shop.orders", "user": "me", "database": "db", "password": "secret"},
    ("source", "postgres_cdc_source"): {"table": "orders", "user": "me", "database": "db", "slot_name": "ours"},
    ("sink", "jdbc-sink"): {"from": "a", "connection.url": "jdbc:postgresql://db/shop", "connection.user": "me"},
    ("source", "kafka"): {"topic": "orders", "data_format": "json", "schema": {"id": "int64"}},
    ("source", "topic"): {"topic": "orders"},
    ("sink", "blackhole"): {"from": "a"},
    ("sink", "clickhouse"): {"from": "a", "table": "t", "primary_key": "id", "schema_override": {"n": "UInt256"}},
    ("sink", "file"): {"from": "a", "path": "out", "format": "json"},
    ("sink", "kafka"): {"from": "a", "topic": "orders", "data_format": "avro"},
    ("sink", "postgres"): {"from": "a", "table": "orders", "password": "secret"},
    ("sink", "postgres_aggregate"): {
        "from": "a",
        "landing_table": "orders",
        "agg_table": "totals",
        "group_by": {"account": {"type": "text"}},
        "aggregate": {"total": {"from": "amount", "fn": "sum"}},
    },
    ("sink", "memory"): {"from": "a", "exclude_gs_op": True},
    ("sink", "print"): {"from": "a"},
    ("sink", "s3-sink"): {"from": "a", "s3.bucket.name": "orders", "aws.secret.access.key": "secret"},
    ("sink", "topic"): {"from": "a", "topic": "orders"},
    ("sink", "webhook"): {"from": "a", "url": "http://127.0.0.1:8087/notify", "headers": {"X-A": "b"}},
}


def generator(columns: dict[str, Any], **settings: Any) -> GeneratorSource:
    return GeneratorSource.model_validate({"type": "generator", "columns": columns, **settings})


# The registry


def test_deletes_of_a_jdbc_sink_need_a_key() -> None:
    said = {"from": "a", "connection.url": "jdbc:postgresql://db/shop", "connection.user": "me", "delete.enabled": True}
    with pytest.raises(ValidationError, match=r"`delete\.enabled` needs"):
        JdbcSink.model_validate(said)
    assert JdbcSink.model_validate({**said, "insert.mode": "upsert"}).delete_enabled


def test_every_built_in_is_found_under_its_type() -> None:
    for role, connector in registry.all_connectors():
        default = connector.model_fields["type"].default
        assert (registry.find_source if role == "source" else registry.find_sink)(default) is connector
        assert default in registry.types(role)
        assert (connector.__doc__ or "").strip()


def test_types_are_listed_in_order() -> None:
    for role in ("source", "sink"):
        listed = registry.types(role)
        assert list(listed) == sorted(b.type for b in registry.BUILT_INS if b.role == role)


def test_a_type_is_known_in_its_role_only() -> None:
    assert registry.find_source("print") is None
    assert registry.find_sink("generator") is None
    assert registry.find_source("nothing") is None


@pytest.mark.parametrize(("role", "name"), EXAMPLES)
def test_every_connector_can_be_pickled_and_written_back(role: str, name: str) -> None:
    found = registry.find_source(name) if role == "source" else registry.find_sink(name)
    assert found is not None
    connector = found.model_validate({"type": name, **EXAMPLES[role, name]})
    assert pickle.loads(pickle.dumps(connector)) == connector
    written = {"type": name, **connector.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    assert found.model_validate(written) == connector
    assert found.model_json_schema()["properties"]


def test_every_source_has_an_example_here() -> None:
    """Sinks are pickled by the contract suite, too, which has a subject for each."""
    assert EXAMPLES.keys() >= {(b.role, b.type) for b in registry.BUILT_INS if b.role == "source"}


def test_every_sink_says_what_it_promises() -> None:
    for _, connector in registry.all_connectors():
        if issubclass(connector, Sink):
            assert connector.delivery


# The generator


def test_columns_of_the_generator_have_types() -> None:
    source = generator(
        {
            "a": {"kind": "sequence"},
            "b": {"kind": "integer"},
            "c": {"kind": "uniform", "decimals": 2},
            "d": {"kind": "text"},
            "e": {"kind": "boolean"},
            "f": {"kind": "timestamp"},
            "g": {"kind": "choice", "values": ["x", "y"]},
            "h": {"kind": "choice", "values": [1, 2]},
            "i": {"kind": "choice", "values": [1.5, 2]},
        }
    )
    assert [c.type for c in source.known_columns()] == [
        "BIGINT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "STRING", "BIGINT", "DOUBLE",
    ]  # fmt: skip


def test_a_generator_ends_only_if_its_rows_are_counted() -> None:
    assert not generator({"id": {"kind": "sequence"}}).capabilities.bounded
    assert generator({"id": {"kind": "sequence"}}, rows=0).capabilities.bounded


@pytest.mark.parametrize(
    "column",
    [
        {"kind": "nothing"},
        {},
        {"kind": "choice", "values": []},
        {"kind": "text", "length": 0},
        {"kind": "text", "length": 65},
        {"kind": "boolean", "probability": 1.1},
        {"kind": "uniform", "decimals": -1},
        {"kind": "integer", "min": 5, "max": 1},
        {"kind": "uniform", "min": 2.0, "max": 1.0},
        {"kind": "sequence", "step": 2},
    ],
)
def test_a_column_that_cannot_be_made_is_refused(column: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        generator({"x": column})


@pytest.mark.parametrize("settings", [{"rows": -1}, {"rows_per_second": 0}, {"seed": "x"}, {"speed": 3}])
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        generator({"id": {"kind": "sequence"}}, **settings)


def test_a_generator_without_columns_is_refused() -> None:
    with pytest.raises(ValidationError):
        generator({})


# Files, topics, the terminal


def test_a_file_source_looks_on_unless_it_is_bounded() -> None:
    def source(**settings: Any) -> FileSource:
        return FileSource.model_validate({"path": "x", "format": "csv", **settings})

    assert not source().capabilities.bounded
    assert source(mode={"type": "bounded"}).capabilities.bounded
    assert source().capabilities.poll_ms == 5000
    assert source(mode={"type": "continuous", "poll_interval": "250ms"}).capabilities.poll_ms == 250


@pytest.mark.parametrize(("written", "read"), [("json", "json"), ("ndjson", "json"), ("jsonl", "json"), ("csv", "csv")])
def test_json_lines_have_several_names(written: str, read: str) -> None:
    assert FileSink.model_validate({"from": "a", "path": "x", "format": written}).format == read


def test_relative_paths_start_at_the_documents_and_absolute_ones_do_not(tmp_path: Path) -> None:
    assert FileSource(path="in", format="csv").with_root(tmp_path).path == str(tmp_path / "in")
    assert FileSource(path="/in", format="csv").with_root(tmp_path).path == "/in"
    assert TopicSource(topic="a.b").with_root(tmp_path).path() == tmp_path / ".penstock" / "topics" / "a.b"
    assert TopicSource(topic="a", directory=Path("d")).with_root(tmp_path).path() == tmp_path / "d"


def test_a_file_source_without_files_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ServiceError) as caught:
        FileSource(path=str(tmp_path / "in"), format="csv").check()
    assert caught.value.code == "schema-unknown"
    assert str(tmp_path / "in") in caught.value.message
    assert caught.value.hint


def test_declared_columns_of_a_topic_win_over_its_files(tmp_path: Path) -> None:
    folder = tmp_path / ".penstock" / "topics" / "t"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("x,y\n1,2\n")
    found = TopicSource(topic="t").with_root(tmp_path)
    assert found.known_columns() == (Column("x"), Column("y"))
    declared = TopicSource.model_validate({"topic": "t", "columns": [{"name": "z", "type": "INT"}]}).with_root(tmp_path)
    assert declared.known_columns() == (Column("z", "INT"),)
    (folder / "b.jsonl").write_text('{"x": 1}\n')
    assert found.known_columns() is None


@pytest.mark.parametrize(
    "options",
    [
        {"url": "ftp://x/"},
        {"url": "example.com/path"},
        {"url": "http://"},
        {"url": "http://x:99999/"},
        {"url": "http://x/a b"},
        {"url": "http://x/\r\nHost: y"},
        {"headers": {"X Y": "a"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X": "→"}},
        {"headers": {"Content-Length": "1"}},
        {"headers": {"idempotency-key": "1"}},
        {"payload_version": 2},
        {"batch_size": 0},
        {"parallelism": 0},
        {"secret_name": "A__B"},
        {"skip_on_error": True, "on_error": "dead_letter"},
        {"batch_flush_interval": "often"},
    ],
)
def test_a_webhook_that_cannot_be_called_is_refused(options: dict[str, Any]) -> None:
    sound = {"from": "a", "url": "http://[::1]:8087/notify?x=y"}
    assert WebhookSink.model_validate(sound)
    with pytest.raises(ValidationError):
        WebhookSink.model_validate({**sound, **options})


def test_every_nth_row_means_at_least_every_row() -> None:
    assert PrintSink.model_validate({"from": "a", "sample_every": 1}).sample_every == 1
    with pytest.raises(ValidationError):
        PrintSink.model_validate({"from": "a", "sample_every": 0})


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("s3://bucket/in", "s3a://bucket/in"),
        ("s3a://bucket/in", "s3a://bucket/in"),
        ("gs://bucket/in", "gs://bucket/in"),
        ("hdfs://node:9000/in", "hdfs://node:9000/in"),
        ("file:///data/a b", "/data/a b"),
    ],
)
def test_addresses_are_those_of_hadoop(tmp_path: Path, written: str, place: str) -> None:
    assert FileSource(path=written, format="csv").with_root(tmp_path).path == place
    stays = FileSource.is_machine_local({"path": written})
    assert stays is written.startswith("file")


@pytest.mark.parametrize("written", ["ftp://host/in", "http://host/in", "abfss://c@a/in"])
def test_other_addresses_are_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="unsupported scheme"):
        FileSink.model_validate({"from": "a", "path": written, "format": "csv"})


def test_packages_are_fetched_only_for_who_needs_them() -> None:
    def wanted(path: str, file_format: str) -> set[str]:
        return {package.artifact for package in FileSource.packages_for({"path": path, "format": file_format})}

    assert wanted("in", "csv") == wanted("hdfs://node/in", "parquet") == set()
    assert wanted("in", "avro") == {"spark-avro_2.13"}
    assert {"hadoop-aws", "s3"} <= wanted("s3://bucket/in", "json")
    assert wanted("gs://bucket/in", "json") == {"hadoop-gcp"}
    assert "bundle" not in wanted("s3a://bucket/in", "avro")
