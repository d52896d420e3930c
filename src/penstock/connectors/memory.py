"""A sink in the memory of this process, for tests; `penstock.testing.memory` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from penstock.batch import BatchRef
from penstock.connectors.contract import NO_SERVICE, KeepRows, Sink, WriteResult
from penstock.errors import QueryFailed
from penstock.row_columns import OP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class KeptBatch:
    offsets: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]


KEPT: Final[dict[str, dict[str, KeptBatch]]] = {}
"""Batches in the order of arrival, by output."""


class MemorySink(Sink):
    """Keeps rows in the memory of the process, where a test can read them."""

    type: Literal["memory"] = "memory"
    delivery = "exactly once, for as long as the process lives"
    waives: ClassVar = {**NO_SERVICE, "a_kill_before_the_commit_loses_nothing": "rows live as long as the process"}
    inert: ClassVar = dict.fromkeys(("parallelism", "batch_size"), "rows are kept batch by batch, in one list")
    exclude_gs_op: bool = False
    """Whether to drop the column `_gs_op`."""

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        kept = KEPT.setdefault(ref.output, {})
        before = kept.get(ref.directory)
        if before is not None:
            if before.offsets != ref.offsets:
                text = f"batch {ref.batch_id} of `{ref.query}` was written before from other input"
                raise QueryFailed("batch-conflict", text)
            batch.write.format("noop").mode("append").save()
            return WriteResult(0)
        wanted = batch.drop(OP) if self.exclude_gs_op else batch
        rows = tuple(row.asDict(recursive=True) for row in wanted.collect())
        kept[ref.directory] = KeptBatch(ref.offsets, rows)
        return WriteResult(len(rows))
