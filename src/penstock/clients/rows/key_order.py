"""The rows of a batch among tasks, in the order that they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = "_penstock_place"


def partition_in_order(rows: DataFrame, key: Sequence[str], tasks: int | None = None) -> DataFrame:
    """All rows of a key in one task, in the order that they have; rows without a key, as they come.

    Tasks get what others send them in any order. A batch that is done again has the same rows in the same places only
    because they are sorted.
    """
    from pyspark.sql import functions as f

    placed = rows.withColumn(_PLACE, f.monotonically_increasing_id())
    columns = list(map(quote_spark_identifier, key)) or [_PLACE]
    together = placed.repartition(*columns) if tasks is None else placed.repartition(tasks, *columns)
    return together.sortWithinPartitions(_PLACE).drop(_PLACE)
