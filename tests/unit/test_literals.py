"""Numbers that literals write."""

from decimal import Decimal

import pytest
import sqlglot

from penstock.sql.types.literals import decimal_literal, int_literal

LONG = "57896044618658097711785492504343953926634992332820282019728792003956564819968"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("-7", -7),
        ("'7'", 7),
        ("(-7)", -7),
        (LONG, int(LONG)),
        (f"-{LONG}", -int(LONG)),
        ("CAST(12345678901 AS DECIMAL(11, 0))", 12345678901),
        ("CAST(12345678901 AS DECIMAL(3, 0))", None),
        ("1.5", None),
        ("'--5'", None),
        ("x", None),
    ],
)
def test_an_integer_is_exact_however_long_it_is(text: str, number: int | None) -> None:
    assert int_literal(sqlglot.parse_one(text, read="spark")) == number


@pytest.mark.parametrize("text", [f"{LONG}.25", f"-{LONG}.25"])
def test_a_decimal_is_exact_however_long_it_is(text: str) -> None:
    assert str(decimal_literal(sqlglot.parse_one(text, read="spark"))) == text
    assert isinstance(decimal_literal(sqlglot.parse_one(text, read="spark")), Decimal)
