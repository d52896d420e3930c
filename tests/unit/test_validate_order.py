"""What `validate` says of several mistakes at once: all of them, causes first, and nothing that only follows."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.manifest.queries.row_rules import unrun_tests
from tests.support import codes, write
from tests.unit.conftest import MAIN, Check, Findings, Link

SOURCE = """\
project: {name: p}
sources:
  - name: s
    topic: t
    columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}, {name: k, type: STRING}]
    EVENT
"""
WINDOW = "SELECT COUNT(*) AS n FROM {{ ref('m') }} GROUP BY TUMBLE(`at`, INTERVAL '1' HOUR)"


def test_an_element_with_an_unknown_field_is_checked_in_full(project: Findings, pipeline: Findings) -> None:
    text = (
        SOURCE.replace("EVENT", "ownr: me")
        + "models: [{name: m, ownr: x, sql: 'SELECT idd FROM {{ source(\"s\") }}'}]\n"
    )
    assert codes(project(text)) == ["unknown-field", "unknown-field", "sql-unknown-column"]
    made = (
        "sources: {s: {type: file, path: x.csv, format: csv, nonsense: 1}}\n"
        "transforms: {t: {type: sql, primary_key: id, nonsense: 1, sql: SELECT uper(id) AS id FROM s}}\n"
        "sinks: {o: {type: print, from: t}}\n"
    )
    assert "sql-unknown-function" in codes(pipeline(made))


def test_what_else_is_wrong_with_an_element_still_hides_what_depends_on_it(project: Findings) -> None:
    text = SOURCE.replace("EVENT", "ownr: me\n    topic: 5").replace("    topic: t\n", "")
    found = project(text + "models: [{name: m, sql: 'SELECT idd FROM {{ source(\"s\") }}'}]\n")
    assert codes(found) == ["wrong-type", "unknown-field"] or codes(found) == ["unknown-field", "wrong-type"]


def test_causes_come_before_consequences_wherever_they_stand(check: Check) -> None:
    files = {
        MAIN: "project: {name: p}\n",
        "models/a.yml": "models: [{name: a, sql: 'SELECT x FROM {{ ref(\"b\") }}', ownr: me}]\n",
        "models/b.yml": "models: [{name: b, sql: 'SELECT idd FROM {{ source(\"s\") }}'}]\n",
        "sources/s.yml": "sources: [{name: s, topic: t, ownr: me, columns: [{name: id, type: BIGINT}]}]\n",
    }
    assert [d.path for d in check(files)[1]] == ["sources.s.ownr", "models.b.sql", "models.a.ownr"]


def test_a_mistake_upstream_adds_no_warnings_downstream(project: Findings) -> None:
    good = SOURCE.replace("EVENT", "event_time: {column: at}")
    models = f'models: [{{name: m, sql: \'SELECT * FROM {{{{ source("s") }}}}\'}}, {{name: w, sql: "{WINDOW}"}}]\n'
    assert project(good + models) == ()
    wrong = SOURCE.replace("EVENT", "event_tiem: {column: at}")
    assert codes(project(wrong + models)) == ["unknown-field"]
    assert "event-time-assumed" in codes(project(SOURCE.replace("EVENT", "") + models))


def test_a_section_that_cannot_be_read_is_the_only_mistake(project: Findings, pipeline: Findings) -> None:
    model = (
        "[{name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}, {name: n, sql: 'SELECT id FROM {{ ref(\"m\") }}'}]\n"
    )
    test = "tests: [{name: t, model: m, type: schema, assertions: [{not_null: {columns: [id]}}]}]\n"
    source = "[{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]\n"
    for sources, models, expected in (
        (f"surces: {source}", f"models: {model}", "unknown-field"),
        (f"sources: {source}", f"modles: {model}", "unknown-field"),
        ("sources: {s: {topic: t}}\n", f"models: {model}", "wrong-shape"),
    ):
        assert codes(project(f"project: {{name: p}}\n{sources}{models}{test}")) == [expected]
    variables = "project: {name: p}\nvar: {low: 5}\nsources: " + source
    used = 'models: [{name: m, sql: \'SELECT id FROM {{ source("s") }} WHERE id > {{ var("low") }}\'}]\n'
    assert codes(project(variables + used)) == ["unknown-field"]
    nodes = {
        "sources": "{s: {type: file, path: x.csv, format: csv}}",
        "transforms": "{t: {type: sql, primary_key: id, sql: SELECT id FROM s}}",
        "sinks": "{o: {type: print, from: t}}",
    }
    for section in nodes:
        text = "".join(f"{key[:-1] if key == section else key}: {value}\n" for key, value in nodes.items())
        assert codes(pipeline(text)) == ["unknown-field"], section


def test_a_section_of_another_name_hides_nothing(pipeline: Findings) -> None:
    text = "name: p\nsources: {s: {type: file, path: x.csv, format: csv}}\nsinks: {o: {type: print, from: t}}\n"
    assert codes(pipeline(text)) == ["unknown-field", "unknown-upstream"]


def test_what_a_misspelt_field_does_not_say_is_no_second_mistake(project: Findings, pipeline: Findings) -> None:
    rules = "rules: {models: {require_owner: true}}\n"
    copied = TESTED.replace("name: m,", "name: m, ownr: me,")
    assert codes(project(copied + rules)) == ["unknown-field"]
    grouped = 'SELECT id, COUNT(*) AS n FROM {{ source("s") }} GROUP BY id'
    kept = f"{SOURCE.replace('EVENT', '')}models: [{{name: m, advanced: {{spark: {{FIELD: 5}}}}, sql: '{grouped}'}}]\n"
    assert codes(project(kept.replace("FIELD", "state_tl_ms"))) == ["unknown-field"]
    sink = "models: [{name: k, from: [{source: s}], advanced: {conector: {type: print}}}]\n"
    assert codes(project(SOURCE.replace("EVENT", "") + sink)) == ["unknown-field"]
    assert codes(project("project: {name: p}\nsources: [{name: s, topc: t}]\n")) == ["unknown-field"]
    text = "sources: {s: {type: file, pth: x.csv, format: csv}}\nsinks: {o: {type: print, fro: s}}\n"
    assert codes(pipeline(text)) == ["unknown-field", "unknown-field"]


# Tests that nothing runs

RULE, UNIQUE, DLQ = "{not_null: {columns: [id]}}", "{unique_key: {key: [id]}}", "on_failure: [{dlq: {}}]"
TESTED = SOURCE.replace("EVENT", "") + "models: [{name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}]\n"


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (f"model: m, type: sample, assertions: [{RULE}]", "the only test: `t`."),
        (f"model: m, type: continuous, assertions: [{RULE}]", "the only test: `t`."),
        (f"model: m, type: continuous, assertions: [{RULE}, {UNIQUE}], {DLQ}", "the only test: `t` (unique_key)."),
        (f"model: s, type: continuous, assertions: [{RULE}], {DLQ}", "the only test: `t`."),
        (f"model: m, type: continuous, assertions: [{RULE}], {DLQ}", None),
        (f"model: m, type: schema, assertions: [{RULE}]", None),
        ("model: m, type: sample, assertions: [{accepted_types: {id: bigint}}]", None),
        ("model: m, type: sample", None),
    ],
)
def test_a_test_that_nothing_runs_says_so(test: str, expected: str | None, project_graph: Link) -> None:
    found = unrun_tests(project_graph(f"{TESTED}tests: [{{name: t, {test}}}]\n"))
    assert expected in found.message if found and expected else found is None and expected is None


def test_however_many_tests_nothing_runs_it_is_one_finding_that_fails_nothing(tmp_path: Path) -> None:
    beside = TESTED.replace("type: STRING}", "type: STRING, tests: [not_null, unique]}")
    tests = "".join(f"  - {{name: t{i}, model: m, type: sample, assertions: [{RULE}]}}\n" for i in range(20))
    runs = f"  - {{name: runs, model: m, type: continuous, assertions: [{RULE}], {DLQ}}}\n"
    write(tmp_path, {MAIN: f"{beside}tests:\n{runs}{tests}"})
    for arguments in ([], ["--strict"]):
        result = CliRunner().invoke(app, ["validate", str(tmp_path), "--format", "json", *arguments])
        assert result.exit_code == 0
        (found,) = json.loads(result.output)["warnings"]
        assert (found["code"], found["severity"]) == ("test-not-run", "info")
        assert "22 of 23 tests: `s.k.not_null`, `s.k.unique`, `t0` and 19 more" in found["message"]
