"""Keeps rows out that the SQL of a stateful query would fail on: Spark would fail the query."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.manifest.model import Check
from penstock.spark_internals.expressions import try_column
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
    messages = (_failure_message(expression) for expression in check.expressions)
    return rows.withColumn(MESSAGE, f.concat_ws("; ", *messages)).where(f.col(MESSAGE) != "")


def failed_metric(check: Check) -> str:
    """Return the name of the metric for the rows of a batch that were filtered out."""
    return f"fails {check.view}"


def _failure_message(*expressions: str) -> Column:
    """Return a message if one of the expressions fails on a row, null otherwise."""
    whole = f.struct(*(f.expr(check_expression(text)).alias(f"c{place}") for place, text in enumerate(expressions)))
    return f.when(try_column(whole).isNull(), f"it cannot be computed: {', '.join(expressions)}")
