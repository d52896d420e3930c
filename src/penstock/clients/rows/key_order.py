"""Distributes the rows of a batch among tasks, and keeps their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = "_penstock_place"


def partition_in_order(rows: DataFrame, key: Sequence[str], tasks: int | None = None) -> DataFrame:
    """Put all rows of a key into one task, in order. Without a key, rows are spread over tasks, each in order.

    Tasks receive shuffled rows in any order. Only because they are sorted, a retried batch has the same rows at the
    same places.
    """
    placed = rows.withColumn(_PLACE, f.monotonically_increasing_id())
    columns = list(map(quote_spark_identifier, key)) or [_PLACE]
    together = placed.repartition(*columns) if tasks is None else placed.repartition(tasks, *columns)
    return together.sortWithinPartitions(_PLACE).drop(_PLACE)
