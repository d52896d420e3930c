"""`${NAME}` in documents: what is filled in, when, and what is never shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import Severity
from penstock.manifest.compile import compile
from penstock.project.yaml.secrets import COVER, is_secret_name, mask_secrets
from penstock.project.yaml.variables import find_references, load_environ, resolve_variables, substitute_variables
from tests.support import codes, errors, only, spot, write
from tests.unit.conftest import MAIN, Check, Findings

SECRET = "s3cret-value-of-a-test"


def filled(text: str, **environ: str) -> tuple[str, list[str]]:
    missing: list[str] = []
    return substitute_variables(text, environ, missing.append), missing


# The syntax


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${A:-d}", "1"),
        ("${NONE:-d}", "d"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("${NONE:-http://h:1/p?q}", "http://h:1/p?q"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$${A} ${A}", "${A} 1"),
        ("$A", "$A"),
        ("${1A}", "${1A}"),
        ("${A-B}", "${A-B}"),
        ("${}", "${}"),
        ("${A", "${A"),
        ("€${A}", "€1"),
        ("no reference", "no reference"),
    ],
)
def test_references_are_filled_in(text: str, expected: str) -> None:
    assert filled(text, A="1", EMPTY="") == (expected, [])


def test_a_value_is_not_looked_through_for_more_references() -> None:
    assert filled("${A}", A="${B}", B="2") == ("${B}", [])


def test_a_reference_without_a_value_stays_and_is_named() -> None:
    assert filled("${A} ${B:-2} ${C}") == ("${A} 2 ${C}", ["A", "C"])


def test_references_are_filled_in_at_any_depth_but_not_in_keys() -> None:
    raw = {"a": ["${A}", {"${A}": "${A}"}], "n": 5, "none": None}
    assert resolve_variables(raw, {"A": "1"}, lambda _: False) == (
        {"a": ["1", {"${A}": "1"}], "n": 5, "none": None},
        [],
    )


def test_what_is_for_later_stays_as_it_was_written() -> None:
    value, unset = resolve_variables({"a": {"b": "${A}"}, "c": "${A}"}, {}, lambda path: path[:1] == ("a",))
    assert value == {"a": {"b": "${A}"}, "c": "${A}"}
    assert [(u.name, u.path) for u in unset] == [("A", ("c",))]


def test_every_reference_is_listed_with_its_path_and_whether_it_has_a_default() -> None:
    raw = {"a": "${A} ${B:-x}", "b": ["$${C}", ("${D}",)]}
    assert list(find_references(raw)) == [("A", False, ("a",)), ("B", True, ("a",)), ("D", False, ("b", 1, 0))]


# In a project


@pytest.fixture
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "P": "3",
        "FLAG": "true",
        "RATE": "0.5",
        "WORD": "orders",
        "DATE": "2999-01-01",
        "SPAN": "5m",
        "BAD": "many",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NOBODY_SET_THIS", raising=False)


@pytest.mark.usefixtures("_variables")
def test_a_variable_in_a_field_of_any_type_is_read_as_that_type(check: Check) -> None:
    text = """
        project: {name: "${WORD}"}
        defaults: {topic: {partitions: "${P}"}}
        rules: {models: {require_owner: "${FLAG}", max_dependencies: "${P}"}}
        sources:
          - name: s
            topic: "${WORD}.v${P}"
            tags: ["${WORD}", "x"]
            columns: [{name: id, type: "${NOBODY_SET_THIS:-BIGINT}", proctime: "${NOBODY_SET_THIS:-false}"}]
            freshness: {warn_after: "${SPAN}"}
        models:
          - name: m
            sql: SELECT id FROM {{ source("s") }}
            waivers: [{rule: models.require_owner, reason: "${WORD}", until: "${DATE}"}]
        exposures: [{name: e, sla: {max_error_rate: "${RATE}"}}]
    """
    graph, found = check({MAIN: text})
    assert codes(found) == ["rule-waived"]
    assert graph is not None
    source: Any = graph["source.s"].element
    exposure: Any = graph["exposure.e"].element
    assert graph.name == "orders"
    assert (source.topic, source.tags, source.freshness.warn_after) == ("orders.v3", ("orders", "x"), 300_000)
    assert [c.type for c in graph["source.s"].columns or ()] == ["BIGINT"]
    assert graph["model.m"].topic is not None
    assert graph["model.m"].topic.partitions == 3
    assert exposure.sla.max_error_rate == 0.5


@pytest.mark.usefixtures("_variables")
def test_a_variable_of_another_type_than_the_field_is_a_mistake_at_its_place(project: Findings) -> None:
    text = 'project: {name: p}\ndefaults: {topic: {partitions: "${BAD}"}}\n'
    found = only(project(text))
    assert (found.code, found.path) == ("wrong-type", "defaults.topic.partitions")
    assert found.origin == spot(MAIN, text, '"${BAD}"')


@pytest.mark.usefixtures("_variables")
def test_a_variable_can_be_a_number_of_seconds(project: Findings) -> None:
    assert project('project: {name: p}\nsources: [{name: s, topic: t, freshness: {max_lag_seconds: "${P}"}}]\n') == ()


UNSET = {
    "project": "project: {name: p, description: '${NOBODY_SET_THIS}'}\n",
    "runtime": "project: {name: p}\nruntime: {kafka: {bootstrap_servers: '${NOBODY_SET_THIS}'}}\n",
    "defaults": "project: {name: p}\ndefaults: {topic: {config: {a: '${NOBODY_SET_THIS}'}}}\n",
    "rules": "project: {name: p}\nrules: {topics: {naming_pattern: '${NOBODY_SET_THIS}'}}\n",
    "vars": "project: {name: p}\nvars: {a: '${NOBODY_SET_THIS}'}\n",
    "sources": "project: {name: p}\nsources: [{name: s, topic: t, owner: '${NOBODY_SET_THIS}'}]\n",
    "models": "project: {name: p}\nmodels: [{name: m, owner: '${NOBODY_SET_THIS}'}]\n",
    "models, in the older form": "project: {name: p}\n"
    "models: [{name: m, topic: {config: {a: '${NOBODY_SET_THIS}'}}}]\n",
    "tests": "project: {name: p}\nsources: [{name: s, topic: t}]\n"
    "tests: [{name: t, model: s, type: schema, owner: '${NOBODY_SET_THIS}'}]\n",
    "exposures": "project: {name: p}\nexposures: [{name: e, url: '${NOBODY_SET_THIS}'}]\n",
}


@pytest.mark.parametrize("text", UNSET.values(), ids=UNSET.keys())
@pytest.mark.usefixtures("_variables")
def test_a_variable_that_is_not_set_is_one_error_at_its_place(project: Findings, text: str) -> None:
    found = only(errors(project(text)))
    assert (found.code, found.params) == ("unset-variable", {"name": "NOBODY_SET_THIS"})
    assert found.origin == spot(MAIN, text, "${NOBODY")
    assert found.hint is not None
    assert ":-default" in found.hint


@pytest.mark.parametrize(
    "element",
    [
        "sources: [{name: s, topic: '${NOBODY_SET_THIS}'}]",
        "sources: [{name: s, topic: '${NOBODY_SET_THIS}', columns: [{name: a}]}]",
        "models: [{name: m, advanced: {topic: {name: '${NOBODY_SET_THIS}'}}}]",
    ],
)
@pytest.mark.usefixtures("_variables")
def test_the_name_of_a_topic_that_is_not_set_is_no_second_mistake(project: Findings, element: str) -> None:
    assert codes(project(f"project: {{name: p}}\n{element}\n")) == ["unset-variable"]


@pytest.mark.usefixtures("_variables")
def test_a_variable_that_sql_needs_is_an_error_at_its_place(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - name: m
            sql: |
              SELECT id FROM {{ source("s") }}
              WHERE a = '${NOBODY_SET_THIS}' AND b = '${WORD}'
    """
    found = only(project(text))
    assert (found.code, found.path) == ("unset-variable", "models.m.sql")
    assert found.origin == spot(MAIN, text, "${NOBODY")


