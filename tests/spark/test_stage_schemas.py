"""Spark makes sense of every stage that SQL is split into, and the outputs are called what Spark would call them."""

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.keyed.kernels import kernel_for
from penstock.row_columns import CLOCK, OP, ORDER, SIGN, WAS
from penstock.runtime.query.stateful import complete_operator
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.rewrite.operators import DIVIDE, MEAN
from penstock.sql.rewrite.translate import spark_text
from penstock.sql.stateful.stages import ORDERED, OperatorStage, SqlStage
from tests.staged_sql import DDL, bound_query, fixtures, stage_plan

ORDER_TYPES = ("BIGINT", "STRING", "BIGINT", "BIGINT")
OWN_WORDS = ("PROCTIME", "SYSTEM_TIME", "UNNEST", "QUALIFY", "moment")
"""What Spark cannot be asked for as it is written: words of Flink, and an alias in an OVER."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with empty tables in place of all inputs."""
    session = spark.newSession()
    session.sql(f"CREATE TEMPORARY FUNCTION {CLOCK}() RETURNS TIMESTAMP RETURN current_timestamp()")
    register_row_functions(session, f"{DIVIDE} {MEAN}")
    for table, ddl in DDL.items():
        rows = session.createDataFrame([], ddl)
        rows.createOrReplaceTempView(quote_spark_identifier(table))
        order = [f.lit(None).cast(kind).alias(name) for name, kind in zip(ORDER, ORDER_TYPES, strict=True)]
        packed = rows.select(f.struct(*map(quote_spark_identifier, rows.columns)).alias("row"), *order)
        packed.createOrReplaceTempView(quote_spark_identifier(table + ORDERED))
    session.table("`model.totals`").drop(OP).createOrReplaceTempView("totals")
    return session


def _outputs(session: SparkSession, sql: str) -> list[str]:
    """The names of what comes out of the last stage."""
    found = stage_plan(sql)
    assert found.problem is None
    for stage in found.stages:
        match stage:
            case SqlStage():
                rows = session.sql(spark_text(stage.tree))
            case OperatorStage():
                frames = [session.table(quote_spark_identifier(view)) for view in stage.inputs]
                schemas = tuple(to_arrow_schema(frame.schema, timezone="UTC") for frame in frames)
                kernel = kernel_for(complete_operator(stage.operator, [frame.columns for frame in frames]), schemas)
                rows = session.createDataFrame([], from_arrow_schema(kernel.output))
        rows.createOrReplaceTempView(quote_spark_identifier(stage.view))
    mark = {"rows": None, "changes": OP, "signed": SIGN}[found.flow.kind]
    columns = session.sql(spark_text(found.tree)).columns
    assert set(found.flow.key) <= set(columns)
    assert columns.count(OP) + columns.count(SIGN) == (mark is not None)
    beside = (*ORDER, WAS) if found.flow.repeated else ()
    assert columns.count(WAS) == found.flow.repeated
    return [name for name in columns if name != mark and name not in beside]


def test_every_stage_resolves(session: SparkSession) -> None:
    wrong = {}
    for fixture in fixtures():
        try:
            outputs = _outputs(session, fixture.sql)
        except AnalysisException as error:
            wrong[fixture.sql] = str(error).partition("\n")[0]
            continue
        if not any(word in fixture.sql for word in OWN_WORDS):
            plain = spark_text(bound_query(fixture.sql).take_tree()).replace("`model.totals`", "totals")
            expected = session.sql(plain).columns
            if outputs != expected:
                wrong[fixture.sql] = f"{outputs} instead of {expected}"
    assert wrong == {}
