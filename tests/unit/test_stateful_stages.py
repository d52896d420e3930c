"""SQL that Spark cannot stream, split into stages. What Spark makes of the stages is in tests/spark."""

import pytest

from penstock.keyed.operators import (
    Aggregate,
    AggregateCall,
    ChangeJoin,
    LatestPerKey,
    Operator,
    OverCall,
    OverWindow,
    Ranking,
    describe_operator,
)
from penstock.sql.analyze.statefulness import keyword_offset
from penstock.sql.rewrite.translate import spark_text, unguarded_text
from penstock.sql.stateful.stages import OperatorStage, SqlStage
from tests.staged_sql import Fixture, Refused, bound_query, fixtures, refused, stage_plan
from tests.support import only


def operators(sql: str, ttl_ms: int | None = None) -> list[Operator]:
    found = stage_plan(sql, ttl_ms)
    assert found.problem is None, found.problem
    return [stage.operator for stage in found.stages if isinstance(stage, OperatorStage)]


def texts(sql: str) -> list[str]:
    """The SQL of the stages, without what every one of them says of the time."""
    found = stage_plan(sql)
    assert found.problem is None, found.problem
    trees = [stage.tree for stage in found.stages if isinstance(stage, SqlStage)]
    return [spark_text(tree).replace(", UNIX_MILLIS(PENSTOCK_NOW()) AS `_now`", "") for tree in (*trees, found.tree)]


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda f: f.sql)
def test_sql_is_carved_into_operators(fixture: Fixture) -> None:
    found = stage_plan(fixture.sql)
    assert found.problem is None
    assert tuple(map(describe_operator, operators(fixture.sql))) == fixture.operators
    by_key = f" by {', '.join(found.flow.key)}" if found.flow.key else ""
    assert f"{found.flow.kind}{by_key}" == fixture.flow


@pytest.mark.parametrize("fixture", refused(), ids=lambda f: f.sql)
def test_what_cannot_be_carved_is_refused_with_a_way_out(fixture: Refused) -> None:
    problem = stage_plan(fixture.sql).problem
    assert problem is not None
    assert (problem.code, problem.subject) == ("sql-unsupported", fixture.name)
    assert problem.hint == fixture.way_out
    offset = keyword_offset(bound_query(fixture.sql), problem.subject, problem.offset)
    assert fixture.sql[offset:].startswith(fixture.at)


@pytest.mark.parametrize(
    "fixture",
    [f for f in fixtures() if not f.operators and f.flow == "rows" and "orders o," not in f.sql],
    ids=lambda f: f.sql,
)
def test_what_spark_streams_by_itself_stays_as_it_was(fixture: Fixture) -> None:
    found = stage_plan(fixture.sql)
    assert found.stages == ()
    assert spark_text(found.tree) == spark_text(bound_query(fixture.sql).take_tree())


def test_every_join_with_versions_tells_of_its_own_state() -> None:
    sql = """SELECT c.name, r.rate FROM orders o
        JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer_id = c.id
        JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.status = r.currency"""
    places = [keyword_offset(bound_query(sql), name, offset) for name, offset, _ in stage_plan(sql).unbounded]
    assert places == [sql.index("FOR"), sql.rindex("FOR")]


# Operators


def test_equal_calls_are_made_once() -> None:
    sql = "SELECT status, SUM(amount) AS a, SUM(orders.amount) + COUNT(*) AS b, AVG(Amount) AS c FROM orders GROUP BY 1"
    calls = (AggregateCall("_c0", "sum", "_a0"), AggregateCall("_c1", "count"), AggregateCall("_c2", "count", "_a0"))
    assert operators(sql) == [Aggregate(("_k0",), calls)]


def test_a_time_to_live_reaches_every_operator() -> None:
    sql = """SELECT c.city, COUNT(*) AS n FROM totals t JOIN customers c ON t.customer_id = c.id GROUP BY c.city"""
    assert [operator.ttl_ms for operator in operators(sql, 5)] == [5, 5, 5]


def test_with_a_time_to_live_an_operator_does_plain_joins_too() -> None:
    sql = "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer_id = c.id"
    assert operators(sql) == []
    assert operators(sql, 5) == [ChangeJoin("inner", ("_l0",), ("_r0",), ttl_ms=5)]
    assert stage_plan(sql, 5).flow.kind == "rows"


