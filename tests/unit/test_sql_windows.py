"""Windows in SQL: how they may be written, what is refused, and what Spark gets."""

import pytest

from penstock.sql.analyze.analysis import QueryAnalysis, analyze_query
from penstock.sql.analyze.statefulness import stateful_constructs, unsupported_problems
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, parse, tables
from penstock.sql.rewrite.render import is_plain_filter
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column, Columns

INPUTS: dict[str, Columns | None] = {
    "t": (Column("k", "STRING"), Column("v", "INT"), Column("ts", "TIMESTAMP")),
    "u": (Column("k", "STRING"), Column("window_end", "TIMESTAMP"), Column("ts", "TIMESTAMP")),
}
HOUR, MINUTE = "INTERVAL '1' HOUR", "INTERVAL '1' MINUTE"
TUMBLE = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}))"
ENDS = "window_start, window_end"


def query(text: str) -> Query:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return parsed


def spark(text: str, time: str | None = None) -> str:
    return to_spark(query(text), time)


def studied(text: str) -> QueryAnalysis:
    return analyze_query(text, {name: INPUTS[name] for name in ("t", "u") if f" {name}" in text}, {})


def refused(text: str) -> list[Problem]:
    return list(studied(text).problems)


# Ways to write one


@pytest.mark.parametrize(
    "table",
    [
        f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}))",
        f"TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR})",
        f"table ( tumble ( table t , descriptor ( `ts` ) , {HOUR} ) )",
        f"TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => {HOUR}))",
        f"TABLE(TUMBLE(SIZE => {HOUR}, TIMECOL => DESCRIPTOR(ts), DATA => TABLE t))",
        f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), SIZE => {HOUR}))",
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOURS, INTERVAL '0' SECOND)) -- of all rows",
    ],
)
def test_a_window_over_a_table_may_be_written_in_many_ways(table: str) -> None:
    text = f"SELECT {ENDS}, COUNT(*) AS n FROM {table}\n GROUP BY {ENDS}"
    assert [t.name for t in tables(query(text))] == ["t"]
    found = studied(text)
    assert found.problems == ()
    assert [(w.column, t and t.name) for w, t in zip(found.windows, found.times, strict=True)] == [("ts", "ts")]
    assert [(c.name, c.type) for c in found.columns or ()] == [
        ("window_start", "TIMESTAMP"),
        ("window_end", "TIMESTAMP"),
        ("n", "BIGINT"),
    ]
    expected = spark(f"SELECT {ENDS}, COUNT(*) AS n FROM {TUMBLE} GROUP BY {ENDS}")
    assert spark(text).replace("`ts`", "ts") == expected.replace("`ts`", "ts")


def test_rows_get_their_window_without_being_grouped() -> None:
    found = studied(f"SELECT * FROM {TUMBLE}")
    assert found.problems == found.constructs == ()
    assert [c.name for c in found.columns or ()] == ["k", "v", "ts", "window_start", "window_end", "window_time"]
    assert [(o.input, o.name, o.way) for o in found.origins["window_end"]] == [("t", "ts", "made")]


def test_a_gateway_does_not_take_rows_in_windows_for_all_rows_of_a_table() -> None:
    assert is_plain_filter(query("SELECT * FROM t WHERE v > 0"))
    assert not is_plain_filter(query(f"SELECT * FROM {TUMBLE}"))


def test_a_window_may_be_over_a_subquery_and_a_cte() -> None:
    over_subquery = f"SELECT * FROM TABLE(TUMBLE((SELECT k, ts AS at FROM t WHERE v > 0), DESCRIPTOR(at), {HOUR}))"
    over_cte = f"WITH c AS (SELECT k, ts AS at FROM t) SELECT * FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(at), {HOUR}))"
    unwrapped = over_subquery.replace("TABLE(TUMBLE", "TUMBLE").removesuffix(")")
    for text in (over_subquery, over_cte, unwrapped):
        found = studied(text)
        assert found.problems == ()
        assert [t and (t.input, t.name) for t in found.times] == [("t", "ts")]
        assert [t.name for t in tables(query(text))] == ["t"]


