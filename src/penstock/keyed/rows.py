"""Rows of a table as they are kept: which columns, in which order."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.operators import ORDER


def once(names: Iterable[str]) -> list[str]:
    """Names in their order, each once."""
    return list(dict.fromkeys(names))


def pick(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns only; all of them may hold null, so that tables of one state have one schema."""
    return pa.Table.from_arrays([table.column(name) for name in names], names=list(names))


def arrived(table: pa.Table) -> pa.Table:
    """New rows in the order of arrival, as `ORDER` has it; without it in an order that depends on the values only."""
    if table.num_rows < 2:
        return table
    names = [name for name in ORDER if name in table.column_names]
    names = names or [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in names])) if names else table
