"""Functions over frames: for each row, a range of indexes in an array. No keys, times or state here."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.arrow.arrays import Ints, NumberArray, null_where, numbers, take_rows, valid_flags
from penstock.keyed.arrow.sums import combine_limbs, split_limbs, sum_type
from penstock.keyed.arrow.tables import column
from penstock.keyed.operators import OverCall


@dataclass(frozen=True, slots=True)
class RowFrames:
    """The first index of each row's frame, and the index after its last one. No frame is empty."""

    start: Ints
    stop: Ints


def call_type(call: OverCall, schema: pa.Schema) -> pa.DataType:
    if call.function in ("count", "row_number"):
        return pa.int64()
    kind = schema.field(call.argument).type
    return sum_type(kind) if call.function == "sum" else kind


def evaluate_frames(call: OverCall, values: pa.Array, weights: Ints, frame: RowFrames) -> pa.Array:
    """Compute the call for each frame. A count is the sum of weights; other functions use the values."""
    match call.function:
        case "count" | "row_number":
            return pa.array(_frame_differences(weights, frame))
        case "sum":
            return _sums(values, frame)
        case "min" | "max":
            return _extremes(values, call.function == "max", frame)
        case "first":
            return _first(values, frame)
        case _:
            return _last(values, frame)


def argument_values(call: OverCall, table: pa.Table) -> pa.Array:
    return pa.nulls(table.num_rows) if call.argument is None else column(table, call.argument)


def row_weights(call: OverCall, seen: pa.Array) -> Ints:
    if call.argument is None:
        return np.ones(len(seen), np.int64)
    return valid_flags(seen).astype(np.int64)


def take_or_default(call: OverCall, values: pa.Array, places: Ints, rows: pa.Table) -> pa.Array:
    """Take the values at these indexes, one for each row. Index -1 gives the row's default."""
    if call.default is None:
        return take_rows(values, places)
    default = column(rows, call.default).cast(values.type)
    either = np.where(places < 0, len(values) + np.arange(len(places)), places)
    return pa.concat_arrays([values, default]).take(pa.array(either))


def _first(values: pa.Array, frame: RowFrames) -> pa.Array:
    """Return the first value of each frame that is not null."""
    known = np.flatnonzero(valid_flags(values))
    found = np.append(known, len(values))[np.searchsorted(known, frame.start)]
    return take_rows(values, np.where(found < frame.stop, found, -1))


def _last(values: pa.Array, frame: RowFrames) -> pa.Array:
    """Return the last value of each frame that is not null."""
    known = np.flatnonzero(valid_flags(values))
    found = np.append(known, -1)[np.searchsorted(known, frame.stop) - 1]
    return take_rows(values, np.where(found >= frame.start, found, -1))


def _frame_differences(values: Ints, frame: RowFrames) -> Ints:
    running: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return running[frame.stop] - running[frame.start]


def _sums(values: pa.Array, frame: RowFrames) -> pa.Array:
    """Sum the values of each frame that are not null; null if there are none."""
    kind = values.type
    if pa.types.is_floating(kind):
        sums = pa.array(_double_sums(numbers(values), frame))
    else:
        sums = combine_limbs([_frame_differences(limb, frame) for limb in split_limbs(values)], kind)
    return null_where(sums, _frame_differences(valid_flags(values).astype(np.int64), frame) == 0)


def _double_sums(values: NumberArray, frame: RowFrames) -> NumberArray:
    """Sum doubles per frame, in blocks of powers of two, so that no value outside the frame takes part."""
    length, place = frame.stop - frame.start, frame.start.copy()
    sums = np.zeros(len(length))
    block, size = values, 1
    with np.errstate(all="ignore"):
        while (length >= size).any():
            chosen = (length & size) > 0
            sums[chosen] += block[place[chosen]]
            place[chosen] += size
            block = block[: max(len(block) - size, 0)] + block[size:]
            size *= 2
    return sums


def _extremes(values: pa.Array, largest: bool, frame: RowFrames) -> pa.Array:
    """Return the least or greatest value of each frame, ignoring nulls. NaN is greater than all numbers."""
    order = pc.sort_indices(values).to_numpy().astype(np.int64)
    some = len(values) - values.null_count
    if largest:
        order[:some] = order[:some][::-1].copy()
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    least = _least(rank, frame)
    return take_rows(values, np.where(least < some, order[least], -1))


def _least(values: Ints, frame: RowFrames) -> Ints:
    """Return the least value of each frame, from two blocks that may overlap."""
    length = frame.stop - frame.start
    least = np.zeros(len(length), np.int64)
    block, size = values, 1
    while (length >= size).any():
        chosen = (length >= size) & (length < 2 * size)
        least[chosen] = np.minimum(block[frame.start[chosen]], block[frame.stop[chosen] - size])
        block = np.minimum(block[: max(len(block) - size, 0)], block[size:])
        size *= 2
    return least