def test_a_join_that_is_bounded_in_time_needs_no_operator_to_forget() -> None:
    sql = "SELECT o.id FROM orders o JOIN rates r ON o.status = r.currency AND r.at BETWEEN o.at AND o.at"
    assert operators(sql, 5) == []


@pytest.mark.parametrize(
    ("frame", "rows", "range_ms", "by_row"),
    [
        ("", None, None, False),
        ("RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", None, None, False),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", None, None, True),
        ("ROWS UNBOUNDED PRECEDING", None, None, True),
        ("ROWS BETWEEN 4 PRECEDING AND CURRENT ROW", 4, None, False),
        ("ROWS BETWEEN CURRENT ROW AND CURRENT ROW", 0, None, False),
        ("RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND CURRENT ROW", None, 172_800_000, False),
        ("RANGE BETWEEN INTERVAL '1.5' HOUR PRECEDING AND CURRENT ROW", None, 5_400_000, False),
        ("RANGE BETWEEN CURRENT ROW AND CURRENT ROW", None, 0, False),
    ],
)
def test_frames(frame: str, rows: int | None, range_ms: int | None, by_row: bool) -> None:
    call = OverCall("_w0", "sum", "_a0", rows, range_ms, by_row=by_row)
    sql = f"SELECT id, SUM(amount) OVER (PARTITION BY status ORDER BY at {frame}) AS s FROM orders"
    assert operators(sql) == [OverWindow(("_p0",), "_t", (call,))]
    named = f"SELECT id, SUM(amount) OVER w AS s FROM orders WINDOW w AS (PARTITION BY status ORDER BY at {frame})"
    assert operators(named) == operators(sql)


@pytest.mark.parametrize(
    ("condition", "limit"),
    [("rn = 1", 1), ("1 = rn", 1), ("rn <= 3", 3), ("rn < 4", 3), ("3 >= rn", 3), ("4 > rn AND rn <= 9", 3)],
)
def test_limits_of_a_rank(condition: str, limit: int) -> None:
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY status ORDER BY amount) AS rn FROM orders"
    (operator,) = operators(f"SELECT id FROM ({numbered}) WHERE {condition}")
    assert isinstance(operator, Ranking)
    assert (operator.limit, operator.rank) == (limit, None)


# What the stages read


def test_the_order_of_rows_is_read_where_it_matters() -> None:
    assert stage_plan("SELECT status, COUNT(*) AS n FROM orders GROUP BY status").ordered == frozenset()
    assert stage_plan("SELECT status, LAST_VALUE(id) AS n FROM orders GROUP BY status").ordered == {"source.orders"}
    assert stage_plan("SELECT total, COUNT(*) AS n FROM totals GROUP BY total").ordered == {"model.totals"}


def test_rows_are_structs_with_what_is_wanted_of_them() -> None:
    sql = """SELECT o.id, c.name FROM orders o JOIN rates r ON o.status = r.currency
        LEFT JOIN customers c ON o.customer_id = c.id WHERE c.city = 'x'"""
    left, right, last = texts(sql)
    assert left == (
        "SELECT STRUCT(`o`.`id` AS `id`) AS `o`, `o`.`customer_id` AS `_l0`, CAST(1 AS TINYINT) AS `_sign`"
        " FROM `source.orders` AS `o` JOIN `source.rates` AS `r` ON `o`.`status` = `r`.`currency`"
    )
    assert right.startswith("SELECT STRUCT(`c`.`city` AS `city`, `c`.`name` AS `name`) AS `c`, `c`.`id` AS `_r0`")
    assert last.endswith("FROM `m$3` WHERE `c`.`city` = 'x'")


def test_a_column_of_a_later_join_is_wanted_too() -> None:
    sql = """SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer_id = c.id
        LEFT JOIN rates r ON c.city = r.currency"""
    assert texts(sql)[1].startswith("SELECT STRUCT(`c`.`city` AS `city`) AS `c`")


