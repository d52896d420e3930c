"""Expiry of state: a row of state expires if no row arrives for its key within the time to live.

In a state table, `NOW` is the time of the last arrival for a row's key, in milliseconds.
"""

import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, numbers
from penstock.keyed.arrow.tables import column
from penstock.keyed.kernel import Clock
from penstock.row_columns import NOW


def expired_flags(table: pa.Table, clock: Clock, ttl_ms: int | None) -> Flags | None:
    """Mask the expired rows of state; None if there are none."""
    if ttl_ms is None or table.num_rows == 0:
        return None
    flags: Flags = numbers(column(table, NOW)) <= clock.now_ms - ttl_ms
    return flags if flags.any() else None


def drop_expired(table: pa.Table, clock: Clock, ttl_ms: int | None) -> pa.Table:
    flags = expired_flags(table, clock, ttl_ms)
    return table if flags is None else table.filter(pa.array(~flags))
