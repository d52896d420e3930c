"""Times of rows against the watermark: late, waiting or due; and state that expires.

Times of rows are in microseconds. In a state table, `NOW` is the time of the last arrival for a row's key, in
milliseconds: a row expires if no row arrives for its key within the time to live.
"""

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, numbers
from penstock.keyed.arrow.tables import column
from penstock.keyed.kernel import Clock
from penstock.row_columns import NOW


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
    times = table.column(name)
    return table.filter(times.is_valid()) if times.null_count else table


def wake_ms(times: Ints) -> int | None:
    """Return the watermark at which the first of these times is due; None without any times."""
    return -(-int(times.min()) // 1000) if len(times) else None


def key_times(codes: Ints, times: Ints, steps: Ints) -> Ints:
    """Encode keys and times as single numbers that sort by key, then time. `steps` are the sorted distinct times.

    A time between two steps gets the number of the earlier step.
    """
    return codes * len(steps) + np.searchsorted(steps, times, side="right") - 1


def expired_flags(table: pa.Table, clock: Clock, ttl_ms: int | None) -> Flags | None:
    """Mask the expired rows of state; None if there are none."""
    if ttl_ms is None or table.num_rows == 0:
        return None
    flags: Flags = numbers(column(table, NOW)) <= clock.now_ms - ttl_ms
    return flags if flags.any() else None


def drop_expired(table: pa.Table, clock: Clock, ttl_ms: int | None) -> pa.Table:
    flags = expired_flags(table, clock, ttl_ms)
    return table if flags is None else table.filter(pa.array(~flags))