@pytest.mark.parametrize(
    ("join", "before_left", "before_right", "behind"),
    [
        ("JOIN totals c", "`o`.`amount` > 1", "`c`.`total` = 2", "`o`.`id` > `c`.`total`"),
        ("LEFT JOIN customers c", "`o`.`amount` > 1", "", "`c`.`name` = 'n' AND `o`.`id` > `c`.`id`"),
        ("RIGHT JOIN customers c", "", "`c`.`name` = 'n'", "`o`.`amount` > 1 AND `o`.`id` > `c`.`id`"),
        ("FULL JOIN customers c", "", "", "`o`.`amount` > 1 AND `c`.`name` = 'n' AND `o`.`id` > `c`.`id`"),
        (
            "JOIN customers FOR SYSTEM_TIME AS OF o.at AS c",
            "`o`.`amount` > 1",
            "",
            "`c`.`name` = 'n' AND `o`.`id` > `c`.`id`",
        ),
    ],
)
def test_conditions_on_one_side_come_before_the_join_where_that_is_right(
    join: str, before_left: str, before_right: str, behind: str
) -> None:
    of_right, key = ("c.total = 2", "total") if "totals" in join else ("c.name = 'n'", "id")
    where = f"o.amount > 1 AND {of_right} AND o.id > c.{key}"
    found = texts(f"SELECT o.id FROM orders o {join} ON o.customer_id = c.{key} WHERE {where}")
    conditions = [text.partition(" WHERE ")[2] for text in (found[0], found[-2], found[-1])]
    assert conditions == [before_left, before_right, behind]


def test_no_condition_comes_before_a_join_that_puts_out_rows_without_a_partner_later() -> None:
    sql = """SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer_id = c.id
        RIGHT JOIN rates r ON o.status = r.currency WHERE o.amount > 1 AND r.rate > 0"""
    found = texts(sql)
    assert [text.partition(" WHERE ")[2] for text in found] == ["", "", "", "`r`.`rate` > 0", "`o`.`amount` > 1"]


def test_conditions_in_on_hold_for_the_side_that_needs_a_partner() -> None:
    left = texts("SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer_id = c.id AND c.city = 'x'")
    assert [text.partition(" WHERE ")[2] for text in left] == ["", "`c`.`city` = 'x'", ""]


# Flows


_NEAR = "r.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR"
_KNOWN = "WHEN NOT (`o`.`status`) IS NULL", "WHEN NOT (`r`.`currency`) IS NULL"


@pytest.mark.parametrize(
    ("side", "asked", "stays", "on_left", "on_right"),
    [
        ("LEFT", "amount > 1 AND r.rate > 2", "`r`.`rate` > 2 AND ", " AND `o`.`amount` > 1", ""),
        ("RIGHT", "amount > 1 AND r.rate > 2", "`o`.`amount` > 1 AND ", "", " AND `r`.`rate` > 2"),
        ("FULL", "amount > 1 AND r.rate > 2", "", " AND `o`.`amount` > 1", " AND `r`.`rate` > 2"),
        ("FULL", "o.amount > r.rate", "`o`.`amount` > `r`.`rate` AND ", "", ""),
    ],
)
def test_what_spark_must_not_ask_of_waiting_rows_is_in_the_key(
    side: str, asked: str, stays: str, on_left: str, on_right: str
) -> None:
    (text,) = texts(f"SELECT * FROM orders o {side} JOIN rates r ON o.status = r.currency AND {asked} AND {_NEAR}")
    assert text == (
        f"SELECT * FROM `source.orders` AS `o` {side} JOIN `source.rates` AS `r` ON `o`.`status` = `r`.`currency`"
        f" AND {stays}`r`.`at` BETWEEN `o`.`at` AND `o`.`at` + INTERVAL '1' HOUR"
        f" AND CASE {_KNOWN[0]}{on_left} THEN HASH(`o`.`status`) & 0 ELSE 1 END"
        f" = CASE {_KNOWN[1]}{on_right} THEN HASH(`r`.`currency`) & 0 ELSE 2 END"
    )


