"""Functions over frames: for each row, a stretch of places in an array. Nothing here knows keys, times or state."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.arrays import Ints, null_where, taken, valid
from penstock.keyed.operators import OverCall

LOW = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the frame of each row starts, and the place behind its end. No frame is empty."""

    start: Ints
    stop: Ints


def call_type(call: OverCall, schema: pa.Schema) -> pa.DataType:
    """The type that a call gives."""
    if call.function in ("count", "row_number"):
        return pa.int64()
    kind = schema.field(call.argument).type
    if call.function != "sum":
        return kind
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def over_frame(call: OverCall, values: pa.Array, weights: Ints, frame: Frame) -> pa.Array:
    """The call for each frame. A count is the sum of weights; other functions look at the values."""
    match call.function:
        case "count" | "row_number":
            return pa.array(_differences(weights, frame))
        case "sum":
            return _sums(call.argument, values, frame)
        case "min" | "max":
            return _extremes(values, call.function == "max", frame)
        case "first":
            return taken(values, frame.start)
        case _:
            return taken(values, frame.stop - 1)


def _differences(values: Ints, frame: Frame) -> Ints:
    running: Ints = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values)])
    return running[frame.stop] - running[frame.start]


def _sums(name: str | None, values: pa.Array, frame: Frame) -> pa.Array:
    """Sums without null values; null where there is no other."""
    kind = values.type
    if pa.types.is_floating(kind):
        sums = pa.array(_float_sums(pc.fill_null(values, 0.0).to_numpy(), frame))
    else:
        digits = [_differences(digit, frame) for digit in _digits(pc.fill_null(values, pa.scalar(0, kind)))]
        sums = _whole(digits, kind)
        if sums is None:
            raise ArithmeticError(f"The sum of `{name}` is too large for {kind}.")
    return null_where(sums, _differences(valid(values).astype(np.int64), frame) == 0)


def _float_sums(values: npt.NDArray[np.float64], frame: Frame) -> npt.NDArray[np.float64]:
    """A frame is put together of blocks whose lengths are powers of two, so that no value outside of it has a part."""
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


def _digits(values: pa.Array) -> list[Ints]:
    """Whole numbers or decimals as digits of 32 bits, the lowest first; the sign is in the highest."""
    if not pa.types.is_decimal(values.type):
        words = values.to_numpy().reshape(-1, 1)
    else:
        buffer = np.frombuffer(values.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
        words = buffer[values.offset : values.offset + len(values)]
    digits = [half for word in words.T for half in (word & LOW, (word >> 32) & LOW)]
    return [*digits[:-1], words[:, -1] >> 32]


def _whole(digits: list[Ints], kind: pa.DataType) -> pa.Array | None:
    """Numbers from sums of their digits; None if one is too large."""
    carry = np.zeros(len(digits[0]), dtype=np.int64)
    halves = []
    for digit in digits:
        carry = carry + digit
        halves.append(carry & LOW)
        last, carry = carry, carry >> 32
    if (last != last.astype(np.int32)).any():
        return None
    words = [low | (high << 32) for low, high in zip(halves[::2], halves[1::2], strict=True)]
    if not pa.types.is_decimal(kind):
        return pa.array(words[0])
    data = pa.py_buffer(np.ascontiguousarray(np.stack(words, axis=1)))
    whole = pa.Array.from_buffers(kind, len(carry), [None, data])
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return whole


def _extremes(values: pa.Array, largest: bool, frame: Frame) -> pa.Array:
    """The least or greatest values without nulls. NaN is greater than all numbers."""
    order = pc.sort_indices(values).to_numpy().astype(np.int64)
    some = len(values) - values.null_count
    if largest:
        order[:some] = order[:some][::-1].copy()
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    least = _least(rank, frame)
    return taken(values, np.where(least < some, order[least], -1))


def _least(values: Ints, frame: Frame) -> Ints:
    """The least value of each frame, as that of two blocks that may overlap."""
    length = frame.stop - frame.start
    least = np.zeros(len(length), dtype=np.int64)
    block, size = values, 1
    while (length >= size).any():
        chosen = (length >= size) & (length < 2 * size)
        least[chosen] = np.minimum(block[frame.start[chosen]], block[frame.stop[chosen] - size])
        block = np.minimum(block[: max(len(block) - size, 0)], block[size:])
        size *= 2
    return least
