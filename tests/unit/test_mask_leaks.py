"""Ways to carry a masked or sensitive value past its mask, all of them closed."""

import pytest

from penstock.errors import Diagnostic
from penstock.graph.graph import Node
from tests.support import codes, errors
from tests.unit.conftest import MAIN, Check

SOURCES = """
project: {name: p}
rules: {security: {sensitive_columns_require_masking: true}}
sources:
  - name: s
    topic: s
    columns:
      - {name: id, type: BIGINT}
      - {name: email, type: STRING, classification: sensitive}
      - {name: person, type: "STRUCT<mail STRING>", classification: highly_sensitive}
  - {name: unknown, topic: u}
models:
"""


def _model(check: Check, sql: str, masking: str = "[]") -> tuple[Node | None, tuple[Diagnostic, ...]]:
    text = f"{SOURCES}  - name: m\n    sql: >-\n      {sql}\n    security: {{masking: {masking}}}\n"
    graph, found = check({MAIN: text})
    return (graph["model.m"] if graph else None), found


def test_a_mask_that_names_an_output_wins_over_one_that_spreads(check: Check) -> None:
    masking = "[{column: a, policy: hash}, {column: b, policy: 'null'}]"
    node, _ = _model(check, 'SELECT id, email AS a, email AS b FROM {{ source("s") }}', masking)
    assert node is not None
    assert {mask.column: mask.policy for mask in node.masks} == {"a": "hash", "b": "null"}


def test_two_masks_of_one_output_are_refused(check: Check) -> None:
    masking = "[{column: email, policy: hash}, {column: EMAIL, policy: partial}]"
    _, found = _model(check, 'SELECT id, email FROM {{ source("s") }}', masking)
    assert "given-twice" in codes(errors(found))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'x' AS email, email AS contact FROM {{ source(\"s\") }}",
        'SELECT UPPER(email) AS email, email AS contact FROM {{ source("s") }}',
        'SELECT email, email AS contact FROM {{ source("s") }}',
    ],
)
def test_a_copy_under_another_name_is_covered(check: Check, sql: str) -> None:
    node, _ = _model(check, sql, "[{column: email, policy: redact}]")
    assert node is not None
    assert "contact" in {mask.column for mask in node.masks}


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT id, TO_JSON(STRUCT(*)) AS x FROM {{ source("s") }}',
        'SELECT id, CONCAT_WS(",", *) AS x FROM {{ source("s") }}',
        'SELECT id, STRUCT(t.*) AS x FROM {{ source("s") }} AS t',
        'SELECT id, person.* FROM {{ source("s") }}',
        'SELECT id, person.mail AS x FROM {{ source("s") }}',
        'SELECT id, (SELECT MAX(email) FROM {{ source("s") }}) AS x FROM {{ source("s") }}',
        'SELECT id, x FROM {{ source("s") }} LATERAL VIEW EXPLODE(ARRAY(email)) e AS x',
        'SELECT id, a AS x FROM (SELECT id, email AS a FROM {{ source("s") }}) t',
        'WITH c AS (SELECT * FROM {{ source("s") }}) SELECT id, LOWER(email) AS x FROM c',
        'SELECT id, email AS a, UPPER(a) AS x FROM {{ source("s") }}',
        'SELECT id, MAX(email) OVER (PARTITION BY id) AS x FROM {{ source("s") }}',
        'SELECT id, "" AS x FROM {{ source("s") }} UNION ALL SELECT id, email FROM {{ source("s") }}',
        'SELECT id, "" AS x FROM {{ source("s") }} UNION ALL BY NAME SELECT email AS x, id FROM {{ source("s") }}',
    ],
)
def test_what_shows_a_sensitive_column_breaks_the_rule(check: Check, sql: str) -> None:
    _, found = _model(check, sql)
    rules = {d.params["rule"] for d in errors(found) if d.code == "rule-broken"}
    assert rules == {"security.sensitive_columns_require_masking"}, "\n".join(map(str, found))


def test_a_column_that_is_only_counted_does_not(check: Check) -> None:
    node, found = _model(check, 'SELECT COUNT(email) AS n FROM {{ source("s") }} GROUP BY id')
    assert node is not None, "\n".join(map(str, found))


def test_a_mask_over_columns_that_are_not_known_is_refused_unless_all_pass(check: Check) -> None:
    masking = "[{column: email, policy: redact}]"
    _, found = _model(check, 'SELECT *, email AS contact FROM {{ source("unknown") }}', masking)
    assert "mask-column-missing" in codes(errors(found))
    node, found = _model(check, 'SELECT * FROM {{ source("unknown") }} WHERE id > 1', masking)
    assert node is not None, "\n".join(map(str, found))


def test_a_classification_of_no_column_is_refused(check: Check) -> None:
    text = (
        SOURCES + "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }}', security: {classification: {di: public}}}\n"
    )
    found = check({MAIN: text})[1]
    assert codes(errors(found)) == ["contract-broken"]