@pytest.mark.parametrize("clause", ["JOIN rates r ON {} WHERE TRUE", "JOIN rates r ON TRUE WHERE {}"])
def test_keys_that_are_computed_have_a_value_in_joins(clause: str) -> None:
    (text,) = texts("SELECT o.id FROM orders o " + clause.format(f"UPPER(o.status) = UPPER(r.currency) AND {_NEAR}"))
    assert "AND NOT (UPPER(`r`.`currency`)) IS NULL" in text


_O, _C, _R = ("`source.orders` AS `o`", "`source.customers` AS `c`", "`source.rates` AS `r`")
_BY_ID, _BY_STATUS = "ON `o`.`customer_id` = `c`.`id`", "ON `o`.`status` = `r`.`currency`"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (
            "o.id, c.name FROM orders o, customers c WHERE o.customer_id = c.id AND o.amount > 1",
            f"`o`.`id`, `c`.`name` FROM {_O} JOIN {_C} {_BY_ID} WHERE `o`.`amount` > 1",
        ),
        (
            "o.id FROM orders o, customers c, rates r WHERE customer_id = c.id AND o.status = r.currency AND o.id > 1",
            f"`o`.`id` FROM {_O} JOIN {_C} {_BY_ID} JOIN {_R} {_BY_STATUS} WHERE `o`.`id` > 1",
        ),
        (
            "* FROM orders o, customers c CROSS JOIN rates r WHERE o.status = r.currency AND c.city = r.currency",
            f"`o`.*, `c`.*, `r`.* FROM {_O} JOIN {_R} {_BY_STATUS} JOIN {_C} ON `c`.`city` = `r`.`currency`",
        ),
        (
            "o.id FROM orders o, customers c JOIN rates r ON c.city = r.currency WHERE o.customer_id = c.id",
            f"`o`.`id` FROM {_O} JOIN {_C} {_BY_ID} JOIN {_R} ON `c`.`city` = `r`.`currency`",
        ),
    ],
)
def test_joins_by_comma_have_their_conditions(sql: str, text: str) -> None:
    assert texts(f"SELECT {sql}") == [f"SELECT {text}"]


def test_a_key_that_is_no_output_is_carried_through_and_left_out_at_the_end() -> None:
    assert texts("SELECT COUNT(*) AS n FROM orders GROUP BY status")[-1] == (
        "SELECT * EXCEPT (`_k0`) FROM (SELECT `_c0` AS `n`, `_gs_op` AS `_gs_op`, `_k0` AS `_k0` FROM `m$2`) AS `_all`"
    )
    assert operators("SELECT n, COUNT(*) AS m FROM (SELECT total AS n FROM totals) GROUP BY n")[0] == LatestPerKey(
        ("customer_id",)
    )


def test_a_view_of_changes_hands_on_rows_that_come_and_go() -> None:
    sql = "SELECT customer_id, total FROM totals WHERE total > 1"
    alone = stage_plan(sql)
    assert not any(isinstance(stage, OperatorStage) for stage in alone.stages)
    assert (alone.flow.kind, alone.flow.key, alone.flow.repeated) == ("changes", ("customer_id",), True)
    found = stage_plan(sql, nested=True)
    assert (found.flow.kind, found.flow.key) == ("signed", ("customer_id",))
    assert isinstance(found.stages[-1], OperatorStage)


def test_columns_are_known_through_every_stage() -> None:
    inner = "SELECT id, status, COUNT(*) OVER (PARTITION BY status ORDER BY at) AS N FROM orders"
    assert stage_plan(inner).flow.columns == ("id", "status", "N")
    joins = "LEFT JOIN customers USING (id) LEFT JOIN rates ON status = currency"
    found = stage_plan(f"SELECT name, n, currency FROM ({inner}) AS t {joins}")
    assert found.problem is None
    assert found.flow.columns == ("name", "n", "currency")


# State


