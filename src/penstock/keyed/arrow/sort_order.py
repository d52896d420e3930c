"""Values as numbers that sort as the values do in Spark, and rows sorted by several of them."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from penstock.keyed.arrow.segments import first_flags
from penstock.keyed.arrow.tables import column
from penstock.row_columns import ORDER

ROOM = 2**62
"""The limit of the number into which the sort keys of a row are packed."""


def ordinals(array: pa.Array) -> Ints:
    """Map each value to a number that sorts as the value does. The number of a null has no meaning.

    NaN is the largest double. Text is compared by bytes, structs by field, arrays by element, nulls inside first.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_floating(kind):
        bits = numbers(normalize_floats(array)).astype(np.float64).view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return numbers(array.cast(pa.int64()))
    if pa.types.is_temporal(kind):
        return numbers(array.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
    if pa.types.is_struct(kind):
        return ranks([key for part in array.flatten() for key in sort_keys(part)], len(array))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        elements, offsets = list_elements(array)
        inner = ranks(sort_keys(elements), len(elements))
        inner = sort_lists(offsets, inner) if pa.types.is_map(kind) else inner
        return _dictionary_ordinals(encode_lists(offsets, inner.astype(">i8")))
    return _dictionary_ordinals(array)


def sort_keys(array: pa.Array, descending: bool = False, nulls_last: bool | None = None) -> list[Ints]:
    """Return numbers to sort rows by, the most significant first. Nulls are smallest unless `nulls_last` is set."""
    values = ordinals(array)
    if descending:
        values = ~values
    if array.null_count == 0:
        return [values]
    there = valid_flags(array)
    last = descending if nulls_last is None else nulls_last
    return [~there if last else there, np.where(there, values, 0)]


def sort_rows(keys: Iterable[Ints], length: int) -> tuple[Ints, Flags]:
    """Sort rows by keys, the most significant first. Also mask the rows that equal the row before.

    The order of equal rows is not defined.
    """
    packed = _pack_keys((key.astype(np.int64, copy=False) for key in keys), length)
    order = np.argsort(packed)
    return order, ~first_flags(packed[order])


def sort_by_content(keys: Sequence[Ints], content: Iterable[pa.Array], length: int) -> Ints:
    """Sort rows by keys, and rows with equal keys by their content.

    The content arrays are compared one after the other until no equal rows are left.
    """
    order, same = sort_rows(keys, length)
    places, rows = np.arange(length), order
    for array in content:
        tied = same.copy()
        tied[:-1] |= same[1:]
        if not tied.any():
            break
        places, rows, equals = places[tied], rows[tied], np.cumsum(~same, dtype=np.int64)[tied]
        finer, same = sort_rows([equals, *sort_keys(array.take(pa.array(rows)))], len(rows))
        rows = rows[finer]
        order[places] = rows
    return order


def ranks(keys: Sequence[Ints], length: int) -> Ints:
    """Return the rank of each row among the distinct rows, from 0."""
    order, same = sort_rows(keys, length)
    result = np.zeros(length, np.int64)
    result[order] = np.cumsum(~same) - 1
    return result


def arrival_numbers(rows: pa.Table, after: int) -> Ints:
    """Number the rows of a batch above `after` by their arrival (`ORDER`). Without that column all are equal."""
    return after + 1 + ranks(order_keys(rows), rows.num_rows)


def order_keys(rows: pa.Table) -> list[Ints]:
    """Return the sort keys for the arrival of a batch's rows."""
    names = [name for name in ORDER if name in rows.column_names]
    return [key for name in names for key in sort_keys(column(rows, name))]


def sort_by_arrival(rows: pa.Table) -> pa.Table:
    """Sort the rows of a batch by arrival (`ORDER`). Rows that arrived together are sorted by their values."""
    if rows.num_rows < 2:
        return rows
    keys, content = order_keys(rows), rows.columns
    if not keys:
        flat = [array.combine_chunks() for array in content if not pa.types.is_nested(array.type)]
        keys = [key for array in flat for key in sort_keys(array, nulls_last=True)]
        content = [array for array in content if pa.types.is_nested(array.type)]
    wholes = (array.combine_chunks() for array in content)
    return rows.take(pa.array(sort_by_content(keys, wholes, rows.num_rows)))


def extremes(values: Ints, owners: Ints, size: int, largest: bool) -> Ints:
    """Return the row with the smallest or largest value of each owner; -1 if an owner has no row."""
    values = ~values if largest else values
    best = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(best, owners, values)
    winners = np.flatnonzero(values == best[owners])
    rows = np.full(size, -1, np.int64)
    rows[owners[winners]] = winners
    return rows


def _pack_keys(keys: Iterable[Ints], length: int) -> Ints:
    """Pack the keys of each row into one number that sorts like them. Too many bits are replaced by a rank."""
    result, room = np.zeros(length, np.int64), 1
    for key in keys if length else ():
        low, high = int(key.min()), int(key.max())
        if room * (high - low + 1) > ROOM:
            key, low, high = _densify_key(key)
        span = high - low + 1
        if room * span > ROOM:
            result, _, top = _densify_key(result)
            room = top + 1
        result = result * span + (key - low)
        room *= span
    return result


def _densify_key(key: Ints) -> tuple[Ints, int, int]:
    order = np.argsort(key)
    steps = np.cumsum(first_flags(key[order])) - 1
    result = np.zeros(len(key), np.int64)
    result[order] = steps
    return result, 0, int(steps[-1])


def _dictionary_ordinals(array: pa.Array) -> Ints:
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    places = np.zeros(len(order), np.int64)
    places[order] = np.arange(len(order))
    rows = numbers(encoded.indices)
    return places[rows] if len(places) else np.zeros(len(array), np.int64)
