"""Calls of functions: names, arguments and keys, each reported where it stands; and types that the SQL depends on."""

import pytest

from penstock.sql.analyze.analysis import analyze_query, bind_query
from penstock.sql.analyze.analysis_json import from_json, to_json
from penstock.sql.analyze.type_choices import state_text, unnested_text
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column
from tests.support import codes, only, spot
from tests.unit.conftest import MAIN, PIPELINE, Check, Compile

COLUMNS = (Column("i", "INT"), Column("s", "STRING"), Column("a", "ARRAY<INT>"), Column("m", "MAP<INT, INT>"))


TYPED = (*COLUMNS, Column("at", "TIMESTAMP"), Column("d", "DATE"), Column("b", "BOOLEAN"), Column("x", "DOUBLE"))


def problems(text: str) -> list[tuple[str, int]]:
    """Codes, and where each of them is reported."""
    found = analyze_query(text, {"t": COLUMNS}, {})
    return [(problem.code, problem.offset) for problem in found.problems]


def of_types(text: str) -> list[tuple[str, int]]:
    """Codes and places of what is wrong or doubtful in a query over columns of many types."""
    found = analyze_query(text, {"t": TYPED}, {})
    assert from_json(to_json(found)) == found
    return [(problem.code, problem.offset) for problem in (*found.problems, *found.notes)]


