"""The interval join: each row of both sides has a time until which it is kept.

State: `left` and `right` are the rows of each side that can still match, and whether they have matched already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keyed.arrow.arrays import Flags, Ints, numbers, take_rows, valid_flags
from penstock.keyed.arrow.codes import shared_codes
from penstock.keyed.arrow.tables import column, concat, non_null_flags, pick_columns, unique_names
from penstock.keyed.arrow.times import drop_expired, drop_late, due_flags, wake_ms
from penstock.keyed.joins.pairs import matching_pairs, output_fields
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import IntervalJoin
from penstock.row_columns import NOW

FOUND: Final = "_found"
"""Whether a row has matched a row of the other side."""
_SIGNS: Final = {
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "=": pc.equal
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IntervalJoinKernel:
    """The kernel of interval joins. `schemas` are those of the left and the right input."""

    operator: IntervalJoin
    schemas: tuple[pa.Schema, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def output(self) -> pa.Schema:
        return pa.schema(output_fields(self.operator, self.schemas))

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        operator = self.operator
        left, right = (self._build_side(i, state, inputs[i], clock) for i in (0, 1))
        (left_codes, right_codes), _ = shared_codes([(left.rows, operator.left_key), (right.rows, operator.right_key)])
        left_able = non_null_flags(left.rows, operator.left_key)
        right_able = non_null_flags(right.rows, operator.right_key)
        masks = (left_able & left.new, right_able), (left_able & ~left.new, right_able & right.new)
        pairs = [
            matching_pairs(np.flatnonzero(ours), left_codes, np.flatnonzero(theirs), right_codes)
            for ours, theirs in masks
        ]
        lefts, rights = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        fitting = self._matching_pairs(left.rows, right.rows, lefts, rights)
        lefts, rights = lefts[fitting], rights[fitting]

        found = [_set_flags(side.found, places) for side, places in ((left, lefts), (right, rights))]
        untils = operator.left_until, operator.right_until
        gone = [_expired_flags(side.rows, until, clock) for side, until in zip((left, right), untils, strict=True)]
        alone = [
            np.flatnonzero(gone[i] & ~found[i]) if operator.side in sides else np.zeros(0, np.int64)
            for i, sides in enumerate((("left", "full"), ("right", "full")))
        ]
        lefts = np.concatenate([lefts, alone[0], np.full(len(alone[1]), -1)])
        rights = np.concatenate([rights, np.full(len(alone[0]), -1), alone[1]])
        staying = [_remaining_rows(side.rows, found[i], gone[i]) for i, side in enumerate((left, right))]
        waiting = [_expiry_times(rows, until) for rows, until in zip(staying, untils, strict=True)]
        return KernelResult(
            state=dict(zip(self.tables, staying, strict=True)),
            output=self._join_rows(left.rows, right.rows, lefts, rights),
            late=left.late + right.late,
            wake_ms=wake_ms(np.concatenate(waiting)),
        )

    def _build_side(self, place: int, state: StateTables, came: pa.Table, clock: Clock) -> "_IntervalSide":
        operator = self.operator
        time = (operator.left_time, operator.right_time)[place]
        columns = (operator.left_columns, operator.right_columns)[place]
        names = unique_names((*operator.own[place], *columns, NOW))
        new = pick_columns(came if time is None else drop_late(came, time, clock), names)
        new = new.append_column(FOUND, pa.array(np.zeros(new.num_rows, bool)))
        old = drop_expired(state.get(self.tables[place], new.slice(0, 0)), clock, operator.ttl_ms)
        rows = concat(old, new)
        flags = np.arange(rows.num_rows) >= old.num_rows
        return _IntervalSide(rows, flags, numbers(column(rows, FOUND)).astype(bool), came.num_rows - new.num_rows)

    def _matching_pairs(self, left: pa.Table, right: pa.Table, lefts: Ints, rights: Ints) -> Flags:
        """Mask the pairs that satisfy all comparisons. Comparisons with null are false."""
        flags = np.ones(len(lefts), bool)
        for asked in self.operator.comparisons:
            ours = column(left, asked.left).take(pa.array(lefts))
            theirs = column(right, asked.right).take(pa.array(rights))
            met = _SIGNS[asked.sign](ours, theirs).fill_null(False)
            flags &= np.asarray(met.to_numpy(zero_copy_only=False), bool)
        return flags

    def _join_rows(self, left: pa.Table, right: pa.Table, lefts: Ints, rights: Ints) -> pa.Table:
        """Join rows by their indexes; -1 is a row of nulls."""
        columns = [take_rows(column(left, name), lefts) for name in self.operator.left_columns]
        columns += [take_rows(column(right, name), rights) for name in self.operator.right_columns]
        return pa.Table.from_arrays(columns, schema=self.output)


@dataclass(frozen=True, slots=True)
class _IntervalSide:
    """The rows of a side, old ones first, with masks of the new rows and of those already matched."""

    rows: pa.Table
    new: Flags
    found: Flags
    late: int


def _set_flags(flags: Flags, places: Ints) -> Flags:
    flags = flags.copy()
    flags[places] = True
    return flags


def _expired_flags(rows: pa.Table, until: str | None, clock: Clock) -> Flags:
    """Mask the rows that can no longer match."""
    if until is None:
        return np.zeros(rows.num_rows, bool)
    times = column(rows, until)
    return due_flags(numbers(times.cast(pa.int64())), clock) & valid_flags(times)


def _expiry_times(rows: pa.Table, until: str | None) -> Ints:
    if until is None:
        return np.zeros(0, np.int64)
    return np.asarray(numbers(column(rows, until).drop_null().cast(pa.int64())))


def _remaining_rows(rows: pa.Table, found: Flags, gone: Flags) -> pa.Table:
    place = rows.column_names.index(FOUND)
    return rows.set_column(place, FOUND, pa.array(found)).filter(pa.array(~gone))