def test_what_is_no_window_stays_as_it_is() -> None:
    assert spark("SELECT tumble, hop FROM session") == "SELECT `tumble`, `hop` FROM `session`"
    assert spark("SELECT `HOP` AS x FROM t WHERE TUMBLE > 1") == "SELECT `HOP` AS `x` FROM `t` WHERE `TUMBLE` > 1"


# What Spark gets


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        (f"TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR})", "WINDOW(`ts`, '1 hour')"),
        (
            f"TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}, INTERVAL '90' MINUTE)",
            "WINDOW(`ts`, '1 hour', '1 hour', '1800000 millisecond')",
        ),
        (
            f"TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}, -INTERVAL '15' MINUTE)",
            "WINDOW(`ts`, '1 hour', '1 hour', '2700000 millisecond')",
        ),
        (f"HOP(TABLE t, DESCRIPTOR(ts), {MINUTE}, {HOUR})", "WINDOW(`ts`, '1 hour', '1 minute')"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1.5' SECOND)", "WINDOW(`ts`, '1500 millisecond')"),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '100' DAY(3))", "WINDOW(`ts`, '100 day')"),
    ],
)
def test_the_window_of_a_table_is_one_column_that_is_grouped_by(flink: str, expected: str) -> None:
    found = spark(f"SELECT k, window_end AS until FROM TABLE({flink}) AS w GROUP BY w.window_start, window_end, k")
    assert found == (
        "SELECT `k`, `w`.`_window`.`end` AS `until` FROM (SELECT *, "
        f"{expected}.`start` AS `window_start`, {expected}.`end` AS `window_end`, "
        f"{expected}.`end` - INTERVAL '1' MILLISECOND AS `window_time`, {expected} AS `_window` FROM `t`) AS `w` "
        "GROUP BY `k`, `w`.`_window`"
    )


def test_windows_that_accumulate_slide_and_are_cut_off() -> None:
    found = spark(f"SELECT * FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), {MINUTE}, {HOUR}))")
    start = "TIMESTAMP_MILLIS(UNIX_MILLIS(`_window`.`end`) - 1 - PMOD(UNIX_MILLIS(`_window`.`end`) - 1, 3600000))"
    assert found == (
        f"SELECT * FROM (SELECT * EXCEPT (`_window`), {start} AS `window_start`, `_window`.`end` AS `window_end`, "
        "`_window`.`end` - INTERVAL '1' MILLISECOND AS `window_time` "
        "FROM (SELECT *, WINDOW(`ts`, '1 hour', '1 minute') AS `_window` FROM `t`) "
        f"WHERE `ts` >= {start})"
    )


def test_a_session_of_all_rows_has_a_key_that_is_always_the_same() -> None:
    found = spark(f"SELECT COUNT(*) AS n FROM t GROUP BY SESSION(ts, {HOUR})")
    assert found.endswith("GROUP BY SESSION_WINDOW(`ts`, '1 hour'), PMOD(UNIX_MICROS(`ts`), 1)")
    with_key = spark(f"SELECT COUNT(*) AS n FROM t GROUP BY k, SESSION(ts, {HOUR})")
    assert with_key.endswith("GROUP BY `k`, SESSION_WINDOW(`ts`, '1 hour')")


def test_a_window_is_carried_through_what_does_not_name_it() -> None:
    text = (
        f"WITH c AS (SELECT {ENDS}, k FROM {TUMBLE}) SELECT COUNT(*) AS n FROM (SELECT * FROM c) AS d GROUP BY {ENDS}"
    )
    found = spark(text)
    assert "SELECT `window_start`, `window_end`, `k`, `_window` FROM (" in found
    assert found.endswith("(SELECT * FROM `c`) AS `d` GROUP BY `d`.`_window`")


def test_a_join_of_equal_windows_is_one_by_the_window() -> None:
    other = TUMBLE.replace("TABLE t", "TABLE v")
    text = f"SELECT l.k FROM {TUMBLE} AS l JOIN {other} AS r ON r.window_start = l.window_start AND {{}}"
    assert "AND `l`.`_window` = `r`.`_window_2`" in spark(text.format("l.window_end = r.window_end"))
    for not_the_end in ("l.window_end = r.window_start", "l.window_end > r.window_end"):
        assert "`_window`" not in spark(text.format(not_the_end))