@pytest.mark.parametrize(
    ("text", "word", "code"),
    [
        ("SELECT i, UPER(s) AS x FROM t", "UPER", "sql-unknown-function"),
        ("SELECT i FROM t WHERE i > 1 AND `LFT`(s, 2) = 'a'", "`LFT`", "sql-unknown-function"),
        ("SELECT i FROM (SELECT i, SAFE_DIVIDE(i, 2) AS h FROM t) AS x", "SAFE_DIVIDE", "sql-unknown-function"),
        ("SELECT SPLIT_INDEX(UPPER(s), ',') AS x FROM t", "SPLIT_INDEX", "sql-argument"),
        ("SELECT i, JSON_VALUE(s NULL ON EMPTY) AS x FROM t", "JSON_VALUE", "sql-argument"),
        ("SELECT i, SUM(a) OVER (PARTITION BY s) AS x FROM t", "SUM", "sql-argument"),
        ("SELECT i, a[0] AS x FROM t", "a[0]", "sql-argument"),
        ("SELECT i, COUNT(*) OVER (PARTITION BY i + RAND()) AS x FROM t", "RAND", "sql-nondeterministic-key"),
        ("SELECT COUNT(*) AS x FROM t GROUP BY CURRENT_DATE", "CURRENT_DATE", "sql-nondeterministic-key"),
        ("SELECT NOW() AS x, COUNT(*) AS n FROM t GROUP BY 1", "NOW", "sql-nondeterministic-key"),
        ("SELECT i FROM t WHERE (i, i) OVERLAPS (i, i)", "i, i", "sql-unsupported"),
        ("SELECT i, CAST(s AS TIME) AS x FROM t", "s AS TIME", "sql-unsupported"),
        ("SELECT i, CURRENT_WATERMARK(s) AS x FROM t", "CURRENT_WATERMARK", "sql-unsupported"),
        ("SELECT t.i FROM t JOIN t AS u ON u.s = UUID()", "UUID", "sql-nondeterministic-key"),
        ("SELECT NOW() + INTERVAL '1' HUOR AS x FROM t", "'1'", "sql-argument"),
        (
            "SELECT COUNT(*) AS n FROM t GROUP BY TUMBLE(s, INTERVAL '1' HUOR)",
            "'1'",
            "window-invalid",
        ),
        ("SELECT * FROM TABLE(TUMBEL(TABLE t, DESCRIPTOR(s), INTERVAL '1' HOUR))", "TUMBEL", "sql-unknown-function"),
        ("SELECT * FROM TUMBLE(t, DESCRIPTOR(s), INTERVAL '1' HOUR)", "TUMBLE", "window-invalid"),
        ("SELECT i, REFLECT('java.lang.System', 'getenv') AS x FROM t", "REFLECT", "sql-unsupported"),
        ("SELECT i, builtin.`java_method`('a', 'b') AS x FROM t", "`java_method`", "sql-unsupported"),
        ("SELECT i FROM t WHERE try_reflect('a', 'b') = s", "try_reflect", "sql-unsupported"),
        ("SELECT i, LISTAGG(s, s) AS x FROM t GROUP BY i", "s) AS", "sql-argument"),
        ("SELECT i, SUM(*) AS x FROM t GROUP BY i", "SUM", "sql-argument"),
        ("SELECT i, COLLECT(*) AS x FROM t GROUP BY i", "COLLECT", "sql-argument"),
        ("SELECT s, COUNT(s, i) AS x FROM t GROUP BY s", "COUNT", "sql-argument"),
        ("SELECT i, TIMESTAMPDIFF(FORTNIGHT, NOW(), NOW()) AS x FROM t", "TIMESTAMPDIFF", "sql-argument"),
        ("SELECT i, TIMESTAMPADD(DAZE, 1, NOW()) AS x FROM t", "TIMESTAMPADD", "sql-argument"),
        ("SELECT i, EXTRACT(FOO FROM NOW()) AS x FROM t", "NOW", "sql-argument"),
        ("SELECT i, FLOOR(NOW() TO EPOCH) AS x FROM t", "NOW", "sql-argument"),
        ("SELECT i, CAST(s AS DECIMAL(1050, 2)) AS x FROM t", "s AS", "sql-argument"),
        ("SELECT i, CAST(s AS DECIMAL(5, 9)) AS x FROM t", "s AS", "sql-argument"),
        ("SELECT i, CAST(a AS ARRAY<DECIMAL(0, 0)>) AS x FROM t", "a AS", "sql-argument"),
        ("SELECT i FROM t WHERE DATE 'nope' > NOW()", "'nope'", "sql-argument"),
        ("SELECT i FROM t WHERE TIMESTAMP '2026-02-30 10:00:00' > NOW()", "'2026-02-30", "sql-argument"),
        ("SELECT i FROM t WHERE REGEXP(s, '[')", "REGEXP", "sql-argument"),
        ("SELECT i FROM t WHERE s RLIKE 'a)'", "s RLIKE", "sql-argument"),
        ("SELECT i, REGEXP_REPLACE(s, '(a', '') AS x FROM t", "REGEXP_REPLACE", "sql-argument"),
        ("SELECT x.e FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS x(e)", "a)", "sql-argument"),
        ("WITH c AS (SELECT i FROM t), C AS (SELECT s FROM t) SELECT i FROM c", "C AS", "sql-statement"),
    ],
)
def test_a_mistake_is_reported_where_it_stands(text: str, word: str, code: str) -> None:
    assert problems(text) == [(code, text.index(word))]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT UPPER(s) AS a, SOUNDEX(s) AS b, SPLIT_INDEX(s, ',', 0) AS c, STACK(1, i) AS d FROM t",
        "SELECT m[0] AS x FROM t",
        "SELECT CAST(s AS DECIMAL(10, 2)) AS a, s IN ('a', 'b') AS b, COUNT(*) OVER (PARTITION BY s) AS c FROM t",
        "SELECT MAP['a', 1] AS a, ARRAY[1, 2] AS b, ROW(1, 'a') AS c, CASE WHEN (i > 1) THEN 1 END AS d FROM t",
        "SELECT RAND() AS r, UUID() AS u FROM t WHERE RAND() < 0.1",
        "SELECT COUNT(*) AS n FROM t GROUP BY TUMBLE(PROCTIME(), INTERVAL '1' HOUR)",
        "SELECT ceiling, localtimestamp_ FROM (SELECT i AS ceiling, s AS localtimestamp_ FROM t) AS x",
        "SELECT s, COUNT(*) AS a, COUNT(DISTINCT i) AS b, LISTAGG(s, CHR(10)) AS c FROM t GROUP BY s",
        "SELECT EXTRACT(EPOCH FROM NOW()) AS a, TIMESTAMPDIFF(DAY, NOW(), NOW()) AS b, FLOOR(NOW() TO DAY) AS c FROM t",
        "SELECT DATE '2026-1-9' AS a, TIMESTAMP '2026-01-31' AS b, TIMESTAMP '2026-01-31 10:00:00.5 CET' AS c FROM t",
        "SELECT DATE 'today' AS a FROM t",
        "SELECT CAST(s AS DECIMAL(38, 38)) AS a, CAST(s AS DECIMAL) AS b, TRY_CAST('nope' AS DATE) AS c FROM t",
        "SELECT s RLIKE '\\[a\\(' AS a, REGEXP(s, '(?<year>[0-9]+)') AS b, REGEXP_EXTRACT(s, '[[:a]]', 0) AS c FROM t",
    ],
)
def test_what_is_sound_is_left_alone(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT NOW() + INTERVAL '1' HUOR AS x FROM t", "did you mean `HOUR`?"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY TUMBLE(s, INTERVAL '1' MINUT)", "did you mean `MINUTE`?"),
        ("SELECT * FROM TABLE(TUMBEL(TABLE t, DESCRIPTOR(s), INTERVAL '1' HOUR))", "did you mean `TUMBLE`?"),
        (
            "SELECT * FROM TUMBLE(t, DESCRIPTOR(s), INTERVAL '1' HOUR)",
            "write TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        ),
        ("SELECT i, _gs_op FROM t", "changes have it already: remove it"),
    ],
)
def test_a_hint_names_the_way_out(text: str, hint: str) -> None:
    assert only(analyze_query(text, {"t": COLUMNS}, {}).problems).hint == hint


