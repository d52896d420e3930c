import re

import pytest

from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.query import Problem, Query, bind_tables, parse, rename_tables, select_all, tables
from penstock.sql.rewrite.translate import to_spark


def query(text: str) -> Query:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return parsed


def problem(text: str) -> Problem:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Problem), text
    return parsed


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT a FROM t WHERE AND b", "b"),
        ("SELECT (a FROM t", "FROM"),
        ("SELECT a\nFROM t\nWHERE (b > 1\n  ORDER BY c", "ORDER BY"),
        ("SELEC a FROM t", "FROM"),
        ("SELECT a FROM t WHERE", "WHERE"),
        ("SELECT a b c FROM t", "c"),
    ],
)
def test_sql_that_does_not_parse_is_reported_near_the_word(text: str, word: str) -> None:
    found = problem(text)
    assert found.code == "sql-syntax"
    assert found.subject == word
    assert found.offset == text.rindex(word)


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("SELECT 'abc FROM t", "'abc"),
        ("SELECT `abc FROM t", "`abc"),
        ("SELECT 'a' AS x FROM t WHERE y = 'open", "'open"),
        ("SELECT 'it''s' AS x,\n  `b` FROM t WHERE y = 'open", "'open"),
    ],
)
def test_a_quote_that_is_not_closed_is_reported_where_it_opens(text: str, opened: str) -> None:
    found = problem(text)
    assert found.code == "sql-syntax"
    assert found.offset == text.index(opened)


@pytest.mark.parametrize("text", ["SELECT a FROM", "SELECT CAST(a AS) FROM t", "SELECT * FROM ("])
def test_messages_never_show_the_insides_of_the_parser(text: str) -> None:
    found = problem(text)
    assert found.code == "sql-syntax"
    for inside in ("Token", "SENTINEL", "<class", "sqlglot"):
        assert inside not in found.message


@pytest.mark.parametrize("text", ["", "  \n", "-- only a comment", ";", "SELECT a FROM t; SELECT b FROM t"])
def test_a_text_is_one_statement(text: str) -> None:
    assert problem(text).code == "sql-statement"


@pytest.mark.parametrize(
    "text",
    ["INSERT INTO x SELECT a FROM t", "CREATE TABLE x (a INT)", "DROP TABLE x", "DELETE FROM x", "SET a = 1", "a", "1"],
)
def test_a_statement_is_a_select(text: str) -> None:
    found = problem(text)
    assert found.code == "sql-statement"
    assert "SELECT" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t;",
        "(SELECT a FROM t)",
        "SELECT a FROM t -- the end",
        "SELECT a FROM t; -- the end",
        "SELECT a FROM t; /* the */ ; -- end",
        "-- the beginning\n; SELECT a FROM t",
        "WITH x AS (SELECT a FROM t) SELECT a FROM x",
    ],
)
def test_a_semicolon_a_comment_parentheses_and_ctes_are_welcome(text: str) -> None:
    found = query(text)
    assert [t.name for t in tables(found)] == ["t"]
    found.take_tree()
    assert [t.name for t in tables(found)] == ["t"]


def test_tables_come_in_order_of_appearance_with_their_places() -> None:
    text = "SELECT * FROM b JOIN a ON true UNION ALL SELECT * FROM (SELECT * FROM c) AS x UNION ALL SELECT * FROM b"
    found = tables(query(text))
    assert [t.name for t in found] == ["b", "a", "c", "b"]
    assert [t.offset for t in found] == [text.index("b JOIN"), text.index("a ON"), text.index("c)"), text.rindex("b")]


def test_a_cte_is_no_table_but_a_schema_of_its_name_is() -> None:
    assert [t.name for t in tables(query("WITH x AS (SELECT * FROM t) SELECT * FROM X JOIN x.y ON true"))] == [
        "t",
        "x.y",
    ]


def test_unnested_columns_are_no_tables() -> None:
    parsed = parse("SELECT v FROM t CROSS JOIN UNNEST(t.items) AS u(v)", PIPELINE)
    assert isinstance(parsed, Query)
    assert [t.name for t in tables(parsed)] == ["t"]


def test_binding_keeps_the_written_name_as_alias() -> None:
    bound = bind_tables(
        query("SELECT orders.a, o.b FROM raw.orders JOIN other AS o ON true"),
        {"raw.orders": "source.raw.orders", "other": "model.other"},
    )
    assert to_spark(bound) == (
        "SELECT `orders`.`a`, `o`.`b` FROM `source.raw.orders` AS `orders` JOIN `model.other` AS `o` ON TRUE"
    )


def test_binding_leaves_the_query_as_it_was() -> None:
    before = query("SELECT a FROM t")
    bind_tables(before, {"t": "source.t"})
    rename_tables(before, str.upper)
    assert to_spark(before) == "SELECT `a` FROM `t`"


def test_a_cte_of_the_name_of_a_table_hides_it_only_where_it_can_be_seen() -> None:
    hidden = query("WITH b AS (SELECT * FROM a WHERE id > 5) SELECT * FROM b")
    assert [t.name for t in tables(hidden)] == ["a"]
    own = query("WITH a AS (SELECT * FROM a WHERE id > 5) SELECT * FROM a")
    assert [t.name for t in tables(own)] == ["a"]
    bound = to_spark(bind_tables(own, {"a": "source.a"}))
    assert bound.count("`source.a`") == 1
    assert bound.endswith("SELECT * FROM `a`")


def test_sql_that_is_nested_too_deeply_is_refused() -> None:
    found = problem("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " AS x FROM t")
    assert found.code == "sql-syntax"


def test_tables_are_renamed_occurrence_by_occurrence_in_order_of_appearance() -> None:
    seen: list[str] = []

    def number(name: str) -> str:
        seen.append(name)
        return f"{name}{len(seen)}"

    text = "SELECT a FROM s UNION ALL SELECT a FROM s UNION ALL SELECT a FROM s"
    assert re.findall(r"`(s\d)`", to_spark(rename_tables(query(text), number))) == ["s1", "s2", "s3"]


def test_all_rows_of_several_tables_are_one_after_the_other() -> None:
    assert to_spark(select_all(["model.a", "source.b"], PROJECT)) == (
        "SELECT * FROM `model.a` UNION ALL SELECT * FROM `source.b`"
    )


@pytest.mark.parametrize(
    ("text", "mark", "word"),
    [
        ("SELECT a /* why FROM t", "/*", "comment"),
        ("SELECT '/*' AS a /* it's FROM t", "/* it", "comment"),
        ("SELECT 'a /* b */ FROM t", "'a", "quote"),
        ("SELECT a /* done */, `b FROM t", "`b", "quote"),
    ],
)
def test_what_is_not_closed_is_told_from_where_it_opens(text: str, mark: str, word: str) -> None:
    found = problem(text)
    assert (found.code, found.message) == ("sql-syntax", f"a {word} is not closed")
    assert found.offset == text.index(mark)