def test_a_star_beside_does_not_show_what_is_carried() -> None:
    counted = f"SELECT window_time AS moment, COUNT(*) AS n FROM {TUMBLE} GROUP BY {ENDS}, window_time"
    text = f"WITH c AS ({counted}) SELECT * FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(moment), INTERVAL '1' DAY))"
    found = spark(text)
    assert "SELECT * FROM (SELECT * EXCEPT (`_window`), WINDOW(WINDOW_TIME(`c`.`_window`), '1 day').`start`" in found
    assert [c.name for c in studied(text).columns or ()] == ["moment", "n", "window_start", "window_end", "window_time"]


def test_a_window_over_windows_is_over_the_time_of_spark() -> None:
    inner = f"SELECT TUMBLE_ROWTIME(ts, {MINUTE}) AS moment, COUNT(*) AS n FROM t GROUP BY TUMBLE(ts, {MINUTE})"
    text = f"SELECT SUM(n) AS n FROM ({inner}) AS m GROUP BY TUMBLE(moment, {HOUR})"
    found = studied(text)
    assert found.problems == ()
    assert [w.column for w in found.windows] == ["ts"]
    assert spark(text) == (
        "SELECT SUM(`n`) AS `n` FROM (SELECT WINDOW(`ts`, '1 minute').`end` - INTERVAL '1' MILLISECOND AS `moment`, "
        "COUNT(*) AS `n`, WINDOW(`ts`, '1 minute') AS `_window` FROM `t` GROUP BY WINDOW(`ts`, '1 minute')) AS `m` "
        "GROUP BY WINDOW(WINDOW_TIME(`m`.`_window`), '1 hour')"
    )


def test_the_time_of_a_window_stays_event_time_for_readers_of_a_view() -> None:
    inner = f"SELECT k, TUMBLE_ROWTIME(ts, {MINUTE}) AS moment FROM t GROUP BY k, TUMBLE(ts, {MINUTE})"
    assert spark(inner, "moment").startswith(
        "SELECT * EXCEPT (`_window`, `moment`), WINDOW_TIME(`_window`) AS `moment`"
    )
    assert spark("SELECT ts FROM t", "ts") == "SELECT `ts` FROM `t`"


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("COUNT(DISTINCT v)", "CAST(SIZE(COLLECT_SET(`v`)) AS BIGINT)"),
        (
            "COUNT(DISTINCT k, v)",
            "CAST(SIZE(COLLECT_SET(IF(`k` IS NULL OR `v` IS NULL, NULL, STRUCT(`k`, `v`)))) AS BIGINT)",
        ),
        (
            "COUNT(DISTINCT v) FILTER (WHERE k = 'a')",
            "CAST(SIZE(COLLECT_SET(`v`) FILTER(WHERE `k` = 'a')) AS BIGINT)",
        ),
        ("MAX(DISTINCT v)", "MAX(`v`)"),
        ("COLLECT(DISTINCT v)", "COLLECT_SET(`v`)"),
        ("COLLECT(DISTINCT v) FILTER (WHERE k = 'a')", "COLLECT_SET(`v`) FILTER(WHERE `k` = 'a')"),
        (
            "LISTAGG(DISTINCT k)",
            "IF(SIZE(COLLECT_SET(`k`)) > 0, ARRAY_JOIN(COLLECT_SET(`k`), ','), NULL)",
        ),
        (
            "SUM(DISTINCT CAST(v AS INT))",
            "IF(SIZE(COLLECT_SET(CAST(`v` AS INT))) > 0, AGGREGATE(COLLECT_SET(CAST(`v` AS INT)), "
            "CAST(0 AS BIGINT), (`s`, `x`) -> CAST(`s` + `x` AS BIGINT)), NULL)",
        ),
    ],
)
def test_distinct_aggregates_of_windows_are_said_over_sets(aggregate: str, expected: str) -> None:
    text = f"SELECT {aggregate} AS x FROM t GROUP BY TUMBLE(ts, {HOUR})"
    assert refused(text) == []
    assert spark(text) == f"SELECT {expected} AS `x` FROM `t` GROUP BY WINDOW(`ts`, '1 hour')"


