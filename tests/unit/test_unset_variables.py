"""Environment variables that are not set: `validate` warns and checks the rest, whatever runs or writes refuses."""

from pathlib import Path

import pytest

from penstock.errors import Diagnostic, ProjectInvalid, Severity
from penstock.workflow.stages import Target, check
from tests.support import codes, spot, write
from tests.unit.conftest import MAIN, PIPELINE

COLUMNS = "columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}]"
PROJECT = f"""\
project: {{name: p}}
runtime: {{kafka: {{bootstrap_servers: '${{GONE_BROKER}}'}}}}
sources:
  - {{name: s, topic: 'orders.${{GONE_REGION}}', {COLUMNS}}}
models:
  - {{name: m, advanced: {{topic: {{partitions: '${{GONE_COUNT}}'}}}}, sql: 'SELECT COLUMN FROM {{{{ source("s") }}}}'}}
  - {{name: n, sql: 'SELECT id FROM {{{{ ref("m") }}}} WHERE id > ${{GONE_ID}}'}}
  - {{name: o, sql: 'SELECT id FROM {{{{ ref("n") }}}}'}}
  - name: k
    from: [{{ref: m}}]
    advanced: {{connector: {{type: file, config: {{path: '${{GONE_DIR}}', format: FORMAT}}}}}}
"""
MADE = """\
sources: {s: {type: kafka, topic: 't.${GONE_REGION}', data_format: json, schema: {id: int64}, primary_key: id}}
transforms: {t: {type: sql, primary_key: id, sql: "SELECT COLUMN FROM s"}}
sinks: {o: {type: postgres, from: t, table: x, primary_key: id, password: '${GONE_PASSWORD}', port: '${GONE_PORT}'}}
"""
PROJECT_NAMES = ["GONE_BROKER", "GONE_REGION", "GONE_COUNT", "GONE_ID", "GONE_DIR"]


def looked_at(path: Path, **settings: bool) -> tuple[Diagnostic, ...]:
    try:
        return check(Target(path, **{"allow_unset": True, **settings})).notes
    except ProjectInvalid as invalid:
        return invalid.diagnostics


def project_text(column: str = "id", form: str = "json") -> str:
    return PROJECT.replace("COLUMN", column).replace("FORMAT", form)


def test_validate_warns_of_every_variable_at_its_place(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: project_text()})
    found = looked_at(tmp_path)
    assert [(d.code, d.severity.value) for d in found] == [("unset-variable", "warning")] * len(PROJECT_NAMES)
    for note, name in zip(found, PROJECT_NAMES, strict=True):
        assert note.message == f"the environment variable `{name}` is not set"
        assert note.origin == spot(MAIN, project_text(), f"${{{name}")
        assert f"${{{name}:-default}}" in str(note.hint)


def test_validate_of_a_pipeline_warns_too(tmp_path: Path) -> None:
    write(tmp_path, {PIPELINE: MADE.replace("COLUMN", "id")})
    found = looked_at(tmp_path / PIPELINE)
    assert [(d.code, d.severity.value, d.params["name"]) for d in found] == [
        ("unset-variable", "warning", name) for name in ("GONE_REGION", "GONE_PASSWORD", "GONE_PORT")
    ]


@pytest.mark.parametrize("settings", [{"allow_unset": False}, {"strict": True}, {"ask_read": True}])
def test_what_runs_refuses_with_the_same_words(tmp_path: Path, settings: dict[str, bool]) -> None:
    write(tmp_path, {MAIN: project_text(), PIPELINE: MADE.replace("COLUMN", "id")})
    for path in (tmp_path, tmp_path / PIPELINE):
        warned, refused = looked_at(path), [d for d in looked_at(path, **settings) if d.severity is Severity.ERROR]
        assert refused
        assert {str(d) for d in refused} <= {str(d) for d in warned}


def test_the_rest_of_an_element_is_checked_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: project_text("idd", "jsn"), PIPELINE: MADE.replace("COLUMN", "idd")})
    found = [d for d in looked_at(tmp_path) if d.severity is Severity.ERROR]
    assert sorted(codes(found)) == ["sql-unknown-column", "unknown-value"]
    found = [d for d in looked_at(tmp_path / PIPELINE) if d.severity is Severity.ERROR]
    assert "sql-unknown-column" in codes(found)


@pytest.mark.parametrize(
    "element",
    [
        "sources: [{name: s, topic: t, event_time: {column: '${GONE}'}, " + COLUMNS + "}]",
        "sources: [{name: s, topic: t, key: ['${GONE}'], " + COLUMNS + "}]",
        "sources: [{name: '${GONE}', topic: t}]",
        "sources: [{name: s, topic: t, "
        + COLUMNS
        + "}]\nmodels: [{name: m, from: [{source: '${GONE}'}], sink: {connector: print}}]",
    ],
)
def test_a_name_that_is_not_known_is_no_second_mistake(tmp_path: Path, element: str) -> None:
    write(tmp_path, {MAIN: f"project: {{name: p}}\n{element}\n"})
    assert codes(looked_at(tmp_path)) == ["unset-variable"]


def test_sql_with_a_variable_that_is_not_set_is_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path, {PIPELINE: MADE.replace("COLUMN", "${GONE_COLUMN} AS id")})
    assert set(codes(looked_at(tmp_path / PIPELINE))) == {"unset-variable"}


def test_a_default_needs_no_warning(tmp_path: Path) -> None:
    text = project_text()
    for name, default in zip(PROJECT_NAMES, ("b:9092", "eu", "5", "7", "out"), strict=True):
        text = text.replace(f"${{{name}}}", f"${{{name}:-{default}}}")
    write(tmp_path, {MAIN: text})
    assert looked_at(tmp_path) == ()
