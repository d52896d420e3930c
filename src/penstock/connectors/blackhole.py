"""Nowhere: rows are computed and thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.clients.batches import BatchRef, counted
from penstock.config import Duration, Whole
from penstock.connectors.contract import StreamSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class BlackholeSink(StreamSink):
    """Discards all rows, after computing each of them: for measuring and for trying out."""

    type: Literal["blackhole"] = "blackhole"
    delivery = "nothing is kept"
    ordered = False
    changes = False
    repeatable = True
    inert: ClassVar = dict.fromkeys(
        ("parallelism", "batch_size", "batch_flush_interval"), "rows are thrown away where they are"
    )
    parallelism: Whole | None = Field(None, ge=1)
    """How many would throw rows away at a time."""
    batch_size: Whole | None = Field(None, ge=1)
    """How many rows would be thrown away together."""
    batch_flush_interval: Duration | None = None
    """How long rows would be waited for."""

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        rows, count = counted(batch)
        rows.write.format("noop").mode("append").save()
        return count()

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.format("noop")
