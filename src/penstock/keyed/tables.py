"""Rows as numbers, whatever the types of their columns: equal rows get equal numbers. And what kernels do to tables.

Null equals null, NaN equals NaN, and -0.0 equals 0.0, also inside of structs, arrays and maps.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.keyed.kernel import Clock

Numbers: TypeAlias = np.ndarray[Any, Any]

TOUCHED = "_touched"
"""When a row last came for the key of this row, in milliseconds: it is forgotten by this."""


def column(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    return table.column(name).combine_chunks()


def numbers(array: pa.Array) -> Numbers:
    """The numbers in an array, 0 for null. They may share memory with it."""
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def valid(array: pa.Array) -> Numbers:
    """Which values are there."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def padded(array: pa.Array, size: int) -> pa.Array:
    """The array with nulls after it, so that it has `size` values."""
    more = size - len(array)
    return pa.concat_arrays([array, pa.nulls(more, array.type)]) if more else array


def concat(*tables: pa.Table) -> pa.Table:
    """The rows of all tables, which have the same columns, in one piece."""
    return pa.concat_tables(tables).combine_chunks()


def alive(table: pa.Table, clock: Clock, ttl_ms: int | None) -> Numbers | None:
    """Which rows of the state are still remembered; None if all are."""
    if ttl_ms is None or table.num_rows == 0:
        return None
    mask: Numbers = numbers(column(table, TOUCHED)) > clock.now_ms - ttl_ms
    return None if mask.all() else mask


def codes(columns: Sequence[pa.Array], length: int) -> tuple[Numbers, int]:
    """A number for each row, counted from 0 in the order of first appearance, and how many there are."""
    result, count = np.zeros(length, np.int64), min(length, 1)
    for position, array in enumerate(columns):
        encoded, span = _encoded(array)
        result, count = (encoded, span) if position == 0 else _dense(result * span + encoded)
    return result, count


def first_rows(row_codes: Numbers, count: int) -> Numbers:
    """A row of each code: the first one."""
    first = np.zeros(count, np.int64)
    first[row_codes[::-1]] = np.arange(len(row_codes) - 1, -1, -1)
    return first


def places_within(owners: Numbers) -> Numbers:
    """The place of each row among those of its owner, from 0; rows of one owner stand together."""
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return np.arange(len(owners)) - np.repeat(starts, np.diff(starts, append=len(owners)))


def differ(left: pa.Array, right: pa.Array) -> Numbers:
    """Where two arrays of one type and length are not the same."""
    if len(left) == 0:
        return np.zeros(0, bool)
    if pa.types.is_integer(left.type) or pa.types.is_floating(left.type):
        ours, theirs = numbers(left), numbers(right)
        return np.asarray((valid(left) != valid(right)) | ((ours != theirs) & ~((ours != ours) & (theirs != theirs))))
    row_codes, _ = codes([pa.concat_arrays([left, right])], 2 * len(left))
    return np.asarray(row_codes[: len(left)] != row_codes[len(left) :])


def normal(array: pa.Array) -> pa.Array:
    """The array with one zero and one NaN, as Spark normalises keys."""
    kind = array.type
    if not _has_floats(kind):
        return array
    nulls = ~valid(array)
    if pa.types.is_floating(kind):
        values = numbers(array) + 0.0
        values[np.isnan(values)] = np.nan
        return pa.array(values, kind, mask=nulls)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [normal(part) for part in array.flatten()], fields=list(kind), mask=pa.array(nulls)
        )
    inner, offsets = lists_of(array)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), normal(inner), type=kind, mask=pa.array(nulls))


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return _has_floats(kind.value_type) if pa.types.is_list(kind) else pa.types.is_floating(kind)


def bytes_of_lists(offsets: Numbers, elements: Numbers) -> pa.Array:
    """Lists of numbers as strings of bytes, eight a number, in the byte order that the numbers have."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets * 8)), pa.py_buffer(np.ascontiguousarray(elements))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def lists_of(array: pa.Array) -> tuple[pa.Array, Numbers]:
    """The elements of arrays and maps, and where those of each begin and end; the entries of a map are structs."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    return array.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def in_order(offsets: Numbers, elements: Numbers) -> Numbers:
    """The numbers of each list sorted: maps are equal whatever the order of their entries."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return elements[np.lexsort((elements, owner))]


def _encoded(array: pa.Array) -> tuple[Numbers, int]:
    kind = array.type
    if pa.types.is_struct(kind):
        return codes([array.is_valid(), *array.flatten()], len(array))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        elements, offsets = lists_of(array)
        inner, _ = codes([elements], len(elements))
        inner = in_order(offsets, inner) if pa.types.is_map(kind) else inner
        outer, _ = _encoded(bytes_of_lists(offsets, inner))
        return _dense(np.where(valid(array), outer + 1, 0))
    encoded = normal(array).dictionary_encode("encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _dense(values: Numbers) -> tuple[Numbers, int]:
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def table_of(schema: pa.Schema, arrays: Iterable[pa.Array]) -> pa.Table:
    """A table of arrays that stand in the order of the schema."""
    return pa.Table.from_arrays(list(arrays), schema=schema)
