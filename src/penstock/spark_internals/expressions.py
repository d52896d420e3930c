"""Expressions that Spark has, or that Java of ours makes, but that PySpark has no function for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column

JavaStruct: TypeAlias = Any
"""A `StructType` of Spark's own, to be handed to `java_column`."""


def try_column(column: Column) -> Column:
    """The column, or null where it cannot be computed: what Spark's `try_…` functions do, for any expression."""
    from pyspark.sql import Column

    utils = java_class("org.apache.spark.sql.classic.ExpressionUtils")
    try_eval = java_class("org.apache.spark.sql.catalyst.expressions.TryEval")
    java: Any = column._jc
    return Column(utils.column(try_eval(utils.expression(java))))


def java_column(name: str, method: str, column: Column, *arguments: Any) -> Column:
    """What a static method of a class gives for a column and other arguments."""
    from pyspark.sql import Column

    java: Any = column._jc
    return Column(getattr(java_class(name), method)(java, *arguments))


def java_struct(schema: str) -> JavaStruct:
    """The type of a struct, given as DDL."""
    struct = java_class("org.apache.spark.sql.types.StructType")
    return struct.fromDDL(schema) if schema else struct()
