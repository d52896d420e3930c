"""Decimals of more than 38 digits before anything runs: types, what is computed of them, schemas, and mistakes."""

import json
import random
from decimal import Decimal

import pytest

from penstock.clients.int256.avro import int256_fields
from penstock.clients.postgres.tables import can_hold
from penstock.clients.registry.columns import columns_of
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.parse.dialects import PIPELINE
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.int256 import rewrite_int256
from penstock.sql.types.avro_types import avro_record
from penstock.sql.types.columns import Column
from penstock.sql.types.int256 import mentions_int256, parse_int256_type, struct_field
from penstock.sql.types.long_decimals import decimal_bytes

INPUT = (
    Column("a", "DECIMAL(100, 18)"),
    Column("b", "STRUCT<dec_60_6: BINARY>"),
    Column("e", "DECIMAL(20, 4)"),
    Column("n", "BIGINT"),
    Column("u", "UINT256"),
    Column("d", "DOUBLE"),
    Column("s", "STRING"),
)


def analysed(sql: str) -> OutputAnalysis:
    query = parse(sql, PIPELINE)
    assert isinstance(query, Query)
    return analyze_outputs(query, {"t": INPUT})


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a", "DECIMAL(100, 18)"),
        ("a + b", "DECIMAL(101, 18)"),
        ("a - 1", "DECIMAL(101, 18)"),
        ("a * e", "DECIMAL(120, 22)"),
        ("b * b * 0.05", "DECIMAL(122, 14)"),
        ("a / n", "DECIMAL(100, 18)"),
        ("b / 3", "DECIMAL(72, 18)"),
        ("a % 2", "DECIMAL(100, 18)"),
        ("a + u", "DECIMAL(101, 18)"),
        ("-a", "DECIMAL(100, 18)"),
        ("abs(b)", "DECIMAL(60, 6)"),
        ("a > 1.5", "BOOLEAN"),
        ("a between -0.1 and u", "BOOLEAN"),
        ("coalesce(b, e)", "DECIMAL(60, 6)"),
        ("case when a > b then a else 0.5 end", "DECIMAL(100, 18)"),
        ("cast(s as decimal(200, 50))", "DECIMAL(200, 50)"),
        ("cast(a as decimal(20, 2))", "DECIMAL(20, 2)"),
        ("cast(a as text)", "STRING"),
    ],
)
def test_the_type_of_what_is_computed_is_known(expression: str, kind: str) -> None:
    found = analysed(f"SELECT {expression} AS x FROM t")
    assert found.problems == ()
    assert found.columns is not None
    assert [parse_int256_type(column.type) or column.type for column in found.columns] == [kind]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a + d", "DECIMAL(100, 18) and DOUBLE cannot be mixed: digits would be lost"),
        ("a = s", "DECIMAL(100, 18) and STRING cannot be mixed"),
        ("upper(a)", "UPPER does not take DECIMAL(100, 18)"),
        ("cast(a as boolean)", "DECIMAL(100, 18) cannot be cast to BOOLEAN"),
        ("cast(s as decimal(1001, 2))", "a DECIMAL has 1 to 1000 digits, and not 1001"),
    ],
)
def test_what_does_not_go_together_is_found(expression: str, said: str) -> None:
    assert [problem.message for problem in analysed(f"SELECT {expression} AS x FROM t").problems] == [said]


def test_a_decimal_of_avro_that_spark_has_none_for_is_read_with_its_digits() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 18}
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": ["null", kind]}]})
    assert columns_of(schema, "avro") == (Column("v", "DECIMAL(100, 18)"),)
    (how,) = int256_fields(schema).values()
    assert (how.function, how.type, how.scale) == ("penstock_dec_from_bytes", "DECIMAL(100, 18)", 18)
    (field,) = avro_record("r", [Column("v", "DECIMAL(100, 18)")])["fields"]
    assert field["type"] == ["null", kind]
    longer = schema.replace("100", "2000")
    assert columns_of(longer, "avro") == (Column("v", "STRING"),)


def test_names_of_types() -> None:
    assert struct_field("DECIMAL(100, 18)") == "dec_100_18"
    assert parse_int256_type("decimal(38,2)") is parse_int256_type("DECIMAL(1001, 2)") is None
    assert mentions_int256("CAST(x AS DECIMAL(39, 2))")
    assert not mentions_int256("CAST(x AS DECIMAL(38, 2))")


def test_bytes_are_in_the_order_of_the_numbers() -> None:
    dice = random.Random(100)
    drawn = [Decimal(dice.randint(-(10**60), 10**60)).scaleb(-dice.randint(0, 70)) for _ in range(500)]
    near = [Decimal(text) for text in ("0", "0.00", "1", "-1", "1.0", "1.01", "-1.01", "10", "9.99", "-0.001", "100")]
    found = sorted({*drawn, *near})
    held = [decimal_bytes(number) for number in found]
    assert held == sorted(held)
    assert len(set(held)) == len(found)
    assert decimal_bytes(Decimal("1.50")) == decimal_bytes(Decimal("1.5"))


def test_a_table_keeps_every_digit_or_is_refused() -> None:
    assert can_hold("numeric(100,18)", "numeric(100,18)")
    assert can_hold("numeric", "numeric(100,18)")
    assert can_hold("text", "numeric(100,18)")
    assert not can_hold("numeric(78,0)", "numeric(100,18)")
    assert not can_hold("text", "numeric(38,2)")


@pytest.mark.parametrize(
    ("condition", "rewritten_to"),
    [
        ("MAX(a) > 5", "MAX(`a`.`dec_100_18`) > X'"),
        ("COALESCE(MIN(a), MAX(u)) > 5", "COALESCE(MIN(`a`.`dec_100_18`), PENSTOCK_"),
        ("m > 5", "`m`.`dec_100_18` > X'"),
        ("MAX(a) FILTER (WHERE a > 3) > 4", "MAX(`a`.`dec_100_18`) FILTER(WHERE `a`.`dec_100_18` > X'"),
        ("CASE WHEN MAX(a) > 1 THEN MIN(a) END = 1", "CASE WHEN MAX(`a`.`dec_100_18`) > X'"),
        ("MAX(u) > MIN(u) + 1", "MAX(`u`.`u256`) > PENSTOCK_"),
    ],
)
def test_wide_numbers_in_having_are_compared_as_such(condition: str, rewritten_to: str) -> None:
    found = rewrite_int256(f"SELECT n, MAX(a) AS m FROM t GROUP BY n HAVING {condition}", (("t", INPUT),))
    assert rewritten_to in found.partition(" HAVING ")[2]
