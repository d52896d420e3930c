"""Sources of Kafka in pipelines: `filter` is checked and put into words of Spark, keys go with rows; what changes
nothing says so."""

import json

import pytest

from penstock.errors import Severity
from penstock.graph.schemas import KEPT
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


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [
        ("idd > 1", "sql-unknown-column", "idd"),
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
    kept = {str(KEPT): json.dumps({"t-value@latest": rows})}
    found = only(check({PIPELINE_FILE: OF_AVRO, **kept}, PIPELINE_FILE)[1])
    assert (found.code, found.hint) == ("sql-unknown-column", "did you mean `id`?")
    graph, _ = check({PIPELINE_FILE: OF_AVRO.replace("idd", "__kafka_offset"), **kept}, PIPELINE_FILE)
    assert graph is not None
    assert graph["sink.out"].key == ("id",)
    assert [c.name for c in graph["source.events"].columns or ()][:3] == ["id", "name", "__kafka_partition"]


@pytest.mark.parametrize("kept", ["{", "[]", '{"t-value@latest": [["id", "BIGINT"]]}', '{"t-value@latest": {}}'])
def test_what_is_kept_and_damaged_is_as_good_as_nothing(check: Check, kept: str) -> None:
    assert check({PIPELINE_FILE: OF_AVRO, str(KEPT): kept}, PIPELINE_FILE)[1] == ()
