"""A sink that prints to the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr

from penstock.batch import BatchRef
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.rows.row_op import row_operation
from penstock.config import Whole
from penstock.connectors.contract import NO_SERVICE, KeepRows, Sink, SinkCapabilities, WriteResult
from penstock.row_columns import OP
from penstock.settings import Settings
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS: Final = {"i": "INSERT", "u": "UPDATE", "d": "DELETE"}


class PrintSink(Sink):
    """Prints each row to stdout: its kind and one JSON object, one line per row."""

    type: Literal["print"] = "print"
    delivery = "at least once: a replayed batch is printed again"
    waives: ClassVar = {
        "a_replayed_batch_leaves_no_duplicates": "it is printed again",
        "a_batch_of_the_same_number_from_other_input_is_refused": "it keeps no ledger",
        **NO_SERVICE,
    }
    inert: ClassVar = {
        "parallelism": "rows are printed by one process",
        "batch_size": "rows of a batch are printed as they come",
    }

    sample_every: int | None = Field(None, ge=1)
    """Print only every Nth row of a run. Default: the setting `print_sink.sample_every`, which is 1."""
    num_records_before_stop: Whole | None = Field(None, ge=1)
    """The number of rows after which the run ends, after its batch. Default: the setting of the same name."""

    _settings: Settings = PrivateAttr(Settings())
    _seen: int = PrivateAttr(0)
    """The number of rows so far, including those of retried batches."""

    @property
    def capabilities(self) -> SinkCapabilities:
        most_rows = self.num_records_before_stop or self._settings.num_records_before_stop
        return SinkCapabilities(duplicates=True, most_rows=most_rows)

    def with_settings(self, settings: Settings, name: str) -> Self:
        found = self.model_copy()
        found._settings = settings
        return found

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        data = [f.col(quote_spark_identifier(name)) for name in batch.columns if name != OP]
        lines = batch.select(row_operation(batch).alias("kind"), f.to_json(f.struct(*data), JSON_OPTIONS).alias("row"))
        every = self.sample_every or self._settings.print_sink.sample_every
        count = 0
        for line in lines.toLocalIterator(prefetchPartitions=True):
            if (self._seen + count) % every == 0:
                sys.stdout.write(f"{KINDS[line['kind']]} {line['row']}\n")
            count += 1
        sys.stdout.flush()
        self._seen += count
        return WriteResult(count)
