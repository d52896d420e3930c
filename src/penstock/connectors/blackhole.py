"""Nowhere: rows are computed and thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from penstock.clients.batches import BatchRef, counted
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
    inert: ClassVar = dict.fromkeys(("parallelism", "batch_size"), "rows are thrown away where they are")

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        rows, count = counted(batch)
        rows.write.format("noop").mode("append").save()
        return count()

    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        return rows.writeStream.format("noop")
