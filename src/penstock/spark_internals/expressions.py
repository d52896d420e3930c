"""Expressions of Spark, or of our own Java, for which PySpark has no function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column


def try_column(column: Column) -> Column:
    """Return the column, or null where it cannot be computed: like Spark's `try_…` functions, for any expression."""
    from pyspark.sql import Column

    utils = java_class("org.apache.spark.sql.classic.ExpressionUtils")
    try_eval = java_class("org.apache.spark.sql.catalyst.expressions.TryEval")
    java: Any = column._jc
    return Column(utils.column(try_eval(utils.expression(java))))


def java_column(name: str, method: str, column: Column, *arguments: Any) -> Column:
    """Call a static Java method that returns a column, with a column and other arguments."""
    from pyspark.sql import Column

    java: Any = column._jc
    return Column(getattr(java_class(name), method)(java, *arguments))


def java_struct(schema: str) -> Any:
    """Return Spark's own type of a struct, given as DDL, as an argument of `java_column`."""
    struct = java_class("org.apache.spark.sql.types.StructType")
    return struct.fromDDL(schema) if schema else struct()