def test_an_unknown_function_of_a_pipeline_is_reported_too(check: Check) -> None:
    text = """
    sources: {s: {type: generator, primary_key: id, columns: {id: {kind: sequence}}}}
    transforms:
      x: {type: sql, primary_key: id, sql: "SELECT id, split_inedx(id, 1) AS y FROM s"}
    sinks: {out: {type: print, from: x}}
    """
    found = [d for d in check({PIPELINE: text}, PIPELINE)[1] if d.code == "sql-unknown-function"]
    assert only(tuple(found)).origin == spot(PIPELINE, text, "split_inedx")


# Types


def spark_sql(text: str) -> str:
    found = analyze_query(text, {"t": COLUMNS}, {})
    assert found.problems == ()
    kept = from_json(to_json(found))
    return to_spark(bind_query(text, ["t"], kept.operands))


def test_whole_numbers_are_divided_without_remainder_in_every_clause() -> None:
    text = "WITH c AS (SELECT i / 2 AS h FROM t WHERE i / 3 > 1) SELECT h / 2 AS q, h / 2.0 AS r FROM c"
    assert spark_sql(text) == (
        "WITH `c` AS (SELECT CAST(`i` DIV 2 AS INT) AS `h` FROM `t` AS `t` WHERE CAST(`i` DIV 3 AS INT) > 1) "
        "SELECT CAST(`h` DIV 2 AS INT) AS `q`, `h` / 2.0 AS `r` FROM `c`"
    )


def test_the_type_of_a_call_counts_not_that_of_its_arguments() -> None:
    text = "SELECT CARDINALITY(a) / 2 AS h, CHAR_LENGTH(s) / i AS q, RAND() / i AS r FROM t"
    assert spark_sql(text) == (
        "SELECT CAST(CARDINALITY(`a`) DIV 2 AS INT) AS `h`, CAST(LENGTH(`s`) DIV `i` AS INT) AS `q`, "
        "RAND() / `i` AS `r` FROM `t` AS `t`"
    )


def test_what_is_not_known_is_decided_by_spark_when_it_knows_the_types() -> None:
    found = analyze_query("SELECT x / 2 AS h FROM t", {"t": None}, {})
    assert not found.operands
    sql = "SELECT x / 2 AS h, AVG(x) FILTER (WHERE x > 1) AS m FROM t"
    assert to_spark(Query(sql, PROJECT)) == (
        "SELECT PENSTOCK_ROW_DIVIDE(`x`, 2) AS `h`, "
        "PENSTOCK_ROW_MEAN(AVG(`x`) FILTER(WHERE `x` > 1), `x`) AS `m` FROM `t`"
    )


