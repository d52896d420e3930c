"""A sink that discards rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from penstock.batch import BatchRef
from penstock.clients.files.batch_directory import observe_count
from penstock.connectors.contract import NO_SERVICE, KeepRows, SinkCapabilities, StreamSink, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_LINES: Final = (
    "writes_every_row", "writes_every_type", "keeps_nulls", "keeps_texts", "keeps_nan_and_infinity",
    "keeps_every_digit", "a_nul_byte_is_kept_or_refused", "writes_many_rows", "a_replayed_batch_leaves_no_duplicates",
    "a_batch_of_the_same_number_from_other_input_is_refused", "a_new_checkpoint_writes_again",
    "a_batch_that_fails_half_way_is_done_again", "a_kill_before_the_commit_loses_nothing",
)  # fmt: skip
"""The lines of the contract that are about rows in the sink."""


class BlackholeSink(StreamSink):
    """Computes all rows and discards them, for measurements and for trying out a pipeline."""

    type: Literal["blackhole"] = "blackhole"
    delivery = "nothing is kept"
    waives: ClassVar = {**dict.fromkeys(_LINES, "nothing is kept"), **NO_SERVICE}
    inert: ClassVar = dict.fromkeys(("parallelism", "batch_size"), "rows are discarded where they are")

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(ordered=False, changes=False, repeatable=True)

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        rows, count = observe_count(batch)
        rows.write.format("noop").mode("append").save()
        return WriteResult(count())

    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        return rows.writeStream.format("noop")
