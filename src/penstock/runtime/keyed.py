"""Keyed operators as streams: rows travel in Arrow blobs, many keys share a bucket, and a bucket is a cell of state.

A state cell per key would cost a round trip between Spark and Python for each of them. With buckets, the number of
round trips does not depend on the number of keys.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import DoubleType, FloatType, IntegralType, NumericType, StringType

from penstock.keyed.kernel import Clock, Kernel
from penstock.keyed.kernels import kernel_for
from penstock.keyed.operators import (
    NOW,
    OP,
    ORDER,
    SIGN,
    Aggregate,
    ChangeJoin,
    Latest,
    Operator,
    Over,
    Ranking,
    VersionJoin,
)
from penstock.keyed.packing import pack, unpack
from penstock.manifest.model import KeyedStep
from penstock.sql.dialects import quoted

BUCKETS: Final = 32
"""How many cells share the keys of an operator. State is laid out by it: another number needs another checkpoint."""

_BUCKET: Final = "_bucket"
_PACKED: Final = f"{_BUCKET} int, side int, rows binary"
_WORKED: Final = "rows binary, late bigint, kept string"
"""What comes of a turn; `kept` tells of its cell how many rows each table has."""
_TURNS: Final = "turns "
_RESERVED: Final = frozenset({NOW, OP, SIGN, *ORDER})


def operate(step: KeyedStep, frames: Sequence[DataFrame]) -> DataFrame:
    """The stream that the operator makes of its inputs."""
    keys = keys_of(step.operator)
    frames = [_normal(frame, names) for frame, names in zip(_comparable(frames, keys), keys, strict=True)]
    schemas = [to_arrow_schema(frame.schema, timezone="UTC") for frame in frames]
    kernel = kernel_for(completed(step.operator, [frame.columns for frame in frames]), tuple(schemas))
    packed = [
        frame.withColumn(_BUCKET, _bucket(names)).mapInArrow(_Packer(side), _PACKED)
        for side, (frame, names) in enumerate(zip(frames, keys, strict=True))
    ]
    buckets = reduce(DataFrame.union, packed).groupBy(_BUCKET)
    mode = "EventTime" if step.operator.waits else "None"
    worked = buckets.transformWithState(_Cell(kernel, schemas), _WORKED, "Append", mode)
    kept = f.concat(f.lit("["), f.array_join(f.collect_list("kept"), ","), f.lit("]"))
    counted = worked.observe(turn_metric(step.view), f.sum("late").alias("late"), kept.alias("kept"))
    return counted.mapInArrow(_unpacked, from_arrow_schema(kernel.output))


def turn_metric(view: str) -> str:
    """The name under which an operator tells of its turns in a batch: rows that were late, and rows that it keeps."""
    return f"{_TURNS}{view}"


def turned_view(metric: str) -> str | None:
    """The view whose operator tells of its turns under this name, if it is one of those."""
    return metric.removeprefix(_TURNS) if metric.startswith(_TURNS) else None


def keys_of(operator: Operator) -> list[tuple[str, ...]]:
    """The columns by which rows of each input find their state."""
    match operator:
        case Aggregate() | Latest():
            return [operator.keys]
        case Ranking() | Over():
            return [operator.partition]
        case VersionJoin() | ChangeJoin():
            return [operator.left_key, operator.right_key]


def completed(operator: Operator, columns: Sequence[Sequence[str]]) -> Operator:
    """The operator with the columns that it hands on, now that those of its inputs are known."""
    match operator:
        case Aggregate():
            return operator
        case Latest():
            return replace(operator, columns=_others(columns[0]))
        case Ranking():
            return replace(operator, columns=_others(columns[0], *(sort.column for sort in operator.order)))
        case Over():
            used = [name for call in operator.calls for name in (call.argument, call.default) if name]
            return replace(operator, columns=_others(columns[0], *used, operator.time or ""))
        case VersionJoin() | ChangeJoin():
            times = (operator.left_time, operator.right_time) if isinstance(operator, VersionJoin) else ("", "")
            left = _others(columns[0], *operator.left_key, times[0] or "")
            right = _others(columns[1], *operator.right_key, times[1] or "")
            return replace(operator, left_columns=left, right_columns=right, left_out=left, right_out=right)


def _others(columns: Sequence[str], *used: str) -> tuple[str, ...]:
    return tuple(name for name in columns if name not in _RESERVED and name not in used)


def _bucket(names: Sequence[str]) -> Any:
    columns = [f.col(quoted(name)) for name in names]
    return f.pmod(f.hash(*columns) if columns else f.lit(0), f.lit(BUCKETS)).cast("int")


def _normal(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Zero has two signs as a floating point number, and equal keys must share a bucket."""
    floats = [field.name for field in frame.schema if isinstance(field.dataType, DoubleType | FloatType)]
    plus_zero = {name: f.col(quoted(name)) + f.lit(0.0).cast(frame.schema[name].dataType) for name in floats}
    return frame.withColumns({name: column for name, column in plus_zero.items() if name in names})


