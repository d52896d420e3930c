"""Rows that tasks return to the driver, with a schema that Spark and Arrow share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import RecordBatch


def report_batch(schema: str, rows: Sequence[Mapping[str, object]]) -> RecordBatch:
    """Return rows as a batch with a schema, which is given as DDL. Missing values become nulls."""
    import pyarrow

    kinds = {
        "INT": pyarrow.int32(), "BIGINT": pyarrow.int64(), "BOOLEAN": pyarrow.bool_(), "STRING": pyarrow.string(),
        "BINARY": pyarrow.binary(),
    }  # fmt: skip
    fields = [(name, kinds[kind]) for name, kind in map(str.split, schema.split(", "))]
    return pyarrow.RecordBatch.from_pylist(rows, pyarrow.schema(fields))
