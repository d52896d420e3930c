"""Functions over partitions, against a model that looks at all rows of a partition for each of them."""

from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.keyed.operators import OverCall, OverWindow
from penstock.row_columns import NOW
from tests.unit.keyed.turns import ORDER_FIELDS, TIME, Bucket, Row, counted, in_order, tuples

SCHEMA = pa.schema(
    [
        ("p", pa.string()),
        ("ts", TIME),
        pa.field("id", pa.int64(), False),
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(5, 2)),
        ("s", pa.string()),
        ("l", pa.list_(pa.int64())),
        (NOW, pa.int64()),
        *ORDER_FIELDS,
    ]
)
CALLS = (
    OverCall("rows_so_far", "count"),
    OverCall("i_so_far", "count", "i"),
    OverCall("sum_i", "sum", "i"),
    OverCall("sum_f", "sum", "f"),
    OverCall("sum_d", "sum", "d"),
    OverCall("min_s", "min", "s"),
    OverCall("max_d", "max", "d"),
    OverCall("first_l", "first", "l"),
    OverCall("last_s", "last", "s"),
    OverCall("number", "row_number"),
    OverCall("rows_to_here", "count", by_row=True),
    OverCall("sum_to_here", "sum", "i", by_row=True),
    OverCall("max_to_here", "max", "f", by_row=True),
    OverCall("last_to_here", "last", "s", by_row=True),
    OverCall("three_s", "count", "s", rows=2),
    OverCall("three_i", "sum", "i", rows=2),
    OverCall("two_max", "max", "f", rows=1),
    OverCall("only_d", "sum", "d", rows=0),
    OverCall("five_min", "min", "i", rows=4),
    OverCall("three_first", "first", "s", rows=2),
    OverCall("recent", "count", range_ms=3),
    OverCall("recent_f", "sum", "f", range_ms=2),
    OverCall("recent_d", "sum", "d", range_ms=3),
    OverCall("recent_max", "max", "s", range_ms=3),
    OverCall("recent_first", "first", "i", range_ms=1),
    OverCall("recent_last", "last", "l", range_ms=0),
    OverCall("before", "lag", "l"),
    OverCall("long_before", "lag", "s", offset=3, default="p"),
)
LEADS = (OverCall("after", "lead", "l"), OverCall("long_after", "lead", "s", offset=2, default="p"))


def told(*calls: OverCall, timed: bool = True, ttl_ms: int | None = None) -> OverWindow:
    return OverWindow(("p",), "ts" if timed else None, calls, ("id", "p"), ttl_ms)


def runner(told: OverWindow, seed: int = 0) -> Bucket:
    return Bucket(told, SCHEMA, seed=seed)


TIMES = [time * 1000 + more for time in range(12) for more in (0, 1, 999)]
ROWS = st.fixed_dictionaries(
    {
        "p": st.sampled_from(["x", "x", "y", None]),
        "ts": st.one_of(st.none(), *[st.sampled_from(TIMES)] * 9),
        "i": st.sampled_from([None, -3, 1, 2, 2**31 - 1]),
        "f": st.sampled_from([None, -0.5, 1.0, 8.25]),
        "d": st.sampled_from([None, Decimal("-999.99"), Decimal("0.01"), Decimal("999.99")]),
        "s": st.sampled_from([None, "", "a", "bc"]),
        "l": st.sampled_from([None, [], [1, None]]),
    }
)
TURNS = st.lists(st.tuples(st.lists(ROWS, max_size=7), st.integers(0, 5), st.integers(0, 3)), max_size=7)

RANGES = [call for call in CALLS if call.range_ms is not None]
SOME_CALLS = st.one_of(
    *(st.lists(st.sampled_from(calls), min_size=1, max_size=6, unique=True) for calls in ([*CALLS, *LEADS], RANGES))
)