@pytest.mark.usefixtures("_variables")
def test_a_variable_in_sql_is_filled_in(check: Check) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models: [{name: m, sql: "SELECT id FROM {{ source('s') }} WHERE a = '${WORD}' AND b = '$${WORD}'"}]
    """
    graph, found = check({MAIN: text})
    assert found == ()
    assert graph is not None
    sql = compile(graph).queries[0].steps[0].sql
    assert "'orders'" in sql
    assert "'${WORD}'" in sql


@pytest.mark.parametrize("other", ["orders", "${WORD:-x}", "${WORD}"])
@pytest.mark.usefixtures("_variables")
def test_names_are_told_apart_after_variables_are_filled_in(project: Findings, other: str) -> None:
    names = ["${WORD}", other]
    sources = ", ".join(f"{{name: '{name}', topic: t{i}}}" for i, name in enumerate(names))
    if other == "${WORD}":  # the one case that is seen already, by chance
        sources = sources.replace("'${WORD}', topic: t1", "'${WORD:-y}', topic: t1")
    assert "duplicate-name" in codes(project(f"project: {{name: p}}\nsources: [{sources}]\n"))


# Files


@pytest.mark.parametrize(
    ("files", "environment", "real", "expected"),
    [
        ({}, None, {}, None),
        ({".env": "A=file\n"}, None, {}, "file"),
        ({".env": "A=file\n", ".env.dev": "A=dev\n"}, None, {}, "file"),
        ({".env": "A=file\n", ".env.dev": "A=dev\n"}, "dev", {}, "dev"),
        ({".env": "A=file\n", ".env.dev": "A=dev\n"}, "prod", {}, "file"),
        ({".env": "A=file\n", ".env.dev": "A=dev\n"}, "dev", {"A": "real"}, "real"),
        ({".env": "A=file\n"}, None, {"A": ""}, ""),
        ({".env": "A='with space' # why\n"}, None, {}, "with space"),
        ({".env": "export A=1\n\n# note\n"}, None, {}, "1"),
        ({".env": "A\n"}, None, {}, None),
        ({".env": "A=\n"}, None, {}, ""),
    ],
)
def test_files_are_weaker_than_those_of_the_environment_and_both_than_the_real_ones(
    tmp_path: Path, files: Mapping[str, str], environment: str | None, real: Mapping[str, str], expected: str | None
) -> None:
    write(tmp_path, files)
    assert load_environ(tmp_path, environment, real).get("A") == expected


def test_reading_the_files_changes_nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("ONLY_IN_THE_FILE", raising=False)
    write(tmp_path, {".env": "ONLY_IN_THE_FILE=1\n"})
    assert load_environ(tmp_path, None, os.environ)["ONLY_IN_THE_FILE"] == "1"
    assert "ONLY_IN_THE_FILE" not in os.environ


def test_a_project_sees_the_variables_of_its_files(check: Check) -> None:
    graph, found = check({MAIN: "project: {name: '${ONLY_IN_THE_FILE}'}\n", ".env": "ONLY_IN_THE_FILE=shop\n"})
    assert found == ()
    assert graph is not None
    assert graph.name == "shop"


def test_a_file_of_variables_that_is_no_text_is_a_diagnostic(check: Check) -> None:
    found = check({MAIN: "project: {name: p}\n", ".env": b"A=\xff\xfe\n"})[1]
    assert "file-unreadable" in codes(found)


# Secrets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "DB_PASS",
        "passwd",
        "passphrase",
        "API_TOKEN",
        "api_key",
        "apiKey",
        "client_secret",
        "private_key",
        "PRIVATE-KEY",
        "credentials",
        "sasl.password",
        "ssl.keystore.password",
    ],
)
def test_a_name_that_tells_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["primary_key", "key", "user", "passenger", "compass_heading", "KEYSPACE", "topic"])
def test_a_name_that_only_sounds_like_one_is_not(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x"}, {"password": COVER}),
        ({"password": 1234}, {"password": COVER}),
        ({"password": ["x", "y"]}, {"password": [COVER, COVER]}),
        ({"password": "${DB_PASS}"}, {"password": "${DB_PASS}"}),
        ({"password": ""}, {"password": ""}),
        ({"user": "x"}, {"user": "x"}),
        ({"a": [{"token": "x"}]}, {"a": [{"token": COVER}]}),
        ("https://u:p@h/x", f"https://u:{COVER}@h/x"),
        ("https://u:${P}@h/x", "https://u:${P}@h/x"),
        ("https://h/x:y@z", "https://h/x:y@z"),
        ("a://u:p@h,b://v:q@i", f"a://u:{COVER}@h,b://v:{COVER}@i"),
    ],
)
def test_a_secret_that_was_written_out_is_covered(value: object, shown: object) -> None:
    assert mask_secrets(value) == shown


LEAKS = {
    "a password with an @ in it": f"https://u:x@{SECRET}@h/x",
    "a password with a slash in it": f"https://u:x/{SECRET}@h/x",
    "a token in place of a user": f"https://{SECRET}@h/x",
    "a password among the parameters": f"jdbc:postgresql://h/db?user=u&password={SECRET}",
    "a key among the parameters": f"https://h/x?api_key={SECRET}",
    "a line for JAAS": f'org.apache.kafka.PlainLoginModule required username="u" password="{SECRET}";',
}


@pytest.mark.parametrize("text", LEAKS.values(), ids=LEAKS.keys())
def test_a_secret_inside_a_text_is_covered(text: str) -> None:
    assert SECRET not in str(mask_secrets({"config": {"value": text}}))


def test_everything_below_a_secret_key_is_covered() -> None:
    assert SECRET not in str(mask_secrets({"credentials": {"value": SECRET}}))


HEAD = """\
project: {name: p}
sources:
  - {name: s, topic: t, columns: [{name: id, type: BIGINT}, {name: email}]}
