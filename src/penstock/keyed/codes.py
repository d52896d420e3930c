"""Rows as whole numbers: equal values get equal codes, in several tables at once. Nothing else may be in here.

Null equals null, NaN equals NaN, -0.0 equals 0.0, and the order of a map's entries does not count.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def codes(parts: Sequence[tuple[pa.Table, Sequence[str]]]) -> tuple[list[Ints], int]:
    """A code for each row of each table by the columns named with it, and how many codes there are.

    Columns meet by their place in the names; no names at all make all rows equal.
    """
    lengths = [table.num_rows for table, _ in parts]
    columns = zip(*([table.column(name) for name in names] for table, names in parts), strict=True)
    whole = combined([_encode(_stack(column)) for column in columns], sum(lengths))
    return np.split(whole, np.cumsum(lengths)[:-1]), int(whole.max(initial=-1)) + 1


def combined(parts: Sequence[Ints], length: int) -> Ints:
    """Several codes of each row as one. They count up from 0 as they first occur."""
    whole = parts[0] if parts else np.zeros(length, dtype=np.int64)
    for part in parts[1:]:
        whole = _indices(pa.array(whole * (part.max(initial=0) + 1) + part))
    return whole


def without_null(table: pa.Table, names: Sequence[str]) -> Flags:
    """Which rows have a value in all these columns: others never match in a join."""
    flags = np.ones(table.num_rows, dtype=np.bool_)
    for name in names:
        if table.column(name).null_count:
            flags &= table.column(name).is_valid().to_numpy()
    return flags


def _stack(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    kinds = {column.type: pa.schema([pa.field("", column.type)]) for column in columns}
    kind = pa.unify_schemas(list(kinds.values()), promote_options="permissive").field(0).type
    chunks = [chunk for column in columns for chunk in (column if column.type == kind else column.cast(kind)).chunks]
    return pa.chunked_array(chunks, type=kind).combine_chunks()


def _encode(array: pa.Array) -> Ints:
    kind = array.type
    if pa.types.is_struct(kind):
        return combined([_valid(array), *(_encode(field) for field in array.flatten())], len(array))
    if pa.types.is_map(kind):
        entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        return _encode_lists(entries, in_order=False)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _encode_lists(array, in_order=True)
    if pa.types.is_floating(kind):
        array = _one_zero(array)
    return _indices(array)


def _encode_lists(array: pa.Array, in_order: bool) -> Ints:
    """Lists of elements are texts of codes."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    elements = _encode(array.flatten())
    if not in_order:
        elements = elements[np.lexsort((elements, np.repeat(np.arange(len(array)), lengths)))]
    offsets = np.concatenate(([0], np.cumsum(lengths))) * elements.itemsize
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(np.ascontiguousarray(elements))]
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return combined([_valid(array), _indices(texts)], len(array))


def _one_zero(array: pa.Array) -> pa.Array:
    values = array.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    return pa.array(values, type=array.type, mask=~array.is_valid().to_numpy(zero_copy_only=False))


def _valid(array: pa.Array) -> Ints:
    flags: Ints = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return flags


def _indices(array: pa.Array) -> Ints:
    indices: Ints = array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return indices
