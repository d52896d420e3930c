"""Functions and operators of pipelines: what is known and what is refused. `tests/spark` runs them."""

import pytest
from sqlglot import exp

from penstock.clients.jvm.udfs import functions as rowwise
from penstock.sql.analyze.output_schema import analyze_outputs
from penstock.sql.catalog.pipeline_functions import PIPELINE_TABLE
from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.translate import to_spark
from tests.pipelines import groups, problems, studied, translated

EXPRESSIONS = [fixture.sql for group in groups().values() for fixture in group]


def _calls() -> set[tuple[str, int]]:
    trees = [Query(f"SELECT {sql} FROM t", PIPELINE).tree for sql in EXPRESSIONS]
    return {(node.name.upper(), len(node.expressions)) for tree in trees for node in tree.find_all(exp.Anonymous)}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_nothing_is_wrong_with_an_expression_that_runs(expression: str) -> None:
    assert problems(expression) == []


def test_every_function_has_a_fixture_with_every_number_of_arguments() -> None:
    """Of several names for one function, one will do."""
    called = _calls()
    used = {(id(PIPELINE_TABLE[name]), count) for name, count in called if name in PIPELINE_TABLE}
    assert {name for name, f in PIPELINE_TABLE.items() if not any(known == id(f) for known, _ in used)} == set()
    counted = {(name, f.min_arguments + more) for name, f in PIPELINE_TABLE.items() for more in range(len(f.spark))}
    lacking = {(name, count) for name, count in counted if (id(PIPELINE_TABLE[name]), count) not in used}
    assert lacking == set()


def test_functions_in_java_are_known_to_who_makes_them_known() -> None:
    called = {name.lower() for sql in EXPRESSIONS for name in rowwise._CALLED.findall(translated(sql))}
    by_type = rowwise._CLASSES["RowOperators"]
    assert called == {name for functions in rowwise._CLASSES.values() for name in functions} - by_type


@pytest.mark.parametrize(
    ("expression", "code", "said", "offset"),
    [
        ("CAST(i AS BIGINT UNSIGNED)", "sql-argument", "Spark has no type UBIGINT", 12),
        ("s::jsonb", "sql-argument", "Spark has no type JSONB", 7),
        ("arrow_cast(i, 'UInt64')", "sql-argument", "Spark has no type UInt64", 7),
        ("j #>> '{a}'", "sql-unsupported", "jsonb_extract_scalar has no equivalent in Spark", 7),
        ("j ? 's'", "sql-unsupported", "Spark has no operator ?", 9),
        ("i + gcd(i, b)", "sql-unknown-function", "there is no function `gcd`", 11),
        ("extract(isodow from at)", "sql-unsupported", "isodow of a time is not supported here", 27),
        ("s SIMILAR TO x", "sql-unsupported", "the pattern of SIMILAR TO must be written out", 7),
        ("decimal_arb_abs(i)", "sql-unsupported", "decimal_arb_abs cannot run as a stream here", 7),
        (
            "to_decimal_arb_from_string(s, 1001, 2)",
            "sql-unsupported",
            "to_decimal_arb_from_string takes a precision of up to 1000 and a scale, as numbers",
            7,
        ),
        (
            "json_arrayagg_null_on_null(i)",
            "sql-unsupported",
            "json_arrayagg_null_on_null cannot run as a stream here",
            7,
        ),
        ("array_filter(l, s, 1)", "sql-argument", "argument 2 of array_filter must be written out", 7),
        ("array_filter(l, 'kind')", "sql-argument", "ARRAY_FILTER takes 3 arguments, and is given 2", 7),
        (
            "regexp_replace(s, 'a', 'b', 'g')",
            "sql-argument",
            "REGEXP_REPLACE takes 3 arguments, and is given 4",
            7,
        ),
        ("json_value(j, '$..a')", "sql-argument", "'$..a' is no path of json_value", 7),
        ("json_value(j, '$.a', 'INT')", "sql-argument", "argument 3 of json_value does not exist", 7),
        ("json_object('a')", "sql-argument", "json_object takes keys and values in turn, and is given 1 argument", 7),
        ("digest(s, 'blake3')", "sql-argument", "argument 2 of digest does not exist", 7),
        (
            "date_bin(interval '1 month', at)",
            "sql-argument",
            "the first argument of date_bin must be an interval without months",
            7,
        ),
    ],
)
def test_what_spark_cannot_say_is_refused_with_its_place(expression: str, code: str, said: str, offset: int) -> None:
    (problem,) = problems(expression)
    assert (problem.code, problem.message, problem.offset) == (code, said, offset)
    assert problem.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n FROM t UNION ALL SELECT n FROM r) SELECT n FROM r",
            "unsupported plan: WITH RECURSIVE",
        ),
        ("SELECT * REPLACE (s AS x) FROM t", "Spark has no * REPLACE"),
    ],
)
def test_queries_that_spark_cannot_run_are_refused(text: str, said: str) -> None:
    parsed = parse(text, PIPELINE)
    assert isinstance(parsed, Query)
    (problem,) = analyze_outputs(parsed, {"t": None}).problems
    assert (problem.code, problem.message) == ("sql-unsupported", said)
    assert problem.hint


def test_a_column_that_is_called_like_a_parameter_of_a_lambda_stays_a_column() -> None:
    assert translated("array_filter(l, 'kind', x)") == (
        "FILTER(`l`, `x_` -> NOT `x_` IS NULL AND `x_`.`kind` IS NOT DISTINCT FROM `x`)"
    )


def test_how_numbers_of_unknown_type_are_divided_is_decided_when_types_are_known() -> None:
    parsed = parse("SELECT a / 2 AS q FROM t", PIPELINE)
    assert isinstance(parsed, Query)
    assert to_spark(parsed) == "SELECT PENSTOCK_ROW_DIVIDE(`a`, 2) AS `q` FROM `t`"
    assert translated("i / 2") == "CAST(`i` DIV 2 AS INT)"


def test_functions_of_spark_mean_in_projects_what_they_meant() -> None:
    text = "SELECT LOG(a) AS l, PARSE_JSON(s) AS j, ARRAY_PREPEND(x, 1) AS p FROM t"
    found = to_spark(Query(text, PROJECT))
    assert "PENSTOCK_ROW" not in found
    assert isinstance(studied("log(d)"), tuple)
