"""Properties of DataFrames that PySpark does not expose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class, scala_items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader
    from pyspark.sql.types import DataType, StructType


def schema_text(frame: DataFrame) -> str:
    """Return the types of all columns as Spark's catalog writes them, in one call."""
    java: Any = frame._jdf
    return str(java.schema().catalogString())


def release_checkpoint(frame: DataFrame) -> None:
    """Free the rows of a frame that `localCheckpoint` returned. PySpark would leave that to garbage collection."""
    java: Any = frame._jdf
    java.queryExecution().logical().rdd().unpersist(False)


def infer_json_schema(texts: DataFrame, reader: DataFrameReader) -> StructType:
    """Infer the schema of JSON objects, the only column of a frame, with a reader.

    PySpark's `reader.json` takes an RDD of them instead, whose rows pass through Python.
    """
    from pyspark.sql.types import StructType

    java_reader: Any = reader._jreader
    java_texts: Any = texts._jdf
    encoder = java_class("org.apache.spark.sql.Encoders").STRING()
    as_texts = getattr(java_texts, "as")
    return StructType.fromJson(json.loads(java_reader.json(as_texts(encoder)).schema().json()))


def python_calls(rows: DataFrame) -> Iterator[tuple[str, list[DataType]]]:
    """Yield the Python functions that a query calls, each with the types of its arguments as found by Spark."""
    from pyspark.sql.types import DataType

    java: Any = rows._jdf
    plans = [java.queryExecution().analyzed()]
    while plans:
        plan = plans.pop()
        plans += [*scala_items(plan.children()), *scala_items(plan.subqueries())]
        expressions = scala_items(plan.expressions())
        while expressions:
            expression = expressions.pop()
            children = scala_items(expression.children())
            expressions += children
            if expression.getClass().getSimpleName() == "PythonUDF":
                yield expression.name(), [DataType.fromDDL(child.dataType().sql()) for child in children]
