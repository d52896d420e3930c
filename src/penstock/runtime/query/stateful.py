"""Keyed operators on streams: rows travel in Arrow blobs, many keys share a bucket, and a bucket is a cell of state.

A state cell per key would cost a round trip between Spark and Python for each key. With buckets, the number of round
trips does not depend on the number of keys.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DoubleType, FloatType, IntegralType, NumericType, StringType, TimestampType

from penstock.keyed.kernels import kernel_for
from penstock.keyed.layout import make_nullable, state_layout
from penstock.keyed.operators import (
    Aggregate,
    ChangeJoin,
    IntervalJoin,
    LatestPerKey,
    Operator,
    OverWindow,
    Ranking,
    VersionJoin,
    needs_watermark,
)
from penstock.manifest.model import KeyedStep
from penstock.row_columns import NOW, OP, ORDER, SIGN
from penstock.runtime.query.stateful_executor import BUCKET, PACKED, WORKED, Cell, Packer, decode_rows
from penstock.sql.parse.dialects import quote_spark_identifier

BUCKETS: Final = 32
"""The number of state cells for an operator's keys. It determines the layout of state: never change it."""

_TURNS: Final = "turns "
_RESERVED: Final = frozenset({NOW, OP, SIGN, *ORDER})


def apply_operator(step: KeyedStep, frames: Sequence[DataFrame]) -> DataFrame:
    """Apply a keyed operator to its inputs as a stream."""
    keys = keys_of(step.operator)
    frames = _align_key_types(frames, _compared_columns(step.operator))
    frames = [_normalize_zeros(frame, names) for frame, names in zip(frames, keys, strict=True)]
    schemas = [make_nullable(to_arrow_schema(frame.schema, timezone="UTC")) for frame in frames]
    operator = complete_operator(step.operator, [frame.columns for frame in frames])
    kernel = kernel_for(operator, tuple(schemas))
    cell = Cell(kernel, schemas, state_layout(kernel, schemas), _passthrough_columns(operator))
    packed = [
        frame.withColumn(BUCKET, _bucket(names)).mapInArrow(Packer(side), PACKED)
        for side, (frame, names) in enumerate(zip(frames, keys, strict=True))
    ]
    buckets = reduce(DataFrame.union, packed).groupBy(BUCKET)
    mode = "EventTime" if needs_watermark(step.operator) else "None"
    worked = buckets.transformWithState(cell, WORKED, "Append", mode)
    kept = f.concat(f.lit("["), f.array_join(f.collect_list("kept"), ","), f.lit("]"))
    counted = worked.observe(turn_metric(step.view), f.sum("late").alias("late"), kept.alias("kept"))
    return counted.mapInArrow(decode_rows, from_arrow_schema(kernel.output))


def turn_metric(view: str) -> str:
    """Return the name of an operator's metric in a batch: its late rows, and the rows in its state."""
    return f"{_TURNS}{view}"


def metric_view(metric: str) -> str | None:
    """Return the view whose operator has this metric; None for other metrics."""
    return metric.removeprefix(_TURNS) if metric.startswith(_TURNS) else None


def keys_of(operator: Operator) -> list[tuple[str, ...]]:
    """Return the key columns of each input."""
    match operator:
        case Aggregate() | LatestPerKey():
            return [operator.keys]
        case Ranking() | OverWindow():
            return [operator.partition]
        case VersionJoin() | ChangeJoin() | IntervalJoin():
            return [operator.left_key, operator.right_key]


def _compared_columns(operator: Operator) -> list[tuple[str, ...]]:
    """Return the columns of each input that must have the same types as those of the other input, by position."""
    if not isinstance(operator, IntervalJoin):
        return keys_of(operator)
    left, right = tuple(c.left for c in operator.comparisons), tuple(c.right for c in operator.comparisons)
    return [(*operator.left_key, *left), (*operator.right_key, *right)]


def complete_operator(operator: Operator, columns: Sequence[Sequence[str]]) -> Operator:
    """Return the operator with the columns that it passes through, now that the columns of its inputs are known."""
    match operator:
        case Aggregate():
            return operator
        case LatestPerKey():
            return replace(operator, columns=_remaining_columns(columns[0]))
        case Ranking():
            return replace(operator, columns=_remaining_columns(columns[0], *(sort.column for sort in operator.order)))
        case OverWindow():
            used = [name for call in operator.calls for name in (call.argument, call.default) if name]
            return replace(operator, columns=_remaining_columns(columns[0], *used, operator.time or ""))
        case IntervalJoin():
            left, right = (_remaining_columns(columns[i], *operator.own[i]) for i in (0, 1))
            return replace(operator, left_columns=left, right_columns=right, left_out=left, right_out=right)
        case VersionJoin() | ChangeJoin():
            times = (operator.left_time, operator.right_time) if isinstance(operator, VersionJoin) else ("", "")
            left = _remaining_columns(columns[0], *operator.left_key, times[0] or "")
            right = _remaining_columns(columns[1], *operator.right_key, times[1] or "")
            return replace(operator, left_columns=left, right_columns=right, left_out=left, right_out=right)


def _passthrough_columns(operator: Operator) -> frozenset[str]:
    """Return the columns that an operator only passes through. A new one is null in rows from the state."""
    match operator:
        case Aggregate():
            return frozenset()
        case LatestPerKey() | Ranking() | OverWindow():
            columns = operator.columns
        case VersionJoin() | ChangeJoin() | IntervalJoin():
            columns = (*operator.left_columns, *operator.right_columns)
    return frozenset(columns).difference(*keys_of(operator))


def _remaining_columns(columns: Sequence[str], *used: str) -> tuple[str, ...]:
    return tuple(name for name in columns if name not in _RESERVED and name not in used)


def _bucket(names: Sequence[str]) -> Any:
    columns = [f.col(quote_spark_identifier(name)) for name in names]
    return f.pmod(f.hash(*columns) if columns else f.lit(0), f.lit(BUCKETS)).cast("int")


def _normalize_zeros(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Normalize the sign of floating-point zeros, because equal keys must share a bucket."""
    floats = [x for x in frame.schema if x.name in names and isinstance(x.dataType, DoubleType | FloatType)]
    plus_zero = {x.name: f.col(quote_spark_identifier(x.name)) + f.lit(0.0).cast(x.dataType) for x in floats}
    return frame.withColumns(plus_zero)


def _align_key_types(frames: Sequence[DataFrame], keys: Sequence[Sequence[str]]) -> list[DataFrame]:
    """Cast the keys of both sides of a join to common types."""
    if len(frames) == 1:
        return list(frames)
    left, right = frames
    for one, other in zip(*keys, strict=True):
        types = left.schema[one].dataType, right.schema[other].dataType
        if types[0] != types[1]:
            whole = all(isinstance(kind, IntegralType) for kind in types)
            number = all(isinstance(kind, NumericType) for kind in types)
            time = any(isinstance(kind, TimestampType) for kind in types)
            common = "bigint" if whole else "double" if number else TimestampType() if time else StringType()
            left = left.withColumn(one, f.col(quote_spark_identifier(one)).cast(common))
            right = right.withColumn(other, f.col(quote_spark_identifier(other)).cast(common))
    return [left, right]
