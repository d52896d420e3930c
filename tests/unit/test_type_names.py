"""Types in the words of Arrow and of Avro."""

import pytest

from penstock.clients.registry.columns import columns_of
from penstock.sql.types.arrow_types import column_type
from penstock.sql.types.avro_types import avro_record
from penstock.sql.types.columns import Column


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("int64", "BIGINT"),
        ("UInt64", "DECIMAL(20, 0)"),
        ("utf8", "STRING"),
        ("decimal", "DECIMAL(38, 9)"),
        ("decimal128(20,4)", "DECIMAL(20, 4)"),
        ("decimal256(38, 9)", "DECIMAL(38, 9)"),
        ("decimal256(76)", "INT256"),
        ("decimal256(39,0)", "INT256"),
        ("decimal256(76,50)", None),
        ("decimal(50,2)", None),
        ("decimal256(77)", None),
        ("decimal128(39)", None),
        ("decimal128(5,9)", None),
        ("decimal128(0)", None),
        ("uint8", "INT"),
        ("date64", "DATE"),
        ("VARCHAR(20)", "STRING"),
        ("ARRAY<INT>", "ARRAY<INT>"),
        ("int63", None),
    ],
)
def test_names_of_arrow_and_of_sql(name: str, expected: str | None) -> None:
    assert column_type(name) == expected


def test_a_record_says_what_its_columns_were() -> None:
    import json

    columns = (
        Column("id", "BIGINT"),
        Column("price", "DECIMAL(20, 4)"),
        Column("at", "TIMESTAMP"),
        Column("day", "DATE"),
        Column("tags", "ARRAY<STRING>"),
        Column("sizes", "MAP<STRING, INT>"),
        Column("who", "STRUCT<`name`: STRING, `age`: INT>"),
    )
    schema = avro_record("orders.v1", columns, doc="text")
    assert schema["name"] == "orders_v1"
    assert columns_of(json.dumps(schema), "avro") == columns


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Column("a-b", "INT"), "cannot be the name of a field"),
        (Column("a", None), "is not known"),
        (Column("a", "INTERVAL"), "no type"),
    ],
)
def test_what_avro_cannot_hold(column: Column, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        avro_record("r", [column])
