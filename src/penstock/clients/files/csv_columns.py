"""Checks that rows can be written as CSV, which has no nested values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import QueryFailed
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_flat_columns(rows: DataFrame) -> DataFrame:
    """Return the rows with columns that are always null cast to strings. QueryFailed if a column is nested."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    for field in rows.schema:
        if isinstance(field.dataType, ArrayType | MapType | StructType):
            text = f"CSV cannot have the column `{field.name}`: it is {field.dataType.simpleString()}"
            raise QueryFailed("column-type", text, hint="write JSON or Parquet, or leave it out in a transform")
    void = {field.name for field in rows.schema if isinstance(field.dataType, NullType)}
    if not void:
        return rows
    texts = {name: f.col(quote_spark_identifier(name)).cast("string").alias(name) for name in void}
    return rows.select(*(texts.get(name, f.col(quote_spark_identifier(name))) for name in rows.columns))
