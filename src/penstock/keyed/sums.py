"""Sums by code that do not depend on the order of the rows: whole numbers and decimals exactly, doubles very nearly."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.keyed.arrays import Numbers, numbers

LIMB = np.int64(2**32 - 1)
FOLDS = 3


class SumOverflow(ArithmeticError):
    """A sum has no room in its type; `place` is which."""

    def __init__(self, place: int) -> None:
        super().__init__(f"sum number {place} has no room in its type")
        self.place = place


def whole_sums(old: pa.Array, values: pa.Array, owners: Numbers, signs: Numbers | None) -> pa.Array:
    """The old sums and the values of each owner: int64 or decimals of one scale, with no nulls among the values.

    Numbers are cut into limbs of 32 bits, whose sums have room for 2,000,000,000 rows.
    """
    totals = [limb.copy() for limb in _limbs(old)]
    for total, limb in zip(totals, _limbs(values), strict=True):
        np.add.at(total, owners, limb if signs is None else limb * signs)
    for low, high in pairwise(totals):
        high += low >> 32
        low &= LIMB
    _check((totals[-1] < -(2**31)) | (totals[-1] >= 2**31))
    words = np.stack([low | (high << 32) for low, high in zip(totals[::2], totals[1::2], strict=True)], axis=1)
    result = pa.Array.from_buffers(old.type, len(old), [None, pa.py_buffer(np.ascontiguousarray(words))])
    if pa.types.is_decimal(old.type):
        _check_decimals(result)
    return result


def double_sums(values: Numbers, owners: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """The sums of finite doubles, as two doubles each, of which the first is the sum rounded.

    Each value is cut at bits that depend on the largest value and the number of values of its owner only, so that the
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


def add_doubles(high: Numbers, low: Numbers, more: Numbers, rest: Numbers) -> tuple[Numbers, Numbers]:
    """Two numbers of two doubles each, added."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = high + more
        part = total - high
        error = (high - (total - part)) + (more - part) + (low + rest)
        error = np.where(np.isfinite(total), error, 0.0)
        result = total + error
        return result, np.where(np.isfinite(result), error - (result - total), 0.0)


def _limbs(array: pa.Array) -> list[Numbers]:
    if pa.types.is_decimal(array.type):
        if array.null_count:
            array = array.fill_null(0)
        words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
        parts = [words[::2], words[1::2]]
    else:
        parts = [numbers(array)]
    limbs = [limb for part in parts for limb in (part & LIMB, (part >> 32) & LIMB)]
    limbs[-1] = parts[-1] >> 32
    return limbs


def _check(overflows: Numbers) -> None:
    if overflows.any():
        raise SumOverflow(int(np.flatnonzero(overflows)[0]))


def _check_decimals(array: pa.Array) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        words = np.frombuffer(array.buffers()[1], np.int64)
        whole = [
            (int(high) << 64) + (int(low) & (2**64 - 1)) for low, high in zip(words[::2], words[1::2], strict=True)
        ]
        _check(np.array([abs(value) >= 10**array.type.precision for value in whole]))
        raise
