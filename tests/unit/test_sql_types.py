import pytest

from penstock.sql.types import spark_type


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
