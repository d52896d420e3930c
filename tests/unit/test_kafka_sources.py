"""Sources of Kafka in pipelines: `filter` is checked and put into words of Spark; what changes nothing says so."""

import pytest

from penstock.errors import Severity
from tests.support import only
from tests.unit.conftest import Compile, Findings

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
