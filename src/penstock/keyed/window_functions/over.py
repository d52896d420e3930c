"""Functions OVER the rows of a partition, in the order of time.

State: `waiting` has rows that the watermark has not reached; `history` has the rows that bounded frames and `lag` look
back at; `partitions` has the calls over all rows so far, and the last time that a partition was touched; `held` has the
rows that `lead` holds until enough later rows have arrived. All of them keep the rows of a partition in order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Flags, Ints, numbers, take_rows
from penstock.keyed.arrow.codes import shared_codes
from penstock.keyed.arrow.segments import first_flags, stretch_ends, stretch_starts
from penstock.keyed.arrow.sort_order import sort_by_arrival
from penstock.keyed.arrow.sums import name_overflow_key
from penstock.keyed.arrow.tables import column, concat, pick_columns, unique_names
from penstock.keyed.arrow.times import drop_late, due_flags, expired_flags, key_times, micros, wake_ms
from penstock.keyed.kernel import Clock, KernelResult, StateTables
from penstock.keyed.operators import OverCall, OverWindow
from penstock.keyed.window_functions.frames import (
    RowFrames,
    argument_values,
    call_type,
    evaluate_frames,
    row_weights,
    take_or_default,
)
from penstock.row_columns import NOW

AT = "_at"
CALL = "_call_"
CallValues: TypeAlias = dict[str, pa.Array]
"""The results of calls for some rows, by the name of the call."""


@dataclass(frozen=True, slots=True)
class _PartitionRows:
    """Rows with the codes of their partitions and their times, sorted by both."""

    table: pa.Table
    keys: Ints
    at: Ints


@dataclass(frozen=True, slots=True)
class OverKernel:
    """The kernel of OVER. `schemas` has the schema of the input rows.

    A partition is touched when rows arrive for it or are emitted from it. A partition that was not touched within the
    time to live starts anew. Rows that `lead` held are then emitted, as the last rows of the ended partition.
    """

    operator: OverWindow
    schemas: tuple[pa.Schema]

    @property
    def tables(self) -> tuple[str, ...]:
        needed = {
            "waiting": self.operator.time is not None,
            "history": any(self._calls("history")),
            "partitions": self.operator.ttl_ms is not None or any(self._calls("partitions")),
            "held": any(self._calls("held")),
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)

    @property
    def output(self) -> pa.Schema:
        fields = [pa.field(name, self.schemas[0].field(name).type) for name in self.operator.columns]
        return pa.schema([*fields, *(pa.field(call.name, self._call_type(call)) for call in self.operator.calls)])

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        operator = self.operator
        new = sort_by_arrival(inputs[0])
        came = pick_columns(new if operator.time is None else drop_late(new, operator.time, clock), self._row_columns())
        going, staying = came, came.slice(0, 0)
        if operator.time is not None:
            waiting = state.get("waiting", staying)
            is_due = due_flags(micros(waiting, operator.time), clock)
            going = waiting.filter(pa.array(is_due))
            staying = concat(waiting.filter(pa.array(~is_due)), came)

        history, partitions, held = (
            state.get(name, self._schema(name).empty_table()) for name in ("history", "partitions", "held")
        )
        parts = [(table, operator.partition) for table in (going, came, history, partitions, held)]
        (keys, came_keys, history_keys, partition_keys, held_keys), count = shared_codes(parts)
        ended = np.zeros(count, bool)
        gone = expired_flags(partitions, clock, operator.ttl_ms)
        if gone is not None:
            ended[partition_keys] = gone

        rows = self._sort_rows(going, keys, clock)
        touched = np.zeros(count, bool)
        touched[came_keys] = True
        kept = {"waiting": staying}
        values: CallValues = {}
        with name_overflow_key([rows.table.column(name) for name in operator.partition]):
            if "history" in self.tables:
                found, kept["history"] = self._look_back(*_live_partitions(history, history_keys, ended), rows, clock)
                values |= found
            if "partitions" in self.tables:
                going_on = _live_partitions(partitions, partition_keys, ended)
                found, kept["partitions"] = self._extend_running(*going_on, rows, touched, clock)
                values |= found
        output, kept["held"] = self._look_ahead(held, held_keys, ended, rows, values)
        return KernelResult(
            state={name: kept[name] for name in self.tables},
            output=output,
            late=inputs[0].num_rows - came.num_rows,
            wake_ms=None if operator.time is None else wake_ms(micros(staying, operator.time)),
        )

    def _sort_rows(self, going: pa.Table, keys: Ints, clock: Clock) -> _PartitionRows:
        """Sort rows by partition, time and arrival. Without event time, all rows of a batch have one time."""
        if self.operator.time is None:
            at = np.full(going.num_rows, clock.now_ms * 1000)
        else:
            at = micros(going, self.operator.time)
        order = np.lexsort((at, keys))
        return _PartitionRows(going.take(pa.array(order)).combine_chunks(), keys[order], at[order])

    def _look_back(
        self, history: pa.Table, history_keys: Ints, rows: _PartitionRows, clock: Clock
    ) -> tuple[CallValues, pa.Table]:
        """Compute the calls over bounded frames. Also return the rows that later calls can still see."""
        calls = list(self._calls("history"))
        new = pick_columns(rows.table.append_column(AT, pa.array(rows.at)), history.column_names)
        table = concat(history, new)
        keys = np.concatenate([history_keys, rows.keys])
        order = np.argsort(keys, kind="stable")
        table, keys = table.take(pa.array(order)).combine_chunks(), keys[order]
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        here = places[len(history_keys) :]
        at = table.column(AT).to_numpy()
        begin = stretch_starts(first_flags(keys))[here]

        reaches = {call.range_ms for call in calls if call.range_ms is not None}
        ranges = {reach: self._range(reach * 1000, keys, at, here) for reach in reaches}

        values: CallValues = {}
        for call in calls:
            seen = argument_values(call, table)
            if call.function == "lag":
                back = here - call.offset
                values[call.name] = take_or_default(call, seen, np.where(back >= begin, back, -1), rows.table)
                continue
            if call.range_ms is None:
                frame = RowFrames(np.maximum(begin, here - (call.rows or 0)), here + 1)
            else:
                frame = ranges[call.range_ms]
            values[call.name] = evaluate_frames(call, self._cast_summands(call, seen), row_weights(call, seen), frame)
        return values, table.filter(pa.array(self._visible_flags(calls, keys, at, clock)))

    def _range(self, reach: int, keys: Ints, at: Ints, here: Ints) -> RowFrames:
        """Return each row's frame: rows at most `reach` older. A time that goes back counts as the latest so far."""
        steps = np.unique(at)
        place = np.maximum.accumulate(key_times(keys, at, steps))
        since = np.searchsorted(steps, steps[place[here] - keys[here] * len(steps)] - reach)
        return RowFrames(np.searchsorted(place, keys[here] * len(steps) + since), self._frame_stops(keys, at)[here])

    def _visible_flags(self, calls: Sequence[OverCall], keys: Ints, at: Ints, clock: Clock) -> Flags:
        """Mask the rows that are among the last rows of their partition, or recent enough."""
        longest = max((call.offset if call.function == "lag" else call.rows or 0 for call in calls), default=0)
        kept: Flags = stretch_ends(first_flags(keys)) - np.arange(len(keys)) <= longest
        reach = max((call.range_ms for call in calls if call.range_ms is not None), default=None)
        if reach is not None:
            now = clock.now_ms - 1 if self.operator.time is None else clock.watermark_ms
            kept |= now is None or at > ((now or 0) - reach) * 1000
        return kept

    def _extend_running(
        self, partitions: pa.Table, partition_keys: Ints, rows: _PartitionRows, touched: Flags, clock: Clock
    ) -> tuple[CallValues, pa.Table]:
        """Compute the calls over all rows from the start. The earlier results act as a row before the new ones."""
        first = first_flags(rows.keys)
        heads, segment = np.flatnonzero(first), np.cumsum(first) - 1
        slot = np.full(len(touched), -1)
        slot[partition_keys] = np.arange(len(partition_keys))
        known = slot[rows.keys[heads]]
        here = np.arange(len(rows.keys)) + segment + 1
        order = np.argsort(np.concatenate([rows.keys[heads], rows.keys]), kind="stable")
        start = (heads + np.arange(len(heads)) + (known < 0))[segment]
        stop = self._frame_stops(rows.keys, rows.at) + segment + 1

        values: CallValues = {}
        for number, call in enumerate(self._calls("partitions")):
            seen = argument_values(call, rows.table)
            before = take_rows(column(partitions, f"{CALL}{number}"), known)
            weights, both = row_weights(call, seen), before
            if call.function in ("count", "row_number"):
                weights = np.concatenate([numbers(before), weights])[order]
            else:
                both = pa.concat_arrays([before, self._cast_summands(call, seen)]).take(pa.array(order))
            frame = RowFrames(start, here + 1 if call.by_row or call.function == "row_number" else stop)
            values[call.name] = evaluate_frames(call, both, weights, frame)

        tails = pa.array(stretch_ends(first)[heads] - 1)
        done = [rows.table.column(name).take(tails) for name in self.operator.partition]
        done += [pa.array(np.full(len(tails), clock.now_ms)), *(result.take(tails) for result in values.values())]
        seen_now = np.where(touched[partition_keys], clock.now_ms, partitions.column(NOW).to_numpy())
        partitions = partitions.set_column(partitions.column_names.index(NOW), NOW, pa.array(seen_now))
        others = np.ones(len(partition_keys), bool)
        others[known[known >= 0]] = False
        return values, concat(partitions.filter(pa.array(others)), pa.table(done, schema=partitions.schema))

    def _look_ahead(
        self, held: pa.Table, held_keys: Ints, ended: Flags, rows: _PartitionRows, values: CallValues
    ) -> tuple[pa.Table, pa.Table]:
        """Return the rows to emit, and the rows that wait for later rows."""
        table = rows.table
        for number, call in enumerate(call for call in self.operator.calls if call.function != "lead"):
            table = table.append_column(f"{CALL}{number}", values[call.name])
        keys = np.concatenate([np.where(ended[held_keys], held_keys + len(ended), held_keys), rows.keys])
        order = np.argsort(keys, kind="stable")
        table = concat(held, pick_columns(table, held.column_names)).take(pa.array(order))
        keys, here = keys[order], np.arange(len(keys))
        stop = stretch_ends(first_flags(keys))
        leads = list(self._calls("held"))
        ready = (keys >= len(ended)) | (here + max((call.offset for call in leads), default=0) < stop)

        columns = [table.column(name) for name in self.operator.columns]
        places = iter(range(len(self.operator.calls)))
        for call in self.operator.calls:
            if call.function == "lead":
                ahead = np.where(here + call.offset < stop, here + call.offset, -1)
                columns.append(take_or_default(call, argument_values(call, table), ahead, table))
            else:
                columns.append(table.column(f"{CALL}{next(places)}"))
        return pa.table(columns, schema=self.output).filter(pa.array(ready)), table.filter(pa.array(~ready))

    def _frame_stops(self, keys: Ints, at: Ints) -> Ints:
        """Return for each row the index after the last row of its time. Without event time, each has its own time."""
        if self.operator.time is None:
            return np.arange(1, len(keys) + 1)
        return stretch_ends(first_flags(keys) | first_flags(at))

    def _calls(self, table: str) -> Iterator[OverCall]:
        """Return the calls that need this table."""
        for call in self.operator.calls:
            bounded = call.function == "lag" or (call.rows, call.range_ms) != (None, None)
            if table == ("held" if call.function == "lead" else "history" if bounded else "partitions"):
                yield call

    def _call_type(self, call: OverCall) -> pa.DataType:
        return call_type(call, self.schemas[0])

    def _cast_summands(self, call: OverCall, seen: pa.Array) -> pa.Array:
        """Cast the values of a sum to the type of the sum; return other values unchanged."""
        return seen.cast(self._call_type(call)) if call.function == "sum" else seen

    def _row_columns(self) -> list[str]:
        """Return the columns needed until a row is emitted: at least one, as a table without any has no rows."""
        operator = self.operator
        used = (name for call in operator.calls for name in (call.argument, call.default) if name is not None)
        return unique_names((*operator.partition, *filter(None, (operator.time,)), *operator.columns, *used)) or [NOW]

    def _schema(self, table: str) -> pa.Schema:
        operator = self.operator
        calls = list(self._calls(table))
        fields = dict.fromkeys(operator.partition)
        extra: list[tuple[str, pa.DataType]] = []
        if table == "history":
            fields |= dict.fromkeys(call.argument for call in calls if call.argument is not None)
            extra = [(AT, pa.int64())]
        elif table == "partitions":
            extra = [(NOW, pa.int64()), *((f"{CALL}{i}", self._call_type(call)) for i, call in enumerate(calls))]
        else:
            used = (name for call in calls for name in (call.argument, call.default) if name is not None)
            fields |= dict.fromkeys((*operator.columns, *used))
            others = (call for call in operator.calls if call.function != "lead")
            extra = [(f"{CALL}{i}", self._call_type(call)) for i, call in enumerate(others)]
        return pa.schema([*((name, self.schemas[0].field(name).type) for name in fields), *extra])


def _live_partitions(table: pa.Table, keys: Ints, ended: Flags) -> tuple[pa.Table, Ints]:
    kept = ~ended[keys]
    return table.filter(pa.array(kept)), keys[kept]
