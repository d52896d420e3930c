"""Sources of Kafka in pipelines: `filter` is checked and put into words of Spark, keys go with rows; what changes
nothing says so."""

import json
import socket
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import ServiceError, Severity
from penstock.graph.external_schemas import CACHE_FILE
from penstock.workflow.stages import Target
from penstock.workflow.stages import check as check_target
from tests.support import only
from tests.unit.conftest import PIPELINE as PIPELINE_FILE
from tests.unit.conftest import Check, Compile, Findings

PIPELINE = """
sources:
  events:
    type: kafka
    topic: t
    data_format: json
    schema: {{id: int64, name: string}}
    filter: {filter}
sinks:
  out: {{type: blackhole, from: events}}
"""


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ("id > 1", "`id` > 1"),
        ("name ILIKE 'a%' AND id BETWEEN 1 AND 5", "`name` ILIKE 'a%' AND `id` BETWEEN 1 AND 5"),
        ("'\"name\" IS NOT NULL'", "NOT `name` IS NULL"),
        ("id::text = '5'", "CAST(`id` AS STRING) = '5'"),
        ("id / 2 > 1", "(`id` DIV 2) > 1"),
        ("url_decode(name) IS NOT NULL", "NOT PENSTOCK_ROW_URL_DECODE(CAST(`name` AS STRING)) IS NULL"),
    ],
)
def test_a_condition_in_words_of_spark(pipeline_manifest: Compile, written: str, condition: str) -> None:
    (query,) = pipeline_manifest(PIPELINE.format(filter=written)).queries
    assert query.inputs[0].condition == condition


def test_columns_are_another_word_for_the_schema_of_json(pipeline_manifest: Compile, pipeline: Findings) -> None:
    text = PIPELINE.format(filter="id > 1")
    assert pipeline_manifest(text.replace("schema:", "columns:")) == pipeline_manifest(text)
    found = only(pipeline(text.replace("schema:", "columns:").replace("int64", "int46")))
    assert found.message.startswith("unsupported data type 'int46'")
    assert found.path == "sources.events.columns.id"


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [
        (
            "nmae > 1",
            "sql-unknown-column",
            "column 'nmae' in the source filter does not exist in the source schema. Did you mean 'name'?",
        ),
        ("id >", "sql-syntax", ""),
        ("id > 1 ORDER BY id", "sql-statement", "one condition"),
        ("id > 1; DROP TABLE x", "sql-statement", ""),
        ("json_value(name, '$..a') = 'x'", "sql-argument", "is no path"),
        ("name ? 'x'", "sql-unsupported", "operator"),
    ],
)
def test_what_is_wrong_with_a_condition(pipeline: Findings, written: str, code: str, said: str) -> None:
    found = only(pipeline(PIPELINE.format(filter=written)))
    assert found.code == code
    assert found.origin is not None
    assert (found.origin.line, found.path) == (7, "sources.events.filter")
    assert said in found.message


def test_fields_that_change_nothing_say_so(pipeline: Findings) -> None:
    found = pipeline(PIPELINE.format(filter="id > 1\n    validate_writer_schema_ordering: false"))
    assert [(d.code, d.path, d.severity) for d in found] == [
        ("no-effect", "sources.events.validate_writer_schema_ordering", Severity.INFO)
    ]


TO_KAFKA = """
sources:
  events: {{type: kafka, topic: t, data_format: json, schema: {{id: int64, name: string}}, primary_key: id}}
sinks:
  out: {{type: kafka, from: events, topic: {topic}, data_format: json{more}}}
"""


@pytest.mark.parametrize("topic", ["out", "'${OUT:-out}'"])
def test_a_topic_is_written_by_the_key_of_what_goes_into_it(pipeline_manifest: Compile, topic: str) -> None:
    manifest = pipeline_manifest(TO_KAFKA.format(topic=topic, more=""))
    assert manifest.queries[0].outputs[0].sink["primary_key"] == "id"
    assert manifest.topics[0].config["cleanup.policy"] == "compact"
    other = pipeline_manifest(TO_KAFKA.format(topic=topic, more=", primary_key: name"))
    assert other.queries[0].outputs[0].sink["primary_key"] in ("name", ["name"])


OF_AVRO = """
sources:
  events: {type: kafka, topic: t, include_metadata: true, filter: idd > 1}
sinks:
  out: {type: kafka, from: events, topic: out, data_format: json}
"""


def test_what_a_registry_said_of_avro_is_known_later(check: Check) -> None:
    rows = {"columns": [["id", "BIGINT"], ["name", None]], "key": ["id"]}
    kept = {str(CACHE_FILE): json.dumps({"t-value@latest": rows})}
    found = only(check({PIPELINE_FILE: OF_AVRO, **kept}, PIPELINE_FILE)[1])
    assert found.code == "sql-unknown-column"
    assert "Did you mean 'id'?" in found.message
    graph, _ = check({PIPELINE_FILE: OF_AVRO.replace("idd", "__kafka_offset"), **kept}, PIPELINE_FILE)
    assert graph is not None
    assert graph["sink.out"].key == ("id",)
    assert [c.name for c in graph["source.events"].columns or ()][:3] == ["id", "name", "__kafka_partition"]


