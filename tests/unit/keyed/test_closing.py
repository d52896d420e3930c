"""Windows that close: each comes out once, is corrected while it may be, and is forgotten; against plain Python."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.keyed.kernel import KernelResult
from penstock.keyed.operators import Aggregate, AggregateCall
from penstock.row_columns import BEFORE, NOW, OP, ORDER
from tests.unit.keyed.turns import ORDER_FIELDS, TIME, Bucket, Row, apply

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALLS = (
    AggregateCall("n", "count"),
    AggregateCall("total", "sum", "x"),
    AggregateCall("different", "count", "x", distinct=True),
    AggregateCall("last", "last", "x"),
)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("end", TIME),
        ("x", pa.int64()),
        (NOW, pa.int64()),
        *ORDER_FIELDS,
    ]
)


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def row(key: str | None, end: int, value: int | None, place: int = 0, now: int = 0) -> Row:
    return {
        "k": key,
        "end": moment(end),
        "x": value,
        NOW: now,
        **dict(zip(ORDER, (now, "f", 0, place), strict=True)),
    }


class Windows:
    """A bucket that takes turns at watermarks."""

    def __init__(
        self, lateness_ms: int, calls: tuple[AggregateCall, ...] = CALLS, *, with_before: bool = False
    ) -> None:
        told = Aggregate(("k", "end"), calls, with_before=with_before, closes="end", lateness_ms=lateness_ms)
        self.bucket = Bucket(told, SCHEMA)

    def process_batch(self, watermark: int | None, rows: list[Row]) -> KernelResult:
        return self.bucket.process_batch(rows, watermark=watermark)

    def changes(self, watermark: int | None, *rows: Row) -> list[tuple[Any, ...]]:
        found = self.process_batch(watermark, list(rows)).output.to_pylist()
        return sorted(tuple(change.values()) for change in found)


COUNT = (AggregateCall("n", "count"),)


def test_a_window_is_silent_until_the_watermark_has_reached_its_end_and_then_comes_out_once() -> None:
    windows = Windows(0, COUNT)
    assert windows.changes(None, row("a", 100, 1)) == []
    assert windows.changes(0, row("a", 100, 1)) == []
    assert windows.changes(99) == []
    assert windows.changes(100) == [("a", moment(100), 2, "i")]
    assert windows.changes(100) == []


def test_a_row_within_the_lateness_corrects_its_window_and_a_later_one_is_late() -> None:
    windows = Windows(50, COUNT)
    windows.process_batch(0, [row("a", 100, 1)])
    assert windows.changes(100) == [("a", moment(100), 1, "i")]
    assert windows.changes(149, row("a", 100, 1)) == [("a", moment(100), 2, "u")]
    late = windows.process_batch(150, [row("a", 100, 1), row("a", 200, 1)])
    assert (late.late, late.output.num_rows) == (1, 0)


def test_a_window_whose_rows_all_come_after_its_end_comes_out_at_once() -> None:
    windows = Windows(50, COUNT)
    assert windows.changes(120, row("a", 100, 1), row("a", 100, 1)) == [("a", moment(100), 2, "i")]
    assert windows.changes(130, row("a", 100, 1)) == [("a", moment(100), 3, "u")]


def test_a_correction_that_changes_no_value_is_not_told() -> None:
    windows = Windows(50, (AggregateCall("high", "max", "x"),))
    assert windows.changes(100, row("a", 100, 7)) == [("a", moment(100), 7, "i")]
    assert windows.changes(110, row("a", 100, 3)) == []


def test_state_goes_when_nothing_can_change_it_any_more() -> None:
    windows = Windows(50)
    turn = windows.process_batch(100, [row("a", 100, 1), row("b", 130, 1), row("c", 160, 1)])
    assert turn.wake_ms == 130
    turn = windows.process_batch(130, [])
    assert (turn.wake_ms, turn.state["keys"].num_rows) == (150, 3)
    turn = windows.process_batch(150, [])
    assert (turn.wake_ms, turn.state["keys"].num_rows) == (160, 2)
    turn = windows.process_batch(500, [])
    assert turn.wake_ms is None
    assert {name: kept.num_rows for name, kept in turn.state.items()} == dict.fromkeys(windows.bucket.kernel.tables, 0)


def test_the_watermark_that_an_end_between_two_milliseconds_waits_for_is_the_one_behind_it() -> None:
    windows = Windows(0, COUNT)
    early = row("a", 100, 1) | {"end": moment(100) + timedelta(microseconds=1)}
    assert windows.process_batch(100, [early]).wake_ms == 101
    assert len(windows.changes(101)) == 1


class Model:
    """Every row that came in time, by window."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.rows: dict[tuple[Any, int], list[Row]] = {}

    def process_batch(self, watermark: int, rows: list[Row]) -> tuple[dict[Any, Row], int]:
        """The windows that have come out so far, and how many of the new rows were late."""
        late = 0
        for new in sorted(rows, key=lambda r: r[ORDER[3]]):
            end = round((new["end"] - EPOCH) / timedelta(milliseconds=1))
            if end + self.lateness <= watermark:
                late += 1
            else:
                self.rows.setdefault((new["k"], end), []).append(new)
        return {(k, moment(end)): _called(rows) for (k, end), rows in self.rows.items() if end <= watermark}, late


def _called(rows: list[Row]) -> Row:
    values = [r["x"] for r in rows if r["x"] is not None]
    return {
        "n": len(rows),
        "total": sum(values) if values else None,
        "different": len(set(values)),
        "last": values[-1] if values else None,
    }


@given(data=st.data(), lateness=st.sampled_from([0, 1, 10, 30]))
def test_windows_and_lists_of_rows_agree(data: st.DataObject, lateness: int) -> None:
    windows, model = Windows(lateness, with_before=True), Model(lateness)
    folded: dict[Any, Row] = {}
    watermark = 0
    for now in range(data.draw(st.integers(1, 7))):
        watermark += data.draw(st.integers(0, 25))
        ends = st.integers(1, 8).map(lambda n: n * 10)
        drawn = st.tuples(st.sampled_from(["a", "b", None]), ends, st.none() | st.integers(-3, 3))
        rows = [row(k, end, x, place, now) for place, (k, end, x) in enumerate(data.draw(st.lists(drawn, max_size=6)))]
        turn = windows.process_batch(watermark, rows)
        expected, late = model.process_batch(watermark, rows)
        changes = turn.output.to_pylist()
        for change in changes:
            was = folded.get((change["k"], change["end"]))
            before = None if was is None else {call.name: was[call.name] for call in CALLS}
            assert change.pop(BEFORE) == before
        apply(folded, changes, ["k", "end"])
        assert turn.late == late
        assert {key: {call.name: r[call.name] for call in CALLS} for key, r in folded.items()} == expected
        open_ends = [end for _, end in model.rows if end + lateness > watermark]
        assert turn.state["keys"].num_rows == len(open_ends)
        wakes = [end if end > watermark else end + lateness for end in open_ends]
        assert turn.wake_ms == min(wakes, default=None)
        assert all(change[OP] in "iu" for change in turn.output.to_pylist())
