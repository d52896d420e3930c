"""Changes by key as signed rows: at any time, the signs add up to the last row of every key."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.keyed.operators import LatestPerKey
from penstock.row_columns import NOW, OP, ORDER, SIGN
from tests.unit.keyed.turns import ORDER_FIELDS, Bucket, Row
from tests.unit.keyed.values import KINDS, MAPS, plain, values

ALL = {**KINDS, **MAPS}


def schema_of(kind: str) -> pa.Schema:
    return pa.schema([("k", pa.string()), ("x", ALL[kind][0]), (OP, pa.string()), (NOW, pa.int64()), *ORDER_FIELDS])


def change(key: Any, value: Any, place: int, op: str = "u", now: int = 0) -> Row:
    return {"k": key, "x": value, OP: op, NOW: now, **dict(zip(ORDER, (0, "f", place, 0), strict=True))}


def bucket_of(kind: str, ttl: int | None = None) -> Bucket:
    return Bucket(LatestPerKey(("k",), ("k", "x"), ttl), schema_of(kind))


@st.composite
def histories(draw: st.DrawFn, kind: str, clock: bool) -> list[tuple[int, list[Row]]]:
    turns, now = [], 0
    for _ in range(draw(st.integers(1, 5))):
        now += draw(st.integers(0, 6)) if clock else 1
        keys, dead_letters = st.sampled_from(["a", "b", "", None]), st.sampled_from("iud")
        rows = [
            change(draw(keys), draw(values(kind)), place, draw(dead_letters), now)
            for place in range(draw(st.integers(0, 8)))
        ]
        turns.append((now, rows))
    return turns


def follow(kind: str, ttl: int | None, turns: list[tuple[int, list[Row]]]) -> None:
    bucket = bucket_of(kind, ttl)
    model: dict[Any, tuple[Any, int]] = {}
    for now, rows in turns:
        model = {key: (value, at) for key, (value, at) in model.items() if ttl is None or now - at < ttl}
        expected: Counter[Any] = Counter({(key, value): -1 for key, (value, _) in model.items()})
        for new in sorted(rows, key=lambda new: new[ORDER[2]]):
            model[new["k"]] = (plain(new["x"]), now)
            if new[OP] == "d":
                del model[new["k"]]
        for key, (value, _) in model.items():
            expected[key, value] += 1
        found: Counter[Any] = Counter()
        for signed in bucket.told(rows, now=now):
            found[signed["k"], plain(signed["x"])] += signed[SIGN]
        assert dict(found) == {row: count for row, count in expected.items() if count}


@pytest.mark.parametrize("kind", ALL)
@given(data=st.data())
def test_payloads_of_every_type(kind: str, data: st.DataObject) -> None:
    follow(kind, None, data.draw(histories(kind, clock=False)))


@given(data=st.data())
def test_a_key_without_changes_for_the_ttl_is_as_if_never_seen(data: st.DataObject) -> None:
    follow("string", data.draw(st.integers(1, 8)), data.draw(histories("string", clock=True)))


def test_the_last_change_of_a_batch_counts() -> None:
    bucket = bucket_of("int")
    rows = [
        change("a", 1, 2),
        change("a", 2, 1),
        change("b", 3, 1, "i"),
        change("b", 3, 2, "d"),
        change("c", 4, 1, "d"),
    ]
    assert bucket.told(rows) == [{"k": "a", "x": 1, SIGN: 1}]
    assert bucket.told([change("a", 5, 1, "i")]) == [{"k": "a", "x": 1, SIGN: -1}, {"k": "a", "x": 5, SIGN: 1}]
    assert bucket.told([change("a", 5, 1, "u")]) == []
    assert bucket.told([change("a", 0, 1, "d")]) == [{"k": "a", "x": 5, SIGN: -1}]


def test_payloads_come_out_as_they_went_in() -> None:
    bucket = bucket_of("double")
    (row,) = bucket.told([change("a", -0.0, 1)])
    assert str(row["x"]) == "-0.0"
