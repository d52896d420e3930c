"""Convert tables of state and input to the layout that a kernel works with.

State outlives the project's columns: it may have columns that are no longer used, or lack columns that were added
later. And the nullability of a field differs from batch to batch, because Spark knows more about rows that have passed
a filter.
"""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.kernel import Clock, Kernel


class LayoutMismatch(ValueError):
    """State has a column of another type than the input, or lacks a required column."""


def make_nullable(schema: pa.Schema) -> pa.Schema:
    """Make all fields of a schema nullable, also inside structs and lists."""
    return pa.schema([pa.field(field.name, _nullable_type(field.type)) for field in schema])


def state_layout(kernel: Kernel, schemas: Collection[pa.Schema]) -> dict[str, pa.Schema]:
    """Return the schema of each table of a kernel's state."""
    turn = kernel.process_batch({}, [schema.empty_table() for schema in schemas], Clock(0))
    return {name: table.schema for name, table in turn.state.items()}


def fit_table(table: pa.Table, schema: pa.Schema, fillable: Collection[str] = ()) -> pa.Table:
    """Fit a table to a schema. Other columns are dropped; missing `fillable` columns are filled with null."""
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    columns = []
    for field in schema:
        if field.name in names:
            columns.append(_fit_column(table.column(field.name), field.type, field.name))
        elif field.name in fillable:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise LayoutMismatch(f"the state has no column `{field.name}`")
    return pa.Table.from_arrays(columns, schema=schema)


def _fit_column(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _fit_struct(column.combine_chunks(), kind, name)
    if _nullable_type(column.type) == _nullable_type(kind):
        return column.cast(kind)
    raise LayoutMismatch(f"`{name}` is {column.type} in the state, and {kind} in its rows")


def _fit_struct(rows: pa.StructArray, kind: pa.StructType, name: str) -> pa.Array:
    """Fit a struct to another struct type. Missing fields become null."""
    there = {rows.type.field(place).name for place in range(rows.type.num_fields)}
    parts = [
        _fit_column(pa.chunked_array([pc.struct_field(rows, [field.name])]), field.type, f"{name}.{field.name}")
        if field.name in there
        else pa.nulls(len(rows), field.type)
        for field in kind
    ]
    flat = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in parts]
    return pa.StructArray.from_arrays(flat, fields=list(kind), mask=rows.is_null())


def _nullable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field(kind.item_field.name, _nullable_type(kind.item_type)))
    return kind
