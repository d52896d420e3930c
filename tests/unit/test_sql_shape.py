import pytest

from penstock.sql.analyze.statefulness import root_windows, stateful_constructs, unsupported_problems
from penstock.sql.analyze.window_columns import index_windows
from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.query import Problem, Query, parse


def query(text: str) -> Query:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return parsed


def refused(text: str) -> tuple[Problem, ...]:
    constructs = stateful_constructs(query(text))
    return (*unsupported_problems(constructs, never=True), *unsupported_problems(constructs, never=False))


def constructs(text: str) -> list[str]:
    return [c.name for c in stateful_constructs(query(text))]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE b > 1",
        "SELECT a FROM t UNION ALL SELECT a FROM u",
        "WITH x AS (SELECT a FROM t) SELECT a FROM x",
        "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS c, b[1] AS d FROM t",
        "SELECT v FROM t CROSS JOIN UNNEST(items) AS u(v)",
        "SELECT `count` FROM t",
        "SELECT GREATEST(a, b) AS c FROM t",
    ],
)
def test_projections_filters_and_unions_need_no_memory(text: str) -> None:
    assert constructs(text) == []
    assert refused(text) == ()


@pytest.mark.parametrize("text", ["SELECT v FROM t, UNNEST(items) AS u(v)", "SELECT unnest(items) AS v FROM t"])
def test_unnesting_in_a_pipeline_needs_no_memory(text: str) -> None:
    parsed = parse(text, PIPELINE)
    assert isinstance(parsed, Query)
    assert stateful_constructs(parsed) == ()


@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(at, INTERVAL '1' HOUR)",
        "HOP(at, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)",
        "SESSION(at, INTERVAL '10' MINUTE)",
    ],
)
def test_a_windowed_aggregate_has_memory_and_runs(window: str) -> None:
    text = f"SELECT k, COUNT(*) AS n FROM t GROUP BY k, {window}"
    assert constructs(text) == ["GROUP BY"]
    assert refused(text) == ()
    (found,) = root_windows(index_windows(query(text).tree))
    assert text[found.offset :].startswith(found.column)


@pytest.mark.parametrize("join", ["JOIN", "INNER JOIN", "CROSS JOIN"])
def test_an_inner_join_has_memory_and_runs(join: str) -> None:
    condition = "" if join == "CROSS JOIN" else " ON t.a = u.a"
    text = f"SELECT t.a FROM t {join} u{condition}"
    assert constructs(text) == ["JOIN"]
    assert refused(text) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k", "GROUP BY without a window"),
        ("SELECT t.a FROM t LEFT JOIN u ON t.a = u.a", "LEFT JOIN"),
        ("SELECT t.a FROM t RIGHT JOIN u ON t.a = u.a", "RIGHT JOIN"),
        ("SELECT t.a FROM t FULL OUTER JOIN u ON t.a = u.a", "FULL JOIN"),
        ("SELECT t.a FROM t LEFT SEMI JOIN u ON t.a = u.a", "LEFT JOIN"),
        ("SELECT DISTINCT a FROM t", "SELECT DISTINCT"),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM t", "OVER"),
        ("SELECT SUM(a) OVER (ORDER BY b) AS n FROM t", "OVER"),
        ("SELECT a FROM t UNION SELECT a FROM u", "UNION"),
        ("SELECT a FROM t INTERSECT SELECT a FROM u", "INTERSECT"),
        ("SELECT COUNT(*) AS n FROM t", "an aggregate without GROUP BY"),
        ("SELECT MAX(a) AS a FROM t", "an aggregate without GROUP BY"),
        ("SELECT a FROM t HAVING COUNT(*) > 1", "an aggregate without GROUP BY"),
    ],
)
def test_what_an_operator_may_do_is_a_construct_without_a_way_out(text: str, name: str) -> None:
    """Carving decides whether it runs."""
    assert constructs(text) == [name]
    assert refused(text) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT a FROM t ORDER BY a", "ORDER BY"),
        ("SELECT a FROM t LIMIT 5", "LIMIT"),
        ("SELECT a FROM t OFFSET 5", "OFFSET"),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", "EXCEPT"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u)", "IN (SELECT …)"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)", "EXISTS (SELECT …)"),
        ("SELECT a FROM t WHERE a = (SELECT a FROM u)", "a SELECT as a value"),
        ("SELECT a FROM t WHERE a = ((SELECT a FROM u UNION ALL SELECT b FROM u))", "a SELECT as a value"),
        ("SELECT a, COALESCE((SELECT a FROM u), 1) AS x FROM t", "a SELECT as a value"),
        ("SELECT a FROM t WHERE (SELECT a FROM u) IN (1, 2)", "a SELECT as a value"),
        ("SELECT a FROM t WHERE a > ANY (SELECT a FROM u)", "a SELECT as a value"),
        ("SELECT a FROM t HAVING a > 1", "HAVING without GROUP BY"),
        ("SELECT n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) AS x HAVING n > 1", "HAVING without GROUP BY"),
    ],
)
def test_what_cannot_run_as_a_stream_is_refused_with_a_way_out(text: str, name: str) -> None:
    found = refused(text)
    assert [(p.code, p.subject) for p in found] == [("sql-unsupported", name)]
    assert found[0].hint


def test_a_construct_inside_a_subquery_counts_too() -> None:
    assert constructs("SELECT x.a FROM (SELECT DISTINCT a FROM t) AS x") == ["SELECT DISTINCT"]


def test_several_constructs_come_in_the_order_of_the_text() -> None:
    assert constructs("SELECT DISTINCT t.a FROM t LEFT JOIN u ON t.a = u.a ORDER BY t.b") == [
        "SELECT DISTINCT",
        "LEFT JOIN",
        "ORDER BY",
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT a FROM t LIMIT 5", "LIMIT"),
        ("SELECT a FROM t OFFSET 5", "OFFSET"),
        ("SELECT a FROM t WHERE b = 1 LIMIT 5", "LIMIT"),
    ],
)
def test_a_construct_without_a_name_in_it_is_found_all_the_same(text: str, word: str) -> None:
    (found,) = refused(text)
    assert found.offset >= text.index(word)
