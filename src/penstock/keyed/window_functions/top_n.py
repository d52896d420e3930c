"""The first rows of every partition. The state is those rows, or all rows if a row can be retracted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, numbers
from penstock.keyed.arrow.codes import codes, differing_rows
from penstock.keyed.arrow.segments import places_within, survivors
from penstock.keyed.arrow.sort_order import arrival_numbers, sort_by_content, sort_keys
from penstock.keyed.arrow.tables import build_table, column, concat, unique_names
from penstock.keyed.arrow.times import drop_expired
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import Ranking
from penstock.row_columns import NOW, OP, SIGN

ROWS: Final = "rows"
ARRIVAL: Final = "_arrival"


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """Ranked rows: partition, rank within it from 0, and index of the row."""

    partitions: Ints
    places: Ints
    rows: Ints

    def where(self, mask: Flags | Ints) -> "RowPlaces":
        """Return the rows that a mask or indexes select."""
        return RowPlaces(self.partitions[mask], self.places[mask], self.rows[mask])


@dataclass(frozen=True, slots=True)
class RankingKernel:
    """The kernel of `Ranking`: rows of a known schema, ranked within their partition."""

    operator: Ranking
    schema: pa.Schema

    @property
    def tables(self) -> tuple[str, ...]:
        return (ROWS,)

    @property
    def output(self) -> pa.Schema:
        fields = [self._field(name) for name in self.operator.columns]
        rank = [(self.operator.rank, pa.int64())] if self.operator.rank is not None else []
        return pa.schema([*fields, *rank, (OP, pa.string())])

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        old = drop_expired(state.get(ROWS, self._schema().empty_table()), clock, self.operator.ttl_ms)
        given = inputs[0]
        if given.num_rows == 0:
            return KernelResult({ROWS: old}, self.output.empty_table())
        kept = [column(given, name) for name in self._stored_columns()]
        last = int(numbers(column(old, ARRIVAL)).max(initial=-1))
        new = build_table(self._schema(), [*kept, column(given, NOW), pa.array(arrival_numbers(given, last))])
        rest, old, rows, partitions = self._touched_rows(old, new)
        there = np.ones(rows.num_rows, bool)
        if self.operator.signed:
            there = self._surviving_flags(rows, old.num_rows, numbers(column(given, SIGN)))
        ranked = self._rank_rows(rows, partitions)
        before = _place_rows(ranked, partitions, ranked < old.num_rows)
        after = _place_rows(ranked, partitions, there[ranked])
        first, now = (some.where(some.places < self.operator.limit) for some in (before, after))
        staying = rows.take(pa.array((after if self.operator.signed else now).rows))
        moment = pa.array(np.full(staying.num_rows, numbers(column(given, NOW)).max()))
        staying = staying.set_column(staying.schema.get_field_index(NOW), NOW, moment)
        return KernelResult({ROWS: concat(rest, staying)}, self._changes(rows, first, now))

    def _touched_rows(self, old: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table, Ints]:
        """Split the rows by the partitions that the new rows touch.

        Return the old rows of other partitions, the old rows of touched partitions, these with the new rows, and the
        partition of each of the latter.
        """
        every = concat(old, new)
        partitions, size = codes([column(every, name) for name in self.operator.partition], every.num_rows)
        touched = np.zeros(size, bool)
        touched[partitions[old.num_rows :]] = True
        mine = touched[partitions]
        rest = old.filter(pa.array(~mine[: old.num_rows]))
        return rest, old.filter(pa.array(mine[: old.num_rows])), every.filter(pa.array(mine)), partitions[mine]

    def _surviving_flags(self, rows: pa.Table, known: int, signs: Ints) -> Flags:
        """Mask the rows that remain after each retraction has removed an equal row."""
        there = np.concatenate([np.ones(known, bool), signs > 0])
        come, go = np.flatnonzero(there), np.flatnonzero(~there)
        if len(go):
            alike, size = codes([column(rows, name) for name in self._stored_columns()], rows.num_rows)
            arrived = numbers(column(rows, ARRIVAL))[come]
            left = survivors(np.concatenate([alike[come], alike[go]]), size, len(come), known, arrived)
            there[:] = False
            there[come[left]] = True
        return there

    def _rank_rows(self, rows: pa.Table, partitions: Ints) -> Ints:
        order = [
            key
            for sort in self.operator.order
            for key in sort_keys(column(rows, sort.column), sort.descending, sort.nulls_last)
        ]
        arrived = numbers(column(rows, ARRIVAL))
        keys = [partitions, *order, -arrived if self.operator.last_first else arrived]
        return sort_by_content(keys, [column(rows, name) for name in self._stored_columns()], rows.num_rows)

    def _changes(self, rows: pa.Table, before: RowPlaces, after: RowPlaces) -> pa.Table:
        by_place = self.operator.rank is not None or self.operator.limit == 1
        comes, other, goes = (self._changes_by_place if by_place else self._changes_by_content)(rows, before, after)
        operations = np.repeat(np.array(["i", "u", "d"]), [len(comes.rows), len(other.rows), len(goes.rows)])
        table = rows.take(pa.array(np.concatenate([comes.rows, other.rows, goes.rows])))
        arrays = [column(table, name) for name in self.operator.columns]
        if self.operator.rank is not None:
            arrays.append(pa.array(np.concatenate([comes.places, other.places, goes.places]) + 1))
        return build_table(self.output, [*arrays, pa.array(operations, pa.string())])

    def _changes_by_place(
        self, rows: pa.Table, before: RowPlaces, after: RowPlaces
    ) -> tuple[RowPlaces, RowPlaces, RowPlaces]:
        """Return the rows that take a free rank, rows that replace another one, and rows that leave a rank free."""
        one, two = (some.partitions * self.operator.limit + some.places for some in (before, after))
        _, was, now = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        goes, comes = np.ones(len(before.rows), bool), np.ones(len(after.rows), bool)
        goes[was], comes[now] = False, False
        old, new = before.where(was), after.where(now)
        moved = np.flatnonzero(old.rows != new.rows)
        left, right = (rows.take(pa.array(some.rows[moved])) for some in (old, new))
        lefts, rights = ([column(table, name) for name in self.operator.columns] for table in (left, right))
        other = differing_rows(lefts, rights, len(moved))
        return after.where(comes), new.where(moved[other]), before.where(goes)

    def _changes_by_content(
        self, rows: pa.Table, before: RowPlaces, after: RowPlaces
    ) -> tuple[RowPlaces, RowPlaces, RowPlaces]:
        """Return the rows that enter, no updates, and those that leave. Equal rows that do both cancel out."""
        stays = np.zeros((2, rows.num_rows), bool)
        stays[0, before.rows], stays[1, after.rows] = True, True
        out, into = before.where(~stays[1, before.rows]), after.where(~stays[0, after.rows])
        table = rows.take(pa.array(np.concatenate([out.rows, into.rows])))
        partitions = pa.array(np.concatenate([out.partitions, into.partitions]))
        alike, size = codes([partitions, *(column(table, name) for name in self.operator.columns)], table.num_rows)
        leaves, enters = alike[: len(out.rows)], alike[len(out.rows) :]
        net = np.bincount(enters, minlength=size) - np.bincount(leaves, minlength=size)
        nothing = into.where(np.zeros(0, np.int64))
        return into.where(_take_wanted(enters, net)), nothing, out.where(_take_wanted(leaves, -net))

    def _stored_columns(self) -> tuple[str, ...]:
        order = (sort.column for sort in self.operator.order)
        return tuple(unique_names((*self.operator.columns, *self.operator.partition, *order)))

    def _field(self, name: str) -> pa.Field:
        return pa.field(name, self.schema.field(name).type)

    def _schema(self) -> pa.Schema:
        own = [(NOW, pa.int64()), (ARRIVAL, pa.int64())]
        return pa.schema([*(self._field(name) for name in self._stored_columns()), *own])


def _place_rows(ranked: Ints, partitions: Ints, mask: Flags) -> RowPlaces:
    """Select some of the sorted rows and rank them anew."""
    rows = ranked[mask]
    owners = partitions[rows]
    return RowPlaces(owners, places_within(owners), rows)


def _take_wanted(alike: Ints, wanted: Ints) -> Ints:
    """Take the first `wanted` rows of each group of equal rows."""
    order = np.argsort(alike, kind="stable")
    return np.sort(order[places_within(alike[order]) < wanted[alike[order]]])
