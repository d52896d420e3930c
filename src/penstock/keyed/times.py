"""When rows are: late, waiting or due by the watermark, and in which order they came. Times are microseconds here."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.codes import Flags, Ints
from penstock.keyed.kernel import Clock
from penstock.keyed.operators import ORDER


def micros(table: pa.Table, name: str) -> Ints:
    """A column of timestamps as numbers."""
    times: Ints = table.column(name).cast(pa.int64()).to_numpy()
    return times


def due(times: Ints, clock: Clock) -> Flags:
    """Which times the watermark has reached."""
    if clock.watermark_ms is None:
        return np.zeros(len(times), dtype=np.bool_)
    flags: Flags = times <= clock.watermark_ms * 1000
    return flags


def in_time(table: pa.Table, name: str, clock: Clock) -> pa.Table:
    """The new rows that are not late. One without a time is late for ever."""
    table = timed(table, name)
    late = due(micros(table, name), clock)
    return table.filter(pa.array(~late)) if late.any() else table


def timed(table: pa.Table, name: str) -> pa.Table:
    """The rows that have a time."""
    column = table.column(name)
    return table.filter(column.is_valid()) if column.null_count else table


def wake_ms(times: Ints) -> int | None:
    """The watermark that the first of these times waits for."""
    return -(-int(times.min()) // 1000) if len(times) else None


def arrived(table: pa.Table) -> pa.Table:
    """New rows in the order of arrival, as `ORDER` has it; without it in an order that depends on the values only."""
    if table.num_rows < 2:
        return table
    names = [name for name in ORDER if name in table.column_names]
    names = names or [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.take(pc.sort_indices(table, [(name, "ascending") for name in names])) if names else table


def ranks(codes: Ints, times: Ints, steps: Ints) -> Ints:
    """Keys and times as single numbers that sort by key, then time; `steps` are the times that count, sorted.

    A time between two steps has the number of the earlier one; before the first step it is behind the key before.
    """
    return codes * len(steps) + np.searchsorted(steps, times, side="right") - 1


def once(names: Iterable[str]) -> list[str]:
    """Names in their order, each once."""
    return list(dict.fromkeys(names))
