"""Tables of values with several rows per key, for calls that need individual values. A key is a number (`SLOT`).

A bag has a row per key and value. Calls over one argument that depend only on its values share a bag. A series has a
row per value that arrived, with its arrival number. Each call that depends on the order has a series of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.keyed.aggregates.folds import NewRows, sum_fold
from penstock.keyed.arrow.arrays import Ints, normalize_floats, null_where, numbers, take_rows
from penstock.keyed.arrow.codes import codes, first_rows
from penstock.keyed.arrow.segments import first_flags, last_flags, survivors
from penstock.keyed.arrow.sort_order import extremes, ordinals, sort_by_content
from penstock.keyed.arrow.tables import build_table, column, concat
from penstock.keyed.operators import AggregateCall

SLOT: Final = "slot"
"""The row of the key in the table of keys."""
VALUE: Final = "value"
COUNT: Final = "count"
ARRIVAL: Final = "arrival"


@dataclass(frozen=True, slots=True)
class Bag:
    """The distinct values of a column, each with its count."""

    type: pa.DataType

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(SLOT, pa.int64()), (VALUE, self.type), (COUNT, pa.int64())])

    def apply_rows(self, old: pa.Table, values: pa.Array, rows: NewRows) -> pa.Table:
        """Apply the new rows. Additions and retractions of a value are netted; absent values cannot be retracted."""
        signs = np.ones(len(values), np.int64) if rows.signs is None else rows.signs.astype(np.int64)
        arrays = [pa.array(rows.owners), normalize_floats(values), pa.array(signs)]
        table = concat(old, build_table(self.schema, arrays))
        pairs, size = codes([column(table, SLOT), column(table, VALUE)], table.num_rows)
        counts = np.zeros(size, np.int64)
        np.add.at(counts, pairs, numbers(column(table, COUNT)))
        kept = np.flatnonzero(counts > 0)
        table = table.take(pa.array(first_rows(pairs, size)[kept]))
        return table.set_column(2, self.schema.field(COUNT), pa.array(counts[kept]))

    def result(self, call: AggregateCall, table: pa.Table, size: int) -> pa.Array:
        """Compute a call for each key."""
        owners, values = numbers(column(table, SLOT)), column(table, VALUE)
        rows = NewRows(owners, size)
        match call.function:
            case "count":
                return pa.array(rows.net_counts())
            case "sum":
                kept = sum_fold(self.type)
                return kept.result(kept.fold([pa.nulls(size, part) for part in kept.types], values, rows))
        return take_rows(values, extremes(ordinals(values), owners, size, call.function == "max"))


@dataclass(frozen=True, slots=True)
class Series:
    """The values of a column in the order of arrival: all of them, or those that can still affect the call's result."""

    call: AggregateCall
    type: pa.DataType
    signed: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(SLOT, pa.int64()), (VALUE, self.type), (ARRIVAL, pa.int64())])

    def apply_rows(self, old: pa.Table, values: pa.Array, rows: NewRows) -> pa.Table:
        """Apply the new rows. A retraction removes an equal new value if any, or else the first equal old one."""
        new = build_table(self.schema, [pa.array(rows.owners), values, pa.array(rows.arrival)])
        if rows.signs is not None and (rows.signs < 0).any():
            added, removed = new.filter(pa.array(rows.signs > 0)), new.filter(pa.array(rows.signs < 0))
            return _remove_rows(concat(old, added), removed, old)
        table = concat(old, new)
        return table if self.signed else table.take(pa.array(self._relevant_rows(table)))

    def result(self, table: pa.Table, size: int) -> pa.Array:
        """Compute the call for each key."""
        rows = self._relevant_rows(table)
        owners, values = numbers(column(table, SLOT))[rows], column(table, VALUE).take(pa.array(rows))
        if self.call.function == "list":
            counts = np.bincount(owners, minlength=size)
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=pa.list_(self.type))
            return null_where(lists, counts == 0)
        places = np.full(size, -1, np.int64)
        places[owners] = np.arange(len(owners))
        return take_rows(values, places)

    def _relevant_rows(self, table: pa.Table) -> Ints:
        """Return the rows that make up the result, sorted by key and arrival."""
        slots, values = numbers(column(table, SLOT)), column(table, VALUE)
        order = sort_by_content([slots, numbers(column(table, ARRIVAL))], [values], table.num_rows)
        if self.call.function == "list" and not self.call.distinct:
            return order
        owners = slots[order]
        if self.call.function == "list":
            pairs, size = codes([pa.array(owners), values.take(pa.array(order))], len(order))
            return order[first_rows(pairs, size)]
        return order[first_flags(owners) if self.call.function == "first" else last_flags(owners)]


def call_result(kept: Bag | Series, call: AggregateCall, table: pa.Table, size: int) -> pa.Array:
    """Compute a call for each key. Several calls share a bag; a series belongs to one call."""
    return kept.result(call, table, size) if isinstance(kept, Bag) else kept.result(table, size)


def _remove_rows(table: pa.Table, gone: pa.Table, old: pa.Table) -> pa.Table:
    both = concat(table, gone)
    pairs, size = codes([column(both, SLOT), column(both, VALUE)], both.num_rows)
    return table.take(pa.array(survivors(pairs, size, table.num_rows, old.num_rows, numbers(column(table, ARRIVAL)))))


def value_table_names(calls: Sequence[AggregateCall], signed: bool) -> tuple[str | None, ...]:
    """Name the table with the values of each call; None for a call that is folded."""
    arguments: list[str] = []
    names: list[str | None] = []
    for position, call in enumerate(calls):
        if call.function in ("first", "last", "list"):
            names.append(f"series_{position}")
        elif call.argument is not None and (signed if call.function in ("min", "max") else call.distinct):
            if call.argument not in arguments:
                arguments.append(call.argument)
            names.append(f"values_{arguments.index(call.argument)}")
        else:
            names.append(None)
    return tuple(names)