@pytest.mark.parametrize(
    ("sql", "name", "at"),
    [
        ("SELECT status AS s, COUNT(*) AS n FROM orders GROUP BY s", "GROUP BY without a window", "GROUP BY s"),
        ("SELECT DISTINCT status FROM orders", "SELECT DISTINCT", "SELECT"),
        ("SELECT o.id FROM orders o JOIN customers c ON o.id = c.id", "JOIN without a bound in time", "JOIN"),
        ("SELECT o.id FROM orders o FULL JOIN customers c ON o.id = c.id", "FULL JOIN", "FULL"),
        ("SELECT SUM(amount) OVER (PARTITION BY id ORDER BY at) AS s FROM orders", "OVER", "OVER"),
        (
            "SELECT c.name FROM orders o JOIN customers FOR SYSTEM_TIME AS OF o.at AS c ON o.id = c.id",
            "FOR SYSTEM_TIME AS OF",
            "FOR SYSTEM_TIME",
        ),
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at) AS n FROM orders) WHERE n = 1",
            "ROW_NUMBER",
            "ROW_NUMBER",
        ),
    ],
)
def test_state_without_end_is_told_unless_it_expires(sql: str, name: str, at: str) -> None:
    found, offset, _ = only(stage_plan(sql).unbounded)
    assert found == name
    assert sql[keyword_offset(bound_query(sql), found, offset) :].startswith(at)
    assert stage_plan(sql, 5).unbounded == ()


_PAIRED = "SELECT o.id FROM orders o JOIN rates p ON o.status = p.currency AND "


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("p.at > o.at", "JOIN bounded in time on one side only"),
        ("p.at > o.at AND p.at + INTERVAL '1' HOUR > o.at", "JOIN bounded in time on one side only"),
        ("p.at BETWEEN TIMESTAMP '2026-01-01 00:00:00' AND o.at", "JOIN bounded in time on one side only"),
        ("TIMESTAMPDIFF(SECOND, o.at, p.at) <= 60", "JOIN without a bound in time"),
        ("p.rate > o.amount", "JOIN without a bound in time"),
        ("p.rate BETWEEN o.at AND o.at + INTERVAL '1' HOUR", "JOIN by `p.rate` (no event time)"),
    ],
)
def test_a_join_is_bounded_on_both_sides_or_not_at_all(condition: str, name: str) -> None:
    found, _, _ = only(stage_plan(_PAIRED + condition).unbounded)
    assert found == name
    assert stage_plan(_PAIRED + condition, 5).stages != ()


@pytest.mark.parametrize(
    "condition",
    [
        "p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR",
        "o.at BETWEEN p.at - INTERVAL '1' HOUR AND p.at",
        "p.at >= o.at AND p.at - INTERVAL '1' HOUR < o.at",
        "p.at = o.at",
    ],
)
def test_a_join_that_is_bounded_on_both_sides_keeps_nothing_for_ever(condition: str) -> None:
    assert stage_plan(_PAIRED + condition).unbounded == ()


_HIDDEN = "GREATEST({0}, {0})"


@pytest.mark.parametrize(
    ("condition", "written"),
    [
        ("p.at BETWEEN o.at AND o.came", f"`p`.`at` BETWEEN `o`.`at` AND {_HIDDEN.format('`o`.`came`')}"),
        ("o.came > p.at", f"{_HIDDEN.format('`o`.`came`')} > `p`.`at`"),
        ("NOT (p.at > o.came)", f"NOT (`p`.`at` > {_HIDDEN.format('`o`.`came`')})"),
        ("p.at <= o.payload.id", f"`p`.`at` <= {_HIDDEN.format('`o`.`payload`.`id`')}"),
        ("o.came = p.at", f"`o`.`came` = {_HIDDEN.format('`p`.`at`')}"),
        (
            "o.at = p.at - INTERVAL '1' HOUR",
            f"{_HIDDEN.format('`o`.`at`')} = `p`.`at` - INTERVAL '1' HOUR"
            " AND `o`.`at` <= `p`.`at` - INTERVAL '1' HOUR AND `o`.`at` >= `p`.`at` - INTERVAL '1' HOUR",
        ),
    ],
)
def test_what_is_no_bound_in_time_is_hidden_from_spark(condition: str, written: str) -> None:
    found = stage_plan(_PAIRED + condition)
    before = spark_text(stage_plan(_PAIRED + condition).tree.copy())
    plain = unguarded_text(found.tree)
    assert before.endswith(f"ON `o`.`status` = `p`.`currency` AND {written}")
    assert plain is not None
    assert "GREATEST" not in plain


