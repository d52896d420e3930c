"""Functions over one array of any type, and type aliases for the arrays of the kernels."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NumberArray: TypeAlias = np.ndarray[Any, Any]
"""Numbers of any type."""
Ints: TypeAlias = npt.NDArray[np.int64]
"""Codes, indexes, counts or times."""
Flags: TypeAlias = npt.NDArray[np.bool_]
"""A mask of rows."""


def numbers(array: pa.Array) -> NumberArray:
    """Return the numbers of an array, 0 for null. They may share its memory."""
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def valid_flags(array: pa.Array) -> Flags:
    """Mask the values that are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def pad_nulls(array: pa.Array, size: int) -> pa.Array:
    """Append nulls to an array until it has `size` values."""
    more = size - len(array)
    return pa.concat_arrays([array, pa.nulls(more, array.type)]) if more else array


def take_rows(array: pa.Array, rows: Ints) -> pa.Array:
    """Take the values at these indexes; -1 gives null."""
    return array.take(pa.array(rows, mask=rows < 0))


def null_where(array: pa.Array, mask: Flags) -> pa.Array:
    """Replace the masked values by null."""
    if not mask.any():
        return array
    return take_rows(array, np.where(mask, -1, np.arange(len(array))))


def normalize_floats(array: pa.Array) -> pa.Array:
    """Convert -0.0 to 0.0 and every NaN to the same NaN, as Spark does for keys."""
    kind = array.type
    if not _has_floats(kind):
        return array
    nulls = ~valid_flags(array)
    if pa.types.is_floating(kind):
        values = numbers(array) + 0.0
        values[np.isnan(values)] = np.nan
        return pa.array(values, kind, mask=nulls)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [normalize_floats(part) for part in array.flatten()], fields=list(kind), mask=pa.array(nulls)
        )
    inner, offsets = list_elements(array)
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), normalize_floats(inner), type=kind, mask=pa.array(nulls)
    )


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return _has_floats(kind.value_type) if pa.types.is_list(kind) else pa.types.is_floating(kind)


def list_elements(array: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the elements of arrays or maps, and the offsets of each row. The entries of a map are structs."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    return array.values.slice(offsets[0], offsets[-1] - offsets[0]), offsets - offsets[0]


def encode_lists(offsets: Ints, elements: NumberArray) -> pa.Array:
    """Encode lists of numbers as binary values of eight bytes per number."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets * 8)), pa.py_buffer(np.ascontiguousarray(elements))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def sort_lists(offsets: Ints, elements: Ints) -> Ints:
    """Sort the numbers of each list. Maps are equal in any order of their entries."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return elements[np.lexsort((elements, owner))]
