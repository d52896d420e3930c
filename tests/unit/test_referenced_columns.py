"""Which names a query can mean, so that other columns need not be read."""

import pytest

from penstock.sql.pushdown.source_needs import referenced_names, restrict_condition


def test_every_name_is_found_wherever_it_stands() -> None:
    found = referenced_names(
        [
            "SELECT a.Id, lower(`Da Te`) AS x, row.field FROM orders AS a WHERE NOT flag GROUP BY g HAVING max(h) > 1",
            "SELECT count(*) FROM o JOIN p USING (u) ORDER BY z",
        ]
    )
    assert found is not None
    assert found >= {"id", "da te", "row", "field", "flag", "g", "h", "u", "z"}
    assert "amount" not in found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM t",
        "SELECT a.*, 1 FROM t AS a",
        "SELECT x FROM (SELECT * FROM t)",
        "SELECT x FROM t NATURAL JOIN u",
        "SELECT struct(*) FROM t",
        "SELECT count(x), named.* FROM t",
        "SELECT FROM WHERE",
    ],
)
def test_queries_that_may_mean_any_column(sql: str) -> None:
    assert referenced_names([sql]) is None


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("place = 1", "place = 1"),
        ("id > 1 AND Place = 1 AND (place < 5 OR at > 2)", "Place = 1 AND (place < 5 OR at > 2)"),
        ("place = 1 OR id > 1", None),
        ("id > place", None),
        ("1 = 1 AND id > 1", None),
    ],
)
def test_what_a_condition_asks_of_some_columns_alone(condition: str, found: str | None) -> None:
    assert restrict_condition(condition, {"place", "at"}) == found
