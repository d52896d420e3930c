"""Functions and operators of pipelines give on Spark what they are to give: every fixture is run, many in one query."""

import datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.runtime.spark.errors import failure_of, is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.sql.types.columns import spark_type
from tests.pipelines import COLUMNS, Fixture, groups, shown, studied, translated

pytestmark = pytest.mark.as_deployed

JSON = '{"a": {"b": [1, 2]}, "s": "[x]", "n": null}'
ROW = (
    7, 9, 2.5, "a,b;c", "$1", None, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 14, 15, 987_000),
    [3, None, 1], {"k": 1}, JSON, bytes(range(32)), ["p", "q"], "(", {9: "nine"},
    [("mint", 2), ("burn", 1), (None, 3), None, ("mint", 4)],
)  # fmt: skip


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    schema = StructType.fromDDL(", ".join(f"{c.name} {c.type}" for c in COLUMNS))
    own.createDataFrame([ROW], schema).coalesce(1).createOrReplaceTempView("t")
    return own


def _asked(session: SparkSession, expressions: list[str]) -> DataFrame:
    sql = f"SELECT {', '.join(f'{translated(e)} AS c{n}' for n, e in enumerate(expressions))} FROM t"
    register_row_functions(session, sql)
    return session.sql(sql)


def _together(session: SparkSession, expressions: list[str]) -> DataFrame:
    try:
        return _asked(session, expressions)
    except PySparkException:
        for expression in expressions:
            try:
                _asked(session, [expression]).collect()
            except PySparkException as error:
                pytest.fail(f"{expression}\n{translated(expression)}\n{error}")
        raise


def _type(frame: DataFrame, place: int) -> str | None:
    return spark_type(StructType([frame.schema[place]]).toDDL().partition(" ")[2].removesuffix(" NOT NULL"))


@pytest.mark.parametrize("group", groups())
def test_every_function_of_pipelines_gives_what_is_told(session: SparkSession, group: str) -> None:
    listed: list[Fixture] = groups()[group]
    frame = _together(session, [f.sql for f in listed])
    (result,) = frame.collect()
    wrong = {
        fixture.sql: (found, fixture.gives, translated(fixture.sql))
        for fixture, found in zip(listed, map(shown, result), strict=True)
        if repr(found) != repr(shown(fixture.gives))
    }
    assert wrong == {}
    types = {f.sql: _type(frame, n) for n, f in enumerate(listed)}
    assert {f.sql: types[f.sql] for f in listed if f.type is not None} == {f.sql: f.type for f in listed if f.type}
    claimed = {f.sql: found[1].columns for f in listed if isinstance(found := studied(f.sql), tuple)}
    known = {sql: columns[0].type for sql, columns in claimed.items() if columns and columns[0].type is not None}
    assert known == {sql: types[sql] for sql in known}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("parse_json(s)", "[ROW_FUNCTION] this is not JSON: a,b;c"),
        ("json('{')", "[ROW_FUNCTION] this is not JSON: {"),
        ("json_exists(s, '$.a', 'ERROR')", "[ROW_FUNCTION] json_exists is given what is not JSON: a,b;c"),
        ("json_value(j, '$.gone', 'STRING', 'ERROR', NULL, 'NULL', NULL)", "[ROW_FUNCTION] json_value found nothing"),
        ("json_value(j, x)", "[ROW_FUNCTION] '$1' is no path: it is $, .key, [0] and ['key']"),
        ("json_object(nothing, 1)", "[ROW_FUNCTION] json_object is given NULL for a key"),
        ("_gs_generate_series(1, i, 0)", "[ROW_FUNCTION] a series takes steps of 1 or -1, and not of 0"),
        ("_gs_zip_arrays(tags, a)", "[ROW_FUNCTION] _gs_zip_arrays is given lists of unlike lengths"),
        ("reverse_bytes32(unhex('00'))", "[ROW_FUNCTION] reverse_bytes32 takes 32 bytes, and is given 1"),
        ("regexp_instr(s, 'a', 0)", "[ROW_FUNCTION] regexp_instr counts from 1"),
        (
            "to_decimal_arb_from_string('1.255', 10, 2)",
            "[ROW_FUNCTION] 1.255 has more than 2 digits behind its point",
        ),
    ],
)
def test_what_is_an_error_is_one_of_the_row_and_says_why(session: SparkSession, expression: str, said: str) -> None:
    with pytest.raises(SPARK_ERRORS) as caught:
        _asked(session, [expression]).collect()
    assert is_row_error(caught.value)
    assert said in failure_of(caught.value).message


def test_digests_are_those_of_texts_of_every_length(session: SparkSession) -> None:
    """XXH3 goes other ways for texts of up to 3, 8, 16, 128, 240 and more bytes, and in blocks of 1024."""
    text = "SELECT id, repeat('penstock ', 300) AS t FROM VALUES (1), (3), (8), (9), (16), (17), (128), (129), (240), "
    sql = text + "(241), (1024), (1025), (2600) AS v(id)"
    register_row_functions(session, "penstock_row_xxhash")
    cut = f"SELECT id, penstock_row_xxhash(left(t, id)), penstock_row_keccak256(left(t, id)) FROM ({sql})"
    assert {row[0]: (row[1][:8], row[2][:10]) for row in session.sql(cut).collect()} == DIGESTS


DIGESTS = {
    1: ("5db921b0", "0x2304e88f"),
    3: ("33b81d2d", "0x506092ee"),
    8: ("c6932a2f", "0xcbe5db36"),
    9: ("cf91be94", "0x7628ad69"),
    16: ("31640b03", "0x140f2680"),
    17: ("9b3099b4", "0x72eac39e"),
    128: ("f57a7957", "0x5559c8da"),
    129: ("7831fd4e", "0xdc2a7baf"),
    240: ("e3d246fc", "0x37c24709"),
    241: ("76d3d96c", "0xdf0c80af"),
    1024: ("1f1d97b0", "0x2e25671a"),
    1025: ("588509b4", "0x2a7df6e9"),
    2600: ("88e3276b", "0x3850e46e"),
}
"""The first digits, of the reference implementations."""