@pytest.mark.parametrize("kept", ["{", "[]", '{"t-value@latest": [["id", "BIGINT"]]}', '{"t-value@latest": {}}'])
def test_what_is_kept_and_damaged_is_as_good_as_nothing(check: Check, kept: str) -> None:
    assert check({PIPELINE_FILE: OF_AVRO, str(CACHE_FILE): kept}, PIPELINE_FILE)[1] == ()


UNKEYED = """
sources:
  events: {{type: kafka, topic: t{more}}}
transforms:
  some: {{type: sql, primary_key: '', sql: "SELECT id FROM events"}}
sinks:
  out: {{type: kafka, from: {upstream}, topic: out, data_format: json{key}}}
  rest: {{type: blackhole, from: some}}
"""
JSON = ", data_format: json, schema: {id: int64}"


@pytest.mark.parametrize("upstream", ["events", "some"])
def test_a_topic_is_not_written_without_a_key(pipeline: Findings, upstream: str) -> None:
    unkeyed, found = pipeline(UNKEYED.format(more=JSON, upstream=upstream, key=""))
    assert (unkeyed.code, unkeyed.path) == ("missing-field", "transforms.some.primary_key")
    assert (found.code, found.path) == ("missing-field", "sinks.out.primary_key")
    assert found.message == "kafka sink 'out' requires a primary key, but none could be resolved"
    assert only(pipeline(UNKEYED.format(more=JSON, upstream=upstream, key=", primary_key: id"))) == unkeyed
    assert pipeline(UNKEYED.format(more=f"{JSON}, primary_key: id", upstream=upstream, key="")) == ()


@pytest.mark.parametrize("upstream", ["events", "some"])
def test_a_key_that_a_registry_may_name_is_not_missed_before_it_was_asked(check: Check, upstream: str) -> None:
    text = UNKEYED.format(more="", upstream=upstream, key="")
    assert check({PIPELINE_FILE: text}, PIPELINE_FILE)[1] == ()
    told = {"t-value@latest": {"columns": [["id", "BIGINT"]], "key": []}}
    found = check({PIPELINE_FILE: text, str(CACHE_FILE): json.dumps(told)}, PIPELINE_FILE)[1]
    assert [d.path for d in found] == ["transforms.some.primary_key", "sinks.out.primary_key"]
    told["t-value@latest"]["key"] = ["id"]
    graph, found = check({PIPELINE_FILE: text, str(CACHE_FILE): json.dumps(told)}, PIPELINE_FILE)
    assert found == ()
    assert graph is not None
    assert graph["sink.out"].key == ("id",)


def test_a_key_that_must_be_there_may_be_told_later(check: Check) -> None:
    text = UNKEYED.format(more="", upstream="some", key="")
    files = {PIPELINE_FILE: text, "config.yaml": "enforce_primary_keys: true\n"}
    graph, found = check(files, PIPELINE_FILE)
    assert graph is not None
    assert [(d.code, d.path, d.severity) for d in found] == [("primary-key-unknown", "sources.events", Severity.INFO)]
    told = {"t-value@latest": {"columns": [["id", "BIGINT"]], "key": []}}
    graph, found = check({**files, str(CACHE_FILE): json.dumps(told)}, PIPELINE_FILE)
    assert graph is None
    assert {d.path for d in found if d.code == "primary-key-unknown"} == {
        "sources.events", "transforms.some", "sinks.out", "sinks.rest"
    }  # fmt: skip


def test_the_sorting_key_of_a_table_is_its_key_once_that_is_known(check: Check) -> None:
    text = """
    sources: {archive: {type: clickhouse, table_name: orders}}
    sinks: {out: {type: kafka, from: archive, topic: out, data_format: json}}
    """
    assert check({PIPELINE_FILE: text}, PIPELINE_FILE)[1] == ()
    told = {"clickhouse:default.orders()": {"columns": [["id", "BIGINT"], ["n", "INT"]], "key": ["id"]}}
    graph, found = check({PIPELINE_FILE: text, str(CACHE_FILE): json.dumps(told)}, PIPELINE_FILE)
    assert found == ()
    assert graph is not None
    assert graph["sink.out"].key == ("id",)
    assert [c.name for c in graph["sink.out"].columns or ()] == ["id", "n", "_gs_op"]


def test_a_server_that_is_away_need_not_say_again_what_the_key_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
    text = "sources: {a: {type: clickhouse, table_name: t}}\nsinks: {out: {type: blackhole, from: a}}\n"
    (tmp_path / PIPELINE_FILE).write_text(text, encoding="utf-8")
    asking = Target(tmp_path / PIPELINE_FILE, ask_read=True)
    with pytest.raises(ServiceError, match="does not answer"):
        check_target(asking)
    (tmp_path / CACHE_FILE).parent.mkdir(parents=True)
    told = {"clickhouse:default.t()": {"columns": [["id", "BIGINT"]], "key": ["id"]}}
    (tmp_path / CACHE_FILE).write_text(json.dumps(told), encoding="utf-8")
    assert check_target(asking).graph["sink.out"].key == ("id",)
