"""Decimals of more than 38 digits in Spark: every operator against Python's own decimals, up to the last digit."""

import decimal
import random
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.int256.columns import int256_to_texts, register_int256, to_int256
from penstock.runtime.query.dataframes import columns_of
from penstock.runtime.spark.errors import is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.sql.rewrite.int256 import rewrite_int256
from penstock.sql.types.int256 import Int256Type
from penstock.sql.types.long_decimals import decimal_bytes

pytestmark = pytest.mark.as_deployed

A: Int256Type = "DECIMAL(100, 18)"
B: Int256Type = "DECIMAL(60, 6)"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    register_int256(own)
    return own


def drawn(seed: int, digits: int, scale: int) -> list[Decimal]:
    dice = random.Random(seed)
    near = [Decimal(0), Decimal(1), Decimal(-1), Decimal(10) ** (digits - scale) - Decimal(1).scaleb(-scale)]
    sizes = [dice.randint(1, digits) for _ in range(120)]
    return [*near, *(Decimal(dice.randint(-(10**size), 10**size)).scaleb(-scale) for size in sizes)]


def table(session: SparkSession, rows: list[tuple[Decimal | None, Decimal | None]]) -> DataFrame:
    texts = [(n, *(None if v is None else f"{v:f}" for v in row)) for n, row in enumerate(rows)]
    frame = session.createDataFrame(texts, "id INT, a STRING, b STRING")
    made = {name: to_int256(f.call_function("penstock_to_dec", name), kind) for name, kind in (("a", A), ("b", B))}
    return frame.withColumns(made)


def asked(frame: DataFrame, selected: str) -> list[Any]:
    frame.createOrReplaceTempView("t")
    sql = rewrite_int256(f"SELECT id, {selected} FROM t ORDER BY id", (("t", columns_of(frame)),))
    return [tuple(row)[1:] for row in int256_to_texts(frame.sparkSession.sql(sql)).collect()]


def test_what_is_computed_and_compared_is_exact(session: SparkSession) -> None:
    decimal.getcontext().prec = 400
    ones, others = drawn(1, 100, 18), drawn(2, 60, 6)
    rows = list(zip(ones, others, strict=True)) + [(one, one) for one in others[:20]]
    frame = table(session, rows)
    found = asked(
        frame,
        "a + b AS x, a - b AS y, a * b AS z, a / NULLIF(b, 0) AS q, a % NULLIF(b, 0) AS r, ABS(a) AS p, -b AS m, "
        "a > b AS gt, a = b AS eq, a <= 1.5 AS le, a BETWEEN -1 AND b AS bt, CAST(a AS DECIMAL(120, 3)) AS c, "
        "GREATEST(a, b) AS g, CAST(a AS STRING) AS t, a * 0.000000000000000001 + 1 AS w",
    )

    def rounded(value: Decimal, scale: int) -> Decimal:
        return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)

    for (a, b), row in zip(rows, found, strict=True):
        divided = (None, None) if b == 0 else (rounded(a / b, 18), a % b)
        expected = [a + b, a - b, a * b, *divided, abs(a), -b, a > b, a == b, a <= Decimal("1.5"), -1 <= a <= b]
        expected += [rounded(a, 3), max(a, b), a, a * Decimal("1e-18") + 1]
        seen = [Decimal(value) if isinstance(value, str) else value for value in row]
        assert seen == expected, (a, b)
    assert [row[13] for row in found[:2]] == ["0.000000000000000000", "1.000000000000000000"]


def test_bytes_in_the_sql_are_those_of_the_jvm(session: SparkSession) -> None:
    numbers = [*drawn(3, 100, 18), Decimal("100"), Decimal("-0.5")]
    frame = session.createDataFrame([(n, f"{v:f}") for n, v in enumerate(numbers)], "id INT, v STRING")
    rows = frame.orderBy("id").select(f.hex(f.call_function("penstock_to_dec", "v"))).collect()
    assert [row[0] for row in rows] == [decimal_bytes(number) for number in numbers]


