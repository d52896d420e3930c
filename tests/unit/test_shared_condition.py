"""Which rows of a stream somebody reads."""

import pytest

from penstock.sql.pushdown.source_needs import shared_condition

FROM = "FROM `source.rows` AS rows"


def test_rows_are_wanted_if_one_of_the_queries_wants_them() -> None:
    queries = [
        f"SELECT id {FROM} WHERE rows.id > 5 AND at.zone = 'x'",
        f"SELECT * {FROM} WHERE lower(name) IN ('a', 'b') OR flag IS NULL",
        "SELECT * FROM `transform.first` WHERE id = 7",
    ]
    assert shared_condition("source.rows", queries) == (
        "(id > 5 AND at.zone = 'x') OR (LOWER(name) IN ('a', 'b') OR flag IS NULL)"
    )


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT id {FROM}",
        f"SELECT id {FROM} WHERE rand() < 0.5",
        f"SELECT id {FROM} WHERE at < now()",
        f"SELECT id {FROM} WHERE penstock_x(id) > 1",
        f"SELECT id {FROM} WHERE id IN (SELECT id FROM other)",
        f"SELECT id {FROM} JOIN other ON TRUE WHERE id = 1",
        f"SELECT id {FROM} WHERE id = 1 UNION ALL SELECT id {FROM} WHERE id = 2",
        f"WITH x AS (SELECT id {FROM} WHERE id = 1) SELECT * FROM x",
        f"SELECT id FROM (SELECT id {FROM} WHERE id = 1) AS x WHERE id = 2",
        "not SQL (",
    ],
)
def test_all_rows_may_be_wanted(query: str) -> None:
    assert shared_condition("source.rows", [f"SELECT id {FROM} WHERE id = 1", query]) is None


def test_nobody_asks_for_anything() -> None:
    assert shared_condition("source.rows", ["SELECT 1 FROM other WHERE id = 1"]) is None
