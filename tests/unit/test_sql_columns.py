import pytest

from penstock.sql.analyze.column_lineage import InputColumn, unchanged_columns
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query, parse
from penstock.sql.types.columns import Column, Columns

INPUTS: dict[str, Columns | None] = {
    "t": (
        Column("id", "BIGINT"),
        Column("name", "STRING"),
        Column("price", "DECIMAL(10, 2)"),
        Column("at", "TIMESTAMP"),
        Column("place", "STRUCT<city: STRING>"),
        Column("items", "ARRAY<STRING>"),
    ),
    "u": (Column("id", "BIGINT"), Column("level", "INT")),
    "open": None,
}


def analysis(text: str) -> OutputAnalysis:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return analyze_outputs(parsed, INPUTS)


def columns(text: str) -> list[tuple[str, str | None]]:
    found = analysis(text)
    assert found.problems == ()
    assert found.columns is not None
    return [(c.name, c.type) for c in found.columns]


def test_columns_carry_names_and_types() -> None:
    assert columns("SELECT id, UPPER(name) AS n, id + 1 AS next, CAST(id AS STRING) AS s, price FROM t") == [
        ("id", "BIGINT"),
        ("n", "STRING"),
        ("next", "BIGINT"),
        ("s", "STRING"),
        ("price", "DECIMAL(10, 2)"),
    ]


def test_a_star_is_all_columns_of_its_input() -> None:
    assert columns("SELECT * FROM u") == [("id", "BIGINT"), ("level", "INT")]
    assert columns("SELECT u.*, t.name FROM u JOIN t ON u.id = t.id")[:2] == [("id", "BIGINT"), ("level", "INT")]


def test_columns_are_followed_through_subqueries_ctes_and_unions() -> None:
    assert columns("SELECT x.id FROM (SELECT id FROM t) AS x") == [("id", "BIGINT")]
    assert columns("WITH x AS (SELECT id AS k FROM t) SELECT k FROM x") == [("k", "BIGINT")]
    assert columns("SELECT id FROM t UNION ALL SELECT id FROM u") == [("id", "BIGINT")]


def test_fields_of_structs_and_items_of_arrays_have_types() -> None:
    assert columns("SELECT t.place.city AS city FROM t") == [("city", "STRING")]
    assert columns("SELECT i.item FROM t CROSS JOIN UNNEST(items) AS i(item)") == [("item", "STRING")]


def test_most_computed_decimals_are_left_open() -> None:
    assert columns("SELECT price * 2 AS double_price, SUM(price) AS total FROM t GROUP BY price") == [
        ("double_price", None),
        ("total", "DECIMAL(20, 2)"),
    ]


def test_an_unnamed_output_gets_the_name_that_it_will_have_in_spark() -> None:
    assert [name for name, _ in columns("SELECT id, id + 1 FROM t")] == ["id", "_col_1"]


def test_the_case_of_a_name_does_not_matter() -> None:
    assert [kind for _, kind in columns("SELECT ID, Name FROM t WHERE iD > 1")] == ["BIGINT", "STRING"]


def test_a_column_declared_in_mixed_case_keeps_its_name_and_type() -> None:
    parsed = parse("SELECT orderId, orderid AS again FROM t WHERE ORDERID > 1", PROJECT)
    assert isinstance(parsed, Query)
    found = analyze_outputs(parsed, {"t": (Column("orderId", "BIGINT"),)})
    assert found.problems == ()
    assert found.columns == (Column("orderId", "BIGINT"), Column("again", "BIGINT"))


MISSING = {
    "as a bare output": ("SELECT id, nme FROM t", "nme", "name"),
    "as the only output": ("SELECT nme FROM t", "nme", "name"),
    "under another name": ("SELECT nme AS x FROM t", "nme", "name"),
    "in an expression": ("SELECT UPPER(nme) AS x FROM t", "nme", "name"),
    "in a filter": ("SELECT id FROM t WHERE nme = 'x'", "nme", "name"),
    "as an output and in a filter": ("SELECT nme FROM t WHERE nme = 'x'", "nme", "name"),
    "with the name of its table": ("SELECT t.nme FROM t", "nme", "name"),
    "with an alias of its table": ("SELECT x.nme FROM t AS x", "nme", "name"),
    "in the condition of a join": ("SELECT t.id FROM t JOIN u ON t.id = u.idd", "idd", "id"),
    "as an output of a join": ("SELECT t.id, u.levl FROM t JOIN u ON t.id = u.id", "levl", "level"),
    "in a grouping": ("SELECT COUNT(*) AS n FROM t GROUP BY nme", "nme", "name"),
    "in a subquery": ("SELECT x.id FROM (SELECT id FROM t WHERE nme = 'x') AS x", "nme", "name"),
    "of a subquery": ("SELECT x.name FROM (SELECT id, name AS nam FROM t) AS x", "name", "nam"),
    "of a cte": ("WITH x AS (SELECT id, name AS nam FROM t) SELECT id, name FROM x", "name", "nam"),
    "in the second half of a union": ("SELECT id FROM t UNION ALL SELECT levle FROM u", "levle", "level"),
}


