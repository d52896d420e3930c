"""The join of changing sides, against a model that joins everything anew after each turn."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.keyed.operators import ChangeJoin
from penstock.row_columns import NOW, SIGN
from tests.unit.keyed.turns import Bucket, Row, tuples

LEFT = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int32()),
        ("a", pa.map_(pa.string(), pa.int64())),
        pa.field(SIGN, pa.int8(), False),
        (NOW, pa.int64()),
    ]
)
RIGHT = pa.schema([("k", pa.string()), ("m", pa.int64()), ("b", pa.float64()), (SIGN, pa.int8()), (NOW, pa.int64())])
Kind = Literal["inner", "left", "right", "full"]


def told(kind: Kind, ttl_ms: int | None = None) -> ChangeJoin:
    return ChangeJoin(kind, ("k", "n"), ("k", "m"), ("k", "a"), ("b",), ("key", "a"), ("b",), ttl_ms)


def runner(told: ChangeJoin, seed: int = 0) -> Bucket:
    return Bucket(told, LEFT, RIGHT, seed=seed)


KEYS = {"k": st.sampled_from(["x", "x", "y", None])}
NUMBERS = st.sampled_from([1, 1, 2, None])
SIGNS = {SIGN: st.sampled_from([1, 1, 1, -1, -1])}
LEFTS = st.fixed_dictionaries({**KEYS, "n": NUMBERS, "a": st.sampled_from([None, [], [("p", 1), ("q", 2)]]), **SIGNS})
RIGHTS = st.fixed_dictionaries({**KEYS, "m": NUMBERS, "b": st.sampled_from([None, 0.5, float("nan")]), **SIGNS})
TURNS = st.lists(
    st.tuples(st.lists(LEFTS, max_size=5), st.lists(RIGHTS, max_size=5), st.integers(0, 3)), min_size=1, max_size=8
)


@dataclass
class Model:
    """The rows of both sides by their text, with how often they are there and when they were last touched."""

    told: ChangeJoin
    sides: tuple[dict[str, list[Any]], dict[str, list[Any]]] = field(default_factory=lambda: ({}, {}))

    def process_batch(self, inputs: tuple[list[Row], list[Row]], now: int) -> Counter[str]:
        self.sides = (self._fresh(self.sides[0], now), self._fresh(self.sides[1], now))
        before = self.joined()
        for side, rows, names in zip(self.sides, inputs, ("kna", "kmb"), strict=True):
            for row in rows:
                values = tuple(row[name] for name in names)
                entry = side.setdefault(repr(values), [values, 0, now])
                entry[1:] = entry[1] + row[SIGN], now
            for text, (_, count, _) in list(side.items()):
                if count <= 0:
                    del side[text]
        after = self.joined()
        change: Counter[str] = Counter()
        for text in {*before, *after}:
            change[text] = after[text] - before[text]
        return Counter({text: count for text, count in change.items() if count})

    def _fresh(self, side: dict[str, list[Any]], now: int) -> dict[str, list[Any]]:
        ttl = self.told.ttl_ms
        return {text: entry for text, entry in side.items() if ttl is None or now - entry[2] < ttl}

    def joined(self) -> Counter[str]:
        found: Counter[str] = Counter()
        lefts, rights = (list(side.values()) for side in self.sides)
        for left, count, _ in lefts:
            partners = [(right, times) for right, times, _ in rights if matches(left, right)]
            for right, times in partners:
                found[repr((left[0], left[2], right[2]))] += count * times
            if not partners and self.told.side in ("left", "full"):
                found[repr((left[0], left[2], None))] += count
        for right, count, _ in rights:
            if self.told.side in ("right", "full") and not any(matches(left, right) for left, *_ in lefts):
                found[repr((None, None, right[2]))] += count
        return found


def matches(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return None not in (*left[:2], *right[:2]) and left[:2] == right[:2]


def net(output: pa.Table) -> Counter[str]:
    found: Counter[str] = Counter()
    signs: dict[str, set[int]] = {}
    for *values, sign in tuples(output):
        found[repr(tuple(values))] += sign
        signs.setdefault(repr(tuple(values)), set()).add(sign)
    assert all(len(both) == 1 for both in signs.values()), "a row comes and goes in one turn"
    return found


@pytest.mark.parametrize("kind", ["inner", "left", "right", "full"])
@given(TURNS, st.sampled_from([None, 3]), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_what_comes_out_is_what_makes_the_old_join_the_new_one(
    kind: Kind, turns: list[tuple[list[Row], list[Row], int]], ttl: int | None, seed: int
) -> None:
    run, model = runner(told(kind, ttl), seed), Model(told(kind, ttl))
    now = 0
    for lefts, rights, pause in turns:
        now += pause
        expected = model.process_batch((lefts, rights), now)
        done = run.process_batch([{**row, NOW: now} for row in lefts], [{**row, NOW: now} for row in rights], now=now)
        assert net(done.output) == expected


def left(value: int, sign: int = 1, key: str | None = "x") -> Row:
    return {"k": key, "n": 1, "a": [("v", value)], SIGN: sign, NOW: 0}


def right(value: float, sign: int = 1, key: str | None = "x") -> Row:
    return {"k": key, "m": 1, "b": value, SIGN: sign, NOW: 0}


def test_a_row_without_a_partner_goes_when_one_comes_and_returns_when_it_has_left() -> None:
    run = runner(told("left"))
    assert tuples(run.process_batch([left(1)], []).output) == [("x", [("v", 1)], None, 1)]
    assert sorted(tuples(run.process_batch([], [right(0.5)]).output), key=str) == [
        ("x", [("v", 1)], 0.5, 1),
        ("x", [("v", 1)], None, -1),
    ]
    assert tuples(run.process_batch([], [right(0.7)]).output) == [("x", [("v", 1)], 0.7, 1)]
    assert len(tuples(run.process_batch([], [right(0.5, -1), right(0.7, -1)]).output)) == 3
    assert len(run.rows("right")) == 0


def test_an_update_that_changes_nothing_that_comes_out_is_silent() -> None:
    run = runner(told("full"))
    run.process_batch([left(1), left(2)], [right(0.5)])
    assert run.process_batch([left(1, -1), left(1)], [right(0.5, -1), right(0.5)]).output.num_rows == 0
    assert run.process_batch([], []).output.num_rows == 0


def test_keys_with_nulls_never_match_and_are_kept_only_where_they_come_out() -> None:
    run = runner(told("left"))
    output = run.process_batch([left(1, key=None)], [right(0.5, key=None)]).output
    assert tuples(output) == [(None, [("v", 1)], None, 1)]
    assert (len(run.rows("left")), len(run.rows("right"))) == (1, 0)


def test_a_row_that_was_not_touched_for_long_is_as_if_never_seen() -> None:
    run = runner(told("inner", ttl_ms=10))
    run.process_batch([left(1), left(2)], [], now=0)
    run.process_batch([left(2)], [], now=5)
    assert tuples(run.process_batch([], [right(0.5)], now=10).output) == [("x", [("v", 2)], 0.5, 1)] * 2
    assert run.process_batch([left(1, -1)], [], now=11).output.num_rows == 0
