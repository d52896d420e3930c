"""Aggregate calls whose state is a few numbers or one value per key, in columns of the table of keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, normalize_floats, null_where, numbers, take_rows, valid_flags
from penstock.keyed.arrow.sort_order import extremes, ordinals
from penstock.keyed.arrow.sums import add_doubles, double_sums, sum_type, whole_sums
from penstock.keyed.operators import AggregateCall


@dataclass(frozen=True, slots=True)
class NewRows:
    """The new rows of a batch: the key of each as a number below `size`, its sign, and its arrival number."""

    owners: Ints
    size: int
    signs: Ints | None = None
    arrival: Ints | None = None

    def where(self, mask: Flags) -> "NewRows":
        """Return the rows that a mask selects."""
        signs = None if self.signs is None else self.signs[mask]
        return NewRows(self.owners[mask], self.size, signs, None if self.arrival is None else self.arrival[mask])

    def net_counts(self) -> Ints:
        """Count the rows added for each key, minus the rows retracted."""
        if self.signs is None:
            return np.bincount(self.owners, minlength=self.size)
        return np.bincount(self.owners, weights=self.signs, minlength=self.size).astype(np.int64)


class Fold(Protocol):
    """The state of one aggregate call. The old columns have a value for each key, null for new keys."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """The types of the state columns."""

    def fold(self, old: Sequence[pa.Array], argument: pa.Array, rows: NewRows) -> list[pa.Array]:
        """Fold the new rows into the state columns. The argument has no nulls."""

    def result(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the result of the call for each key."""


@dataclass(frozen=True, slots=True)
class CountFold:
    """COUNT: the number of values, or of rows."""

    types: tuple[pa.DataType, ...] = (pa.int64(),)

    def fold(self, old: Sequence[pa.Array], argument: pa.Array, rows: NewRows) -> list[pa.Array]:
        return [pa.array(numbers(old[0]) + rows.net_counts())]

    def result(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


@dataclass(frozen=True, slots=True)
class WholeSum:
    """SUM of integers or decimals: the sum, and the number of values in it."""

    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return self.type, pa.int64()

    def fold(self, old: Sequence[pa.Array], argument: pa.Array, rows: NewRows) -> list[pa.Array]:
        values = argument.cast(self.type)
        total = whole_sums(old[0], values, rows.owners, rows.signs)
        return [total, pa.array(numbers(old[1]) + rows.net_counts())]

    def result(self, columns: Sequence[pa.Array]) -> pa.Array:
        return null_where(columns[0], numbers(columns[1]) <= 0)


@dataclass(frozen=True, slots=True)
class DoubleSum:
    """SUM of doubles: the sum of finite values as two doubles, and the counts of NaNs, infinities and all values."""

    types: tuple[pa.DataType, ...] = (pa.float64(), pa.float64(), pa.int64(), pa.int64(), pa.int64(), pa.int64())

    def fold(self, old: Sequence[pa.Array], argument: pa.Array, rows: NewRows) -> list[pa.Array]:
        values = numbers(argument).astype(np.float64, copy=False)
        high, low, *odd = (numbers(array) for array in old[:5])
        finite = np.isfinite(values)
        if not finite.all():
            kinds = np.isnan(values), values == np.inf, values == -np.inf
            odd = [count + rows.where(kind).net_counts() for count, kind in zip(odd, kinds, strict=True)]
        some, kept = rows.where(finite), values[finite]
        more = double_sums(kept if some.signs is None else kept * some.signs, some.owners, rows.size)
        high, low = add_doubles(high, low, *more)
        return [pa.array(part) for part in (high, low, *odd, numbers(old[5]) + rows.net_counts())]

    def result(self, columns: Sequence[pa.Array]) -> pa.Array:
        total, _, nan, above, below, count = (numbers(array) for array in columns)
        if nan.any() or above.any() or below.any():
            total = np.where(above > 0, np.inf, np.where(below > 0, -np.inf, total))
            total = np.where((nan > 0) | ((above > 0) & (below > 0)), np.nan, total)
        return pa.array(total, mask=count <= 0)


@dataclass(frozen=True, slots=True)
class Extreme:
    """MIN and MAX of append-only rows: the smallest or largest value so far."""

    type: pa.DataType
    largest: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return (self.type,)

    def fold(self, old: Sequence[pa.Array], argument: pa.Array, rows: NewRows) -> list[pa.Array]:
        known = np.flatnonzero(valid_flags(old[0]))
        values = pa.concat_arrays([old[0].take(pa.array(known)), normalize_floats(argument)])
        owners = np.concatenate([known, rows.owners])
        return [take_rows(values, extremes(ordinals(values), owners, rows.size, self.largest))]

    def result(self, columns: Sequence[pa.Array]) -> pa.Array:
        return columns[0]


def sum_fold(argument: pa.DataType) -> WholeSum | DoubleSum:
    """Return the fold that sums values of a type."""
    return DoubleSum() if pa.types.is_floating(argument) else WholeSum(sum_type(argument))


def call_fold(call: AggregateCall, argument: pa.DataType | None) -> Fold:
    """Return the fold of a call whose state does not need the individual values."""
    if call.function == "count" or argument is None:
        return CountFold()
    return sum_fold(argument) if call.function == "sum" else Extreme(argument, call.function == "max")