@pytest.mark.parametrize(("text", "word", "near"), MISSING.values(), ids=MISSING.keys())
def test_a_missing_column_is_reported_at_its_place_with_the_nearest(text: str, word: str, near: str) -> None:
    found = analysis(text)
    assert [(p.code, p.subject) for p in found.problems] == [("sql-unknown-column", word)]
    assert found.problems[0].hint == f"did you mean `{near}`?"
    assert text[found.problems[0].offset :].startswith(word)


def test_every_missing_column_is_reported_once() -> None:
    found = analysis("SELECT one + 1 AS a, two + one AS b FROM t WHERE three > 0 AND three < 9")
    assert sorted(p.subject for p in found.problems) == ["one", "three", "two"]


def test_an_alias_that_is_not_there_is_reported() -> None:
    text = "SELECT q.id FROM t AS x"
    found = analysis(text)
    assert [p.code for p in found.problems] == ["sql-unknown-column"]
    assert found.problems[0].offset in (text.index("q.id"), text.index("id"))


@pytest.mark.parametrize("text", ["SELECT id FROM t JOIN u ON t.id = u.id", "SELECT t.name FROM t JOIN u ON id = 1"])
def test_a_column_of_several_inputs_must_say_which(text: str) -> None:
    found = analysis(text)
    assert [(p.code, p.subject) for p in found.problems] == [("sql-unknown-column", "id")]
    assert found.problems[0].hint is not None
    assert "before it" in found.problems[0].hint


@pytest.mark.parametrize(
    "text",
    ["WITH c(k) AS (SELECT id FROM t) SELECT k FROM c", "SELECT s.k FROM (SELECT id FROM t) AS s(k)"],
)
def test_columns_may_be_named_after_the_query(text: str) -> None:
    assert analysis(text).problems == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT id, id FROM t", "sql-duplicate-column"),
        ("SELECT id, name FROM t UNION ALL SELECT id FROM t", "sql-statement"),
    ],
)
def test_outputs_that_cannot_be_written_are_reported(text: str, code: str) -> None:
    assert [p.code for p in analysis(text).problems] == [code]


def test_the_name_of_an_output_is_no_column_in_a_filter() -> None:
    """Spark and Flink both refuse it, at run time."""
    found = analysis("SELECT id AS k FROM t WHERE k > 1")
    assert [p.subject for p in found.problems] == ["k"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT anything FROM open",
        "SELECT anything FROM open WHERE whatever = 1",
        "SELECT t.id, unheard_of FROM t JOIN open ON t.id = open.id",
        "SELECT o.x, t.id FROM t JOIN open AS o ON t.id = o.id",
        "SELECT x.a FROM (SELECT * FROM open) AS x",
    ],
)
def test_nothing_is_missing_where_an_input_is_not_known(text: str) -> None:
    assert analysis(text).problems == ()


def test_a_star_over_an_unknown_input_gives_unknown_columns() -> None:
    assert analysis("SELECT * FROM open").columns is None


def test_nothing_is_missing_beside_a_subquery_over_an_unknown_input() -> None:
    assert analysis("SELECT id FROM t WHERE id IN (SELECT id FROM open)").problems == ()


def test_outputs_that_are_an_input_column_unchanged_are_told() -> None:
    found = analysis("SELECT id AS k, at, UPPER(name) AS name FROM t")
    assert unchanged_columns(found.origins) == {"k": InputColumn("t", "id"), "at": InputColumn("t", "at")}


def test_unchanged_columns_are_told_through_subqueries() -> None:
    found = analysis("SELECT x.moment FROM (SELECT at AS moment FROM t) AS x")
    assert unchanged_columns(found.origins) == {"moment": InputColumn("t", "at")}
