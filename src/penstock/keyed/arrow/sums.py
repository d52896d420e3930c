"""Sums by code that are independent of row order: exact for integers and decimals, almost exact for doubles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, NumberArray, numbers

LIMB = np.int64(2**32 - 1)
FOLDS = 3


class SumOverflow(ArithmeticError):
    """A sum does not fit into its type. `kind` is the SQL type and `place` the index of the sum."""

    def __init__(self, place: int, type_: pa.DataType) -> None:
        is_decimal = pa.types.is_decimal(type_)
        self.place, self.kind = place, f"DECIMAL({type_.precision}, {type_.scale})" if is_decimal else "BIGINT"
        super().__init__(f"sum number {place} does not fit into {self.kind}")


@contextmanager
def name_overflow_key(keys: Sequence[pa.Array]) -> Iterator[None]:
    """Add the key to the error of a sum that overflows. Each key column has a value for every sum."""
    try:
        yield
    except SumOverflow as error:
        key = ", ".join(str(array[error.place].as_py()) for array in keys)
        raise ArithmeticError(f"a sum of the key ({key}) does not fit into {error.kind}") from None


def sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def whole_sums(old: pa.Array, values: pa.Array, owners: Ints, signs: Ints | None) -> pa.Array:
    """Add the values of each owner to the old sums: int64, or decimals of one scale. The values have no nulls."""
    totals = split_limbs(old)
    for total, limb in zip(totals, split_limbs(values), strict=True):
        np.add.at(total, owners, limb if signs is None else limb * signs)
    return combine_limbs(totals, old.type)


def split_limbs(array: pa.Array) -> list[Ints]:
    """Split integers or decimals into limbs of 32 bits, lowest first, 0 for null. The highest limb has the sign.

    Sums of limbs have room for 2,000,000,000 rows.
    """
    if pa.types.is_decimal(array.type):
        array = array.fill_null(0) if array.null_count else array
        words = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        parts = [words[::2], words[1::2]]
    else:
        parts = [numbers(array)]
    found = [limb for part in parts for limb in (part & LIMB, (part >> 32) & LIMB)]
    return [*found[:-1], parts[-1] >> 32]


def combine_limbs(totals: list[Ints], kind: pa.DataType) -> pa.Array:
    """Combine summed limbs into numbers. Modifies the limbs."""
    for low, high in pairwise(totals):
        high += low >> 32
        low &= LIMB
    _check_overflow((totals[-1] < -(2**31)) | (totals[-1] >= 2**31), kind)
    words = np.stack([low | (high << 32) for low, high in zip(totals[::2], totals[1::2], strict=True)], axis=1)
    result = pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(np.ascontiguousarray(words))])
    if pa.types.is_decimal(kind):
        _check_decimals(result)
    return result


def double_sums(values: NumberArray, owners: Ints, size: int) -> tuple[NumberArray, NumberArray]:
    """Sum finite doubles per owner. Each sum is two doubles, of which the first is the rounded sum.

    Each value is cut at bits that depend only on the largest value and the number of values of its owner, so that the
    sums of the pieces are exact in any order of the rows.
    """
    largest = np.zeros(size)
    np.maximum.at(largest, owners, np.abs(values))
    _, exponent = np.frexp(largest)
    _, spread = np.frexp(np.bincount(owners, minlength=size).astype(np.float64))
    if (exponent + spread).max(initial=0) > 1020:
        order = np.lexsort((values, owners))
        return np.bincount(owners[order], weights=values[order], minlength=size), np.zeros(size)
    high, low = np.zeros(size), np.zeros(size)
    for _ in range(FOLDS):
        cut = np.ldexp(1.5, exponent + spread + 1)[owners]
        piece = (values + cut) - cut
        values = values - piece
        high, low = add_doubles(high, low, np.bincount(owners, weights=piece, minlength=size), np.zeros(size))
        exponent = exponent + spread + 1 - 53
    return high, low


def add_doubles(
    high: NumberArray, low: NumberArray, more: NumberArray, rest: NumberArray
) -> tuple[NumberArray, NumberArray]:
    """Add two numbers of two doubles each."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = high + more
        part = total - high
        error = (high - (total - part)) + (more - part) + (low + rest)
        error = np.where(np.isfinite(total), error, 0.0)
        result = total + error
        return result, np.where(np.isfinite(result), error - (result - total), 0.0)


def _check_overflow(overflows: Flags, kind: pa.DataType) -> None:
    if overflows.any():
        raise SumOverflow(int(np.flatnonzero(overflows)[0]), kind)


def _check_decimals(array: pa.Array) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        words = np.frombuffer(array.buffers()[1], np.int64)
        pairs = zip(words[::2], words[1::2], strict=True)
        exact = [(int(high) << 64) + (int(low) & (2**64 - 1)) for low, high in pairs]
        _check_overflow(np.array([abs(value) >= 10**array.type.precision for value in exact]), array.type)
        raise
