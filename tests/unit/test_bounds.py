"""A lower bound above its upper bound, and lengths of time below zero, are refused where they are written."""

import pytest

from tests.support import errors, only
from tests.unit.conftest import Findings
from tests.unit.test_data_tests import with_test

HEAD = "project: {name: p}\n"
SOURCE = "sources: [{name: s, topic: t, columns: [{name: id, type: BIGINT%s}]%s}]\n"


@pytest.mark.parametrize(
    ("assertion", "path"),
    [
        ("{range: {column: id, min: 10, max: 5}}", "range"),
        ("{throughput: {min_per_second: 10, max_per_second: 5}}", "throughput"),
        ("{throughput: {min_per_minute: 10, max_per_minute: 5}}", "throughput"),
        ("{distribution: {column: id, buckets: [{min: 10, max: 5, expected_ratio: 1}]}}", "distribution.buckets.0"),
    ],
)
def test_an_assertion_that_no_row_can_meet_is_refused(project: Findings, assertion: str, path: str) -> None:
    found = only(project(with_test(assertion)))
    assert (found.code, found.path) == ("invalid-value", f"tests.t.assertions.0.{path}")
    assert " is 10, above `max" in found.message
    assert (found.hint or "").startswith("are they swapped? Write min")
    assert project(with_test(assertion.replace("10", "5"))) == ()


@pytest.mark.parametrize("bounds", ["{min: 10, max: 5}", "{min: 0.5, max: -0.5}", "{min: '2', max: '1'}"])
def test_a_range_beside_a_column_that_no_row_can_meet_is_refused(project: Findings, bounds: str) -> None:
    found = only(project(HEAD + SOURCE % (f", tests: [{{range: {bounds}}}]", "")))
    assert (found.code, found.path) == ("invalid-value", "sources.s.columns.0.tests.0.range")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("rules: {topics: {min_partitions: 3, max_partitions: 2}}\n", "rules.topics"),
        ("rules: {topics: {min_replication_factor: 3, max_replication_factor: 2}}\n", "rules.topics"),
        ("exposures: [{name: e, sla: {latency_p50_ms: 30, latency_p99_ms: 20}}]\n", "exposures.e.sla"),
    ],
)
def test_rules_and_promises_that_nothing_can_keep_are_refused(project: Findings, text: str, path: str) -> None:
    found = only(errors(project(HEAD + text)))
    assert (found.code, found.path) == ("invalid-value", path)


@pytest.mark.parametrize(
    "text",
    [
        with_test(more=", timeout: -5"),
        HEAD + SOURCE % ("", ", freshness: {warn_after: -5}"),
        HEAD + "rules: {sources: {max_freshness_warn: -1}}\n",
        with_test("{throughput: {min_per_second: -1}}"),
    ],
)
def test_lengths_of_time_and_rates_below_zero_are_refused(project: Findings, text: str) -> None:
    found = only(errors(project(text)))
    assert (found.code, found.message) == ("invalid-value", "should be greater than or equal to 0")


def test_a_pipeline_has_no_time_below_zero_either(pipeline: Findings) -> None:
    text = """\
sources: {s: {type: file, path: in, format: json, schema: {id: long}, mode: {type: continuous, poll_interval: -5}}}
transforms: {}
sinks: {out: {type: print, from: s}}
"""
    found = only(errors(pipeline(text)))
    assert (found.code, found.path) == ("invalid-value", "sources.s.mode.poll_interval")
