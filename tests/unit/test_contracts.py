"""`columns` of a model is a contract: what stands there must come out of its SQL."""

import pytest

from tests.support import codes, only, spot
from tests.unit.conftest import MAIN, Check, Findings

HEAD = """\
project: {name: p}
sources:
  - name: s
    topic: t
    columns:
      [{name: id, type: BIGINT}, {name: Name}, {name: price, type: "DECIMAL(10, 2)"}, {name: at, type: TIMESTAMP(3)}]
  - {name: open, topic: u}
models:
"""
SQL = "SELECT id, Name, price, at FROM {{ source('s') }}"


def model(columns: str, sql: str = SQL, more: str = "") -> str:
    return f"{HEAD}  - name: m\n    sql: {sql}\n    columns: [{columns}]\n{more}"


@pytest.mark.parametrize(
    "columns",
    [
        "",
        "{name: id}",
        "{name: id, type: BIGINT}",
        "{name: ID, type: bigint}",
        "{name: name, type: VARCHAR(20)}",
        "{name: name, type: STRING NOT NULL}",
        "{name: price, type: 'DECIMAL(10,2)'}",
        "{name: at, type: TIMESTAMP(3)}, {name: id}",
        "{name: at, type: TIMESTAMP}",
    ],
)
def test_a_contract_that_is_kept_says_nothing(project: Findings, columns: str) -> None:
    assert project(model(columns)) == ()


def test_a_promised_column_that_does_not_come_out_is_refused_with_the_nearest(project: Findings) -> None:
    text = model("{name: id}, {name: nmae, type: STRING}")
    found = only(project(text))
    assert (found.code, found.path, found.params) == ("contract-broken", "models.m.columns.nmae", {"column": "nmae"})
    assert found.origin == spot(MAIN, text, "nmae")
    assert found.hint == "did you mean `Name`?"


@pytest.mark.parametrize(
    ("promised", "actual"),
    [
        ("STRING", "BIGINT"),
        ("INT", "BIGINT"),
        ("DOUBLE", "BIGINT"),
        ("ARRAY<BIGINT>", "BIGINT"),
        ("TIMESTAMP", "BIGINT"),
    ],
)
def test_a_promised_type_that_is_another_is_refused_with_a_cast(project: Findings, promised: str, actual: str) -> None:
    text = model(f"{{name: id, type: {promised}}}")
    found = only(project(text))
    assert (found.code, found.params) == ("contract-broken", {"column": "id"})
    assert found.message == f"`id` is declared as {promised}, and the SQL gives {actual}"
    assert found.origin == spot(MAIN, text, f"{promised}}}]")
    assert found.hint is not None
    assert f"CAST(id AS {promised})" in found.hint


def test_every_broken_promise_is_reported(project: Findings) -> None:
    found = project(model("{name: x}, {name: id, type: STRING}, {name: y}, {name: at}"))
    assert [d.params["column"] for d in found] == ["x", "id", "y"]


def test_a_promise_about_a_computed_column_is_checked(project: Findings) -> None:
    sql = "SELECT id + 1 AS n, UPPER(Name) AS u, CAST(id AS STRING) AS t, id > 1 AS b FROM {{ source('s') }}"
    kept = "{name: n, type: BIGINT}, {name: u, type: STRING}, {name: t, type: STRING}, {name: b, type: BOOLEAN}"
    assert project(model(kept, sql)) == ()
    assert codes(project(model("{name: u, type: INT}, {name: b, type: STRING}", sql))) == ["contract-broken"] * 2


def test_a_type_that_cannot_be_told_breaks_no_promise(project: Findings) -> None:
    assert project(model("{name: x, type: INT}", "SELECT x FROM {{ source('open') }}")) == ()
    assert project(model("{name: f, type: INT}", "SELECT XXHASH64(id) AS f FROM {{ source('s') }}")) == ()


def test_columns_that_are_not_known_break_no_promise(project: Findings) -> None:
    assert project(model("{name: x, type: INT}", "SELECT * FROM {{ source('open') }}")) == ()


def test_a_promise_is_about_the_output_after_masks(project: Findings) -> None:
    masked = "    security: {masking: [{column: id, policy: hash}]}\n"
    assert project(model("{name: id, type: STRING}", SQL, masked)) == ()
    assert codes(project(model("{name: id, type: BIGINT}", SQL, masked))) == ["contract-broken"]


def test_a_type_that_is_none_is_reported(project: Findings) -> None:
    text = model("{name: id, type: BIGNT}")
    found = only(project(text))
    assert (found.code, found.origin) == ("unknown-column-type", spot(MAIN, text, "BIGNT"))


def test_a_column_that_is_promised_twice_is_refused(project: Findings) -> None:
    found = only(project(model("{name: id}, {name: ID}")))
    assert (found.code, found.params) == ("duplicate-name", {"name": "ID"})


def test_a_model_without_sql_has_a_contract_too(project: Findings) -> None:
    text = HEAD + "  - {name: m, from: {source: s}, connector: print, columns: [{name: nope}]}\n"
    assert codes(project(text)) == ["contract-broken"]


def test_a_contract_in_another_file_is_pointed_at_there(check: Check) -> None:
    text = "models:\n  - name: m\n    columns:\n      - {name: nope}\n"
    files = {MAIN: HEAD.removesuffix("models:\n"), "models/m.sql": SQL, "models/m.yml": text}
    assert only(check(files)[1]).origin == spot("models/m.yml", text, "nope")


def test_a_topic_that_others_fill_promises_nothing_that_could_be_checked(project: Findings) -> None:
    assert project(HEAD + "  - {name: m, columns: [{name: error, type: STRING}]}\n") == ()


def test_the_columns_of_a_topic_that_others_fill_are_those_it_declares(project: Findings) -> None:
    text = HEAD + "  - {name: m, columns: [{name: error, type: STRING}]}\n"
    text += "  - {name: reader, sql: 'SELECT eror FROM {{ ref(\"m\") }}'}\n"
    assert codes(project(text)) == ["sql-unknown-column"]
