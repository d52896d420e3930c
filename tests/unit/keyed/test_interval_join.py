"""The join by times of single rows, against a join of all rows at once."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.keyed.operators import Comparison, IntervalJoin
from penstock.row_columns import NOW
from tests.unit.keyed.turns import Bucket, Row, tuples

TIME = pa.timestamp("us", "UTC")
LEFT = pa.schema([("k", pa.string()), ("t", TIME), ("ends", TIME), ("id", pa.int64()), (NOW, pa.int64())])
RIGHT = pa.schema([("k", pa.string()), ("t", TIME), ("no", pa.int64()), (NOW, pa.int64())])
Kind = Literal["inner", "left", "right", "full"]
LAST = 60


def told(kind: Kind, ttl_ms: int | None = None) -> IntervalJoin:
    """`r.t BETWEEN l.t AND l.ends`; where `ends` is null, nothing fits."""
    comparisons = Comparison("t", "<=", "t"), Comparison("ends", ">=", "t")
    out = ("id",), ("no",), ("id",), ("no",)
    return IntervalJoin(kind, ("k",), ("k",), comparisons, "ends", "t", "t", "t", *out, ttl_ms)


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


KEYS = st.sampled_from(["x", "x", "y", None])
STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.integers(1, 5), st.integers(-3, 20)), max_size=4),
        st.lists(st.tuples(KEYS, st.integers(1, 5)), max_size=4),
    ),
    min_size=1,
    max_size=6,
)
"""Turns of rows: each is some milliseconds after the watermark that the turn has."""


def fits(left: Row, right: Row) -> bool:
    return left["k"] is not None and left["k"] == right["k"] and left["t"] <= right["t"] <= left["ends"]


def joined(kind: Kind, lefts: list[Row], rights: list[Row]) -> Counter[Any]:
    pairs = [(one, other) for one in lefts for other in rights if fits(one, other)]
    found = Counter((one["id"], other["no"]) for one, other in pairs)
    if kind in ("left", "full"):
        found.update((one["id"], None) for one in lefts if not any(one is left for left, _ in pairs))
    if kind in ("right", "full"):
        found.update((None, other["no"]) for other in rights if not any(other is right for _, right in pairs))
    return found


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@settings(max_examples=40)
@given(steps=STEPS)
def test_no_pair_is_missing_and_nothing_stays(kind: Kind, steps: list[Any]) -> None:
    bucket = Bucket(told(kind), LEFT, RIGHT)
    lefts: list[Row] = []
    rights: list[Row] = []
    found: Counter[Any] = Counter()
    for number, (ones, others) in enumerate(steps):
        now = 10 * number
        new = [
            {"k": k, "t": moment(now + t), "ends": moment(now + t + more), "id": len(lefts) + i, NOW: 0}
            for i, (k, t, more) in enumerate(ones)
        ]
        more_rows = [{"k": k, "t": moment(now + t), "no": len(rights) + i, NOW: 0} for i, (k, t) in enumerate(others)]
        lefts, rights = [*lefts, *new], [*rights, *more_rows]
        found.update(tuples(bucket.process_batch(new, more_rows, watermark=now).output))
    last = bucket.process_batch([], [], watermark=10 * len(steps) + LAST)
    found.update(tuples(last.output))
    assert found == joined(kind, lefts, rights)
    assert last.wake_ms is None
    assert sum(table.num_rows for table in last.state.values()) == 0


def test_late_rows_are_counted_and_the_first_end_is_waited_for() -> None:
    bucket = Bucket(told("left"), LEFT, RIGHT)
    row = {"k": "x", "t": moment(20), "ends": moment(50), "id": 1, NOW: 0}
    turn = bucket.process_batch(
        [row, {**row, "t": moment(5)}], [{"k": "x", "t": moment(9), "no": 1, NOW: 0}], watermark=10
    )
    assert (turn.late, turn.wake_ms, turn.output.num_rows) == (2, 50, 0)