@pytest.mark.parametrize("condition", ["p.at = o.at", "p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR", "o.amount > 1"])
def test_joins_by_event_times_are_written_as_they_are(condition: str) -> None:
    assert unguarded_text(stage_plan(_PAIRED + condition).tree) is None


def test_a_filter_around_a_join_is_hidden_too_because_spark_moves_it_into_the_join() -> None:
    inner = "SELECT o.came, p.at AS pt FROM orders o JOIN rates p ON o.status = p.currency AND p.at >= o.at"
    (text,) = texts(f"SELECT came FROM ({inner}) WHERE pt <= came")
    assert text.endswith("WHERE `pt` <= GREATEST(`came`, `came`)")


_OUTER = "SELECT o.id, p.rate FROM orders o {} JOIN rates p ON o.status = p.currency AND {}"


@pytest.mark.parametrize(
    ("side", "condition", "until"),
    [
        ("LEFT", "p.at BETWEEN o.at AND o.came", "COALESCE(CAST(`o`.`came` AS TIMESTAMP), `o`.`at`) AS `_lu`"),
        (
            "FULL",
            "p.at - INTERVAL '5' MINUTE < o.came AND o.at <= p.at",
            "AS TIMESTAMP) + INTERVAL '5' MINUTE, `o`.`at`",
        ),
        ("LEFT", "o.at <= p.at AND NOT (p.at > o.came)", "COALESCE(CAST(`o`.`came` AS TIMESTAMP), `o`.`at`) AS `_lu`"),
        ("LEFT", "p.at <= o.came AND o.amount > 1", "CASE WHEN `o`.`amount` > 1 THEN `o`.`status` END AS `_l0`"),
        ("LEFT", "p.at <= o.at + INTERVAL '1' MONTH", "`o`.`at` + INTERVAL '1' MONTH AS TIMESTAMP"),
    ],
)
def test_outer_joins_keep_rows_until_a_time_of_their_own(side: str, condition: str, until: str) -> None:
    assert until in texts(_OUTER.format(side, condition))[0]


@pytest.mark.parametrize("condition", ["p.at >= o.at", "(p.at <= o.came OR o.amount = 1)", "p.rate > o.amount"])
def test_an_outer_join_whose_rows_would_wait_for_ever_is_refused(condition: str) -> None:
    problem = stage_plan(_OUTER.format("LEFT", condition)).problem
    assert problem is not None
    assert problem.subject == "LEFT JOIN with more than equalities"


def test_of_equal_times_the_last_row_that_came_is_the_latest() -> None:
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY status ORDER BY {}) AS rn FROM orders"
    latest = f"SELECT id FROM ({numbered}) WHERE rn = 1"

    def takes_last(order: str) -> bool:
        found = [s.operator for s in stage_plan(latest.format(order)).stages if isinstance(s, OperatorStage)]
        return isinstance(found[0], Ranking) and found[0].last_first

    assert takes_last("at DESC")
    assert not any(map(takes_last, ["at", "amount DESC", "at DESC, id"]))


@pytest.mark.parametrize(
    ("condition", "time", "noted"),
    [
        ("TRUE", "o.at", True),
        ("p.at >= o.at", "o.at", True),
        ("p.at >= o.at", "p.at", False),
        ("p.at BETWEEN o.at AND o.came", "o.at", True),
        ("p.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR", "o.at", False),
    ],
)
def test_a_window_over_rows_that_may_have_waited_for_any_time_is_noted(condition: str, time: str, noted: bool) -> None:
    joined = f"FROM orders o JOIN rates p ON o.status = p.currency AND {condition}"
    direct = f"SELECT COUNT(*) AS n {joined} GROUP BY TUMBLE({time}, INTERVAL '1' HOUR)"
    behind = f"SELECT COUNT(*) AS n FROM (SELECT {time} AS t {joined}) GROUP BY TUMBLE(t, INTERVAL '1' HOUR)"
    for sql in (direct, behind):
        assert [note.code for note in stage_plan(sql).notes] == ["window-over-late-rows"] * noted
    over = stage_plan(f"SELECT o.id, COUNT(*) OVER (PARTITION BY o.id ORDER BY {time}) AS n {joined}").problem
    assert (over is not None) == noted
