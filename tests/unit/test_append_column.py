"""Queries whose rows carry a column of the rows that they are made of."""

import pytest

from penstock.sql.pushdown.append_column import append_column


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT a FROM `source.t`", "SELECT a, `_origin` FROM `source.t`"),
        ("SELECT lower(t.a) AS a FROM x t WHERE b > 1", "SELECT LOWER(t.a) AS a, `_origin` FROM x AS t WHERE b > 1"),
        ("SELECT EXTRACT(YEAR FROM d) AS y FROM t", "SELECT EXTRACT(YEAR FROM d) AS y, `_origin` FROM t"),
        ("SELECT 'a FROM b' AS a FROM t", "SELECT 'a FROM b' AS a, `_origin` FROM t"),
        ("SELECT *, 1 AS one FROM t", "SELECT *, 1 AS one FROM t"),
        ("SELECT a FROM (SELECT a FROM t)", "SELECT a, `_origin` FROM (SELECT a, `_origin` FROM t)"),
        (
            "WITH x AS (SELECT a FROM t), y AS (SELECT * FROM x) SELECT a FROM y AS z",
            "WITH x AS (SELECT a, `_origin` FROM t), y AS (SELECT * FROM x) SELECT a, `_origin` FROM y AS z",
        ),
        (
            "WITH x AS (SELECT a FROM x WHERE a > 1) SELECT a FROM x",
            "WITH x AS (SELECT a, `_origin` FROM x WHERE a > 1) SELECT a, `_origin` FROM x",
        ),
    ],
)  # fmt: skip
def test_rows_made_of_one_row_carry_its_column(sql: str, found: str) -> None:
    assert append_column(sql, "_origin") == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM t",
        "SELECT a FROM t GROUP BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t JOIN s ON t.a = s.a",
        "SELECT a FROM t, s",
        "SELECT a FROM t UNION ALL SELECT a FROM s",
        "SELECT a FROM (SELECT a FROM t GROUP BY a)",
        "WITH x AS (SELECT DISTINCT a FROM t) SELECT a FROM x",
        "WITH x AS (SELECT a FROM t) SELECT a FROM x, x AS y",
        "SELECT explode(a) AS a FROM t",
        "SELECT a FROM t LATERAL VIEW explode(b) AS c",
        "SELECT inline_outer(b) AS (c, d) FROM t",
        "SELECT stack(2, a, b) AS (c) FROM t",
        "SELECT a, rand() AS r FROM t",
        "SELECT a FROM t WHERE rand() < 0.5",
        "SELECT a FROM t WHERE a IN (SELECT a FROM s)",
        "SELECT sum(a) OVER (ORDER BY b) AS s FROM t",
        "SELECT 1 AS one",
        "SELECT FROM WHERE",
    ],
)
def test_rows_made_of_others_do_not(sql: str) -> None:
    assert append_column(sql, "_origin") is None
