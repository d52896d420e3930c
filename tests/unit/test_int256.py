"""What is known of whole numbers of 256 bits before anything runs: types of columns, schemas, and mistakes."""

import json
from typing import Any

import pytest

from penstock.clients.int256.avro import int256_fields, readable_schema
from penstock.clients.kafka.avro import select_fields
from penstock.clients.registry.columns import columns_of
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.parse.dialects import PIPELINE
from penstock.sql.parse.query import Query, parse
from penstock.sql.types.arrow_types import column_type
from penstock.sql.types.avro_types import avro_record
from penstock.sql.types.columns import Column
from penstock.sql.types.int256 import encode_hex, parse_int256_type

INPUT = (
    Column("a", "UINT256"),
    Column("b", "STRUCT<u256: BINARY>"),
    Column("i", "INT256"),
    Column("n", "BIGINT"),
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
        ("a + b", "UINT256"),
        ("n + a", "UINT256"),
        ("a / 2", "UINT256"),
        ("-i", "INT256"),
        ("abs(i)", "INT256"),
        ("a > 0", "BOOLEAN"),
        ("coalesce(a, 0)", "UINT256"),
        ("case when a > n then a else 0 end", "UINT256"),
        ("nullif(i, 0)", "INT256"),
        ("greatest(a, b)", "UINT256"),
        ("to_u256(s)", "UINT256"),
        ("cast(s as int256)", "INT256"),
        ("u256_mul(a, b)", "UINT256"),
        ("i256_to_string(i)", "STRING"),
        ("to_int64(i)", "BIGINT"),
        ("cast(a as text)", "STRING"),
        ("a between 1 and 115792089237316195423570985008687907853269984665640564039457584007913129639935", "BOOLEAN"),
        ("a in (1, n, '7')", "BOOLEAN"),
        ("b", "STRUCT<u256: BINARY>"),
    ],
)
def test_the_type_of_what_is_computed_is_known(expression: str, kind: str) -> None:
    found = analysed(f"SELECT {expression} AS x FROM t")
    assert (found.problems, found.columns) == ((), (Column("x", kind),))


def test_types_are_known_through_queries_within() -> None:
    found = analysed("WITH s AS (SELECT n * a AS p FROM t) SELECT p + 1 AS q FROM (SELECT p FROM s WHERE p > 0) AS r")
    assert (found.problems, found.columns) == ((), (Column("q", "UINT256"),))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a + d", "UINT256 and DOUBLE cannot be mixed: digits would be lost"),
        (
            "i < 1.5",
            "INT256 and DECIMAL(2, 1) cannot be mixed: a 256-bit integer has no digits after the decimal point",
        ),
        ("a + cast(1 as double precision)", "UINT256 and DOUBLE cannot be mixed: digits would be lost"),
        ("a = s", "UINT256 and STRING cannot be mixed"),
        ("a - i", "UINT256 and INT256 cannot be mixed"),
        ("case when n > 0 then a else i end", "UINT256 and INT256 cannot be mixed"),
        ("-a", "a UINT256 cannot be negated"),
        ("a > -1", "-1 is negative, and UINT256 is unsigned"),
        ("to_u256(d)", "to_u256 is given DOUBLE: UINT256 and DOUBLE cannot be mixed: digits would be lost"),
        ("u256_add(a)", "u256_add takes 2 arguments, and is given 1"),
        ("u256_add(a, i)", "u256_add takes UINT256, and is given INT256"),
        ("upper(a)", "UPPER does not take UINT256"),
        ("round(a)", "ROUND does not take UINT256"),
        ("cast(a as boolean)", "UINT256 cannot be cast to BOOLEAN"),
    ],
)
def test_what_does_not_go_together_is_found(expression: str, said: str) -> None:
    assert [problem.message for problem in analysed(f"SELECT {expression} AS x FROM t").problems] == [said]


def test_the_sides_of_a_union_must_be_of_one_kind() -> None:
    (problem,) = analysed("SELECT a FROM t UNION ALL SELECT n FROM t").problems
    assert problem.message == "the types of `a` differ between the sides of a UNION: UINT256 and BIGINT"


def test_a_function_that_is_misspelt_is_told() -> None:
    (problem,) = analysed("SELECT to_u265(s) AS x FROM t").problems
    assert (problem.code, problem.hint) == ("sql-unknown-function", "did you mean `to_u256`?")


def test_names_of_types() -> None:
    assert [column_type(name) for name in ("u256", "I256", "UINT256")] == ["UINT256", "INT256", "UINT256"]
    assert [
        parse_int256_type(name) for name in ("struct<i256:binary>", "STRUCT<`u256`: BINARY NOT NULL>", "BINARY", None)
    ] == [
        "INT256",
        "UINT256",
        None,
        None,
    ]


def test_bytes_are_ordered_as_their_numbers_are() -> None:
    numbers = [-(2**255), -(2**64), -1, 0, 1, 2**255 - 1]
    assert sorted(numbers, key=lambda number: encode_hex(number, "INT256")) == numbers
    assert {len(encode_hex(number, "INT256")) for number in numbers} == {64}


def _decimal(digits: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": scale, **more}


FIELDS = {
    "small": _decimal(38, 4),
    "signed": ["null", _decimal(76)],
    "wide": _decimal(78),
    "own": _decimal(77, **{"penstock.type": "i256"}),
    "fraction": _decimal(60, 20),
    "token": {**_decimal(78), "type": "fixed", "size": 32, "name": "Token"},
    "marked": {"type": "fixed", "size": 32, "name": "Marked", "logicalType": "i256"},
    "listed": {"type": "array", "items": _decimal(78)},
}
SCHEMA = json.dumps(
    {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()]}
)


def test_columns_of_avro_tell_wide_numbers() -> None:
    assert {c.name: c.type for c in columns_of(SCHEMA, "avro") or ()} == {
        "small": "DECIMAL(38, 4)",
        "signed": "INT256",
        "wide": "UINT256",
        "own": "INT256",
        "fraction": "DECIMAL(60, 20)",
        "token": "UINT256",
        "marked": "INT256",
        "listed": "ARRAY<BINARY>",
    }


def test_a_schema_is_read_without_decimals_that_spark_does_not_have() -> None:
    text = readable_schema(SCHEMA)
    assert [field["name"] for field in json.loads(text)["fields"]] == list(FIELDS)
    assert text.count('"decimal"') == 1
    assert int256_fields(SCHEMA)["token"].function == "penstock_to_u256"
    assert int256_fields(SCHEMA)["own"].function == "penstock_i256_from_bytes"
    assert set(int256_fields(select_fields(SCHEMA, {"wide"}))) == {"wide", "token", "marked"}


def test_the_row_of_an_envelope_is_looked_into() -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "n", "type": _decimal(78)}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    whole = json.dumps({"type": "record", "name": "Envelope", "fields": fields})
    assert {name: how.kind for name, how in int256_fields(whole, ("after", "before")).items()} == {"n": "UINT256"}


def test_a_schema_that_is_made_tells_the_same_columns_again() -> None:
    columns = (Column("a", "UINT256"), Column("b", "INT256"))
    assert columns_of(json.dumps(avro_record("t", columns)), "avro") == columns
