# ruff: noqa: E501
"""The types that `validate` finds are those that Spark finds, or none: a wrong one would break a sound contract."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.sql.analyze.analysis import analyze_query, bind_query
from penstock.sql.analyze.output_schema import analyze_outputs
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column, spark_type

pytestmark = pytest.mark.as_deployed

COLUMNS = (
    Column("ti", "TINYINT"), Column("si", "SMALLINT"), Column("i", "INT"), Column("b", "BIGINT"),
    Column("f", "FLOAT"), Column("d", "DOUBLE"), Column("n", "DECIMAL(10, 2)"), Column("m", "DECIMAL(5, 0)"),
    Column("s", "STRING"), Column("t", "BOOLEAN"), Column("at", "TIMESTAMP"), Column("day", "DATE"),
    Column("raw", "BINARY"), Column("a", "ARRAY<STRING>"), Column("ai", "ARRAY<INT>"),
    Column("mp", "MAP<STRING, BIGINT>"), Column("st", "STRUCT<x: INT, y: STRING>"),
)  # fmt: skip
EXPRESSIONS = """
i + 1 | i + b | i * d | f + i | f * d | b - i | i % 2 | i / 2 | b / i | d / 2 | n + 1 | n * n | n / 2 | n + d | -i | -n
ti + si | si + i | ti * 1 | ABS(i) | ABS(n) | ROUND(d, 2) | ROUND(n, 1) | ROUND(i) | FLOOR(d) | CEIL(d) | FLOOR(n) | FLOOR(i)
POWER(i, 2) | SQRT(i) | EXP(d) | LN(d) | LOG10(d) | LOG2(d) | MOD(i, 2) | SIGN(d) | SIGN(i) | GREATEST(i, b) | LEAST(i, d)
COALESCE(i, b) | COALESCE(i, d) | COALESCE(s, 'x') | COALESCE(n, 0) | NULLIF(i, 0) | IF(t, i, b) | IFNULL(i, 0) | NVL(s, '')
CASE WHEN t THEN i ELSE b END | CASE WHEN t THEN 1 ELSE 2.5 END | CASE WHEN t THEN s ELSE 'x' END | CASE WHEN t THEN n ELSE 0 END
CASE WHEN t THEN i END | CASE WHEN t THEN d ELSE n END | CASE s WHEN 'a' THEN 1 ELSE 2 END
UPPER(s) | LOWER(s) | TRIM(s) | CONCAT(s, 'x') | s || 'x' | SUBSTRING(s, 1, 2) | REPLACE(s, 'a', 'b') | LENGTH(s) | CHAR_LENGTH(s)
LPAD(s, 5, '0') | REVERSE(s) | SPLIT(s, ',') | REGEXP_REPLACE(s, 'a', 'b') | REGEXP_EXTRACT(s, '(a)', 1) | INITCAP(s) | MD5(s)
POSITION('a' IN s) | INSTR(s, 'a') | LOCATE('a', s) | s LIKE 'a%' | s RLIKE 'a' | s IN ('a', 'b') | s IS NULL | NOT t | t AND t
i = 1 | i > b | i BETWEEN 1 AND 2 | i <> 1
CAST(i AS STRING) | CAST(s AS INT) | CAST(s AS DECIMAL(12, 3)) | CAST(s AS TIMESTAMP) | CAST(at AS DATE) | CAST(i AS BIGINT) | TRY_CAST(s AS INT)
CURRENT_TIMESTAMP | CURRENT_DATE | YEAR(at) | MONTH(day) | DAYOFWEEK(at) | HOUR(at) | EXTRACT(YEAR FROM at) | EXTRACT(SECOND FROM at)
DATE_FORMAT(at, 'yyyy') | TO_DATE(s) | TO_TIMESTAMP(s) | UNIX_TIMESTAMP(at) | FROM_UNIXTIME(b) | DATE_TRUNC('HOUR', at)
at + INTERVAL '1' HOUR | at - INTERVAL '1' DAY | day + INTERVAL '1' DAY | DATE_ADD(day, 1) | DATEDIFF(day, day) | QUARTER(at)
1 | 1.5 | 'x' | TRUE | NULL | 10000000000 | 1e3
a[1] | mp['k'] | st.x | st.y | SIZE(a) | CARDINALITY(a) | ARRAY_CONTAINS(a, 'x') | ARRAY(1, 2) | MAP_KEYS(mp) | MAP_VALUES(mp)
WEEKOFYEAR(day) | DATEDIFF(HOUR, at, at) | TRUNC(day, 'MM') | CASE WHEN t THEN f ELSE i END | IF(t, i, s) | CASE WHEN t THEN 1 ELSE 'a' END
ARRAY('a', 1) | at - at | day - day | ARRAY_POSITION(a, 'x') | MAP_FROM_ARRAYS(a, ai) | 12345678901234567890 | TIMESTAMPDIFF(SECOND, at, at)
i / si | (i + b) / 2 | AVG(ti) | FLOOR(at TO DAY) | CEIL(day TO MONTH) | TIMESTAMPADD(DAY, 1, day) | TIMESTAMPADD(HOUR, 1, day)
JSON_VALUE(s, '$.a') | JSON_VALUE(s, '$.a' RETURNING DOUBLE) | SPLIT_INDEX(s, ',', 0) | a[i] | TRUNCATE(d, 1) | TRUNCATE(n, 1) | GREATEST(i, d)
ARRAY_DISTINCT(a) | ELEMENT_AT(a, 1) | UUID() | RAND() | HEX(i) | TO_JSON(st) | SHA2(s, 256) | ENCODE(s, 'utf-8') | ASCII(s)
""".replace("\n", " | ").split(" | ")
AGGREGATES = """
COUNT(*) | COUNT(i) | SUM(i) | SUM(b) | SUM(ti) | SUM(f) | SUM(d) | SUM(n) | AVG(i) | AVG(d) | AVG(n) | MIN(i) | MAX(s) | MIN(n) | MAX(at)
STDDEV(d) | VARIANCE(d) | COLLECT_LIST(s) | COLLECT_SET(i) | FIRST(s) | BOOL_AND(t) | COUNT_IF(t) | MAX(at) - MIN(at) | SUM(CASE WHEN t THEN i ELSE 0 END)
SUM(CASE WHEN t THEN d ELSE 0 END) | SUM(CASE WHEN t THEN n ELSE 0 END) | MAX(i) - MIN(i) | SUM(i) / COUNT(*) | SUM(i * d) | AVG(i) + 1
APPROX_COUNT_DISTINCT(s) | MIN_BY(s, i) | ANY_VALUE(i) | PERCENTILE_APPROX(d, 0.5) | ARRAY_AGG(i)
""".replace("\n", " | ").split(" | ")


BY_TYPE = """
i / 2 | b / i | d / 2 | n / 2 | ti / si | (i + b) / 2 | i / (n - 1) | AVG(i) | AVG(b) | AVG(d) | AVG(n) | AVG(DISTINCT i) | AVG(i + 1) / 2
AVG(i) FILTER (WHERE i > 7) | SUM(i) / COUNT(*) | SUM(d) / COUNT(*)
TRUNCATE(d, 1) | TRUNCATE(f, 1) | TRUNCATE(b, -1) | TRUNCATE(n, 1) | TRUNCATE(d, i) | FLOOR(day TO MONTH) | CEIL(day TO YEAR) | FLOOR(at TO DAY)
TIMESTAMPADD(DAY, 1, day) | TIMESTAMPADD(DAY, 1, at) | TIMESTAMPADD(HOUR, 1, day)
""".replace("\n", " | ").strip(" |").split(" | ")  # fmt: skip


@pytest.mark.parametrize("expression", BY_TYPE)
def test_a_result_does_not_depend_on_whether_types_are_known_before(spark: SparkSession, expression: str) -> None:
    own = spark.newSession()
    values = "VALUES (7Y, 7S, 7, 7L, 7.0D, 7.5BD), (8Y, 3S, 8, 2L, 1.5D, 2.25BD) AS t(ti, si, i, b, d, n)"
    made = "CAST(d / 3 AS FLOAT) AS f, DATE'2026-05-04' AS day, TIMESTAMP'2026-05-04 10:11:12' AS at"
    own.sql(f"SELECT ti, si, i, b, d, CAST(n AS DECIMAL(10, 2)) AS n, {made} FROM {values}").createOrReplaceTempView(
        "t"
    )
    sql = f"SELECT {expression} AS x FROM t"
    found = []
    for columns in (COLUMNS, None):
        spoken = to_spark(bind_query(sql, ("t",), analyze_query(sql, {"t": columns}, {}).operands))
        register_row_functions(own, spoken)
        rows = own.sql(spoken)
        found.append((rows.schema.simpleString(), sorted(rows.collect())))
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    fields = ", ".join(f"{c.name} {c.type}" for c in COLUMNS)
    own.createDataFrame([], StructType.fromDDL(fields)).createOrReplaceTempView("t")
    return own


@pytest.mark.parametrize("expression", [e.strip() for e in (*EXPRESSIONS, *AGGREGATES) if e.strip()])
def test_a_type_that_is_claimed_is_the_one_that_spark_finds(session: SparkSession, expression: str) -> None:
    text = f"SELECT {expression} AS x FROM t"
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query)
    analysis = analyze_outputs(parsed, {"t": COLUMNS})
    assert analysis.columns is not None
    claimed = analysis.columns[0].type
    field = session.sql(to_spark(bind_query(text, ["t"], analysis.operands))).schema[0]
    found = StructType([field]).toDDL().removeprefix("x ").removesuffix(" NOT NULL")
    assert claimed is None or claimed == spark_type(found), f"claimed {claimed}, and Spark finds {found}"


def test_nearly_every_type_is_claimed() -> None:
    """None is honest, but tells nothing."""
    silent = []
    expressions = [e.strip() for e in (*EXPRESSIONS, *AGGREGATES) if e.strip()]
    for expression in expressions:
        parsed = parse(f"SELECT {expression} AS x FROM t", PROJECT)
        assert isinstance(parsed, Query)
        columns = analyze_outputs(parsed, {"t": COLUMNS}).columns
        if columns is None or columns[0].type is None:
            silent.append(expression)
    assert len(silent) < len(expressions) / 4, silent
