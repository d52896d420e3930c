"""The operation of a row, as sinks interpret it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.row_columns import OP
from penstock.spark_functions import f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def row_operation(rows: DataFrame) -> Column:
    """Return `i`, `u` or `d`, ignoring case. A missing or unknown operation is an insert."""
    if OP not in rows.columns:
        return f.lit("i")
    said = f.lower(f.col(OP).cast("string"))
    return f.when(said.isin("u", "d"), said).otherwise("i")
