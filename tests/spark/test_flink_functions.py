"""Functions of Flink SQL give on Spark what they give on Flink: every fixture is run, many of them in one query."""

import datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.sql.types import Columns, spark_type
from tests.flink import ONE_ROW, ROWS, Fixture, analysed, groups, shown, translated

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


GROUPS = groups()


@pytest.mark.parametrize("group", GROUPS)
def test_every_result_is_that_of_flink(spark: SparkSession, group: str) -> None:
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
