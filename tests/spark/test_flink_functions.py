"""Functions of Flink SQL give on Spark what they give on Flink: every fixture is run, many of them in one query."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.sql.analyze.analysis import bind_query
from penstock.sql.analyze.output_schema import analyze_outputs
from penstock.sql.catalog.flink_functions import TABLE
from penstock.sql.catalog.spark_functions import SPARK_NAMES
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column, Columns, spark_type
from tests.flink import ONE_ROW, ROWS, Fixture, analysed, differences, groups, shown, translated
from tests.spark.running import Running

pytestmark = pytest.mark.as_deployed

JSON = '{"a": {"b": [1, 2]}, "s": "[x]", "n": null}'
ROW = (
    7, 9, 2.5, "a,b;c", "$1", None, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 14, 15, 987_000),
    [3, None, 1], {"k": 1}, JSON,
)  # fmt: skip


def _view(session: SparkSession, columns: Columns, rows: list[tuple[Any, ...]]) -> None:
    schema = StructType.fromDDL(", ".join(f"{c.name} {c.type}" for c in columns))
    session.createDataFrame(rows, schema).coalesce(1).createOrReplaceTempView("t")


def _together(session: SparkSession, listed: list[Fixture]) -> DataFrame:
    try:
        return session.sql(f"SELECT {', '.join(f'{translated(f)} AS c{n}' for n, f in enumerate(listed))} FROM t")
    except PySparkException:
        for fixture in listed:
            try:
                session.sql(f"SELECT {translated(fixture)} FROM t").collect()
            except PySparkException as error:
                pytest.fail(f"{fixture.flink}\n{translated(fixture)}\n{error}")
        raise


GROUPS = groups() | {
    "differences": [fixture for fixture, _ in differences() if not fixture.rows],
    "differences of aggregates": [fixture for fixture, _ in differences() if fixture.rows],
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_result_is_the_one_that_is_told(spark: SparkSession, group: str) -> None:
    session = spark.newSession()
    listed = GROUPS[group]
    if listed[0].rows:
        _view(session, ROWS, [(1, 1.0, None), (2, 1.25, "c"), (5, 4.5, "c")])
    else:
        _view(session, ONE_ROW, [ROW])
    frame = _together(session, listed)
    (result,) = frame.collect()
    wrong = {
        fixture.flink: (found, fixture.gives, translated(fixture))
        for fixture, found in zip(listed, result, strict=True)
        if repr(shown(found)) != repr(shown(fixture.gives))
    }
    assert wrong == {}
    types = {f.flink: _type(frame, n) for n, f in enumerate(listed) if f.type is not None}
    assert types == {f.flink: f.type for f in listed if f.type is not None}
    claimed = {f.flink: columns[0].type for f in listed if (columns := analysed(f).columns)}
    assert {f: c for f, c in claimed.items() if c is not None} == {
        f.flink: _type(frame, n) for n, f in enumerate(listed) if claimed.get(f.flink) is not None
    }


def _type(frame: DataFrame, place: int) -> str | None:
    return spark_type(StructType([frame.schema[place]]).toDDL().partition(" ")[2].removesuffix(" NOT NULL"))


# Rows from arrays and maps

NESTED = (
    Column("id", "INT"), Column("tags", "ARRAY<STRING>"), Column("items", "ARRAY<STRUCT<sku: STRING, qty: INT>>"),
    Column("counts", "MAP<STRING, INT>"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("joins", "outputs", "expected"),
    [
        ("CROSS JOIN UNNEST(tags) AS u(tag)", "id, tag", [(1, "a"), (1, "b")]),
        (", UNNEST(tags) AS u(tag)", "id, u.tag", [(1, "a"), (1, "b")]),
        ("LEFT JOIN UNNEST(tags) AS u(tag) ON TRUE", "id, tag", [(1, "a"), (1, "b"), (2, None)]),
        ("CROSS JOIN UNNEST(items) AS u(article, number)", "id, article, number", [(1, "x", 3)]),
        ("CROSS JOIN UNNEST(counts) AS u(k, v)", "id, k, v", [(1, "n", 7)]),
        ("CROSS JOIN UNNEST(tags) WITH ORDINALITY AS u(tag, place)", "u.tag, place", [("a", 1), ("b", 2)]),
        (
            "LEFT JOIN UNNEST(items) WITH ORDINALITY AS u(article, number, place) ON TRUE",
            "id, article, number, u.place",
            [(1, "x", 3, 1), (2, None, None, None)],
        ),
        ("CROSS JOIN UNNEST(counts) WITH ORDINALITY AS u(k, v, place)", "k, v, place", [("n", 7, 1)]),
        ("CROSS JOIN UNNEST(tags) AS u(tag) CROSS JOIN UNNEST(counts) AS w(k, v)", "tag, k", [("a", "n"), ("b", "n")]),
    ],
)
def test_unnesting_makes_the_rows_of_flink(
    spark: SparkSession, joins: str, outputs: str, expected: list[tuple[object, ...]]
) -> None:
    session = spark.newSession()
    _view(session, NESTED, [(1, ["a", "b"], [("x", 3)], {"n": 7}), (2, [], [], {})])
    text = f"SELECT {outputs} FROM t {joins}"
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    analysis = analyze_outputs(parsed, {"t": NESTED})
    assert analysis.problems == ()
    rows = session.sql(to_spark(bind_query(text, ["t"], analysis.operands))).collect()
    assert [tuple(row) for row in rows] == expected


OF_UNKNOWN_TYPE = [
    ("CROSS JOIN UNNEST(tags) AS u(tag)", "id, tag", [(1, "a"), (1, None), (1, "b")]),
    ("LEFT JOIN UNNEST(tags) AS u(tag) ON TRUE", "id, tag", [(1, "a"), (1, None), (1, "b"), (2, None), (3, None)]),
    ("CROSS JOIN UNNEST(items) AS u(article, number)", "article, number", [("x", 3), (None, None), ("y", None)]),
    ("CROSS JOIN UNNEST(ones) AS u(x)", "id, x", [(1, 5), (1, 6)]),
    ("CROSS JOIN UNNEST(counts) AS u(k, v)", "id, k, v", [(1, "n", 7)]),
    ("LEFT JOIN UNNEST(counts) AS u(k, v) ON TRUE", "id, k", [(1, "n"), (2, None), (3, None)]),
    ("CROSS JOIN UNNEST(tags) WITH ORDINALITY AS u(tag, i)", "u.tag, i", [("a", 1), (None, 2), ("b", 3)]),
    (
        "CROSS JOIN UNNEST(items) WITH ORDINALITY AS u(a, n, i)",
        "a, n, i",
        [("x", 3, 1), (None, None, 2), ("y", None, 3)],
    ),
    ("CROSS JOIN UNNEST(ones) WITH ORDINALITY AS u(x, i)", "x, i", [(5, 1), (6, 2)]),
    (
        "LEFT JOIN UNNEST(counts) WITH ORDINALITY AS u(k, v, i) ON TRUE",
        "id, k, v, i",
        [(1, "n", 7, 1), (2, None, None, None), (3, None, None, None)],
    ),
    (
        "CROSS JOIN UNNEST(tags) AS u(tag) CROSS JOIN UNNEST(counts) AS w(k, v)",
        "tag, k",
        [("a", "n"), (None, "n"), ("b", "n")],
    ),
]


def test_what_is_unnested_may_be_of_a_type_that_only_spark_knows(spark: SparkSession) -> None:
    session = spark.newSession()
    columns = (*NESTED, Column("ones", "ARRAY<STRUCT<x: INT>>"))
    items = [("x", 3), None, ("y", None)]
    values = [(1, ["a", None, "b"], items, {"n": 7}, [(5,), (6,)]), (2, [], [], {}, []), (3, None, None, None, None)]
    _view(session, columns, values)
    for joins, outputs, expected in OF_UNKNOWN_TYPE:
        text = f"SELECT {outputs} FROM t {joins}"
        parsed = parse(text, PROJECT)
        assert isinstance(parsed, Query), parsed
        analysis = analyze_outputs(parsed, {"t": None})
        assert analysis.problems == ()
        sql = to_spark(bind_query(text, ["t"], analysis.operands))
        register_row_functions(session, sql)
        assert [tuple(row) for row in session.sql(sql).collect()] == expected, text


# What is known of Spark without asking it


def test_the_names_are_those_of_spark(spark: SparkSession) -> None:
    found = {row[0].upper() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in found if name.replace("_", "").isalnum()} == SPARK_NAMES


TYPES = (
    Column("n", "DECIMAL(10, 2)"), Column("s", "STRING"), Column("t", "BOOLEAN"), Column("at", "TIMESTAMP"),
    Column("day", "DATE"), Column("raw", "BINARY"), Column("a", "ARRAY<STRING>"), Column("m", "MAP<STRING, INT>"),
    Column("st", "STRUCT<x: INT>"),
)  # fmt: skip
SAMPLES = {
    "text": "'a'", "string": "'a'", "bytes": "'a'", "whole": "1", "number": "1.5", "time": "at", "array": "a",
    "map": "m", "collection": "a", "bool": "TRUE", "any": "'a'",
}  # fmt: skip
OTHERS = (
    "SUM({})", "AVG({})", "STDDEV_POP({})", "VAR_SAMP({})", "ABS({})", "SQRT({})", "EXP({})", "LN({})", "ROUND({})",
    "SIGN({})", "UPPER({})", "LOWER({})", "TRIM({})", "INITCAP({})", "CHAR_LENGTH({})", "SUBSTRING({}, 1)",
    "LISTAGG({})", "LEFT({}, 1)", "REPLACE({}, 'a', 'b')", "LEFT('a', {})", "RIGHT('a', {})", "MD5({})", "SHA1({})",
    "SHA2({}, 256)", "ARRAY_DISTINCT({})", "MAP_KEYS({})", "EXTRACT(YEAR FROM {})", "TIMESTAMPDIFF(DAY, {}, at)",
    "TIMESTAMPDIFF(DAY, at, {})", "TIMESTAMPADD(DAY, 1, {})",
)  # fmt: skip
STRICTER_THAN_SPARK = {
    ("TO_TIMESTAMP", "time"), ("UNIX_TIMESTAMP", "time"), ("ARRAY_REVERSE", "array"), ("ARRAY_CONCAT", "array"),
    ("MAP_UNION", "map"), ("JSON_QUOTE", "text"), ("DATE_FORMAT", "string"),
}  # fmt: skip
"""Flink refuses these. Spark would take a number for seconds, a text for an array of characters, or look away."""
READ_AS_NUMBERS = ("SUM(at)", "AVG(at)")
"""Flink refuses these, and every text in place of a number."""


def _calls() -> Iterator[str]:
    for name, function in TABLE.items():
        words = [word.rstrip("?*") for word in function.takes.split() if not word.startswith("option")]
        for place, kind in enumerate(words):
            if kind != "any" and (name, kind) not in STRICTER_THAN_SPARK:
                given = [SAMPLES[word] for word in words[: max(function.min_arguments, place + 1)]]
                yield f"{name}({', '.join([*given[:place], '{}', *given[place + 1 :]])})"


def test_arguments_that_are_refused_would_be_refused_by_spark(spark: SparkSession) -> None:
    session = spark.newSession()
    _view(session, TYPES, [])
    taken, refused = [], 0
    for call in [*_calls(), *OTHERS]:
        for column in TYPES:
            text = f"SELECT {call.format(column.name)} AS x FROM t"
            parsed = parse(text, PROJECT)
            assert isinstance(parsed, Query), text
            problems = analyze_outputs(parsed, {"t": TYPES}).problems
            if [problem.code for problem in problems] == ["sql-argument"]:
                refused += 1
                if "number, and is given STRING" in problems[0].message or call.format(column.name) in READ_AS_NUMBERS:
                    continue
                try:
                    session.sql(to_spark(Query(text, PROJECT)))
                    taken.append(text)
                except AnalysisException:
                    pass
    assert taken == []
    assert refused > 250


def test_functions_run_in_a_stream(running: Running) -> None:
    running.write(
        {
            "stream_project.yml": """
            project: {name: p}
            sources:
              - name: visits
                topic: visits.v1
                columns:
                  - {name: id, type: BIGINT}
                  - {name: tags, type: STRING}
                  - {name: body, type: STRING}
                  - {name: at, type: TIMESTAMP(3)}
                event_time: {column: at}
            models:
              - name: pages
                sql: |
                  SELECT id / 2 AS half, tag, JSON_VALUE(body, '$.page' RETURNING INT) AS page, YEAR(at) AS `year`
                  FROM {{ source("visits") }} CROSS JOIN UNNEST(SPLIT(tags, '|')) AS t(tag)
                  WHERE REGEXP(body, 'page":\\s*\\d')
              - name: hourly
                sql: |
                  SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS `hour`, AVG(id) AS mean, LISTAGG(tags, '+') AS tags
                  FROM {{ source("visits") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
        """
        }
    )
    rows = [
        {"id": 7, "tags": "a|b", "body": '{"page": 3}', "at": "2026-01-01T00:10:00Z"},
        {"id": 8, "tags": "c", "body": '{"page": "x"}', "at": "2026-01-01T00:20:00Z"},
        {"id": 9, "tags": "d", "body": '{"page": 1}', "at": "2026-01-01T05:00:00Z"},
    ]
    running.drop("visits.v1", "1.json", rows)
    running.run()
    found = sorted(running.topic("pages"), key=lambda row: str(row["tag"]))
    assert found == [
        {"half": 3, "tag": "a", "page": 3, "year": 2026},
        {"half": 3, "tag": "b", "page": 3, "year": 2026},
        {"half": 4, "tag": "d", "page": 1, "year": 2026},
    ]
    (first,) = running.topic("hourly")
    assert (first["mean"], sorted(first["tags"].split("+"))) == (7, ["a|b", "c"])
