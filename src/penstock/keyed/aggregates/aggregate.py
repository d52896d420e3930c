"""Aggregates by key. The state is a table of keys, and a table of values for each call that needs one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.keyed.aggregates.folds import Fold, NewRows, call_fold
from penstock.keyed.aggregates.value_tables import ARRIVAL, SLOT, Bag, Series, call_result, value_table_names
from penstock.keyed.arrow.arrays import Flags, normalize_floats, numbers, pad_nulls, valid_flags
from penstock.keyed.arrow.codes import codes, differing_rows, first_rows
from penstock.keyed.arrow.sort_order import arrival_numbers
from penstock.keyed.arrow.sums import name_overflow_key, sum_type
from penstock.keyed.arrow.tables import build_table, column, concat
from penstock.keyed.arrow.times import drop_late, due_flags, expired_flags, wake_ms
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import Aggregate, AggregateCall
from penstock.row_columns import BEFORE, NOW, OP, SIGN

KEYS: Final = "keys"
ROWS: Final = "_rows"
"""The number of rows of a key, kept only if rows can be retracted."""
EMITTED: Final = "_told"
"""Whether the row of a window was already emitted."""


@dataclass(frozen=True, slots=True)
class AggregateKernel:
    """The kernel of aggregates by key, over rows of a known schema."""

    operator: Aggregate
    schema: pa.Schema

    @property
    def tables(self) -> tuple[str, ...]:
        return (KEYS, *self._value_tables())

    @property
    def output(self) -> pa.Schema:
        calls = [pa.field(call.name, self._result_type(call)) for call in self.operator.calls]
        before = [(BEFORE, pa.struct(calls))] if self.operator.with_before else []
        return pa.schema([*self._key_fields(), *calls, (OP, pa.string()), *before])

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        old = self._live_state(state, clock)
        if self.operator.closes is not None:
            return self._close_windows(old, inputs[0], clock, self.operator.closes)
        if inputs[0].num_rows == 0:
            return KernelResult(old, self.output.empty_table())
        keys, rows = self._locate_keys(old, inputs[0])
        new, before, after, touched = self._fold_rows(old, inputs[0], keys, rows, np.zeros(rows.size, bool))
        there = numbers(column(new[KEYS], ROWS)) > 0 if self.operator.signed else np.ones(rows.size, bool)
        output = self._changes(keys, before, after, touched, np.arange(rows.size) < old[KEYS].num_rows, there)
        return KernelResult(new if there.all() else _filter_keys(new, there), output)

    def _close_windows(self, old: dict[str, pa.Table], came: pa.Table, clock: Clock, end: str) -> KernelResult:
        """Emit each window once the watermark has reached its end, and drop windows whose allowed lateness is over."""
        lateness = self.operator.lateness_ms * 1000
        given = drop_late(came, end, clock, lateness)
        keys, rows = self._locate_keys(old, given)
        ends = numbers(keys[self.operator.keys.index(end)].cast(pa.int64()))
        closed = due_flags(ends, clock)
        emitted = np.zeros(rows.size, bool)
        emitted[: old[KEYS].num_rows] = numbers(column(old[KEYS], EMITTED))
        new, before, after, touched = self._fold_rows(old, given, keys, rows, closed & ~emitted)
        output = self._changes(keys, before, after, touched, emitted, closed)
        place = new[KEYS].schema.get_field_index(EMITTED)
        new[KEYS] = new[KEYS].set_column(place, new[KEYS].schema.field(place), pa.array(closed))
        kept = ~due_flags(ends + lateness, clock)
        wakes = wake_ms(np.where(closed, ends + lateness, ends)[kept])
        state = new if kept.all() else _filter_keys(new, kept)
        return KernelResult(state, output, came.num_rows - given.num_rows, wakes)

    def _fold_rows(
        self, old: dict[str, pa.Table], given: pa.Table, keys: list[pa.Array], rows: NewRows, shown: Flags
    ) -> tuple[dict[str, pa.Table], dict[str, pa.Array], dict[str, pa.Array], Flags]:
        """Return the new state, and the results before and after for the keys that changed or are in `shown`."""
        touched = shown.copy()
        touched[rows.owners] = True
        before: dict[str, pa.Array] = {}
        after: dict[str, pa.Array] = {}
        new = {KEYS: self._fold_keys(old[KEYS], keys, given, rows, before, after)}
        for name, kept in self._value_tables().items():
            mine = touched[numbers(column(old[name], SLOT))]
            was = old[name].filter(pa.array(mine))
            homes = zip(self.operator.calls, self._value_table_names(), strict=True)
            calls = [call for call, home in homes if home == name]
            now = kept.apply_rows(was, *_argument_values(calls[0], given, rows))
            new[name] = concat(old[name].filter(pa.array(~mine)), now)
            for call in calls:
                with name_overflow_key(keys):
                    before[call.name] = call_result(kept, call, was, rows.size)
                    after[call.name] = call_result(kept, call, now, rows.size)
        return new, before, after, touched

    def _live_state(self, state: StateTables, clock: Clock) -> dict[str, pa.Table]:
        empty = {KEYS: self._schema(), **{name: kept.schema for name, kept in self._value_tables().items()}}
        tables = {name: state.get(name, schema.empty_table()) for name, schema in empty.items()}
        gone = expired_flags(tables[KEYS], clock, self.operator.ttl_ms)
        return tables if gone is None else _filter_keys(tables, ~gone)

    def _locate_keys(self, old: StateTables, given: pa.Table) -> tuple[list[pa.Array], NewRows]:
        """Return the keys, new ones last, and the new rows with the index of their key."""
        known = old[KEYS].num_rows
        merged = [
            pa.concat_arrays([column(old[KEYS], name), normalize_floats(column(given, name))])
            for name in self.operator.keys
        ]
        places, size = codes(merged, known + given.num_rows)
        signs = numbers(column(given, SIGN)).astype(np.int64) if self.operator.signed else None
        series = [table for name, table in old.items() if name != KEYS and ARRIVAL in table.column_names]
        last = max((int(numbers(column(table, ARRIVAL)).max(initial=-1)) for table in series), default=-1)
        came = arrival_numbers(given, last) if series else None
        first = pa.array(first_rows(places, size))
        return [array.take(first) for array in merged], NewRows(places[known:], size, signs, came)

    def _fold_keys(
        self,
        old: pa.Table,
        keys: list[pa.Array],
        given: pa.Table,
        rows: NewRows,
        before: dict[str, pa.Array],
        after: dict[str, pa.Array],
    ) -> pa.Table:
        """Return the table of keys after the new rows. Fill `before` and `after` with the results of the calls."""
        touched = numbers(pad_nulls(column(old, NOW), rows.size)).copy()
        np.maximum.at(touched, rows.owners, numbers(column(given, NOW)))
        arrays = [*keys, pa.array(touched)]
        if self.operator.signed:
            arrays.append(pa.array(numbers(pad_nulls(column(old, ROWS), rows.size)) + rows.net_counts()))
        if self.operator.closes is not None:
            arrays.append(pad_nulls(column(old, EMITTED), rows.size))
        for call, fold in self._folds():
            width = len(fold.types)
            was = [pad_nulls(column(old, old.column_names[len(arrays) + place]), rows.size) for place in range(width)]
            with name_overflow_key(keys):
                now = fold.fold(was, *_argument_values(call, given, rows))
            before[call.name], after[call.name] = fold.result(was), fold.result(now)
            arrays += now
        return build_table(self._schema(), arrays)

    def _changes(
        self,
        keys: list[pa.Array],
        before: dict[str, pa.Array],
        after: dict[str, pa.Array],
        touched: Flags,
        known: Flags,
        there: Flags,
    ) -> pa.Table:
        comes, goes = np.flatnonzero(touched & there & ~known), np.flatnonzero(touched & known & ~there)
        stays = np.flatnonzero(touched & known & there)
        results = [(before[call.name], after[call.name]) for call in self.operator.calls]
        places = pa.array(stays)
        olds, news = [old.take(places) for old, _ in results], [new.take(places) for _, new in results]
        stays = stays[differing_rows(olds, news, len(stays))]
        now, gone = pa.array(np.concatenate([comes, stays])), pa.array(goes)
        every = pa.array(np.concatenate([comes, stays, goes]))
        operations = np.repeat(np.array(["i", "u", "d"]), [len(comes), len(stays), len(goes)])
        arrays = [array.take(every) for array in keys]
        arrays += [pa.concat_arrays([new.take(now), old.take(gone)]) for old, new in results]
        arrays.append(pa.array(operations, pa.string()))
        if self.operator.with_before:
            parts = [old.take(every) for old, _ in results]
            present = pa.array(operations != "i").buffers()[1]
            kind = self.output.field(BEFORE).type
            arrays.append(pa.Array.from_buffers(kind, len(operations), [present], children=parts))
        return build_table(self.output, arrays)

    def _value_table_names(self) -> tuple[str | None, ...]:
        return value_table_names(self.operator.calls, self.operator.signed)

    def _value_tables(self) -> dict[str, Bag | Series]:
        tables: dict[str, Bag | Series] = {}
        for call, home in zip(self.operator.calls, self._value_table_names(), strict=True):
            if home is not None:
                kind, ordered = self._argument_type(call), call.function in ("first", "last", "list")
                tables[home] = Series(call, kind, self.operator.signed) if ordered else Bag(kind)
        return tables

    def _folds(self) -> list[tuple[AggregateCall, Fold]]:
        pairs = zip(self.operator.calls, self._value_table_names(), strict=True)
        return [(call, call_fold(call, self._argument_type(call))) for call, home in pairs if home is None]

    def _key_fields(self) -> list[pa.Field]:
        return [pa.field(name, self.schema.field(name).type) for name in self.operator.keys]

    def _schema(self) -> pa.Schema:
        own = [(NOW, pa.int64()), *([(ROWS, pa.int64())] if self.operator.signed else [])]
        own += [(EMITTED, pa.bool_())] if self.operator.closes is not None else []
        types = [kind for _, fold in self._folds() for kind in fold.types]
        return pa.schema([*self._key_fields(), *own, *((f"_fold_{n}", kind) for n, kind in enumerate(types))])

    def _argument_type(self, call: AggregateCall) -> pa.DataType | None:
        return None if call.argument is None else self.schema.field(call.argument).type

    def _result_type(self, call: AggregateCall) -> pa.DataType:
        kind = self._argument_type(call)
        match call.function:
            case "count":
                return pa.int64()
            case "sum":
                return sum_type(kind)
            case "list":
                return pa.list_(kind)
        return kind


def _argument_values(call: AggregateCall, given: pa.Table, rows: NewRows) -> tuple[pa.Array, NewRows]:
    """Return the argument values that are not null, and their rows."""
    if call.argument is None:
        return pa.nulls(given.num_rows), rows
    values = column(given, call.argument)
    if values.null_count == 0:
        return values, rows
    there = valid_flags(values)
    return values.filter(pa.array(there)), rows.where(there)


def _filter_keys(tables: StateTables, mask: Flags) -> dict[str, pa.Table]:
    """Select the chosen keys and their values in every table of the state."""
    places = np.cumsum(mask) - 1
    result = {KEYS: tables[KEYS].filter(pa.array(mask))}
    for name, table in tables.items():
        if name != KEYS:
            slots = numbers(column(table, SLOT))
            kept = mask[slots]
            moved = pa.array(places[slots[kept]])
            result[name] = table.filter(pa.array(kept)).set_column(0, table.schema.field(SLOT), moved)
    return result
