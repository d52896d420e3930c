"""Columns beside GROUP BY: those that a group has no one value of are refused where they stand, and no others."""

import pytest

from penstock.sql.analyze.analysis import analyze_query
from penstock.sql.types.columns import Column

COLUMNS = (
    Column("id", "BIGINT"),
    Column("country", "STRING"),
    Column("product", "STRING"),
    Column("qty", "INT"),
    Column("at", "TIMESTAMP"),
    Column("addr", "STRUCT<city: STRING, zip: INT>"),
    Column("tags", "ARRAY<STRING>"),
)
TUMBLED = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR))"
HOUR = "TUMBLE(at, INTERVAL '1' HOUR)"


def problems(text: str) -> list[tuple[str, int]]:
    found = analyze_query(text, {"t": COLUMNS, "u": COLUMNS}, {})
    return [(problem.code, problem.offset) for problem in found.problems]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"SELECT country, window_end, COUNT(*) AS n FROM {TUMBLED} GROUP BY window_start, window_end", "country"),
        (f"SELECT at, COUNT(*) AS n FROM t GROUP BY {HOUR}", "at"),
        ("SELECT country, COUNT(*) AS n FROM t GROUP BY product", "country"),
        ("SELECT UPPER(country) AS c FROM t GROUP BY LOWER(country)", "country"),
        ("SELECT product FROM t GROUP BY product HAVING qty > 1", "qty"),
        ("SELECT n FROM (SELECT qty, COUNT(*) AS n FROM t GROUP BY product) AS x", "qty"),
        ("SELECT country AS product, COUNT(*) AS n FROM t GROUP BY product", "country"),
        ("SELECT MAX(qty) AS qty, -qty AS b FROM t GROUP BY product", "qty AS b"),
        ("SELECT u.id FROM t JOIN u ON t.id = u.id GROUP BY t.id", "u.id"),
        ("SELECT * FROM t GROUP BY country", "country"),
        ("SELECT country FROM t GROUP BY (country, product)", "country"),
    ],
)
def test_what_has_many_values_in_a_group_is_refused(text: str, place: str) -> None:
    assert problems(text) == [("sql-not-grouped", text.index(place))]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT window_end, window_time, country FROM {TUMBLED} GROUP BY window_start, window_end, country",
        f"SELECT DATE_FORMAT(w.window_end, 'HH') AS h FROM {TUMBLED} AS w GROUP BY window_start, window_end",
        f"SELECT YEAR(TUMBLE_END(at, INTERVAL '1' HOUR)) AS y, 'x' AS x, 1 + 1 AS o FROM t GROUP BY {HOUR}",
        "SELECT UPPER(Country) AS c FROM t GROUP BY upper(t.country)",
        "SELECT UPPER(country) AS c FROM t GROUP BY c",
        "SELECT UPPER(country) AS c FROM t GROUP BY 1",
        "SELECT UPPER(country) || 'x' AS country FROM t GROUP BY country",
        "SELECT t.country AS c, UPPER(c) AS u, COUNT(*) AS n FROM t GROUP BY country HAVING n > 1 AND SUM(qty) > 2",
        "SELECT addr.city AS c FROM t GROUP BY addr",
        "SELECT addr.city AS c FROM t GROUP BY t.addr.city",
        "SELECT qty + id AS s FROM t GROUP BY id + qty",
        "SELECT tags[1] AS x, EXTRACT(YEAR FROM at) AS y FROM t GROUP BY tags[1], EXTRACT(YEAR FROM at)",
        "SELECT k FROM (SELECT country AS k, qty FROM t) AS x GROUP BY x.k",
        "SELECT country, COLLECT(qty) AS a, TRY_SUM(qty) AS b, COUNT(*) FILTER (WHERE qty > 1) AS c FROM t "
        "GROUP BY country",
        "SELECT country, qty FROM t GROUP BY ROLLUP (country, qty)",
        "SELECT country, qty FROM t GROUP BY GROUPING SETS ((country), (qty))",
        "SELECT * FROM (SELECT country FROM t) AS x GROUP BY country",
    ],
)
def test_what_has_one_value_in_a_group_is_left_alone(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT country, SUM(COUNT(*)) AS n FROM t GROUP BY country", "COUNT"),
        ("SELECT id FROM t WHERE SUM(qty) > 3", "SUM"),
        ("SELECT t.id FROM t JOIN u ON t.id = MAX(u.id)", "MAX"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY MIN(qty)", "MIN"),
    ],
)
def test_an_aggregate_stands_where_rows_are_grouped(text: str, place: str) -> None:
    assert problems(text) == [("sql-not-grouped", text.index(place))]
    assert not any(construct.hint for construct in analyze_query(text, {"t": COLUMNS, "u": COLUMNS}, {}).constructs)


def test_an_aggregate_of_a_subquery_is_its_own() -> None:
    assert problems("SELECT SUM(n) AS m FROM (SELECT qty, COUNT(*) AS n FROM t GROUP BY qty) AS x GROUP BY x.qty") == []