@dataclass
class Model:
    """All rows of each partition since it began, with the time of each; `out` is how many of them came out."""

    told: OverWindow
    waiting: list[Row] = field(default_factory=list)
    partitions: dict[str | None, list[tuple[int, Row]]] = field(default_factory=dict)
    out: dict[str | None, int] = field(default_factory=dict)
    touched: dict[str | None, int] = field(default_factory=dict)

    def process_batch(self, rows: list[Row], now: int, watermark: int) -> tuple[list[tuple[Any, ...]], int]:
        timed = self.told.time is not None
        output = []
        for key in list(self.partitions):
            if self.told.ttl_ms is not None and now - self.touched[key] >= self.told.ttl_ms:
                output += self.leave(key, len(self.partitions[key]))
                del self.partitions[key], self.out[key]
        late = [row for row in rows if timed and (row["ts"] is None or row["ts"] <= watermark * 1000)]
        came = [row for row in rows if row not in late]
        going = [row for row in self.waiting if row["ts"] <= watermark * 1000] if timed else came
        self.waiting = [row for row in self.waiting if row not in going] + came if timed else []
        for row in sorted(going, key=lambda row: row["ts"] if timed else 0):
            self.partitions.setdefault(row["p"], []).append((row["ts"] if timed else now * 1000, row))
        self.touched.update({row["p"]: now for row in [*came, *going]})
        ahead = max((call.offset for call in self.told.calls if call.function == "lead"), default=0)
        for key, all_rows in self.partitions.items():
            output += self.leave(key, max(len(all_rows) - ahead, 0))
        return output, len(late)

    def leave(self, key: str | None, until: int) -> list[tuple[Any, ...]]:
        rows, since = self.partitions[key], self.out.get(key, 0)
        self.out[key] = until
        return [
            (rows[i][1]["id"], key, *(self.value(call, rows, i) for call in self.told.calls))
            for i in range(since, until)
        ]

    def value(self, call: OverCall, rows: list[tuple[int, Row]], here: int) -> Any:
        if call.function == "row_number":
            return here + 1
        if call.function in ("lag", "lead"):
            there = here + (call.offset if call.function == "lead" else -call.offset)
            if 0 <= there < len(rows):
                return rows[there][1][call.argument or ""]
            return call.default and rows[here][1][call.default]
        time = rows[here][0]
        frame = []
        for place, (at, row) in enumerate(rows):
            by_row = place <= here and (call.rows is None or place >= here - call.rows)
            by_time = (at <= time if self.told.time else place <= here) and at >= time - (call.range_ms or 10**9) * 1000
            if call.range_ms == 0:
                by_time = by_time and at == time
            if by_row if call.by_row or call.rows is not None else by_time:
                frame.append(row[call.argument] if call.argument else 1)
        some = [value for value in frame if value is not None]
        match call.function:
            case "count":
                return len(some)
            case "sum":
                return sum(some) if some else None
            case "min":
                return min(some, default=None)
            case "max":
                return max(some, default=None)
            case "first":
                return some[0] if some else None
        return some[-1] if some else None


