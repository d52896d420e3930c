"""What is forgotten: rows of state whose key no row came for within the time to live.

In state, `NOW` is when a row last came for the key of a row, in milliseconds.
"""

import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, numbers
from penstock.keyed.arrow.tables import column
from penstock.keyed.kernel import Clock
from penstock.row_columns import NOW


def expired_flags(table: pa.Table, clock: Clock, ttl_ms: int | None) -> Flags | None:
    """Which rows of state are; None if none is."""
    if ttl_ms is None or table.num_rows == 0:
        return None
    flags: Flags = numbers(column(table, NOW)) <= clock.now_ms - ttl_ms
    return flags if flags.any() else None


def drop_expired(table: pa.Table, clock: Clock, ttl_ms: int | None) -> pa.Table:
    """The rows of state that are not."""
    flags = expired_flags(table, clock, ttl_ms)
    return table if flags is None else table.filter(pa.array(~flags))
