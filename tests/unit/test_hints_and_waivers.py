"""Hints for slips of the pen, and warnings that a model has leave for."""

from penstock.errors import Severity, nearest
from tests.support import codes, errors, only
from tests.unit.conftest import PIPELINE, Check, Findings

SOURCE = """\
project: {name: p}
sources:
  - name: s
    topic: t
    columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}, {name: k, type: STRING}]
    EVENT
"""


def test_a_type_that_a_comma_cuts_is_to_be_quoted(project: Findings) -> None:
    text = "project: {name: p}\nsources: [{name: s, topic: t, columns: [{name: a, type: DECIMAL(10, 2)}]}]\n"
    assert "quote the type" in (only(project(text)).hint or "")
    half = only(project(text.replace("DECIMAL(10, 2)", "'DECIMAL(10'")))
    assert (half.code, "quote the type" in (half.hint or "")) == ("unknown-column-type", True)


def test_a_type_that_a_comma_cuts_is_to_be_quoted_in_pipelines(pipeline: Findings) -> None:
    for source in (
        "{type: kafka, topic: t, data_format: json, schema: {id: int64, amount: decimal(10, 2), at: date32}}",
        "{type: file, path: x.csv, format: csv, columns: {id: bigint, amount: DECIMAL(10, 2)}}",
    ):
        found = only(pipeline(f"sources: {{s: {source}}}\nsinks: {{o: {{type: print, from: s}}}}\n"))
        assert "quote the type" in (found.hint or "")


def test_slips_in_types_and_addresses_get_a_hint(project: Findings, pipeline: Findings) -> None:
    head = SOURCE.replace("EVENT", "")
    sink = "models: [{name: k, materialized: sink, from: [{source: s}], advanced: {connector: {type: TYPE}}}]\n"
    found = only(project(head + sink.replace("TYPE", "postgress")))
    assert (found.code, found.severity, found.hint) == ("unknown-type", Severity.WARNING, "did you mean `postgres`?")
    assert project(head + sink.replace("TYPE", "clickhouse-sink")) == ()
    for address in ("http://localhost:9092", "[a:1, 'https://b:2']"):
        wrong = only(project(head + f"runtime: {{kafka: {{bootstrap_servers: {address}}}}}\n"))
        assert "host:port" in wrong.message
    assert errors(project(head + "runtime: {kafka: {bootstrap_servers: 'PLAINTEXT://localhost:9092'}}\n")) == []


def test_only_a_slip_of_the_pen_is_a_suggestion() -> None:
    assert nearest("median", ["min", "max", "avg"]) is None
    assert nearest("postgress", ["postgres", "print"]) == "postgres"
    assert nearest("customer", ["customer_id"]) == "customer_id"
    assert nearest("ordrs", ["orders"]) == "orders"


def test_nothing_is_offered_to_read_from_itself(project: Findings, check: Check) -> None:
    text = SOURCE.replace("EVENT", "") + "models: [{name: clean, sql: 'SELECT id FROM {{ ref(\"cleen\") }}'}]\n"
    assert "`clean`" not in str(only(project(text)).hint)
    made = (
        "sources: {orders: {type: file, path: x.csv, format: csv}}\n"
        "transforms: {clean: {type: sql, primary_key: id, sql: SELECT id FROM cleen}}\n"
        "sinks: {o: {type: print, from: clean}}\n"
    )
    found = [d for d in check({PIPELINE: made}, PIPELINE)[1] if d.code == "unknown-upstream"]
    assert "`clean`" not in str(only(found).hint)


# Warnings that are waived

UNBOUNDED = "{name: m, sql: 'SELECT k, COUNT(*) AS n FROM {{ source(\"s\") }} GROUP BY k', waivers: [WAIVER]}"


def test_unbounded_state_can_be_waived_with_a_reason(project: Findings) -> None:
    head = SOURCE.replace("EVENT", "") + f"models: [{UNBOUNDED}]\n"
    assert codes(project(head.replace("WAIVER", ""))) == ["state-unbounded"]
    for more in ("", ", until: 2999-01-01"):
        found = only(project(head.replace("WAIVER", f"{{rule: state-unbounded, reason: few keys{more}}}")))
        assert (found.code, found.severity, found.params["reason"]) == ("rule-waived", Severity.INFO, "few keys")
        assert "few keys" in found.message


def test_a_waiver_of_a_warning_that_is_over_or_of_no_use_is_told(project: Findings) -> None:
    head = SOURCE.replace("EVENT", "") + f"models: [{UNBOUNDED}]\n"
    over = head.replace("WAIVER", "{rule: state-unbounded, reason: r, until: 2020-01-01}")
    assert sorted(codes(project(over))) == ["state-unbounded", "waiver-expired"]
    idle = (
        head.replace("WAIVER", "{rule: state-unbounded, reason: r}")
        .replace(", COUNT(*) AS n", "")
        .replace(" GROUP BY k", "")
    )
    assert codes(project(idle)) == ["waiver-unused"]
    rule = head.replace("WAIVER", "{rule: models.require_owner, reason: r}")
    assert "missing-field" in codes(project(rule))
