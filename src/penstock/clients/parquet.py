"""Parquet files without Spark: their columns, and their first rows."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.errors import ServiceError
from penstock.sql.types import Column, Columns, spark_type


def columns(file: Path) -> Columns | None:
    """What the file's footer declares; None if there is no telling."""
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        schema = read_schema(file)
    except (ArrowException, OSError):
        return None
    return tuple(Column(field.name, _spark_name(str(field.type))) for field in schema)


def row_count(directory: Path) -> int:
    """How many rows the footers of the files in a directory tell of."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in directory.glob("*.parquet"))


def first_rows(files: Iterable[Path], limit: int) -> list[dict[str, Any]]:
    """The first rows of the files as values that JSON knows, and decimals, in the form that Spark gives them."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    def rows() -> Iterable[dict[str, Any]]:
        for file in files:
            try:
                with ParquetFile(file) as parquet:
                    for batch in parquet.iter_batches(batch_size=limit):
                        yield from batch.to_pylist(maps_as_pydicts="strict")
            except (ArrowException, OSError) as error:
                raise ServiceError("file-unreadable", f"{file} cannot be read as Parquet: {error}") from error

    return [{name: _json_value(value) for name, value in row.items()} for row in islice(rows(), limit)]


def _json_value(value: Any) -> Any:
    match value:
        case datetime():  # without a zone it is UTC: Spark's own form of timestamps carries none
            in_utc = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return in_utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
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
