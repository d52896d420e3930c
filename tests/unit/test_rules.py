"""The rules of a project: each of them kept and broken, and leave to break one."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.errors import Diagnostic, ProjectInvalid, Severity
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.link import link
from penstock.project.load import load
from penstock.project.parse import parse
from penstock.project.stream_project import Rules
from penstock.workflow.stages import Target
from penstock.workflow.stages import check as checked_by
from tests.support import codes, only, spot, write
from tests.unit.conftest import MAIN

SQL = "sql: 'SELECT id FROM {{ source(\"s\") }}'"
SOURCE = "sources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]\n"
TESTED = "tests: [{{name: t, model: m, type: {}, assertions: [{{not_null: {{columns: id}}}}]}}]\n"
SENSITIVE = "sources: [{{name: s, topic: t, columns: [{{name: id}}, {{name: ssn, classification: {}}}]}}]\n"
SSN = "models: [{name: m, sql: 'SELECT ssn AS number FROM {{ source(\"s\") }}'"


@dataclass(frozen=True)
class Case:
    """A rule with a value, what keeps it, what breaks it, and what it is said to be then."""

    rule: str
    value: str
    kept: str
    broken: str
    expected: str
    actual: str


def models(*bodies: str) -> str:
    return (
        SOURCE + "models: [" + ", ".join(f"{{name: m, {SQL}{', ' if body else ''}{body}}}" for body in bodies) + "]\n"
    )


def topic(body: str) -> str:
    return models(f"advanced: {{topic: {{{body}}}}}")


def source(body: str) -> str:
    return f"sources: [{{name: s, topic: t{', ' if body else ''}{body}}}]\n"


def exposure(body: str) -> str:
    return f"exposures: [{{name: e{', ' if body else ''}{body}}}]\n"


def two_inputs(count: int) -> str:
    reads = " UNION ALL ".join(f'SELECT id FROM {{{{ source("s{n}") }}}}' for n in range(count))
    sources = ", ".join(f"{{name: s{n}, topic: t{n}}}" for n in range(count))
    return f"sources: [{sources}]\nmodels: [{{name: m, sql: '{reads}'}}]\n"


CASES = [
    Case("topics.min_partitions", "3", topic("partitions: 3"), topic("partitions: 2"), ">= 3", "2"),
    Case("topics.min_partitions", "3", topic("partitions: 4"), models(""), ">= 3", "1, the default"),
    Case("topics.max_partitions", "3", topic("partitions: 3"), topic("partitions: 4"), "<= 3", "4"),
    Case(
        "topics.min_replication_factor",
        "2",
        topic("replication_factor: 2"),
        topic("replication_factor: 1"),
        ">= 2",
        "1",
    ),
    Case(
        "topics.max_replication_factor",
        "2",
        topic("replication_factor: 2"),
        topic("replication_factor: 3"),
        "<= 2",
        "3",
    ),
    Case(
        "topics.naming_pattern",
        "'[a-z]+\\.v[0-9]+'",
        topic("name: a.v1"),
        topic("name: a.v1x"),
        "[a-z]+\\.v[0-9]+",
        "a.v1x",
    ),
    Case("topics.naming_pattern", "'x.*'", topic("name: xm"), models(""), "x.*", "m"),
    Case(
        "topics.forbidden_prefixes",
        "[tmp_]",
        topic("name: x.tmp_"),
        topic("name: tmp_x"),
        "no name with `tmp_…`",
        "tmp_x",
    ),
    Case(
        "topics.forbidden_suffixes",
        "[_tmp]",
        topic("name: _tmp.x"),
        topic("name: x_tmp"),
        "no name with `…_tmp`",
        "x_tmp",
    ),
    Case(
        "topics.required_config",
        "[retention.ms]",
        topic("config: {retention.ms: 5}"),
        topic("config: {a: 5}"),
        "`retention.ms`",
        "nothing",
    ),
    Case(
        "models.require_description",
        "true",
        models("description: x"),
        models("description: '  '"),
        "`description`",
        "nothing",
    ),
    Case(
        "models.min_description_length",
        "5",
        models("description: '12345'"),
        models("description: ' 1234 '"),
        ">= 5 characters",
        "4",
    ),
    Case("models.require_owner", "true", models("owner: me"), models(""), "`owner`", "nothing"),
    Case("models.require_tests", "true", models("") + TESTED.format("sample"), models(""), "a test", "none"),
    Case(
        "models.require_tests",
        "true",
        models("columns: [{name: id, tests: [not_null]}]"),
        models("") + "tests: [{name: t, model: m, type: sample}]\n",
        "a test",
        "none",
    ),
    Case(
        "models.min_tests",
        "2",
        models("columns: [{name: id, tests: [not_null]}]") + TESTED.format("sample"),
        models("") + TESTED.format("sample"),
        ">= 2",
        "1",
    ),
    Case("models.max_dependencies", "2", two_inputs(2), two_inputs(3), "<= 2 inputs", "3"),
    Case(
        "models.max_sql_length",
        "40",
        models(""),
        models("").replace("SELECT id", "SELECT id      AS identity"),
        "<= 40 characters",
        "49",
    ),
    Case("models.allowed_materializations", "[topic]", models(""), models("materialized: flink"), "topic", "spark"),
    Case("models.allowed_materializations", "[flink]", models("materialized: spark"), models(""), "spark", "topic"),
    Case(
        "models.required_tags",
        "[tier]",
        models("tags: [tier-1]"),
        models("tags: [tiers, x]"),
        "a tag `tier`",
        "tiers, x",
    ),
    Case("models.allowed_tags", "[a, b]", models("tags: [b]"), models("tags: [a, c]"), "a, b", "c"),
    Case("sources.require_description", "true", source("description: x"), source(""), "`description`", "nothing"),
    Case("sources.require_owner", "true", source("owner: x"), source(""), "`owner`", "nothing"),
    Case(
        "sources.require_schema",
        "true",
        source("schema: {registry: confluent, subject: x}"),
        source(""),
        "`schema`",
        "nothing",
    ),
    Case("sources.require_columns", "true", source("columns: [{name: a}]"), source(""), "`columns`", "nothing"),
    Case(
        "sources.require_freshness", "true", source("freshness: {warn_after: 5m}"), source(""), "`freshness`", "nothing"
    ),
    Case(
        "sources.max_freshness_warn",
        "5m",
        source("freshness: {warn_after: 5m}"),
        source("freshness: {warn_after: 6m}"),
        "<= 300 s",
        "360 s",
    ),
    Case(
        "sources.max_freshness_error",
        "5m",
        source("freshness: {error_after: 5m}"),
        source("freshness: {max_lag_seconds: 301}"),
        "<= 300 s",
        "301 s",
    ),
    Case("sources.required_tags", "[a]", source("tags: [a]"), source(""), "a tag `a`", "none"),
    Case("exposures.require_description", "true", exposure("description: x"), exposure(""), "`description`", "nothing"),
    Case("exposures.require_owner", "true", exposure("owner: x"), exposure(""), "`owner`", "nothing"),
    Case("exposures.require_sla", "true", exposure("sla: {availability: 99}"), exposure(""), "`sla`", "nothing"),
    Case(
        "exposures.require_contacts", "true", exposure("contacts: [{name: x}]"), exposure(""), "`contacts`", "nothing"
    ),
    Case(
        "exposures.max_latency_p99_ms",
        "500",
        exposure("sla: {latency_p99_ms: 500}"),
        exposure("sla: {latency_p99_ms: 501}"),
        "<= 500 ms",
        "501 ms",
    ),
    Case(
        "exposures.min_availability",
        "99.5",
        exposure("sla: {availability: '99.5%'}"),
        exposure("sla: {availability: 99.4}"),
        ">= 99.5 %",
        "99.4 %",
    ),
    Case("exposures.required_tags", "[a]", exposure("tags: ['a:1']"), exposure("tags: [b]"), "a tag `a`", "b"),
    Case(
        "tests.require_schema_tests",
        "true",
        models("") + TESTED.format("schema"),
        models("") + TESTED.format("sample"),
        "a `schema` test",
        "none",
    ),
    Case(
        "tests.min_assertions_per_test",
        "1",
        models("") + TESTED.format("sample"),
        models("") + "tests: [{name: t, model: m, type: sample}]\n",
        ">= 1",
        "0",
    ),
    Case(
        "tests.require_continuous_for_critical",
        "true",
        models("tags: [critical]") + TESTED.format("continuous"),
        models("tags: [critical]") + TESTED.format("sample"),
        "a `continuous` test",
        "none",
    ),
    Case(
        "tests.require_continuous_for_critical",
        "true",
        models("tags: [other]"),
        models("tags: [critical]"),
        "a `continuous` test",
        "none",
    ),
    Case(
        "tests.require_description",
        "true",
        SOURCE + "tests: [{name: t, model: s, type: schema, description: x}]\n",
        SOURCE + "tests: [{name: t, model: s, type: schema}]\n",
        "`description`",
        "nothing",
    ),
    Case(
        "security.require_classification",
        "true",
        source("columns: [{name: a, classification: public}]"),
        source("columns: [{name: a}]"),
        "public, internal, confidential, sensitive, highly_sensitive",
        "nothing",
    ),
    Case(
        "security.allowed_classifications",
        "[internal]",
        source("columns: [{name: a, classification: internal}]"),
        source("columns: [{name: a, classification: public}]"),
        "internal",
        "public",
    ),
    Case(
        "security.sensitive_columns_require_masking",
        "true",
        SENSITIVE.format("sensitive") + SSN + ", security: {masking: [{column: ssn, policy: hash}]}}]\n",
        SENSITIVE.format("sensitive") + SSN + "}]\n",
        "a mask",
        "none",
    ),
    Case(
        "security.sensitive_columns_require_masking",
        "true",
        SENSITIVE.format("confidential") + SSN + "}]\n",
        SENSITIVE.format("highly_sensitive") + SSN + "}]\n",
        "a mask",
        "none",
    ),
    Case(
        "security.highly_sensitive_columns_require_encryption",
        "true",
        SENSITIVE.format("highly_sensitive") + SSN + ", security: {masking: [{column: ssn, policy: tokenize}]}}]\n",
        SENSITIVE.format("highly_sensitive") + SSN + ", security: {masking: [{column: ssn, policy: hash}]}}]\n",
        "a strong mask",
        "hash",
    ),
    Case(
        "security.highly_sensitive_columns_require_encryption",
        "true",
        SENSITIVE.format("sensitive") + SSN + "}]\n",
        SENSITIVE.format("highly_sensitive") + SSN + "}]\n",
        "a strong mask",
        "none",
    ),
    Case(
        "security.pii_column_patterns",
        "['^e.?mail']",
        source("columns: [{name: e_mail, classification: sensitive}, {name: x}]"),
        source("columns: [{name: EMAIL_address, classification: internal}]"),
        "sensitive or more",
        "internal",
    ),
    Case("security.require_access_level", "true", models("access: public"), models(""), "`access`", "nothing"),
]
IDS = [f"{case.rule}-{number}" for number, case in enumerate(CASES)]
TODAY = date(2030, 6, 15)

Judge: TypeAlias = Callable[[str], list[Diagnostic]]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """What linking says about a project on a certain day."""

    def run(text: str) -> list[Diagnostic]:
        write(tmp_path, {MAIN: text})
        documents, notes = load(tmp_path)
        assert documents is not None
        project, found = parse(documents)
        assert project is not None
        assert [*notes, *found] == []
        return link(project, {}, AnalysisCache(), today=TODAY)[1]

    return run


def ruled(rule: str, value: str, body: str) -> str:
    group, _, name = rule.partition(".")
    return f"project: {{name: p}}\nrules: {{{group}: {{{name}: {value}}}}}\n{body}"


def test_every_rule_has_a_case_that_keeps_it_and_one_that_breaks_it() -> None:
    assert {case.rule for case in CASES} == set(Rules.names())


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_rule_that_is_kept_says_nothing(judge: Judge, case: Case) -> None:
    assert judge(ruled(case.rule, case.value, case.kept)) == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_rule_that_is_broken_names_itself_and_what_was_expected_and_found(judge: Judge, case: Case) -> None:
    text = ruled(case.rule, case.value, case.broken)
    found = only(judge(text))
    assert (found.code, found.severity) == ("rule-broken", Severity.ERROR)
    assert found.params == {"rule": case.rule, "expected": case.expected, "actual": case.actual}
    assert f"(rule `{case.rule}`: expected {case.expected}, got {case.actual})" in found.message
    assert found.origin is not None
    assert found.origin.file == MAIN
    assert (found.origin.line or 0) > 2
    assert found.path.partition(".")[0] in ("sources", "models", "tests", "exposures")


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_the_rule_nothing_is_broken(judge: Judge, case: Case) -> None:
    assert judge("project: {name: p}\n" + case.broken) == []


# Effective values


@pytest.mark.parametrize(
    ("defaults", "is_broken"),
    [
        ("{topic: {partitions: 3}}", False),
        ("{models: {topic: {partitions: 3}}}", False),
        ("{topic: {partitions: 3}, models: {topic: {partitions: 1}}}", True),
        ("{topic: {partitions: 1}, models: {topic: {partitions: 3}}}", False),
        ("{topic: {replication_factor: 9}}", True),
    ],
)
def test_rules_see_what_the_defaults_make_of_a_topic(judge: Judge, defaults: str, is_broken: bool) -> None:
    text = f"defaults: {defaults}\n" + ruled("topics.min_partitions", "3", models(""))
    assert codes(judge(text)) == ["rule-broken"] * is_broken


def test_settings_of_a_topic_come_key_by_key_from_every_level(judge: Judge) -> None:
    text = ruled("topics.required_config", "[a, b, c]", topic("config: {c: 1}"))
    text = "defaults: {topic: {config: {a: 1}}, models: {topic: {config: {b: 1}}}}\n" + text
    assert judge(text) == []


def test_a_model_that_writes_no_topic_is_not_held_to_rules_for_topics(judge: Judge) -> None:
    sink = "models: [{name: m, from: {source: s}, connector: print}]\n"
    assert judge(ruled("topics.min_partitions", "3", SOURCE + sink)) == []


def test_stateless_sql_without_a_gateway_writes_a_topic_that_is_held_to_the_rules(judge: Judge) -> None:
    assert codes(judge(ruled("topics.min_partitions", "3", models("")))) == ["rule-broken"]


def test_a_self_join_is_one_dependency(judge: Judge) -> None:
    sql = "SELECT a.id FROM {{ source('s') }} a JOIN {{ source('s') }} b ON a.id = b.id"
    found = judge(ruled("models.max_dependencies", "1", f'{SOURCE}models: [{{name: m, sql: "{sql}"}}]\n'))
    assert codes(found) == ["state-unbounded"]


def test_a_dependency_by_from_counts(judge: Judge) -> None:
    body = two_inputs(2).partition("models:")[0]
    body += "models: [{name: m, from: [{source: s0}, {source: s1}], connector: print}]\n"
    assert codes(judge(ruled("models.max_dependencies", "1", body))) == ["rule-broken"]


def test_a_mask_in_another_model_does_not_count(judge: Judge) -> None:
    body = SENSITIVE.format("sensitive") + (
        "models:\n"
        "  - {name: a, sql: 'SELECT ssn FROM {{ source(\"s\") }}',\n"
        "     security: {masking: [{column: ssn, policy: hash}]}}\n"
        "  - {name: b, sql: 'SELECT ssn FROM {{ source(\"s\") }}'}\n"
        "  - {name: c, sql: 'SELECT ssn FROM {{ ref(\"a\") }}'}\n"
    )
    found = only(judge(ruled("security.sensitive_columns_require_masking", "true", body)))
    assert found.path == "models.b"


def test_a_column_that_only_looks_like_personal_data_is_found_in_models_too(judge: Judge) -> None:
    body = SOURCE + "models: [{name: m, sql: 'SELECT id AS user_email FROM {{ source(\"s\") }}'}]\n"
    found = only(judge(ruled("security.pii_column_patterns", "[email]", body)))
    assert found.path == "models.m"


def test_a_place_is_that_of_the_value_that_breaks_the_rule(judge: Judge) -> None:
    text = ruled("topics.max_partitions", "3", topic("partitions: 44"))
    assert only(judge(text)).origin == spot(MAIN, text, "44")
    text = ruled("models.allowed_tags", "[a]", models("tags: [a, wrong]"))
    assert only(judge(text)).origin == spot(MAIN, text, "wrong")
    text = ruled("sources.max_freshness_warn", "5m", source("freshness: {warn_after: 6m}"))
    found = only(judge(text)).origin
    assert found in (spot(MAIN, text, "{warn_after"), spot(MAIN, text, "6m"))


def test_every_violation_of_every_rule_is_reported_at_once(judge: Judge) -> None:
    text = "project: {name: p}\n"
    text += "rules: {models: {require_owner: true, require_description: true}, topics: {min_partitions: 2}}\n"
    found = judge(text + models("") + exposure(""))
    assert sorted(d.params["rule"] for d in found) == [
        "models.require_description",
        "models.require_owner",
        "topics.min_partitions",
    ]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("{topics: {naming_pattern: '('}}", "invalid-value"),
        ("{security: {pii_column_patterns: ['*']}}", "invalid-value"),
        ("{topics: {min_partitions: 0}}", "invalid-value"),
        ("{models: {require_ownr: true}}", "unknown-field"),
        ("{model: {}}", "unknown-field"),
        ("{models: {allowed_materializations: [table]}}", "unknown-value"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(tmp_path: Path, rules: str, code: str) -> None:
    write(tmp_path, {MAIN: f"project: {{name: p}}\nrules: {rules}\n"})
    with pytest.raises(ProjectInvalid) as caught:
        checked_by(Target(tmp_path))
    assert codes(caught.value.diagnostics) == [code]


def test_broken_rules_are_warnings_for_who_only_looks(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: ruled("models.require_owner", "true", models(""))})
    with pytest.raises(ProjectInvalid):
        checked_by(Target(tmp_path))
    notes = checked_by(Target(tmp_path), governed=False).notes
    assert [(d.code, d.severity) for d in notes] == [("rule-broken", Severity.WARNING)]


# Waivers


def waived(*waivers: tuple[str, str], broken: bool = True) -> str:
    listed = ", ".join(f"{{rule: {rule}, reason: because, until: {until}}}" for rule, until in waivers)
    owner = "" if broken else "owner: me, "
    return ruled("models.require_owner", "true", models(f"{owner}waivers: [{listed}]"))


@pytest.mark.parametrize("until", ["2030-06-15", "2030-06-16", "2999-12-31"])
def test_a_waiver_in_force_lets_an_element_break_a_rule_until_the_end_of_its_day(judge: Judge, until: str) -> None:
    found = only(judge(waived(("models.require_owner", until))))
    assert (found.code, found.severity) == ("rule-waived", Severity.INFO)
    assert found.params["reason"] == "because"
    assert found.params["until"] == until
    assert found.params["rule"] == "models.require_owner"


def test_a_waiver_that_is_over_lets_nothing_pass_and_is_pointed_out(judge: Judge) -> None:
    text = waived(("models.require_owner", "2030-06-14"))
    found = judge(text)
    assert [(d.code, d.severity) for d in found] == [
        ("rule-broken", Severity.ERROR),
        ("waiver-expired", Severity.WARNING),
    ]
    assert found[1].origin == spot(MAIN, text, "models.require_owner")
    assert found[1].path == "models.m.waivers.0"


def test_a_waiver_that_is_over_is_pointed_out_also_where_the_rule_is_kept(judge: Judge) -> None:
    assert codes(judge(waived(("models.require_owner", "2020-01-01"), broken=False))) == ["waiver-expired"]


def test_a_waiver_of_what_does_not_happen_is_pointed_out(judge: Judge) -> None:
    found = only(judge(waived(("models.require_owner", "2999-01-01"), broken=False)))
    assert (found.code, found.severity, found.hint) == ("waiver-unused", Severity.WARNING, "remove it")


def test_a_waiver_of_another_rule_does_not_count(judge: Judge) -> None:
    found = judge(waived(("models.require_tests", "2999-01-01")))
    assert codes(found) == ["rule-broken", "waiver-unused"]


def test_a_waiver_of_a_rule_nobody_knows_is_refused_with_the_nearest(judge: Judge) -> None:
    found = only(d for d in judge(waived(("models.require_onwer", "2999-01-01"))) if d.code == "unknown-value")
    assert (found.severity, found.hint) == (Severity.ERROR, "did you mean `models.require_owner`?")


def test_a_waiver_counts_for_its_own_element_only(judge: Judge) -> None:
    text = waived(("models.require_owner", "2999-01-01")).replace("models: [", f"models: [{{name: other, {SQL}}}, ")
    found = judge(text)
    assert [(d.code, d.path) for d in found] == [("rule-broken", "models.other"), ("rule-waived", "models.m")]


def test_one_waiver_covers_every_time_the_rule_is_broken(judge: Judge) -> None:
    waiver = "waivers: [{rule: models.required_tags, reason: r, until: 2999-01-01}]"
    assert codes(judge(ruled("models.required_tags", "[a, b]", models(waiver)))) == ["rule-waived"] * 2


def test_a_waiver_in_force_counts_also_behind_one_that_is_over(judge: Judge) -> None:
    found = judge(waived(("models.require_owner", "2020-01-01"), ("models.require_owner", "2999-01-01")))
    assert sorted(codes(found)) == ["rule-waived", "waiver-expired"]


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("sources.require_owner", "sources: [{{name: s, topic: t, waivers: [{}]}}]\n"),
        ("exposures.require_owner", "exposures: [{{name: e, waivers: [{}]}}]\n"),
        (
            "tests.require_description",
            SOURCE.replace("{", "{{").replace("}", "}}")
            + "tests: [{{name: t, model: s, type: schema, waivers: [{}]}}]\n",
        ),
    ],
)
def test_every_kind_of_element_can_have_a_waiver(judge: Judge, rule: str, body: str) -> None:
    waiver = f"{{rule: {rule}, reason: r, until: 2999-01-01}}"
    assert codes(judge(ruled(rule, "true", body.format(waiver)))) == ["rule-waived"]


@pytest.mark.parametrize(
    "waiver",
    [
        "{rule: models.require_owner, until: 2999-01-01}",
        "{rule: models.require_owner, reason: '', until: 2999-01-01}",
        "{rule: models.require_owner, reason: r}",
        "{rule: models.require_owner, reason: r, until: soon}",
        "{reason: r, until: 2999-01-01}",
    ],
)
def test_a_waiver_needs_a_rule_a_reason_and_a_day(tmp_path: Path, waiver: str) -> None:
    write(tmp_path, {MAIN: ruled("models.require_owner", "true", models(f"waivers: [{waiver}]"))})
    with pytest.raises(ProjectInvalid):
        checked_by(Target(tmp_path))
