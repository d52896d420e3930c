"""Rows of several tables as whole numbers at once: equal values get equal codes."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.keyed.tables import codes as row_codes

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def codes(parts: Sequence[tuple[pa.Table, Sequence[str]]]) -> tuple[list[Ints], int]:
    """A code for each row of each table by the columns named with it, and how many codes there are.

    Columns meet by their place in the names; no names at all make all rows equal.
    """
    lengths = [table.num_rows for table, _ in parts]
    columns = zip(*([table.column(name) for name in names] for table, names in parts), strict=True)
    whole, count = row_codes([_stack(column) for column in columns], sum(lengths))
    return np.split(whole, np.cumsum(lengths)[:-1]), count


def combined(parts: Sequence[Ints], length: int) -> Ints:
    """Several codes of each row as one. They count up from 0 as they first occur."""
    whole, _ = row_codes([pa.array(part) for part in parts], length)
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
