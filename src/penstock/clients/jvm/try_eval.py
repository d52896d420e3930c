"""Expressions that Spark has, but no name for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def try_column(column: Column) -> Column:
    """The column, or null where it cannot be computed: what Spark's `try_…` functions do, for any expression."""
    from pyspark import SparkContext
    from pyspark.sql import Column

    context = SparkContext._active_spark_context
    assert context is not None
    jvm = context._jvm
    assert jvm is not None
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    return Column(utils.column(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(column._jc))))
