"""Reads Parquet files without Spark: their columns, and their first rows."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.errors import ServiceError
from penstock.sql.types.columns import Column, Columns, spark_type


def columns(file: Path) -> Columns | None:
    """Return the columns from the footer of a file; None if it cannot be read."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        schema = read_schema(file)
    except (ArrowException, OSError):
        return None
    return tuple(Column(field.name, _spark_name(str(field.type))) for field in schema)


def row_count(directory: Path) -> int:
    """Return the number of rows, from the footers of the files in a directory."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in directory.glob("*.parquet"))


def first_rows(files: Iterable[Path], limit: int, as_bytes: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the first rows of the files as JSON values and decimals, in the form that Spark gives them.

    They have the columns of all files that are read and of the newest one, which may have more. Strings in the columns
    `as_bytes` are returned as bytes: they may contain anything.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    def rows() -> Iterable[dict[str, Any]]:
        for file in every:
            try:  # Spark writes times of 96 bits, which do not fit into nanoseconds
                with ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
                    names.update(dict.fromkeys(parquet.schema_arrow.names))
                    for batch in parquet.iter_batches(batch_size=limit):
                        yield from _rows_of(batch, as_bytes)
            except (ArrowException, OSError) as error:
                raise ServiceError("file-unreadable", f"{file} cannot be read as Parquet: {error}") from error

    every, names = list(files), dict[str, None]()
    first = islice(rows(), limit)
    found = [{name: _json_value(value, name in as_bytes) for name, value in row.items()} for row in first]
    names.update(dict.fromkeys(_newest_names(every)))
    return [{name: row.get(name) for name in names} for row in found]


def all_rows(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return all rows of the files as Python values, times in UTC without a zone. What a file does not have is null."""
    from pyarrow.parquet import read_table

    tables = [read_table(file, partitioning=None, coerce_int96_timestamp_unit="us") for file in files]
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    rows = (row for table in tables for row in table.to_pylist(maps_as_pydicts="strict"))
    return [{name: _without_zone(row.get(name)) for name in names} for row in rows]


def _without_zone(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        case list():
            return [_without_zone(item) for item in value]
        case dict():
            return {name: _without_zone(item) for name, item in value.items()}
        case _:
            return value


def _newest_names(files: Sequence[Path]) -> list[str]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        newest = max(files, key=lambda file: file.stat().st_mtime_ns, default=None)
        return [] if newest is None else list(read_schema(newest).names)
    except (ArrowException, OSError):
        return []


def _rows_of(batch: Any, as_bytes: Collection[str]) -> Iterable[dict[str, Any]]:
    """Convert an Arrow batch to rows. Strings that are not UTF-8 become base64, times beyond Python's range numbers."""
    import pyarrow

    for place, field in enumerate(batch.schema):
        if field.name in as_bytes and pyarrow.types.is_string(field.type):
            batch = batch.set_column(place, field.name, batch.column(place).cast(pyarrow.binary()))
    try:
        return list(batch.to_pylist(maps_as_pydicts="strict"))
    except (ValueError, OverflowError):
        columns = {field.name: _values(batch.column(place)) for place, field in enumerate(batch.schema)}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: Any) -> list[Any]:
    import pyarrow

    try:
        return list(column.to_pylist(maps_as_pydicts="strict"))
    except (ValueError, OverflowError):
        if pyarrow.types.is_string(column.type):
            return list(map(decode_text, column.cast(pyarrow.binary()).to_pylist()))
        if pyarrow.types.is_temporal(column.type):
            wide = pyarrow.int32() if pyarrow.types.is_date32(column.type) else pyarrow.int64()
            return list(column.cast(wide).to_pylist())
        return [f"{value}" if value.is_valid else None for value in column]


def decode_text(data: bytes | None) -> str | None:
    """Decode bytes as UTF-8, or else as base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def _json_value(value: Any, plain: bool = False) -> Any:
    if plain:
        return value
    match value:
        case datetime():  # a value without a zone is UTC: Spark writes timestamps without one
            in_utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return in_utc.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {str(key): _json_value(item) for key, item in value.items()}
        case _:
            return value


def _spark_name(arrow_type: str) -> str | None:
    plain = {"int64": "BIGINT", "int32": "INT", "int16": "SMALLINT", "int8": "TINYINT", "bool": "BOOLEAN"}
    if arrow_type.startswith("timestamp"):
        return "TIMESTAMP"
    if arrow_type.startswith("date"):
        return "DATE"
    if arrow_type.startswith("decimal128"):
        return spark_type(arrow_type.replace("decimal128", "DECIMAL"))
    return plain.get(arrow_type) or spark_type(arrow_type)