def _comparable(frames: Sequence[DataFrame], keys: Sequence[Sequence[str]]) -> list[DataFrame]:
    """Both sides of a join with keys of the same types."""
    if len(frames) == 1:
        return list(frames)
    left, right = frames
    for one, other in zip(*keys, strict=True):
        types = left.schema[one].dataType, right.schema[other].dataType
        if types[0] != types[1]:
            whole = all(isinstance(kind, IntegralType) for kind in types)
            number = all(isinstance(kind, NumericType) for kind in types)
            common = "bigint" if whole else "double" if number else StringType()
            left = left.withColumn(one, f.col(quoted(one)).cast(common))
            right = right.withColumn(other, f.col(quoted(other)).cast(common))
    return [left, right]


class _Packer:
    """The rows of a task, bucket by bucket, each bucket one blob."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return
        rows = _numbered(pa.Table.from_batches(found))
        buckets = rows.column(_BUCKET).to_numpy()
        order = np.argsort(buckets, kind="stable")
        sorted_rows = rows.drop_columns([_BUCKET]).take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(buckets[order], return_index=True)
        ends = [*starts[1:], len(order)]
        blobs = [
            _written(sorted_rows.slice(start, end - start)) for start, end in zip(starts.tolist(), ends, strict=True)
        ]
        sides = np.full(len(numbers), self.side, dtype=np.int32)
        yield pa.RecordBatch.from_arrays(
            [pa.array(numbers, pa.int32()), pa.array(sides), pa.array(blobs, pa.binary())], [_BUCKET, "side", "rows"]
        )


def _numbered(rows: pa.Table) -> pa.Table:
    """A task sees the rows of a file in their order, and Spark has no function that would number them in a stream."""
    place = rows.schema.get_field_index(ORDER[-1])
    if place < 0:
        return rows
    return rows.set_column(place, rows.schema.field(place), pa.array(np.arange(rows.num_rows, dtype=np.int64)))


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("rows"):
            if blob.is_valid:
                yield from pa.ipc.open_stream(blob.as_buffer())


class _Cell(StatefulProcessor):
    """A bucket of keys: its state is the kernel's tables, each a blob."""

    def __init__(self, kernel: Kernel, schemas: Sequence[pa.Schema]) -> None:
        self.kernel = kernel
        self.schemas = list(schemas)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        fields = ", ".join(f"{quoted(name)} binary" for name in self.kernel.tables)
        self._state = handle.getValueState("tables", fields)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        found: list[list[pa.Table]] = [[] for _ in self.schemas]
        for row in rows:
            found[row["side"]].append(pa.ipc.open_stream(row["rows"]).read_all())
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
        state = {} if kept is None else unpack({n: b for n, b in zip(self.kernel.tables, kept, strict=True) if b})
        times = [table.column(NOW).to_numpy().max() for table in inputs if table.num_rows]
        now = int(max(times)) if times else int(timer.getCurrentProcessingTimeInMs())
        turn = self.kernel.turn(state, inputs, Clock(now, timer.getCurrentWatermarkInMs()))
        packed = pack(turn.state)
        self._state.update(tuple(packed.get(name) for name in self.kernel.tables))
        if turn.wake_ms is not None:
            self._handle.registerTimer(turn.wake_ms)
        kept_rows = {name: table.num_rows for name, table in turn.state.items()}
        output = _written(turn.output) if turn.output.num_rows else None
        yield Row(rows=output, late=turn.late, kept=json.dumps({str(key[0]): kept_rows}))
