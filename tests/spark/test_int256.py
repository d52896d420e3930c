"""Whole numbers of 256 bits in Spark: every operator against Python's own integers, up to the last digit."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.int256.columns import int256_columns, int256_to_texts, register_int256
from penstock.errors import PlanRefused
from penstock.runtime.query.dataframes import columns_of
from penstock.runtime.spark.errors import failure_of, is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.spark_internals.expressions import try_column
from penstock.sql.rewrite.int256 import rewrite_int256, rewrite_int256_condition
from penstock.sql.types.int256 import FIELDS, LIMITS, Int256Type

pytestmark = pytest.mark.as_deployed

KINDS: list[Int256Type] = ["UINT256", "INT256"]
MOST = 2**256 - 1


def quotient(a: int, b: int) -> int:
    """Whole numbers are divided towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATORS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("+", lambda a, b: a + b),
    "sub": ("-", lambda a, b: a - b),
    "mul": ("*", lambda a, b: a * b),
    "div": ("/", quotient),
    "mod": ("%", lambda a, b: a - b * quotient(a, b)),
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
}


def numbers(kind: Int256Type) -> list[int]:
    """The ends, what is beside them and around powers of two, and many of all lengths."""
    low, high = LIMITS[kind]
    dice = random.Random(256)
    near = [low, low + 1, high, high - 1, high // 2, 0, 1, 2, 10**77, -1, -2]
    near += [
        sign * (2**bits + beside) for bits in (8, 31, 63, 64, 128, 255) for beside in (-1, 0, 1) for sign in (1, -1)
    ]
    drawn = [dice.choice((1, -1)) * dice.getrandbits(dice.randint(1, 256)) for _ in range(150)]
    return [number for number in dict.fromkeys([*near, *drawn]) if low <= number <= high]


def pairs(kind: Int256Type) -> list[tuple[int, int]]:
    found, dice = numbers(kind), random.Random(1)
    ends = [(a, b) for a in found[:12] for b in found[:12]]
    return [*ends, *((a, dice.choice(found)) for a in found for _ in range(3)), *((a, a) for a in found)]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_int256(own)
    return own


def table(session: SparkSession, kind: Int256Type, rows: Iterable[tuple[int | None, int | None]]) -> DataFrame:
    """Two columns of 256-bit numbers, `a` and `b`, of their texts."""
    texts = [(place, *(None if n is None else str(n) for n in row)) for place, row in enumerate(rows)]
    given = session.createDataFrame(texts, "id INT, x STRING, y STRING")
    make = f"penstock_to_{FIELDS[kind]}"
    for column, text in (("a", "x"), ("b", "y")):
        raw = f.call_function(make, text)
        given = given.withColumn(column, f.when(raw.isNotNull(), f.struct(raw.alias(FIELDS[kind]))))
    given = given.drop("x", "y")
    given.createOrReplaceTempView("t")
    return given


def asked(session: SparkSession, sql: str, rows: DataFrame) -> list[Any]:
    """What a query over `t` answers, in the order of its rows; 256-bit numbers as texts."""
    found = session.sql(rewrite_int256(sql, (("t", columns_of(rows)),)))
    return [tuple(row)[1:] for row in sorted(int256_to_texts(found).collect(), key=lambda row: row["id"])]


def fits(number: int | None, kind: Int256Type) -> bool:
    return number is not None and LIMITS[kind][0] <= number <= LIMITS[kind][1]


def outcome(compute: Callable[[int, int], int], a: int, b: int) -> int | None:
    try:
        return compute(a, b)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", OPERATORS)
def test_arithmetic_is_that_of_whole_numbers_to_the_last_digit(
    session: SparkSession, kind: Int256Type, word: str
) -> None:
    sign, compute = OPERATORS[word]
    every = [(a, b, outcome(compute, a, b)) for a, b in pairs(kind)]
    sound = [row for row in every if fits(row[2], kind)]
    assert len(sound) > 200
    rows = table(session, kind, [(a, b) for a, b, _ in sound])
    assert asked(session, f"SELECT id, a {sign} b AS c FROM t", rows) == [(str(c),) for _, _, c in sound]
    wrong = table(session, kind, [(a, b) for a, b, c in every if not fits(c, kind)])
    field = FIELDS[kind]
    computed = f.call_function(f"penstock_{field}_{word}", f"a.{field}", f"b.{field}")
    assert wrong.count() == len(every) - len(sound)
    assert wrong.where(try_column(computed).isNotNull()).count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons_are_those_of_whole_numbers(session: SparkSession, kind: Int256Type) -> None:
    given = pairs(kind)
    rows = table(session, kind, given)
    outputs = ", ".join(f"a {sign} b AS c{place}" for place, sign in enumerate(COMPARISONS))
    found = asked(session, f"SELECT id, {outputs} FROM t", rows)
    assert found == [tuple(compare(a, b) for compare in COMPARISONS.values()) for a, b in given]


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_tells_numbers_apart_by_their_last_digit(session: SparkSession, kind: Int256Type) -> None:
    high = LIMITS[kind][1]
    rows = table(session, kind, [(high, 0), (high - 1, 0), (high - 2, 0)])
    assert asked(session, f"SELECT id FROM t WHERE a > {high - 1}", rows) == [()]
    assert rows.where(rewrite_int256_condition(f"a >= {high - 1}", columns_of(rows))).count() == 2
    assert rows.where(rewrite_int256_condition(f"a IN ({high}, {high - 2})", columns_of(rows))).count() == 2
    assert rows.where(rewrite_int256_condition(f"a BETWEEN {high - 1} AND {high}", columns_of(rows))).count() == 2


def test_operators_with_null_are_null_and_functions_refuse_it(session: SparkSession) -> None:
    rows = table(session, "UINT256", [(5, None), (None, None)])
    sql = (
        "SELECT id, a + b AS s, a > b AS g, COALESCE(b, a, 7) AS c, a IS NULL AS n, CASE WHEN b > 1 THEN a END AS w "
        "FROM t"
    )
    assert asked(session, sql, rows) == [(None, None, "5", False, None), (None, None, "7", True, None)]
    with pytest.raises(SPARK_ERRORS) as caught:
        asked(session, "SELECT id, u256_add(a, b) AS s FROM t", rows)
    assert is_row_error(caught.value)


def test_a_division_that_case_keeps_out_is_never_done(session: SparkSession) -> None:
    rows = table(session, "UINT256", [(7, 2), (7, 0)])
    sql = "SELECT id, CASE WHEN b <> 0 THEN a / b ELSE 0 END AS q FROM t"
    assert asked(session, sql, rows) == [("3",), ("0",)]


@pytest.mark.parametrize(
    ("expression", "a", "said"),
    [
        ("a + 1", MOST, f"{MOST} + 1 does not fit into UINT256"),
        ("0 - a", 1, "0 - 1 does not fit into UINT256"),
        ("a / 0", 5, "5 / 0: a division by zero"),
        ("to_u256('12x')", 0, "'12x' is no whole number"),
        ("to_i256(a)", 2**255, f"{2**255} does not fit into INT256"),
        ("to_int64(a)", 2**63, f"{2**63} does not fit into BIGINT"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_row_that_says_so(
    session: SparkSession, expression: str, a: int, said: str
) -> None:
    rows = table(session, "UINT256", [(a, a)])
    with pytest.raises(SPARK_ERRORS) as caught:
        asked(session, f"SELECT id, {expression} AS x FROM t", rows)
    assert is_row_error(caught.value)
    assert failure_of(caught.value).message == f"[WIDE_NUMBER] {said}"


def test_functions_and_casts_answer_as_the_operators_do(session: SparkSession) -> None:
    rows = table(session, "INT256", [(-(2**255), 3), (-7, 2)])
    sql = (
        "SELECT id, i256_to_string(i256_add(a, b)) AS s, i256_mod(a, b) AS m, i256_abs(i256_add(a, 1)) AS p, "
        "i256_neg(b) AS n, to_int64(b) AS l, CAST(b AS DECIMAL(38, 0)) AS d, CAST(a AS STRING) AS t, "
        "CAST(b AS DOUBLE) AS f, to_u256(b) + 1 AS u, CAST('12' AS INT256) - a AS c, -b AS g, abs(a + 1) AS e FROM t "
        "WHERE a > -57896044618658097711785492504343953926634992332820282019728792003956564819968"
    )
    assert asked(session, sql, rows) == [
        ("-5", "-1", "6", "-2", 2, 2, "-7", 2.0, "3", "19", "-2", "6"),
    ]


def test_bytes_texts_and_integers_make_wide_numbers(session: SparkSession) -> None:
    rows = table(session, "UINT256", [(1, 1)])
    sql = (
        "SELECT id, to_u256(X'FF00') AS b, to_i256(X'FF00') AS i, to_u256('007') AS t, "
        "to_u256(CAST(9 AS DECIMAL(5, 0))) AS d, "
        f"to_u256(CAST(8 AS TINYINT)) AS n, to_u256({MOST}) AS m FROM t"
    )
    assert asked(session, sql, rows) == [("65280", "-256", "7", "9", "8", str(MOST))]


def test_quoted_text_is_left_alone_and_queries_within_are_not(session: SparkSession) -> None:
    rows = table(session, "UINT256", [(3, 4)])
    sql = (
        "WITH sums AS (SELECT id, a + b AS s, 'a + b > 0' AS q FROM t) "
        "SELECT id, q, s * s AS p FROM (SELECT * FROM sums WHERE s > 6) AS x "
        "UNION ALL SELECT id + 1 AS id, '-a, to_u256(x)' AS q, NULL AS p FROM t"
    )
    assert asked(session, sql, rows) == [("a + b > 0", "49"), ("-a, to_u256(x)", None)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT id, a + CAST(1 AS DOUBLE) AS x FROM t", "UINT256 and DOUBLE cannot be mixed: digits would be lost"),
        ("SELECT id, LENGTH(a) AS x FROM t", "LENGTH does not take UINT256"),
        ("SELECT id, a > -1 AS x FROM t", "-1 is negative, and UINT256 is unsigned"),
        (f"SELECT id, a > {MOST + 1} AS x FROM t", f"{MOST + 1} does not fit into UINT256"),
        ("SELECT id, a + to_i256(1) AS x FROM t", "UINT256 and INT256 cannot be mixed"),
    ],
)
def test_what_would_lose_digits_is_refused_before_it_runs(session: SparkSession, sql: str, said: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        asked(session, sql, table(session, "UINT256", [(1, 1)]))
    assert caught.value.message == said


def test_texts_are_made_of_wide_numbers_inside_of_other_values(session: SparkSession) -> None:
    rows = table(session, "INT256", [(-5, 6)])
    found = session.sql("SELECT id, ARRAY(a, b) AS l, NAMED_STRUCT('n', a, 'm', MAP('k', b)) AS s FROM t")
    (row,) = int256_to_texts(found).collect()
    assert (row["l"], row["s"].asDict()) == (["-5", "6"], {"n": "-5", "m": {"k": "6"}})
    assert int256_columns(rows.schema) == {"a": "INT256", "b": "INT256"}