def test_one_operand_that_is_no_whole_number_decides() -> None:
    found = analyze_query("SELECT x / 2.5 AS h FROM t", {"t": None}, {})
    assert found.operands


def test_a_model_that_reads_another_knows_its_types(project_manifest: Compile) -> None:
    manifest = project_manifest("""
    project: {name: p}
    sources: [{name: s, topic: t, columns: [{name: cents, type: BIGINT}]}]
    models:
      - {name: a, sql: "SELECT cents, cents / 100 AS euros FROM {{ source('s') }}"}
      - {name: b, sql: "SELECT euros / 2 AS half FROM {{ ref('a') }}"}
    """)
    texts = [step.sql for query in manifest.queries for step in query.steps]
    assert all(" DIV " in text for text in texts)


def test_an_output_keeps_its_name_when_its_expression_is_replaced() -> None:
    assert to_spark(Query("SELECT m['k'], YEAR(at) FROM t", PROJECT)) == (
        "SELECT TRY_ELEMENT_AT(`m`, 'k') AS `k`, CAST(YEAR(`at`) AS BIGINT) AS `_col_1` FROM `t`"
    )


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("`LOCALTIMESTAMP`", "`LOCALTIMESTAMP`"),
        ("t.map", "`t`.`map`"),
        ("'a\\'", "'a\\\\'"),
        ("ARRAY[MAP['a', 1]['a']][1]", "TRY_ELEMENT_AT(ARRAY(TRY_ELEMENT_AT(MAP('a', 1), 'a')), 1)"),
        ("UPPER(`select`)", "UPPER(`select`)"),
    ],
)
def test_words_keep_their_meaning(flink: str, spark: str) -> None:
    parsed = parse(f"SELECT {flink} AS x FROM t", PROJECT)
    assert isinstance(parsed, Query)
    assert to_spark(parsed) == f"SELECT {spark} AS `x` FROM `t`"


def test_an_odd_map_is_no_call() -> None:
    assert isinstance(parse("SELECT MAP['a'] AS x FROM t", PROJECT), Problem)


def test_a_wrong_function_does_not_hide_a_wrong_column(check: Check) -> None:
    text = """
    project: {name: p}
    sources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]
    models: [{name: m, sql: "SELECT UPER(nme) AS x FROM {{ source('s') }}"}]
    """
    assert sorted(codes(check({MAIN: text})[1])) == ["sql-unknown-column", "sql-unknown-function"]


# Operands


@pytest.mark.parametrize(
    "expression",
    [
        "ABS(s)", "ROUND(s, 2)", "s[1]", "x + at", "at + 1", "1 - d", "at * 2", "at + d", "b + 1", "-b", "s + s",
        "IF(b, 2)", "ROW_NUMBER()", "LAG(i)", "DATE_FORMAT(s, 3)",
        "at = 5", "b = 1", "a = s", "at BETWEEN 1 AND 2", "i IN (at)",
        "CASE at WHEN 1 THEN 2 END", "a['x']", "a[x]", "a[CAST(i AS BIGINT)]", "m['x']",
        "GREATEST(i, s)", "LEAST(at, 1)", "COALESCE(a, 'x')",
        "COALESCE(b, i)", "IFNULL(at, 0)",
    ],
)  # fmt: skip
def test_operands_that_do_not_go_together_are_refused(expression: str) -> None:
    assert [code for code, _ in of_types(f"SELECT {expression} AS y FROM t")] == ["sql-argument"]


@pytest.mark.parametrize("before", ["", "b AND ", "NOT ", "b OR NOT "])
def test_a_condition_is_true_or_false(before: str) -> None:
    text = f"SELECT x FROM t WHERE {before}i"
    assert of_types(text) == [("sql-argument", len(text) - 1)]


@pytest.mark.parametrize("condition", ["s", "CASE WHEN i THEN b END", "IF(s, b, b)"])
def test_a_text_or_a_number_is_no_condition(condition: str) -> None:
    assert [code for code, _ in of_types(f"SELECT x FROM t WHERE {condition}")] == ["sql-argument"]


