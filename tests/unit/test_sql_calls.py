"""Calls of functions: names, arguments and keys, each reported where it stands; and types that the SQL depends on."""

import pytest

from penstock.sql.dialects import PROJECT
from penstock.sql.query import Problem, Query, parse
from penstock.sql.study import bound, study
from penstock.sql.study_json import from_json, to_json
from penstock.sql.translate import to_spark
from penstock.sql.types import Column
from tests.support import codes, only, spot
from tests.unit.conftest import MAIN, PIPELINE, Check, Compile

COLUMNS = (Column("i", "INT"), Column("s", "STRING"), Column("a", "ARRAY<INT>"), Column("m", "MAP<INT, INT>"))


def problems(text: str) -> list[tuple[str, int]]:
    """Codes, and where each of them is reported."""
    found = study(text, {"t": COLUMNS}, {})
    return [(problem.code, problem.offset) for problem in found.problems]


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
    ],
)
def test_what_is_sound_is_left_alone(text: str) -> None:
    assert problems(text) == []


def test_an_unknown_function_of_a_pipeline_is_reported_too(check: Check) -> None:
    text = """
    sources: {s: {type: generator, primary_key: id, columns: {id: {kind: sequence}}}}
    transforms:
      x: {type: sql, primary_key: id, sql: "SELECT id, split_index(id, 1) AS y FROM s"}
    sinks: {out: {type: print, from: x}}
    """
    found = [d for d in check({PIPELINE: text}, PIPELINE)[1] if d.code == "sql-unknown-function"]
    assert only(tuple(found)).origin == spot(PIPELINE, text, "split_index")


# Types


def spark_sql(text: str) -> str:
    found = study(text, {"t": COLUMNS}, {})
    assert found.problems == ()
    kept = from_json(to_json(found))
    return to_spark(bound(text, ["t"], kept.operands))


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


def test_what_is_not_known_is_divided_as_spark_does() -> None:
    found = study("SELECT x / 2 AS h FROM t", {"t": None}, {})
    assert found.operands in ((), (None,))
    assert to_spark(Query("SELECT x / 2 AS h FROM t", PROJECT)) == "SELECT `x` / 2 AS `h` FROM `t`"


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