@pytest.mark.parametrize("timed", [True, False], ids=["by time", "by arrival"])
@given(TURNS, SOME_CALLS, st.sampled_from([None, 3]), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_each_row_has_the_calls_over_its_partition(
    timed: bool, turns: list[tuple[list[Row], int, int]], calls: list[OverCall], ttl: int | None, seed: int
) -> None:
    operator = told(*calls, timed=timed, ttl_ms=ttl)
    run, model = runner(operator, seed), Model(operator)
    for number, row in enumerate(row for rows, *_ in turns for row in rows):
        row["id"] = number
    watermark = now = 0
    for rows, step, pause in [*turns, ([], 12, 0)]:
        watermark, now = watermark + step, now + pause
        expected, late = model.process_batch(rows, now, watermark)
        done = run.process_batch(
            [{**row, NOW: now} for row in in_order(rows)], now=now, watermark=watermark if timed else None
        )
        assert counted(tuples(done.output)) == counted(expected)
        assert done.late == late
        waiting = [row["ts"] for row in model.waiting]
        assert done.wake_ms == (-(-min(waiting) // 1000) if waiting else None)


def row(id: int, time: int, **values: Any) -> Row:
    return {"p": "x", "ts": time * 1000, "id": id, NOW: 0, **values}


def last(output: pa.Table) -> dict[int, Any]:
    return {values[0]: values[-1] for values in tuples(output)}


@pytest.mark.parametrize("turns", [1, 7, 60], ids=["at once", "in parts", "one by one"])
def test_however_rows_are_dealt_out_the_answer_is_the_same(turns: int) -> None:
    random = Random(5)
    rows = [
        row(id, 1 + id // 2, p=random.choice("xy"), i=random.choice([None, 1, -7]), f=random.choice([None, 0.5, -3.0]))
        | {"d": random.choice([None, Decimal("0.01"), Decimal("-12.50")]), "s": random.choice([None, "b"]), "l": [id]}
        for id in range(60)
    ]
    run = runner(told(*CALLS))
    found = []
    for turn in range(turns):
        part = rows[turn * 60 // turns : (turn + 1) * 60 // turns]
        found += tuples(run.process_batch(in_order(part), watermark=part[0]["ts"] // 1000 - 1).output)
    found += tuples(run.process_batch([], watermark=100).output)
    model = Model(told(*CALLS))
    model.process_batch(rows, 0, 0)
    assert counted(found) == counted(model.process_batch([], 0, 100)[0])


def test_rows_of_one_time_share_the_default_frame() -> None:
    run = runner(told(OverCall("sum", "sum", "i")))
    run.process_batch(in_order([row(1, 5, i=1), row(2, 5, i=10), row(3, 6, i=100)]), watermark=0)
    assert last(run.process_batch([], watermark=6).output) == {1: 11, 2: 11, 3: 111}


def test_only_what_is_still_needed_is_kept() -> None:
    run = runner(told(OverCall("few", "sum", "i", rows=2), OverCall("recent", "count", range_ms=10), *CALLS[:2]))
    for time in range(1, 50):
        run.process_batch([row(time, time, i=1)], watermark=time - 1)
    assert len(run.rows("waiting")) == 1
    assert len(run.rows("history")) == 10
    assert len(run.rows("partitions")) == 1
    run.process_batch([], watermark=1000)
    assert len(run.rows("history")) == 2


def test_lead_holds_a_row_back_until_its_next_ones_are_out() -> None:
    run = runner(told(OverCall("next", "lead", "i", offset=2)))
    run.process_batch([row(1, 1, i=1), row(2, 2, i=2), row(3, 3, i=3)], watermark=0)
    assert last(run.process_batch([], watermark=2).output) == {}
    assert last(run.process_batch([row(4, 9, i=4)], watermark=3).output) == {1: 3}
    assert last(run.process_batch([], watermark=9).output) == {2: 4}
    assert len(run.rows("held")) == 2


def test_values_that_leave_a_frame_leave_no_trace() -> None:
    values = [1e300, float("nan"), float("inf"), 0.1, 0.2]
    schema = SCHEMA.set(SCHEMA.get_field_index("f"), pa.field("f", pa.float64()))
    calls = (OverCall("max", "max", "f", rows=1), OverCall("sum", "sum", "f", rows=1))
    run = Bucket(told(*calls), schema)
    run.process_batch([row(id, id + 1, f=value) for id, value in enumerate(values)], watermark=0)
    output = tuples(run.process_batch([], watermark=9).output)
    assert repr([values[2:] for values in output]) == repr(
        [(1e300, 1e300), *[(float("nan"), float("nan"))] * 2, (float("inf"), float("inf")), (0.2, 0.1 + 0.2)]
    )


@pytest.mark.parametrize("rows", [None, 5])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_is_too_large_is_an_error(rows: int | None, sign: int) -> None:
    schema = SCHEMA.set(SCHEMA.get_field_index("i"), pa.field("i", pa.int64()))
    schema = schema.set(schema.get_field_index("d"), pa.field("d", pa.decimal128(38, 0)))
    for name, large, kind in ("i", 2**63 - 1, "BIGINT"), ("d", 10**38 - 1, r"DECIMAL\(38, 0\)"):
        run = Bucket(told(OverCall("sum", "sum", name, rows=rows)), schema)
        values = [Decimal(sign * value) if name == "d" else sign * value for value in (large, -1, 1, 2)]
        given = [row(id, id + 1, **{name: value}) for id, value in enumerate(values)]
        run.process_batch(given, watermark=0)
        assert last(run.process_batch([], watermark=3).output)[2] == sign * large
        with pytest.raises(ArithmeticError, match=rf"sum of the key \(x\) does not fit into {kind}"):
            run.process_batch([], watermark=4)


def test_a_partition_that_no_row_comes_for_starts_anew() -> None:
    run = runner(
        told(OverCall("next", "lead", "s", default="p"), OverCall("number", "row_number"), timed=False, ttl_ms=10)
    )
    assert tuples(run.process_batch([row(1, 1, s="one")], now=0).output) == []
    assert tuples(run.process_batch([row(2, 1, s="two")], now=9).output) == [(1, "x", "two", 1)]
    assert tuples(run.process_batch([row(3, 1, s="three")], now=19).output) == [(2, "x", "x", 2)]
    assert tuples(run.process_batch([row(4, 1, s="four")], now=20).output) == [(3, "x", "four", 1)]


def test_a_partition_is_touched_when_rows_come_that_must_wait() -> None:
    run = runner(told(OverCall("number", "row_number"), ttl_ms=10))
    run.process_batch([row(1, 1)], now=0, watermark=0)
    assert last(run.process_batch([], now=1, watermark=1).output) == {1: 1}
    run.process_batch([row(2, 5)], now=8, watermark=1)
    assert last(run.process_batch([], now=17, watermark=5).output) == {2: 2}
    run.process_batch([row(3, 9)], now=26, watermark=5)
    assert last(run.process_batch([], now=36, watermark=9).output) == {3: 1}


@pytest.mark.parametrize("timed", [True, False], ids=["by time", "by arrival"])
def test_a_range_reaches_exactly_as_far_as_it_says(timed: bool) -> None:
    run = runner(told(OverCall("recent", "count", range_ms=3), timed=timed))
    found: dict[int, Any] = {}
    for time in (1, 2, 4, 5, 9):
        found |= last(run.process_batch([row(time, time)], now=time, watermark=time - 1 if timed else None).output)
    found |= last(run.process_batch([], now=9, watermark=9 if timed else None).output)
    assert found == {1: 1, 2: 2, 4: 3, 5: 3, 9: 1}


def test_a_range_reaches_to_the_microsecond() -> None:
    run = runner(told(OverCall("recent", "count", range_ms=3)))
    run.process_batch([{**row(id, 0), "ts": time} for id, time in enumerate([1000, 1001, 4001])], watermark=0)
    run.process_batch([], watermark=4)
    assert last(run.process_batch([], watermark=5).output) == {2: 2}


def test_without_partitions_all_rows_are_one() -> None:
    run = runner(replace(told(OverCall("number", "row_number")), partition=()))
    run.process_batch([row(1, 1), row(2, 2, p="y")], watermark=0)
    assert last(run.process_batch([], watermark=2).output) == {1: 1, 2: 2}


def test_a_count_of_all_rows_needs_no_column() -> None:
    run = runner(OverWindow((), None, (OverCall("number", "count"),), ()))
    assert tuples(run.process_batch([row(1, 1), row(2, 2)]).output) == [(1,), (2,)]
    assert tuples(run.process_batch([row(3, 1)]).output) == [(3,)]


def test_rows_of_equal_time_share_a_value_unless_the_frame_goes_by_row() -> None:
    run = runner(told(OverCall("shared", "sum", "i"), OverCall("own", "sum", "i", by_row=True)))
    rows = [{"p": "x", "ts": 1000, "id": n, "i": n, NOW: 0} for n in (1, 2, 3)]
    run.process_batch(in_order(rows), now=0, watermark=0)
    done = run.process_batch([], now=0, watermark=1)
    assert sorted(tuples(done.output)) == [(1, "x", 6, 1), (2, "x", 6, 3), (3, "x", 6, 6)]


@pytest.mark.parametrize("fields", [[], ORDER_FIELDS], ids=["without places", "of one place"])
@pytest.mark.parametrize("timed", [True, False], ids=["by time", "by arrival"])
def test_rows_that_came_at_once_are_taken_by_their_values(fields: list[pa.Field], timed: bool) -> None:
    """Whatever the order of the rows, which the bucket sees to: also those that differ in a list only."""
    schema = pa.schema([*(field for field in SCHEMA if field not in ORDER_FIELDS), *fields])
    run = Bucket(told(OverCall("number", "row_number"), OverCall("own", "last", "l", by_row=True), timed=timed), schema)
    rows = [{"p": "x", "ts": 1000, "id": 7, "s": text, "l": [n], NOW: 0} for n in range(9) for text in (None, "a")]
    outputs = [
        run.process_batch(some, watermark=mark if timed else None).output for mark, some in enumerate((rows, []))
    ]
    found = {number: own for output in outputs for *_, number, own in tuples(output)}
    assert found == {number: [(number - 1) % 9] for number in range(1, 19)}


def test_first_and_last_pass_over_nulls_in_every_turn() -> None:
    run = runner(told(OverCall("first", "first", "i"), OverCall("last", "last", "i")), 0)
    run.process_batch([row(1, 1, i=None), row(2, 2, i=7), row(3, 3, i=None)])
    assert tuples(run.process_batch([row(4, 4, i=8), row(5, 5, i=None)], watermark=3).output) == [
        (1, "x", None, None),
        (2, "x", 7, 7),
        (3, "x", 7, 7),
    ]
    assert tuples(run.process_batch([], watermark=5).output) == [(4, "x", 7, 8), (5, "x", 7, 8)]
