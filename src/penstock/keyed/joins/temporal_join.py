"""The temporal join: each left row with the version of the right row that was valid at its time.

State: `left` has rows that wait for the watermark, `right` has versions. Both tables are in the order of arrival.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, numbers, take_rows
from penstock.keyed.arrow.codes import shared_codes
from penstock.keyed.arrow.segments import last_flags
from penstock.keyed.arrow.sort_order import sort_by_arrival
from penstock.keyed.arrow.tables import column, concat, delete_flags, non_null_flags, pick_columns, unique_names
from penstock.keyed.arrow.times import drop_expired, drop_late, drop_untimed, due_flags, key_times, micros, wake_ms
from penstock.keyed.joins.pairs import output_fields
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import VersionJoin
from penstock.row_columns import NOW, OP


@dataclass(frozen=True, slots=True)
class VersionJoinKernel:
    """The kernel of temporal joins. `schemas` are those of the left input and of the versions."""

    operator: VersionJoin
    schemas: tuple[pa.Schema, pa.Schema]

    @property
    def tables(self) -> tuple[str, ...]:
        return ("right",) if self.operator.left_time is None else ("left", "right")

    @property
    def output(self) -> pa.Schema:
        return pa.schema(output_fields(self.operator, self.schemas))

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        left, right = inputs
        operator = self.operator
        new = sort_by_arrival(right.filter(pa.array(non_null_flags(right, operator.right_key))))
        if operator.left_time is None or operator.right_time is None:
            return self._join_by_arrival(state, pick_columns(left, self._left_names()), new, clock)
        return self._join_by_time(
            state, left, drop_untimed(new, operator.right_time), clock, operator.left_time, operator.right_time
        )

    def _join_by_time(
        self, state: StateTables, left: pa.Table, new: pa.Table, clock: Clock, left_time: str, right_time: str
    ) -> KernelResult:
        came = pick_columns(drop_late(left, left_time, clock), self._left_names())
        waiting = state.get("left", came.schema.empty_table())
        is_due = due_flags(micros(waiting, left_time), clock)
        going = waiting.filter(pa.array(is_due))
        staying = concat(waiting.filter(pa.array(~is_due)), came)

        versions, keys, going_keys = self._collect_versions(state, new, going, came, clock)
        times = micros(versions, right_time)
        steps = np.unique(times)
        place = key_times(keys, times, steps)
        order = np.argsort(place, kind="stable")
        keys, place = keys[order], place[order]
        found = np.searchsorted(place, key_times(going_keys, micros(going, left_time), steps), side="right") - 1
        kept = order[~_superseded_flags(keys, place, due_flags(times[order], clock))]
        return KernelResult(
            state={"left": staying, "right": versions.take(pa.array(np.sort(kept)))},
            output=self._join_rows(going, versions, _match_keys(found, keys, order, going_keys)),
            late=left.num_rows - came.num_rows,
            wake_ms=wake_ms(micros(staying, left_time)),
        )

    def _join_by_arrival(self, state: StateTables, going: pa.Table, new: pa.Table, clock: Clock) -> KernelResult:
        versions, keys, going_keys = self._collect_versions(state, new, going, going, clock)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        found = np.searchsorted(keys, going_keys, side="right") - 1
        last = order[last_flags(keys)]
        return KernelResult(
            state={"right": versions.take(pa.array(last[~delete_flags(versions)[last]]))},
            output=self._join_rows(going, versions, _match_keys(found, keys, order, going_keys)),
        )

    def _collect_versions(
        self, state: StateTables, new: pa.Table, going: pa.Table, came: pa.Table, clock: Clock
    ) -> tuple[pa.Table, Ints, Ints]:
        """Return all versions by arrival, the codes of their keys, and the codes of the left rows that are due.

        No version has a null in its key, so a left row with a null in its key matches none. Versions of a key for which
        no row arrived within the time to live are dropped first.
        """
        operator = self.operator
        new = pick_columns(new, self._right_names())
        old = drop_expired(state.get("right", new.schema.empty_table()), clock, operator.ttl_ms)
        versions = concat(old, new)
        touching = came if operator.ttl_ms is not None else came.slice(0, 0)
        parts = [(versions, operator.right_key), (going, operator.left_key), (touching, operator.left_key)]
        (keys, going_keys, touching_keys), count = shared_codes(parts)
        if operator.ttl_ms is not None:
            touched = np.zeros(count, bool)
            touched[keys[old.num_rows :]] = True
            touched[touching_keys] = True
            seen = np.where(touched[keys], clock.now_ms, numbers(column(versions, NOW)))
            versions = versions.set_column(versions.column_names.index(NOW), NOW, pa.array(seen))
        return versions, keys, going_keys

    def _join_rows(self, going: pa.Table, versions: pa.Table, found: Ints) -> pa.Table:
        """Join left rows with the versions at these indexes; -1 is no version."""
        found = np.where((found >= 0) & ~np.append(delete_flags(versions), True)[found], found, -1)
        if not self.operator.keep_unmatched:
            going, found = going.filter(pa.array(found >= 0)), found[found >= 0]
        columns = [going.column(name) for name in self.operator.left_columns]
        columns += [take_rows(versions.column(name), found) for name in self.operator.right_columns]
        return pa.table(columns, schema=self.output)

    def _left_names(self) -> list[str]:
        operator = self.operator
        return unique_names((*operator.left_key, *filter(None, (operator.left_time,)), *operator.left_columns))

    def _right_names(self) -> list[str]:
        operator = self.operator
        own = (OP, NOW) if OP in self.schemas[1].names else (NOW,)
        return unique_names((*operator.right_key, *filter(None, (operator.right_time,)), *operator.right_columns, *own))


def _match_keys(found: Ints, keys: Ints, order: Ints, wanted: Ints) -> Ints:
    """Return the indexes whose key is the wanted one, and -1 for the others."""
    hit = np.append(keys, -1)[found] == wanted
    return np.where(hit, np.append(order, -1)[found], -1)


def _superseded_flags(keys: Ints, place: Ints, past: Flags) -> Flags:
    """Mask the obsolete versions: the next version has the same time, or the watermark has reached the next one too."""
    flags = np.zeros(len(keys), bool)
    flags[:-1] = (keys[1:] == keys[:-1]) & (past[1:] | (place[1:] == place[:-1]))
    return flags
