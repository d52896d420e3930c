"""SQL that is nested deep is refused, or studied in a time that does not grow with the square of its length."""

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from penstock.manifest.compile import compile
from penstock.sql.analyze.analysis import analyze_query
from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.nesting import MAX_BRACKETS, MAX_DEPTH, MAX_TYPES
from penstock.sql.parse.query import MAX_QUERIES, Problem, parse
from penstock.sql.types.columns import Column
from tests.support import codes
from tests.unit.conftest import MAIN, Check
from tests.unit.conftest import PIPELINE as DOCUMENT

COLUMNS = (Column("id", "BIGINT"),)


@pytest.mark.parametrize("dialect", [PROJECT, PIPELINE])
@pytest.mark.parametrize("operator", [" + ", " || ", " AND id > "])
def test_an_expression_that_is_too_deep_is_refused_as_such(dialect: Any, operator: str) -> None:
    found = parse(f"SELECT id FROM t WHERE id > {operator.join(['id'] * (MAX_DEPTH + 500))}", dialect)
    assert isinstance(found, Problem)
    assert (found.code, "deep" in found.message) == ("sql-syntax", True)


@pytest.mark.parametrize("made", [", ".join(map(str, range(5000))), "id, " * 3000 + "id"])
def test_a_long_list_is_not_deep(made: str) -> None:
    assert analyze_query(f"SELECT id FROM t WHERE id IN ({made})", {"t": COLUMNS}, {}).problems == ()


def _calls(terms: int) -> int:
    """How many functions of ours are called for a sum of so many terms."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "penstock" in frame.f_code.co_filename:
            calls["all"] += 1

    sys.setprofile(count)
    try:
        assert analyze_query(f"SELECT {' + '.join(['id'] * terms)} AS x FROM t", {"t": COLUMNS}, {}).problems == ()
    finally:
        sys.setprofile(None)
    return calls["all"]


def test_twice_as_many_terms_take_about_twice_the_work() -> None:
    _calls(10)
    assert _calls(800) < 2.5 * _calls(400)


NESTED = {
    "calls": ("UPPER(", "CAST(id AS STRING)", ")", MAX_BRACKETS),
    "arrays": ("ARRAY(", "id", ")", MAX_TYPES),
    "brackets": ("(1 + ", "id", ")", MAX_BRACKETS),
}


def _findings(check: Check, value: str) -> list[list[str]]:
    """What is found of a value, in either format. Whatever is sound is compiled."""
    head = "project: {name: p}\nsources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]\n"
    model = f"models: [{{name: m, sql: 'SELECT {value} AS x FROM {{{{ source(\"s\") }}}}'}}]\n"
    found = []
    for file, text in ((MAIN, head + model), (DOCUMENT, _pipeline(f"SELECT id, {value} AS x FROM s"))):
        graph, diagnostics = check({file: text}, file)
        assert graph is None or compile(graph).queries
        found.append(codes(diagnostics))
    return found


@pytest.mark.parametrize("shape", NESTED)
def test_what_is_nested_is_refused_or_compiled_and_never_a_traceback(check: Check, shape: str) -> None:
    before, inner, behind, most = NESTED[shape]
    for levels, expected in ((most - 10, []), (most + 150, ["sql-syntax"])):
        assert _findings(check, before * levels + inner + behind * levels) == [expected, expected]


def test_types_that_are_nested_deep_are_refused_before_they_are_parsed(check: Check) -> None:
    for levels, expected in ((MAX_TYPES, []), (MAX_TYPES + 1, ["sql-syntax"]), (5000, ["sql-syntax"])):
        found = _findings(check, f"CAST(NULL AS {'ARRAY<' * levels}INT{'>' * levels})")
        assert found == [expected, expected]


def _pipeline(sql: str) -> str:
    return (
        "sources: {s: {type: kafka, topic: t, data_format: json, schema: {id: int64}, primary_key: id}}\n"
        f"transforms: {{t: {{type: sql, primary_key: id, sql: '{sql}'}}}}\nsinks: {{o: {{type: print, from: t}}}}\n"
    )


@pytest.mark.parametrize(
    ("count", "expected"), [(MAX_QUERIES, []), (MAX_QUERIES + 1, ["sql-syntax"]), (600, ["sql-syntax"])]
)
def test_a_long_chain_of_queries_is_refused_or_compiled(check: Check, count: int, expected: list[str]) -> None:
    chain = ", ".join(f"c{i} AS (SELECT id FROM {f'c{i - 1}' if i else 's'})" for i in range(count))
    graph, found = check({DOCUMENT: _pipeline(f"WITH {chain} SELECT id FROM c{count - 1}")}, DOCUMENT)
    assert codes(found) == expected
    assert graph is None or compile(graph).queries