models:
"""


@pytest.fixture
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", SECRET)


@pytest.mark.usefixtures("_secret")
def test_a_secret_of_a_connector_is_never_in_the_manifest(check: Check) -> None:
    text = (
        HEAD + "  - {name: m, from: {source: s}, sink: {connector: x-sink, config: {auth: 'Bearer ${MY_API_TOKEN}'}}}\n"
    )
    graph, found = check({MAIN: text})
    assert errors(found) == []
    assert graph is not None
    manifest = compile(graph)
    assert SECRET not in manifest.to_json()
    assert manifest.connectors[0].config["auth"] == "Bearer ${MY_API_TOKEN}"


def test_a_variable_of_a_connector_that_is_not_set_yet_is_only_a_warning(check: Check) -> None:
    text = (
        HEAD + "  - {name: m, from: {source: s}, sink: {connector: x-sink, config: {a: {b: '${NOBODY_SET_THIS}'}}}}\n"
    )
    graph, found = check({MAIN: text})
    assert graph is not None
    note = only(found)
    assert (note.code, note.severity, note.path) == ("unset-variable", Severity.WARNING, "models.m.sink.config.a.b")
    assert note.origin == spot(MAIN, text, "${NOBODY")


@pytest.mark.usefixtures("_secret")
def test_a_secret_of_an_alert_is_never_in_the_manifest(check: Check) -> None:
    action = "{alert: {webhook: 'https://hooks/${MY_API_TOKEN}'}}"
    text = HEAD.replace("models:\n", "") + f"tests: [{{name: t, model: s, type: schema, on_failure: [{action}]}}]\n"
    graph, found = check({MAIN: text})
    assert errors(found) == []
    assert graph is not None
    assert SECRET not in compile(graph).to_json()


SECRET_PLACES = {
    "the salt of a hash": "  - {name: m, sql: 'SELECT id, email FROM {{ source(\"s\") }}', security: {masking: "
    "[{column: email, policy: hash, config: {salt: '${MY_API_TOKEN}'}}]}}\n",
    "SQL": "  - {name: m, sql: \"SELECT id FROM {{ source('s') }} WHERE email = '${MY_API_TOKEN}'\"}\n",
    "SQL with more than calls": "  - {name: m, sql: \"SELECT id FROM {{ source('s') }} {% if 1 %} "
    "WHERE email = '${MY_API_TOKEN}'{% endif %}\"}\n",
    "a setting of a topic": "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }}', "
    "advanced: {topic: {config: {a: '${MY_API_TOKEN}'}}}}\n",
}


@pytest.mark.parametrize("model", SECRET_PLACES.values(), ids=SECRET_PLACES.keys())
@pytest.mark.usefixtures("_secret")
def test_a_secret_is_never_in_the_manifest(check: Check, model: str) -> None:
    """Refused, or left to be filled in when the query starts."""
    graph, found = check({MAIN: HEAD + model})
    assert errors(found) or (graph is not None and SECRET not in compile(graph).to_json())


@pytest.mark.usefixtures("_secret")
def test_a_secret_does_not_get_into_sql_by_way_of_vars(check: Check) -> None:
    text = "vars: {k: '${MY_API_TOKEN}'}\n" + HEAD
    text += "  - {name: m, sql: \"SELECT id FROM {{ source('s') }} WHERE email = '{{ var('k') }}'\"}\n"
    graph, found = check({MAIN: text})
    assert errors(found) or (graph is not None and SECRET not in compile(graph).to_json())
