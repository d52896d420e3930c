"""Selection of columns and rows of tables."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.arrow.arrays import Flags, valid_flags
from penstock.row_columns import OP


def column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one chunk."""
    return table.column(name).combine_chunks()


def concat(*tables: pa.Table) -> pa.Table:
    """Concatenate tables with the same columns into one chunk."""
    return pa.concat_tables(tables).combine_chunks()


def build_table(schema: pa.Schema, arrays: Iterable[pa.Array]) -> pa.Table:
    """Build a table of arrays in the order of the schema."""
    return pa.Table.from_arrays(list(arrays), schema=schema)


def unique_names(names: Iterable[str]) -> list[str]:
    """Remove duplicate names and keep their order."""
    return list(dict.fromkeys(names))


def pick_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Select columns and make all of them nullable, so that tables of one state have one schema."""
    return pa.Table.from_arrays([table.column(name) for name in names], names=list(names))


def non_null_flags(table: pa.Table, names: Sequence[str]) -> Flags:
    """Mask the rows without a null in these columns. Rows with a null never match in a join."""
    flags = np.ones(table.num_rows, bool)
    for name in names:
        if table.column(name).null_count:
            flags &= valid_flags(column(table, name))
    return flags


def delete_flags(changes: pa.Table) -> Flags:
    """Mask the changes that are deletes."""
    if OP not in changes.column_names:
        return np.zeros(changes.num_rows, bool)
    return np.asarray(pc.equal(changes.column(OP), "d").fill_null(False).to_numpy())