@pytest.mark.parametrize(
    "condition",
    [
        "at > 'garbage'", "'garbage' < at", "at = '2026-13-01'", "at BETWEEN '2026-01-01' AND 'soon'", "d = 'monday'",
        "at > CAST('garbage' AS TIMESTAMP)", "d = CAST('2026-13-01' AS DATE)", "i = CAST('seven' AS INT)",
        "d IN ('2026-01-01', '2026-02-30')", "b = 'maybe'", "i = 'a'", "i IN (1, 'a')", "x <> ''", "i + 'a' > 1",
        "CASE i WHEN 'a' THEN b END", "COALESCE(i, 'a') > 1",
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_read_as_what_it_is_compared_with_is_an_error(condition: str) -> None:
    text = f"SELECT x FROM t WHERE {condition}"
    found = analyze_query(text, {"t": TYPED}, {})
    assert [p.code for p in found.problems] == ["sql-argument"]
    assert found.notes == ()


@pytest.mark.parametrize("condition", ["MAX(at) > 'garbage'", "MIN(i) = 'a'", "i = 'a'", "SUM(x) <> ''"])
def test_conditions_of_groups_are_read_as_those_of_rows(condition: str) -> None:
    found = analyze_query(f"SELECT i, COUNT(*) AS n FROM t GROUP BY i HAVING {condition}", {"t": TYPED}, {})
    assert [p.code for p in found.problems] == ["sql-argument"]


@pytest.mark.parametrize(
    "condition",
    [
        "at > '2026-01-01'", "at > '2026-01-01T10:00:00Z'", "at > '2026-1-1 9:05'", "at > '2026'", "at > '10:00:00'",
        "at > '2026-01-01 10:00:00 Europe/Berlin'", "d >= '2026-01'", "d = '2026-02-28 '", "b = 'true'", "b = 'no'",
        "i = ' 7 '", "i = CAST('7' AS INT)", "i = TRY_CAST('seven' AS INT)",
        "x > '1e3'", "s = 'garbage'", "s > '2026-13-01'", "d < '10000-01-01'",
    ],
)  # fmt: skip
def test_a_text_that_can_be_read_so_is_left_alone(condition: str) -> None:
    found = analyze_query(f"SELECT x FROM t WHERE {condition}", {"t": TYPED}, {})
    assert (found.problems, found.notes) == ((), ())


@pytest.mark.parametrize("expression", ["SUM(s)", "AVG(at)", "STDDEV_POP(s)", "SUM(b)"])
def test_a_sum_is_of_numbers(expression: str) -> None:
    text = f"SELECT i, {expression} AS y FROM t GROUP BY i"
    assert of_types(text) == [("sql-argument", text.index(expression))]


@pytest.mark.parametrize(
    "expression",
    [
        "s + 1",
        "s = 1",
        "i IN (1, s)",
        "s BETWEEN 1 AND 2",
        "MOD(s, 2)",
        "CASE s WHEN 1 THEN 2 END",
        "COALESCE(i, s)",
    ],
)
def test_a_text_that_is_read_as_a_number_is_pointed_out(expression: str) -> None:
    text = f"SELECT {expression} AS y FROM t"
    found = analyze_query(text, {"t": TYPED}, {})
    assert [p.code for p in found.notes] == ["sql-text-as-number"]
    assert found.problems == ()


@pytest.mark.parametrize(
    "expression",
    [
        "d + 1", "d - 1", "at - at", "at - INTERVAL '1' DAY", "at > '2026-01-01'", "at > d", "i = '3'", "i + x",
        "b = 'true'", "CAST(s AS INT) + 1", "a[1] + 1", "m[1]", "b AND s = 'x'", "IF(b, 1, 2)",
        "ROW_NUMBER() OVER (ORDER BY at)", "DATE_FORMAT(s, 'yyyy')", "CASE WHEN b THEN 1 END", "s || i", "ABS(a[1])",
        "TIMESTAMPDIFF(DAY, d, at) + 1", "a[i]", "a[CAST(x AS INT)]", "m[CARDINALITY(a)]",
        "GREATEST(i, x)", "COALESCE(at, d)", "COALESCE(NULL, i, 0)",
        "COALESCE(i, '0')", "COALESCE(at, '2026-01-01')",
    ],
)  # fmt: skip
def test_operands_that_go_together_are_left_alone(expression: str) -> None:
    assert of_types(f"SELECT {expression} AS y FROM t") == []


def test_a_type_that_inference_gets_wrong_inside_is_not_relied_on_outside() -> None:
    assert of_types("SELECT i, SUM(y) AS z FROM (SELECT i, at - at AS y FROM t) AS q GROUP BY i") == []


def test_a_column_that_a_window_makes_a_time_of_is_not_judged_by_its_type() -> None:
    text = "SELECT MAX(s) - INTERVAL '1' HOUR AS y, MAX(s + 1) AS z FROM t GROUP BY TUMBLE(s, INTERVAL '1' HOUR)"
    assert of_types(text) == []


def test_the_sides_of_a_union_have_the_same_types() -> None:
    refused = "SELECT s FROM t UNION ALL SELECT at FROM t"
    assert of_types(refused) == [("sql-argument", refused.index("at FROM"))]
    doubtful = "SELECT s FROM t UNION ALL SELECT i FROM t"
    assert of_types(doubtful) == [("sql-text-as-number", doubtful.index("i FROM"))]
    assert of_types("SELECT at, i FROM t UNION ALL SELECT d, x FROM t UNION ALL SELECT NULL, 1 FROM t") == []


ROWS = (Column("r", "STRUCT<x: INT, inner: STRUCT<y: STRING>>"), Column("n", "INT"), Column("m", "MAP<STRING, INT>"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT r.z AS a FROM t", "z"),
        ("SELECT t.r.z AS a FROM t", "z"),
        ("SELECT r.inner.z AS a FROM t", "z"),
        ("SELECT n.foo AS a FROM t", "foo"),
        ("SELECT a.foo AS b FROM (SELECT n AS a FROM t) AS q", "foo"),
    ],
)
def test_a_field_that_is_not_there_is_refused(text: str, word: str) -> None:
    found = only(analyze_query(text, {"t": ROWS}, {}).problems)
    assert (found.code, found.offset, found.subject) == ("sql-unknown-column", text.index(f".{word}") + 1, word)


@pytest.mark.parametrize("field", ["r.x", "t.r.X", "r.inner.y", "t.r.inner.y", "r.inner", "m.foo"])
def test_a_field_is_found_through_rows_in_rows(field: str) -> None:
    assert analyze_query(f"SELECT {field} AS a FROM t", {"t": ROWS}, {}).problems == ()


def test_an_input_with_the_name_of_a_column_is_no_row() -> None:
    assert analyze_query("SELECT t.n, n.m FROM t LEFT SEMI JOIN t AS n ON t.n = n.n", {"t": ROWS}, {}).problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS c FROM t GROUP BY m",
        "SELECT m AS k, COUNT(*) AS c FROM t GROUP BY 1",
        "SELECT DISTINCT m FROM t",
        "SELECT DISTINCT ARRAY(m) AS k FROM t",
        "SELECT n, SUM(n) OVER (PARTITION BY m ORDER BY n) AS c FROM t",
        "SELECT a.n FROM t AS a JOIN t AS b ON a.m = b.m",
    ],
)
def test_a_map_is_no_key(text: str) -> None:
    found = only(analyze_query(text, {"t": ROWS}, {}).problems)
    assert (found.code, found.hint) == (
        "sql-argument",
        "take an element of it: m['key'], or make a text of it: JSON_STRING(m)",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT AVG(x) AS m FROM t GROUP BY k", "SELECT PENSTOCK_ROW_MEAN(AVG(x), x) AS m FROM t GROUP BY k"),
        ("SELECT SUM(x) / COUNT(*) AS m FROM t", "SELECT PENSTOCK_ROW_DIVIDE(SUM(x), COUNT(*)) AS m FROM t"),
        ("SELECT TRY_DIVIDE(s, n) AS m FROM t", "SELECT PENSTOCK_ROW_DIVIDE(s, NULLIF(n, 0)) AS m FROM t"),
    ],
)
def test_state_does_not_depend_on_how_an_output_is_divided(before: str, after: str) -> None:
    assert state_text(before) == state_text(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT SUM(x / y) AS m FROM t", "SELECT SUM(PENSTOCK_ROW_DIVIDE(x, y)) AS m FROM t"),
        ("SELECT k FROM t GROUP BY x / y", "SELECT k FROM t GROUP BY PENSTOCK_ROW_DIVIDE(x, y)"),
        (
            "SELECT MAX(m) FROM (SELECT AVG(x) AS m FROM t) AS u",
            "SELECT MAX(m) FROM (SELECT PENSTOCK_ROW_MEAN(AVG(x), x) AS m FROM t) AS u",
        ),
    ],
)
def test_state_depends_on_how_what_it_holds_is_divided(before: str, after: str) -> None:
    assert state_text(before) != state_text(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("EXPLODE(x) u AS e", "INLINE(PENSTOCK_ROW_ENTRIES(x)) u AS e"),
        ("INLINE(x) u AS e, g", "INLINE(PENSTOCK_ROW_ENTRIES(x)) u AS e, g"),
        (
            "INLINE(TRANSFORM(x, (`e`, `i`) -> STRUCT(e AS e, `i` + 1 AS col2))) u AS e, g",
            "INLINE(PENSTOCK_ROW_ENTRIES(x, SLICE(SEQUENCE(1, 2), 1, 2))) u AS e, g",
        ),
    ],
)
def test_state_does_not_depend_on_how_rows_of_an_unknown_type_are_made(before: str, after: str) -> None:
    old, new = (f"SELECT COUNT(*) AS n FROM t LATERAL VIEW {view} GROUP BY e" for view in (before, after))
    assert unnested_text(old) == unnested_text(new)


