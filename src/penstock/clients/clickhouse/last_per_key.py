"""Batches of a fixed size, with the newest row of each key."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def chunks(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Combine rows into tables of a fixed size; only the last one may be smaller."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        left = batch
        while count + len(left) >= size:
            held.append(left.slice(0, size - count))
            left = left.slice(size - count)
            yield pa.Table.from_batches(held)
            held, count = [], 0
        if len(left):
            held.append(left)
            count += len(left)
    if held:
        yield pa.Table.from_batches(held)


def last_per_key(rows: pa.Table, key: Sequence[str], version: str | None, *, as_numbers: bool = False) -> pa.Table:
    """Return the last row of each key, in order. With versions, the last one of the highest version."""
    if len(key) == 1 and _all_differ(rows[key[0]]):
        return rows
    by_version = None if version is None else _version_order(rows[version], as_numbers=as_numbers)
    names = [f"k{number}" for number in range(len(key))]
    keys = pa.table([rows[column] for column in key], names=names)
    ordered = keys if by_version is None else keys.take(by_version)
    numbered = ordered.append_column("place", pa.array(np.arange(len(rows))))
    last = numbered.group_by(names, use_threads=False).aggregate([("place", "max")])["place_max"]
    places = last if by_version is None else by_version.take(last)
    return rows.take(places.take(pc.sort_indices(places)))


def _all_differ(values: pa.ChunkedArray) -> bool:
    """Whether all values differ. Numbers that rise from row to row are recognized quickly."""
    if pa.types.is_integer(values.type) and not values.null_count:
        numbers = values.to_numpy()
        if bool((numbers[1:] > numbers[:-1]).all()):
            return True
    return bool(pc.count_distinct(values, mode="all").as_py() == len(values))


def _version_order(versions: pa.ChunkedArray, *, as_numbers: bool) -> pa.Array:
    """Return the positions of versions, lowest first, nulls last; equal versions stay in order."""
    if as_numbers and pa.types.is_string(versions.type):
        numbers = [inf if text is None else int(text) for text in versions.to_pylist()]
        return pa.array(sorted(range(len(numbers)), key=numbers.__getitem__))
    return pc.sort_indices(versions)
