"""Encode rows of any types as integers: equal rows get equal codes.

Null equals null, NaN equals NaN, and -0.0 equals 0.0, also inside of structs, arrays and maps.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import (
    Flags,
    Ints,
    encode_lists,
    list_elements,
    normalize_floats,
    numbers,
    sort_lists,
    valid_flags,
)


def codes(columns: Sequence[pa.Array], length: int) -> tuple[Ints, int]:
    """Return a code for each row, numbered from 0 in the order of first appearance, and the number of codes."""
    result, count = np.zeros(length, np.int64), min(length, 1)
    for position, array in enumerate(columns):
        encoded, span = _encode_array(array)
        result, count = (encoded, span) if position == 0 else _densify_codes(result * span + encoded)
    return result, count


def shared_codes(parts: Sequence[tuple[pa.Table, Sequence[str]]]) -> tuple[list[Ints], int]:
    """Encode the rows of several tables together, by the columns named with each, and count the codes.

    Columns are matched by their position in the names. Without any names, all rows are equal.
    """
    lengths = [table.num_rows for table, _ in parts]
    columns = zip(*([table.column(name) for name in names] for table, names in parts), strict=True)
    whole, count = codes([_stack_columns(column) for column in columns], sum(lengths))
    return np.split(whole, np.cumsum(lengths)[:-1]), count


def first_rows(row_codes: Ints, count: int) -> Ints:
    """Return the first row of each code."""
    first = np.zeros(count, np.int64)
    first[row_codes[::-1]] = np.arange(len(row_codes) - 1, -1, -1)
    return first


def differ(left: pa.Array, right: pa.Array) -> Flags:
    """Mask the positions where two arrays of one type and length differ."""
    if len(left) == 0:
        return np.zeros(0, bool)
    if pa.types.is_integer(left.type) or pa.types.is_floating(left.type):
        ours, theirs = numbers(left), numbers(right)
        both_nan = (ours != ours) & (theirs != theirs)
        return np.asarray((valid_flags(left) != valid_flags(right)) | ((ours != theirs) & ~both_nan))
    row_codes, _ = codes([pa.concat_arrays([left, right])], 2 * len(left))
    return np.asarray(row_codes[: len(left)] != row_codes[len(left) :])


def differing_rows(left: Iterable[pa.Array], right: Iterable[pa.Array], length: int) -> Flags:
    """Mask the rows in which one of the columns differs."""
    flags = np.zeros(length, bool)
    for ours, theirs in zip(left, right, strict=True):
        flags |= differ(ours, theirs)
    return flags


def _encode_array(array: pa.Array) -> tuple[Ints, int]:
    kind = array.type
    if pa.types.is_struct(kind):
        return codes([array.is_valid(), *array.flatten()], len(array))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        elements, offsets = list_elements(array)
        inner, _ = codes([elements], len(elements))
        inner = sort_lists(offsets, inner) if pa.types.is_map(kind) else inner
        outer, _ = _encode_array(encode_lists(offsets, inner))
        return _densify_codes(np.where(valid_flags(array), outer + 1, 0))
    encoded = normalize_floats(array).dictionary_encode("encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _densify_codes(values: Ints) -> tuple[Ints, int]:
    encoded = pa.array(values).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def _stack_columns(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    kinds = {column.type: pa.schema([pa.field("", column.type)]) for column in columns}
    kind = pa.unify_schemas(list(kinds.values()), promote_options="permissive").field(0).type
    chunks = [chunk for column in columns for chunk in (column if column.type == kind else column.cast(kind)).chunks]
    return pa.chunked_array(chunks, type=kind).combine_chunks()