@pytest.mark.parametrize(
    ("join", "said"),
    [
        ("UNNEST(i) AS u(k)", "is given INT"),
        ("UNNEST(s) AS u(k)", "is given STRING"),
        ("UNNEST(m) AS u(k)", "MAP<INT, INT> makes 2 columns, and is given 1 name"),
        ("UNNEST(a) AS u(k, v)", "ARRAY<INT> makes 1 column, and is given 2 names"),
        ("UNNEST(m) WITH ORDINALITY AS u(k, i)", "MAP<INT, INT> makes 2 columns, and is given 1 name"),
    ],
)
def test_what_cannot_be_unnested_is_refused(join: str, said: str) -> None:
    text = f"SELECT s, k FROM t CROSS JOIN {join}"
    found = only(analyze_query(text, {"t": COLUMNS}, {}).problems)
    assert (found.code, found.subject, found.offset) == ("sql-argument", "UNNEST", text.index("UNNEST(") + 7)
    assert said in found.message


@pytest.mark.parametrize(
    "join",
    ["UNNEST(a)", "UNNEST(a) AS u", "UNNEST(m) AS u(k, v)", "UNNEST(a) WITH ORDINALITY AS u(k, n)",
     "UNNEST(MAP_FILTER(m, (p, q) -> q > 1)) AS u(k, v)", "UNNEST(SPLIT(s, ',')) AS u(k)"],
)  # fmt: skip
def test_what_can_be_unnested_or_is_of_an_unknown_type_passes(join: str) -> None:
    assert analyze_query(f"SELECT s FROM t CROSS JOIN {join}", {"t": COLUMNS}, {}).problems == ()


@pytest.mark.parametrize(
    ("number", "is_wrong"),
    [("1e308", False), ("1e400", True), ("9" * 38, False), ("9" * 39, True), ("0." + "1" * 38, False)],
)
def test_numbers_that_spark_cannot_hold_are_found(number: str, is_wrong: bool) -> None:
    sql = f"SELECT i FROM t WHERE x > {number}"
    assert problems(sql.replace("x", "i")) == ([("sql-argument", sql.index(number))] if is_wrong else [])
