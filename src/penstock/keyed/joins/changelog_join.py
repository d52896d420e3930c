"""The join of two changelogs: signed rows in, signed rows out.

State: `left` and `right` are the distinct rows of each side, with their count and their last arrival.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, numbers
from penstock.keyed.arrow.codes import codes, first_rows, shared_codes
from penstock.keyed.arrow.tables import column, concat, non_null_flags, pick_columns, unique_names
from penstock.keyed.arrow.times import drop_expired
from penstock.keyed.joins.pairs import matching_pairs, output_fields
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import ChangeJoin
from penstock.row_columns import NOW, SIGN

COUNT = "_count"


@dataclass(frozen=True, slots=True)
class ChangeJoinKernel:
    """The kernel of changelog joins. `schemas` are those of the left and the right input."""

    operator: ChangeJoin
    schemas: tuple[pa.Schema, pa.Schema]

    @property
    def tables(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def output(self) -> pa.Schema:
        return pa.schema([*output_fields(self.operator, self.schemas), (SIGN, pa.int8())])

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        operator = self.operator
        keys, columns = (operator.left_key, operator.right_key), (operator.left_columns, operator.right_columns)
        alone = (operator.side in ("left", "full"), operator.side in ("right", "full"))
        new = [_select_new(inputs[i], keys[i], columns[i], alone[i]) for i in (0, 1)]
        old = [self._live_rows(state.get(self.tables[i]), new[i], clock) for i in (0, 1)]
        found, count = shared_codes([(side[i], keys[i]) for i in (0, 1) for side in (old, new)])
        touched = np.zeros(count, bool)
        touched[found[1]] = touched[found[3]] = True

        left, right = (
            _build_side(old[i], new[i], found[2 * i], found[2 * i + 1], touched, (keys[i], columns[i]), clock)
            for i in (0, 1)
        )
        changes = [
            _changed_pairs(left, right, left.changed, right.all),
            _changed_pairs(left, right, ~left.changed, right.changed),
        ]
        totals = [_totals(side, count) for side in (left, right)]
        if alone[0]:
            rows, net = _unmatched_rows(left, totals[1])
            changes.append((left.place[rows], np.full(len(rows), right.null_row), net))
        if alone[1]:
            rows, net = _unmatched_rows(right, totals[0])
            changes.append((np.full(len(rows), left.null_row), right.place[rows], net))
        rest = [old[i].filter(pa.array(~touched[found[2 * i]])) for i in (0, 1)]
        return KernelResult(
            state={"left": _remaining_rows(rest[0], left), "right": _remaining_rows(rest[1], right)},
            output=self._signed_rows(left, right, *(np.concatenate(parts) for parts in zip(*changes, strict=True))),
        )

    def _live_rows(self, table: pa.Table | None, new: pa.Table, clock: Clock) -> pa.Table:
        if table is None:
            number = pa.array([], pa.int64())
            return new.slice(0, 0).drop_columns(SIGN).append_column(COUNT, number).append_column(NOW, number)
        return drop_expired(table, clock, self.operator.ttl_ms)

    def _signed_rows(self, left: "_ChangeSide", right: "_ChangeSide", lefts: Ints, rights: Ints, net: Ints) -> pa.Table:
        """Convert pairs of indexes and count changes to signed rows. Equal additions and retractions cancel out."""
        same, count = codes([pa.array(left.looks[lefts]), pa.array(right.looks[rights])], len(net))
        first, total = first_rows(same, count), np.zeros(count, np.int64)
        np.add.at(total, same, net)
        lefts, rights = (np.repeat(places[first], np.abs(total)) for places in (lefts, rights))
        signs = np.repeat(np.sign(total), np.abs(total)).astype(np.int8)
        columns = [left.rows.column(name).take(pa.array(lefts)) for name in self.operator.left_columns]
        columns += [right.rows.column(name).take(pa.array(rights)) for name in self.operator.right_columns]
        return pa.table([*columns, pa.array(signs)], schema=self.output)


@dataclass(frozen=True, slots=True)
class _ChangeSide:
    """The rows of one side that have touched keys, with a row of nulls as the last; `looks` has a code for each row.

    The other arrays have an item for each distinct row: its index in `rows`, its key (-1 never matches), its count
    before and after the batch, and the time of its last arrival.
    """

    rows: pa.Table
    looks: Ints
    place: Ints
    key: Ints
    before: Ints
    after: Ints
    seen: Ints

    @property
    def null_row(self) -> int:
        return int(self.rows.num_rows) - 1

    @property
    def changed(self) -> Flags:
        return np.asarray(self.before != self.after)

    @property
    def all(self) -> Flags:
        return np.ones(len(self.place), bool)


def _select_new(table: pa.Table, key: Sequence[str], columns: Sequence[str], alone: bool) -> pa.Table:
    """Select the new rows of a side. Without outer rows on this side, rows with a null in their key are dropped."""
    table = pick_columns(table, [*unique_names((*key, *columns)), SIGN])
    return table if alone else table.filter(pa.array(non_null_flags(table, key)))


def _build_side(
    old: pa.Table,
    new: pa.Table,
    old_keys: Ints,
    new_keys: Ints,
    touched: Flags,
    names: tuple[Sequence[str], Sequence[str]],
    clock: Clock,
) -> _ChangeSide:
    again = touched[old_keys]
    old, old_keys = old.filter(pa.array(again)), old_keys[again]
    key, columns = names
    used = unique_names((*key, *columns))
    nothing = pa.table([pa.nulls(1, old.schema.field(name).type) for name in used], names=used)
    rows = concat(old.select(used), new.select(used), nothing)
    keys = np.concatenate([old_keys, new_keys])
    looks, _ = codes([column(rows, name) for name in columns], rows.num_rows)
    row, count = codes([pa.array(keys), pa.array(looks[:-1])], len(keys))
    place = first_rows(row, count)

    before, delta, seen = (np.zeros(count, np.int64) for _ in range(3))
    np.add.at(before, row[: old.num_rows], numbers(column(old, COUNT)))  # rows can be equal after a column was dropped
    np.maximum.at(seen, row[: old.num_rows], numbers(column(old, NOW)))
    np.add.at(delta, row[old.num_rows :], numbers(column(new, SIGN)).astype(np.int64))
    seen[row[old.num_rows :]] = clock.now_ms
    matching = non_null_flags(rows, key)[place]
    return _ChangeSide(
        rows=rows,
        looks=looks,
        place=place,
        key=np.where(matching, keys[place], -1),
        before=before,
        after=np.maximum(before + delta, 0),
        seen=seen,
    )


def _changed_pairs(left: _ChangeSide, right: _ChangeSide, lefts: Flags, rights: Flags) -> tuple[Ints, Ints, Ints]:
    """Return the indexes of all pairs of the chosen rows, and the change in the count of each pair."""
    one, other = matching_pairs(np.flatnonzero(lefts & (left.key >= 0)), left.key, np.flatnonzero(rights), right.key)
    net = left.after[one] * right.after[other] - left.before[one] * right.before[other]
    some = net != 0
    return left.place[one[some]], right.place[other[some]], net[some]


def _totals(side: _ChangeSide, count: int) -> tuple[Ints, Ints]:
    """Count the rows of each key, before and after. Keys that never match use the last item, which is 0."""
    before, after = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    matching = side.key >= 0
    np.add.at(before, side.key[matching], side.before[matching])
    np.add.at(after, side.key[matching], side.after[matching])
    return before, after


def _unmatched_rows(side: _ChangeSide, partners: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Return the unmatched rows that appear or disappear, and the change in their count."""
    had, have = (total[side.key] == 0 for total in partners)
    net = side.after * have - side.before * had
    rows = np.flatnonzero(net)
    return rows, net[rows]


def _remaining_rows(rest: pa.Table, side: _ChangeSide) -> pa.Table:
    there = side.after > 0
    rows = side.rows.take(pa.array(side.place[there]))
    rows = rows.append_column(COUNT, pa.array(side.after[there])).append_column(NOW, pa.array(side.seen[there]))
    return concat(rest, rows)
