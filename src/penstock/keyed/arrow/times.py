"""Times of rows against the watermark: late, waiting or due. Times are in microseconds."""

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints
from penstock.keyed.kernel import Clock


def micros(table: pa.Table, name: str) -> Ints:
    """Return a column of timestamps as numbers."""
    return np.asarray(table.column(name).cast(pa.int64()).to_numpy())


def due_flags(times: Ints, clock: Clock) -> Flags:
    """Mask the times that the watermark has reached."""
    if clock.watermark_ms is None:
        return np.zeros(len(times), bool)
    return times <= clock.watermark_ms * 1000


def drop_late(table: pa.Table, name: str, clock: Clock, after: int = 0) -> pa.Table:
    """Drop the rows that are late, after the allowed lateness `after`. A row without a time is always late."""
    table = drop_untimed(table, name)
    late = due_flags(micros(table, name) + after, clock)
    return table.filter(pa.array(~late)) if late.any() else table


def drop_untimed(table: pa.Table, name: str) -> pa.Table:
    column = table.column(name)
    return table.filter(column.is_valid()) if column.null_count else table


def wake_ms(times: Ints) -> int | None:
    """Return the watermark at which the first of these times is due; None without any times."""
    return -(-int(times.min()) // 1000) if len(times) else None


def key_times(codes: Ints, times: Ints, steps: Ints) -> Ints:
    """Encode keys and times as single numbers that sort by key, then time. `steps` are the sorted distinct times.

    A time between two steps gets the number of the earlier step.
    """
    return codes * len(steps) + np.searchsorted(steps, times, side="right") - 1
