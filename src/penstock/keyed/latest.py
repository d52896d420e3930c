"""The kernel that converts changes by key to signed rows. The state is the last row of every key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Ints
from penstock.keyed.arrow.codes import codes, differing_rows
from penstock.keyed.arrow.sort_order import order_keys, sort_by_content
from penstock.keyed.arrow.tables import build_table, column, concat, delete_flags
from penstock.keyed.arrow.times import drop_expired
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import LatestPerKey
from penstock.row_columns import NOW, OP, SIGN

ROWS: Final = "rows"


@dataclass(frozen=True, slots=True)
class LatestKernel:
    """The kernel of `LatestPerKey`, over changes of a known schema."""

    operator: LatestPerKey
    schema: pa.Schema

    @property
    def tables(self) -> tuple[str, ...]:
        return (ROWS,)

    @property
    def output(self) -> pa.Schema:
        return pa.schema([*self._fields(), (SIGN, pa.int8())])

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        old = state.get(ROWS, pa.schema([*self._fields(), (NOW, pa.int64())]).empty_table())
        old = drop_expired(old, clock, self.operator.ttl_ms)
        given = inputs[0]
        if given.num_rows == 0:
            return KernelResult({ROWS: old}, self.output.empty_table())
        known = old.num_rows
        every = concat(old, build_table(old.schema, [column(given, name) for name in (*self.operator.columns, NOW)]))
        keys, size = codes([column(every, name) for name in self.operator.keys], every.num_rows)
        last = np.full(size, -1, np.int64)
        newest = known + self._arrival_order(given)
        last[keys[newest]] = newest
        gone = np.zeros(every.num_rows, bool)
        gone[known:] = delete_flags(given)
        touched = np.flatnonzero(last >= 0)
        was, now = touched < known, ~gone[last[touched]]
        both = touched[was & now]
        same = np.zeros(size, bool)
        before, after = (self._columns(every.take(pa.array(rows))) for rows in (both, last[both]))
        same[both] = ~differing_rows(before, after, len(both))
        leaves, comes = touched[was & ~same[touched]], last[touched[now & ~same[touched]]]
        kept = np.arange(size)
        kept[touched] = np.where(now, last[touched], -1)
        signs = np.repeat(np.array([-1, 1], np.int8), [len(leaves), len(comes)])
        output = every.take(pa.array(np.concatenate([leaves, comes])))
        new = every.take(pa.array(kept[kept >= 0]))
        return KernelResult({ROWS: new}, build_table(self.output, [*self._columns(output), pa.array(signs)]))

    def _arrival_order(self, given: pa.Table) -> Ints:
        """Sort the rows by arrival. Of rows that arrived together, deletes come first."""
        content = [column(given, name) for name in (OP, *self.operator.columns)]
        return sort_by_content(order_keys(given), content, given.num_rows)

    def _columns(self, table: pa.Table) -> list[pa.Array]:
        return [column(table, name) for name in self.operator.columns]

    def _fields(self) -> list[pa.Field]:
        return [pa.field(name, self.schema.field(name).type) for name in self.operator.columns]
