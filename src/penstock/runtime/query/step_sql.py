"""The SQL of a query's steps as Spark gets it, and the resulting views."""

from collections.abc import Collection

from pyspark.sql import DataFrame, SparkSession

from penstock.clients.int256.columns import has_int256, register_int256
from penstock.manifest.model import QuerySpec
from penstock.runtime.query.input_rows import columns_of
from penstock.sql.lint.gate import check_statement
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.rewrite import int256
from penstock.sql.stateful.stages import ORDERED
from penstock.sql.types.int256 import mentions_int256


def step_views(query: QuerySpec, session: SparkSession) -> dict[str, DataFrame]:
    views = {*(i.view for i in query.inputs), *(s.view for s in query.steps)}
    return {view: session.table(quote_spark_identifier(view)) for view in views}


def check_sql(sql: str, query: QuerySpec, parameters: Collection[str] = ()) -> str:
    """Return a statement, if the query may pass it to Spark."""
    views = [part.view for part in (*query.inputs, *query.steps)]
    views += [entry.view + ORDERED for entry in query.inputs if entry.ordered]
    called = [*(model.function for model in query.asks), *(function.function for function in query.functions)]
    return check_statement(sql, views, called, parameters)


def rewrite_int256(sql: str, query: QuerySpec, session: SparkSession) -> str:
    """Rewrite SQL with 256-bit integers to SQL that Spark supports."""
    names = {part.view: quote_spark_identifier(part.view) for part in (*query.inputs, *query.steps)}
    tables = {view: session.table(name) for view, name in names.items() if name in sql}
    if not mentions_int256(sql) and not any(map(has_int256, tables.values())):
        return sql
    register_int256(session)
    return int256.rewrite_int256(sql, tuple((view, columns_of(table)) for view, table in tables.items()))