def test_nulls_groups_and_ends(session: SparkSession) -> None:
    frame = table(session, [(Decimal("1.5"), None), (Decimal("1.50"), Decimal(2)), (Decimal("-3"), Decimal(2))])
    frame.createOrReplaceTempView("t")
    sql = "SELECT MAX(a) AS x, MIN(a) AS y, COUNT(DISTINCT a) AS n, MAX(b + a) AS z FROM t"
    (row,) = int256_to_texts(session.sql(rewrite_int256(sql, (("t", columns_of(frame)),)))).collect()
    assert (Decimal(row["x"]), Decimal(row["y"]), row["n"], Decimal(row["z"])) == (
        Decimal("1.5"), Decimal(-3), 2, Decimal("3.5")
    )  # fmt: skip
    grouped = "SELECT b, MAX(a) AS m, MAX(a) FILTER (WHERE a < 0) AS low FROM t GROUP BY b {}"

    def groups(condition: str) -> list[tuple[Decimal, Decimal | None]]:
        rows = int256_to_texts(
            session.sql(rewrite_int256(grouped.format(condition), (("t", columns_of(frame)),)))
        ).collect()
        return [(Decimal(row["m"]), row["low"] and Decimal(row["low"])) for row in rows]

    whole = [(Decimal("1.5"), None), (Decimal("1.5"), Decimal(-3))]
    assert groups("ORDER BY MAX(a), COALESCE(MIN(a), 0) DESC") == whole
    assert sorted(groups("HAVING MAX(a) > 1.4"), key=str) == sorted(whole, key=str)
    assert groups("HAVING MIN(a) < -2.9 AND m > 1") == whole[1:]
    assert groups("HAVING MAX(a) FILTER (WHERE a < 0) = -3") == whole[1:]
    assert groups("HAVING b IS NULL AND CASE WHEN MAX(a) > 1 THEN MIN(a) END = 1.5") == whole[:1]
    assert groups("HAVING m > 1.5") == groups("HAVING MAX(b) > 2") == []


def test_what_is_computed_may_be_grouped_by_and_used_again(session: SparkSession) -> None:
    frame = table(session, [(Decimal("1.5"), None), (Decimal("1.50"), Decimal(2)), (Decimal("-3"), Decimal(2))])
    frame.createOrReplaceTempView("t")

    def counts(sql: str) -> list[tuple[object, ...]]:
        return sorted(
            map(tuple, int256_to_texts(session.sql(rewrite_int256(sql, (("t", columns_of(frame)),)))).collect())
        )

    for clause in ("a + 1 HAVING a + 1 > 2", "1 HAVING a + 1 > 2", "m HAVING m > 2", "(a + 1) HAVING t.a + 1 > 2"):
        (row,) = counts(f"SELECT a + 1 AS m, COUNT(*) AS n FROM t GROUP BY {clause}")
        assert (Decimal(str(row[0])), row[1]) == (Decimal("2.5"), 2), clause
    outputs = "CAST((a + 1) * 2 AS STRING) AS d, a + 1 > 0 AS p, COUNT(*) AS n, MAX(a + 1) > 2 AS q"
    found = counts(f"SELECT {outputs} FROM t GROUP BY a + 1 HAVING -(a + 1) < 5 AND COALESCE(a + 1, 0) IN (2.5, -2)")
    assert [(Decimal(str(d)), *rest) for d, *rest in found] == [
        (Decimal(-4), False, 1, False), (Decimal(5), True, 2, True)
    ]  # fmt: skip
    whole = "SELECT to_u256(3) + 1 AS m, COUNT(*) AS n FROM t GROUP BY to_u256(3) + 1 HAVING to_u256(3) + 1 > 3"
    assert [n for _, n in counts(whole)] == [3]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a / (b - b)", "a division by zero"),
        ("CAST('1.x' AS DECIMAL(100, 18))", "'1.x' is no number"),
        ("CAST(a * 1000000 AS DECIMAL(39, 38))", "does not fit into DECIMAL(39, 38)"),
        ("CAST(a AS UINT256)", "has more than 0 digits after the decimal point"),
    ],
)
def test_what_does_not_fit_is_an_error_of_its_row(expression: str, said: str, session: SparkSession) -> None:
    frame = table(session, [(Decimal("1.5"), Decimal(2))])
    with pytest.raises(SPARK_ERRORS) as caught:
        asked(frame, f"{expression} AS x")
    assert said in str(caught.value)
    assert is_row_error(caught.value)
