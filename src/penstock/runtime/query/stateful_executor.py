"""The executor side of keyed operators: packs rows into blobs by bucket, runs a kernel, and unpacks its output.

Every Python worker of Spark imports this module again, so it is small: it contains nothing that `validate` needs.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from penstock.keyed.kernel import Clock, Kernel
from penstock.keyed.layout import fit_table
from penstock.keyed.state_bytes import pack_tables, unpack_tables
from penstock.row_columns import NOW, ORDER

BUCKET: Final = "_bucket"
PACKED: Final = f"{BUCKET} int, side int, rows binary"
WORKED: Final = "rows binary, late bigint, kept string"
"""The result of a turn; `kept` has the number of rows in each table of the cell."""


class Packer:
    """Packs the rows of a task, one blob per bucket."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows = _number_rows(pa.Table.from_batches(found))
        buckets = rows.column(BUCKET).to_numpy()
        order = np.argsort(buckets, kind="stable")
        sorted_rows = rows.drop_columns([BUCKET]).take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(buckets[order], return_index=True)
        ends = [*starts[1:], len(order)]
        slices = [(start, end - start) for start, end in zip(starts.tolist(), ends, strict=True)]
        blobs = [_encode_rows(sorted_rows.slice(start, length)) for start, length in slices]
        sides = np.full(len(numbers), self.side, dtype=np.int32)
        columns = [pa.array(numbers, pa.int32()), pa.array(sides), pa.array(blobs, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, [BUCKET, "side", "rows"])


def _number_rows(rows: pa.Table) -> pa.Table:
    """Number the rows of a task, which are in file order: Spark has no function that numbers rows in a stream."""
    place = rows.schema.get_field_index(ORDER[-1])
    if place < 0:
        return rows
    return rows.set_column(place, rows.schema.field(place), pa.array(np.arange(rows.num_rows, dtype=np.int64)))


def _encode_rows(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def decode_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("rows"):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())


class Cell(StatefulProcessor):
    """The state of a bucket of keys: the kernel's tables, each as a blob."""

    def __init__(
        self, kernel: Kernel, schemas: Sequence[pa.Schema], layout: Mapping[str, pa.Schema], fillable: Collection[str]
    ) -> None:
        """`layout` has the schemas of the tables. Older state may lack the columns in `fillable`."""
        self.kernel = kernel
        self.schemas = list(schemas)
        self.layout = layout
        self.fillable = fillable

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        fields = ", ".join(f"`{name}` binary" for name in self.kernel.tables)
        self._state = handle.getValueState("tables", fields)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        found: list[list[pa.Table]] = [[] for _ in self.schemas]
        for row in rows:
            side = row["side"]
            found[side].append(fit_table(pa.ipc.open_stream(row["rows"]).read_all(), self.schemas[side]))
        inputs = [
            pa.concat_tables(tables) if tables else schema.empty_table()
            for tables, schema in zip(found, self.schemas, strict=True)
        ]
        return self._turn(key, inputs, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        return self._turn(key, [schema.empty_table() for schema in self.schemas], timerValues)

    def close(self) -> None:
        pass

    def _turn(self, key: Any, inputs: list[pa.Table], timer: TimerValues) -> Iterator[Row]:
        kept = self._state.get()
        packed = {} if kept is None else {n: b for n, b in zip(self.kernel.tables, kept, strict=True) if b}
        tables = unpack_tables(packed).items()
        state = {name: fit_table(table, self.layout[name], self.fillable) for name, table in tables}
        times = [table.column(NOW).to_numpy().max() for table in inputs if table.num_rows]
        now = int(max(times)) if times else int(timer.getCurrentProcessingTimeInMs())
        turn = self.kernel.process_batch(state, inputs, Clock(now, timer.getCurrentWatermarkInMs()))
        after = pack_tables(turn.state)
        self._state.update(tuple(after.get(name) for name in self.kernel.tables))
        if turn.wake_ms is not None:
            self._handle.registerTimer(turn.wake_ms)
        kept_rows = {name: table.num_rows for name, table in turn.state.items()}
        output = _encode_rows(turn.output) if turn.output.num_rows else None
        yield Row(rows=output, late=turn.late, kept=json.dumps({str(key[0]): kept_rows}))
