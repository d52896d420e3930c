"""Keeps rows out that the SQL of a stateful query would fail on: Spark would fail the query."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.manifest.model import Check
from penstock.spark_internals.expressions import try_column
from penstock.sql.analyze.user_calls import error_expressions
from penstock.sql.lint.gate import check_expression

MESSAGE: Final = "_message"
"""The column with the message about a failing row."""
_SOUND: Final = "_sound"


def guard_rows(rows: DataFrame, check: Check) -> DataFrame:
    """Return the rows that no expression fails on; the others are counted."""
    marked = rows.withColumn(_SOUND, _failure_message(*check.expressions).isNull())
    counted = marked.observe(failed_metric(check), f.count_if(~f.col(_SOUND)))
    return counted.where(_SOUND).drop(_SOUND)


def failing_rows(rows: DataFrame, check: Check) -> DataFrame:
    """Return the rows that an expression fails on, with a message in a column."""
    messages = (_describe_failure(expression) for expression in check.expressions)
    return rows.withColumn(MESSAGE, f.concat_ws("; ", *messages)).where(f.col(MESSAGE) != "")


def _describe_failure(expression: str) -> Column:
    """Return a message if the expression fails on a row: that of a user function in it, if one failed."""
    failed = _failure_message(expression)
    own = [try_column(f.expr(check_expression(text))) for text in error_expressions(expression)]
    return f.when(failed.isNotNull(), f.coalesce(*own, failed)) if own else failed


def failed_metric(check: Check) -> str:
    """Return the name of the metric for the rows of a batch that were filtered out."""
    return f"fails {check.view}"


def _failure_message(*expressions: str) -> Column:
    """Return a message if one of the expressions fails on a row, null otherwise."""
    whole = f.struct(*(f.expr(check_expression(text)).alias(f"c{place}") for place, text in enumerate(expressions)))
    return f.when(try_column(whole).isNull(), f"it cannot be computed: {', '.join(expressions)}")
