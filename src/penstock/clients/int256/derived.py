"""Columns that Spark has no type for, derived from the values that are read instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.clients.int256.columns import to_int256
from penstock.spark_internals.expressions import try_column
from penstock.sql.types.int256 import Int256Type, conversion_function

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column that a function computes from the value that was read, and its 256-bit type."""

    function: str
    kind: Int256Type | None = None
    scale: int | None = None

    def of(self, read: Column) -> Column:
        """Return the column; null for values that cannot be converted."""
        from pyspark.sql import functions as f

        more = () if self.scale is None else (f.lit(self.scale),)
        raw = try_column(f.call_function(self.function, read, *more))
        return raw if self.kind is None else to_int256(raw, self.kind)

    def of_key(self, text: Column) -> Column:
        """Return the column of a deleted row from the text of its key."""
        return text if self.kind is None else DerivedColumn(conversion_function(self.kind), self.kind).of(text)
