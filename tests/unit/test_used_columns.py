"""Which columns a query in stages uses of what it reads."""

import pytest

from penstock.sql.analyze.used_columns import OperatorUse, SqlUse, drop_unused_outputs, needs_state, used_columns

RANKED = [
    SqlUse(
        "q$1", "SELECT STRUCT(`p`.*) AS `_t0`, `p`.`id` AS `_p0` FROM (SELECT `row` AS `p` FROM `p#ordered`) AS `_r`"
    ),
    OperatorUse("q$2", ("q$1",), frozenset({"_p0"})),
]


def of(sql: str, *steps: SqlUse | OperatorUse) -> frozenset[str] | None:
    """What is used of `p` by stages that end with this SQL."""
    used = used_columns([*steps, SqlUse("q", sql)], ["q"], {})
    assert used is not None
    return used["p"]


def test_columns_that_a_star_hands_on_count_only_if_they_are_named_behind_it() -> None:
    used = of("SELECT `_t0`.`id`, `_t0`.`v` FROM `q$2`", *RANKED)
    assert used is not None
    assert {"id", "v"} <= used
    assert "at" not in used


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT `_t0`.* FROM `q$2`",
        "SELECT `_t0` FROM `q$2`",
        "SELECT TO_JSON(`_t0`) AS j FROM `q$2`",
        "SELECT HASH(*) AS h FROM `q$2`",
        "SELECT DISTINCT * FROM `q$2`",
    ],
)
def test_a_row_that_is_taken_as_a_whole_uses_all_columns(sql: str) -> None:
    assert of(sql, *RANKED) is None


@pytest.mark.parametrize(
    "between",
    [
        "SELECT * FROM `p` UNION ALL SELECT * FROM `p`",
        "SELECT * FROM `p` NATURAL JOIN `o`",
        "SELECT STRUCT(*) IS NULL AS a FROM `p`",
        "SELECT DISTINCT * FROM `p`",
    ],
)
def test_where_columns_go_by_their_place_all_are_used(between: str) -> None:
    assert of("SELECT `a` FROM `q$1`", SqlUse("q$1", between)) is None


def test_a_star_in_count_means_no_column() -> None:
    used = of("SELECT `k`, COUNT(*) AS n FROM `p` GROUP BY `k`")
    assert used is not None
    assert "k" in used


def test_an_expression_over_a_view_uses_its_columns() -> None:
    used = used_columns([SqlUse("q", "SELECT `id` FROM `p`")], ["q"], {"p": ["10 / `amount`"]})
    assert used is not None
    assert used["p"] is not None
    assert {"id", "amount"} <= used["p"]


@pytest.mark.parametrize(
    "window", ["WINDOW(`at`, '1 minute')", "window(`at`, '1 minute'), `k`", "`k`, WINDOW(`at`, '2')"]
)
def test_a_window_may_be_the_first_of_what_is_grouped_by(window: str) -> None:
    used = used_columns([SqlUse("q", f"SELECT SUM(`v`) AS `v` FROM `p` GROUP BY {window}")], ["q"], {})
    assert used is not None
    assert used["p"] is not None
    assert {"at", "v"} <= used["p"]


def test_sql_that_cannot_be_read_back_uses_nobody_knows_what() -> None:
    assert used_columns([SqlUse("q", "SELECT ((( FROM")], ["q"], {}) is None


def test_spark_keeps_rows_where_it_joins_or_groups() -> None:
    assert not needs_state("SELECT `a`.`n` AS `_k0` FROM `model.b$2` AS `a` WHERE n > 1")
    assert needs_state("SELECT a.* FROM a JOIN b ON a.id = b.id")
    assert needs_state("SELECT SUM(x) FROM a")


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT `id`, `v`, `at` FROM `s`", "SELECT `id`, `v` FROM `s`"),
        ("SELECT `id`, UPPER(`x`) AS `y`, `v` FROM `s`", "SELECT `id`, `v` FROM `s`"),
        ("SELECT `id`, `v`, EXPLODE(`a`) AS `e` FROM `s`", None),
        ("SELECT `id`, `x` + 1 AS `y`, `y` + 1 AS `v` FROM `s`", None),
        ("SELECT DISTINCT `id`, `v`, `at` FROM `s`", None),
        ("SELECT `id`, `v`, COUNT(*) AS `n` FROM `s` GROUP BY `id`, `v`", None),
    ],
)
def test_outputs_that_nobody_uses_can_be_left_out_where_rows_stay_the_same(sql: str, same: str | None) -> None:
    assert drop_unused_outputs(sql, frozenset({"id", "v"})) == (same or sql)
    assert drop_unused_outputs(sql, None) == sql