@pytest.mark.parametrize("aggregate", ["SUM(DISTINCT v)", "AVG(DISTINCT v)", "STDDEV(DISTINCT v)"])
def test_a_distinct_aggregate_of_an_unknown_type_is_refused_with_the_way_out(aggregate: str) -> None:
    constructs = stateful_constructs(query(f"SELECT {aggregate} AS x FROM t GROUP BY TUMBLE(ts, {HOUR})"))
    (found,) = unsupported_problems(constructs, never=False)
    assert found.hint is not None
    assert "DISTINCT" in found.hint


# Mistakes; the sentences are in the golden case


def grouped(window: str) -> str:
    return f"SELECT COUNT(*) AS n FROM t GROUP BY {window}"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (grouped("TUMBLE(ts, INTERVAL '0' HOUR)"), "'0'"),
        (grouped("TUMBLE(ts, INTERVAL '-1' HOUR)"), "'-1'"),
        (grouped("TUMBLE(ts, -INTERVAL '1' HOUR)"), "'1'"),
        (grouped(f"HOP(ts, INTERVAL '0' HOUR, {HOUR})"), "'0'"),
        (grouped(f"HOP(ts, {HOUR}, {MINUTE})"), "'1'"),
        (grouped("SESSION(ts, INTERVAL '0' HOUR)"), "'0'"),
        (grouped("TUMBLE(ts, INTERVAL '1' YEAR)"), "'1'"),
        (grouped("TUMBLE(ts, INTERVAL '1:30' HOUR TO MINUTE)"), "'1:30'"),
        (grouped("TUMBLE(ts, v)"), "v)"),
        (grouped("TUMBLE(ts)"), "TUMBLE"),
        (grouped(f"TUMBLE(ts, {HOUR}, {HOUR}, {HOUR})"), "TUMBLE"),
        (f"SELECT TUMBLE_END(ts, {MINUTE}) AS x FROM t GROUP BY TUMBLE(ts, {HOUR})", "TUMBLE_END"),
        (f"SELECT TUMBLE_END(ts, {MINUTE}) AS x FROM t GROUP BY k", "TUMBLE_END"),
        (f"SELECT COUNT(*) AS n FROM {TUMBLE} GROUP BY window_end", "window_end"),
        (f"SELECT COUNT(*) AS n FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), {HOUR})) GROUP BY {ENDS}", "TUMBLE"),
        (f"SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), {HOUR}, {MINUTE}))", "'1' HOUR"),
        (f"SELECT k, HOP_START(ts, {MINUTE}, {HOUR}) AS x FROM t", "HOP_START"),
        (f"SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts, k), {HOUR}))", "DESCRIPTOR"),
        (f"SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR}, SIZE => {HOUR}))", "SIZE"),
    ],
)
def test_a_window_that_cannot_be_made_is_refused_at_its_place(text: str, word: str) -> None:
    found = [problem for problem in refused(text) if problem.code == "window-invalid"]
    assert len(found) == 1, found
    assert text[found[0].offset :].startswith(word)
    assert found[0].hint


def test_a_bracket_that_is_not_closed_is_a_mistake_of_syntax() -> None:
    for text in (f"SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {HOUR})", "SELECT * FROM TABLE(TUMBLE(TABLE t"):
        (found,) = refused(text)
        assert (found.code, text[found.offset]) == ("sql-syntax", "(")


@pytest.mark.parametrize("end", ["START", "END"])
def test_in_one_model_only_the_time_of_a_window_is_event_time(end: str) -> None:
    inner = f"SELECT TUMBLE_{end}(ts, {MINUTE}) AS moment, COUNT(*) AS n FROM t GROUP BY TUMBLE(ts, {MINUTE})"
    text = f"SELECT SUM(n) AS n FROM ({inner}) AS m GROUP BY TUMBLE(moment, {HOUR})"
    (found,) = refused(text)
    assert (found.code, found.subject) == ("window-without-event-time", "moment")
    assert text[found.offset :].startswith(f"moment, {HOUR}")


def test_a_missing_column_of_a_window_is_reported_once() -> None:
    text = f"SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(tss), {HOUR}))"
    (found,) = refused(text)
    assert (found.code, found.subject, found.hint) == ("sql-unknown-column", "tss", "did you mean `ts`?")
