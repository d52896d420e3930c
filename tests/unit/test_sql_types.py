import pytest

from penstock.sql.types.coercion import can_coerce, mismatches
from penstock.sql.types.columns import Column, spark_type


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("STRING", "STRING"),
        ("VARCHAR(20)", "STRING"),
        ("char(3)", "STRING"),
        ("TEXT", "STRING"),
        ("bigint", "BIGINT"),
        ("INTEGER", "INT"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("NUMERIC(5, 1)", "DECIMAL(5, 1)"),
        ("BOOLEAN", "BOOLEAN"),
        ("BYTES", "BINARY"),
        ("DATE", "DATE"),
        ("TIMESTAMP(3)", "TIMESTAMP"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP"),
        ("ARRAY<STRING>", "ARRAY<STRING>"),
        ("MAP<STRING, INT>", "MAP<STRING, INT>"),
        ("ROW<a INT, b STRING>", "STRUCT<a: INT, b: STRING>"),
        ("INT NOT NULL", "INT"),
    ],
)
def test_types_as_people_write_them_become_types_of_spark(written: str, expected: str) -> None:
    assert spark_type(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "STRNG",
        "DECIMAL(10",
        "DECIMAL(50, 2)",
        "DECIMAL(5, 9)",
        "ARRAY<DECIMAL(0, 0)>",
        "MULTISET<INT>",
        "ARRAY<STRNG>",
        "ROW<a INT, b STRNG>",
        "INT, x INT",
        "INT; DROP TABLE x",
        "1",
        "SELECT 1",
    ],
)
def test_what_is_no_type_is_none(written: str) -> None:
    assert spark_type(written) is None


@pytest.mark.parametrize("written", ["JSON", "BIGINT UNSIGNED", "VARBINARY(3)", "INT128", "XML"])
def test_a_type_that_spark_does_not_have_never_reaches_it(written: str) -> None:
    assert spark_type(written) in (None, "BINARY", "STRING")


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        (None, "INT", True),
        ("INT", None, True),
        ("ARRAY<INT>", "ARRAY<INT>", True),
        ("ARRAY<INT>", "ARRAY<BIGINT>", False),
        ("BIGINT", "INT", True),
        ("DECIMAL(20, 0)", "BIGINT", True),
        ("DECIMAL(20, 1)", "BIGINT", False),
        ("DOUBLE", "BIGINT", False),
        ("STRING", "BIGINT", False),
        ("BIGINT", "DECIMAL(38, 9)", True),
        ("DECIMAL(10, 3)", "DECIMAL(10, 2)", False),
        ("DOUBLE", "DECIMAL(38, 9)", False),
        ("SMALLINT", "FLOAT", True),
        ("INT", "FLOAT", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("SMALLINT", "BOOLEAN", True),
        ("STRING", "BOOLEAN", False),
        ("BOOLEAN", "INT", False),
        ("STRING", "TIMESTAMP", True),
        ("DATE", "TIMESTAMP", True),
        ("BIGINT", "TIMESTAMP", False),
        ("TIMESTAMP", "DATE", False),
        ("INT", "STRING", False),
        ("STRING", "BINARY", False),
    ],
)
def test_which_types_become_which_others(given: str | None, wanted: str | None, expected: bool) -> None:
    assert can_coerce(given, wanted) is expected


def test_columns_that_a_bounded_source_does_not_have_as_the_other_does() -> None:
    topic = tuple(map(Column, ("id", "ok", "raw", "at", "_gs_op"), ("BIGINT", "BOOLEAN", "BINARY", "DATE", "STRING")))
    table = tuple(map(Column, ("id", "ok", "raw"), ("STRING", "SMALLINT", "STRING")))
    wrong = "column 'id' type mismatch: bounded source has STRING, unbounded source has BIGINT"
    missing = "unbounded source column 'at' not found in bounded source"
    assert list(mismatches(table, topic, "clickhouse")) == [("id", wrong), ("at", missing)]
    text = "column 'raw' type mismatch: bounded source has STRING, unbounded source has BINARY"
    assert list(mismatches(table, topic, "file")) == [("id", wrong), ("raw", text), ("at", missing)]
