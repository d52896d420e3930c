"""The first rows of partitions against a plain model: all rows, sorted anew in every turn."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.keyed.operators import Ranking, Sort
from penstock.row_columns import NOW, OP, ORDER, SIGN
from tests.unit.keyed.turns import ORDER_FIELDS, Bucket, Row, apply, in_order
from tests.unit.keyed.values import KINDS, MAPS, plain, smaller_first, values

COLUMNS = ("k", "x", "y")
SCHEMAS = {
    kind: pa.schema(
        [
            ("k", pa.string()),
            ("x", KINDS[kind][0]),
            ("y", MAPS["map"][0]),
            (NOW, pa.int64()),
            (SIGN, pa.int8()),
            *ORDER_FIELDS,
        ]
    )
    for kind in KINDS
}


def row(key: Any, value: Any, place: int, payload: Any = None, sign: int = 1, now: int = 0) -> Row:
    return {
        "k": key,
        "x": value,
        "y": payload,
        NOW: now,
        SIGN: sign,
        **dict(zip(ORDER, (now, "f", 0, place), strict=True)),
    }


class Model:
    """All rows that are there, by partition."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.rows: dict[Any, list[Row]] = {}
        self.touched: dict[Any, int] = {}

    def forget(self, now: int) -> set[Any]:
        ttl = self.ranking.ttl_ms
        late = {key for key, at in self.touched.items() if ttl is not None and now - at >= ttl}
        for key in late:
            del self.touched[key], self.rows[key]
        return late

    def process_batch(self, rows: list[Row], now: int) -> None:
        came: dict[Any, list[Row]] = {}
        for new in sorted(rows, key=lambda new: new[ORDER[3]]):
            self.touched[plain(new["k"])] = now
            self.rows.setdefault(plain(new["k"]), [])
            if new[SIGN] > 0:
                came.setdefault(plain(new["k"]), []).append(new)
        for new in rows:
            if new[SIGN] < 0:
                for there in (came.get(plain(new["k"]), []), self.rows[plain(new["k"])]):
                    equal = [place for place, other in enumerate(there) if same(other, new)]
                    if equal:
                        del there[equal[0]]
                        break
        for key, more in came.items():
            self.rows[key] += more

    def top(self) -> dict[Any, list[Row]]:
        return {key: self.sorted(rows)[: self.ranking.limit] for key, rows in self.rows.items()}

    def sorted(self, rows: list[Row]) -> list[Row]:
        for sort in reversed(self.ranking.order):
            rows = sorted(rows, key=lambda row: smaller_first(row[sort.column]), reverse=sort.descending)
            if sort.nulls_last is not None:
                rows = sorted(rows, key=lambda row: (row[sort.column] is None) == sort.nulls_last)
        return rows


def same(one: Row, other: Row) -> bool:
    return all(plain(one[name]) == plain(other[name]) for name in COLUMNS)


@st.composite
def histories(draw: st.DrawFn, kind: str, signed: bool, clock: bool = False) -> list[tuple[int, list[Row]]]:
    turns, there, now = [], list[Row](), 0
    for _ in range(draw(st.integers(1, 5))):
        now += draw(st.integers(0, 6)) if clock else 1
        rows = []
        for place in range(draw(st.integers(0, 10))):
            if signed and there and draw(st.booleans()):
                gone = there.pop(draw(st.integers(0, len(there) - 1)))
                rows.append({**gone, SIGN: -1, NOW: now, ORDER[3]: place})
            else:
                key = draw(st.sampled_from(["a", "b", None]))
                rows.append(row(key, draw(values(kind)), place, draw(values("map")), now=now))
                there.append(rows[-1])
        turns.append((now, rows))
    return turns


def follow(ranking: Ranking, schema: pa.Schema, turns: list[tuple[int, list[Row]]]) -> None:
    """After every turn, the changes so far must make the rows at the top that the model has."""
    bucket, model = Bucket(ranking, schema), Model(ranking)
    seats: dict[Any, Row] = {}
    bag: Counter[Any] = Counter()
    for now, rows in turns:
        forgotten = model.forget(now)
        model.process_batch(rows, now)
        changes = bucket.told(rows, now=now)
        if ranking.rank is not None or ranking.limit == 1:
            seats = {key: row for key, row in seats.items() if key[0] not in forgotten}
            apply(seats, changes, ["k", *([ranking.rank] if ranking.rank is not None else [])])
            found = {key: [] for key in model.rows}
            for key in sorted(seats, key=repr):
                found[key[0]].append(plain([seats[key][name] for name in ranking.columns]))
            expected = {
                key: [plain([row[n] for n in ranking.columns]) for row in top] for key, top in model.top().items()
            }
            assert found == expected
        else:
            bag = Counter({row: count for row, count in bag.items() if row[0] not in forgotten})
            moved = {plain([change[name] for name in ranking.columns]): change[OP] for change in changes}
            assert all(moved[plain([change[name] for name in ranking.columns])] == change[OP] for change in changes), (
                "a row both enters and leaves"
            )
            for change in changes:
                bag[plain([change[name] for name in ranking.columns])] += {"i": 1, "d": -1}[change[OP]]
            tops = [row for top in model.top().values() for row in top]
            assert +bag == Counter(plain([row[name] for name in ranking.columns]) for row in tops)
            assert min(bag.values(), default=0) >= 0


@pytest.mark.parametrize("signed", [False, True], ids=["rows only come", "rows come and go"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_in_the_order_of_values_of_every_type(kind: str, signed: bool, data: st.DataObject) -> None:
    sort = Sort("x", data.draw(st.booleans()), data.draw(st.sampled_from([None, True, False])))
    ranking = Ranking(
        ("k",), (sort,), data.draw(st.integers(1, 3)), COLUMNS, data.draw(st.sampled_from([None, "n"])), signed
    )
    follow(ranking, SCHEMAS[kind], data.draw(histories(kind, signed)))


@given(data=st.data())
def test_a_partition_without_rows_for_the_ttl_is_as_if_never_seen(data: st.DataObject) -> None:
    limit, ttl = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 8))
    ranking = Ranking(("k",), (Sort("x"),), limit, COLUMNS, data.draw(st.sampled_from([None, "n"])), ttl_ms=ttl)
    follow(ranking, SCHEMAS["int"], data.draw(histories("int", signed=False, clock=True)))


@given(data=st.data())
def test_the_first_row_of_a_key_is_an_insert_and_nothing_ever_changes_it(data: st.DataObject) -> None:
    schema = SCHEMAS["long"]
    bucket = Bucket(Ranking(("k",), (), 1, COLUMNS), schema)
    seen = set()
    for _, rows in data.draw(histories("long", signed=False)):
        changes = bucket.told(rows)
        first = {new["k"]: new for new in sorted(rows, key=lambda new: -new[ORDER[3]]) if new["k"] not in seen}
        assert {change["k"]: change for change in changes} == {
            key: {**{name: new[name] for name in COLUMNS}, OP: "i"} for key, new in first.items()
        }
        seen |= {new["k"] for new in rows}


def test_rows_that_are_equal_stand_in_the_order_of_arrival_over_turns_too() -> None:
    schema = SCHEMAS["int"]
    bucket = Bucket(Ranking(("k",), (Sort("x"),), 3, ("y",), "n"), schema)
    first, second, third = ([(letter, 0)] for letter in "abc")
    changes = bucket.told([row("k", 1, 7, second), row("k", 1, 3, first)])
    assert {change["n"]: (change["y"], change[OP]) for change in changes} == {1: (first, "i"), 2: (second, "i")}
    changes = bucket.told([row("k", 1, 0, third), row("k", 0, 9, None)])
    expected = {1: (None, "u"), 2: (first, "u"), 3: (second, "i")}
    assert {change["n"]: (change["y"], change[OP]) for change in changes} == expected


def test_several_partition_columns_and_none() -> None:
    schema = SCHEMAS["int"]
    rows = [row("a", 1, 0), row("a", None, 1), row(None, 1, 2), row(None, 1, 3)]
    pairs = Bucket(Ranking(("k", "x"), (), 1, ("k", "x")), schema)
    assert len(pairs.told(rows)) == 3
    whole = Bucket(Ranking((), (Sort("x", True),), 2, ("x",), "n"), schema)
    assert sorted(tuple(change.values()) for change in whole.told(rows)) == [(1, 1, "i"), (1, 2, "i")]
    assert sorted(tuple(change.values()) for change in whole.told([row("b", 9, 0)])) == [(9, 1, "u")]


def test_a_row_that_goes_takes_only_one_like_it_and_lets_others_move_up() -> None:
    schema = SCHEMAS["int"]
    bucket = Bucket(Ranking(("k",), (Sort("x"),), 2, ("k", "x"), signed=True), schema)
    changes = bucket.told([row("a", 1, 0), row("a", 1, 1), row("a", 2, 2), row("a", 3, 3)])
    assert [change["x"] for change in changes] == [1, 1]
    assert sorted(tuple(change.values()) for change in bucket.told([row("a", 1, 0, sign=-1)])) == [
        ("a", 1, "d"),
        ("a", 2, "i"),
    ]
    assert bucket.told([row("a", 9, 0, sign=-1)]) == []


def test_without_order_columns_rows_of_one_turn_stand_in_the_order_of_their_content() -> None:
    schema = pa.schema([("k", pa.string()), ("x", pa.int64()), (NOW, pa.int64())])
    bucket = Bucket(Ranking(("k",), (), 2, ("x",), "n"), schema)
    changes = bucket.told([{"k": "a", "x": value, NOW: 0} for value in (3, 1, 2)])
    assert sorted((change["n"], change["x"]) for change in changes) == [(1, 1), (2, 2)]


def test_of_equal_rows_the_last_one_that_came_may_stand_first() -> None:
    schema = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.int64()), (NOW, pa.int64()), *ORDER_FIELDS])
    operator = Ranking(("k",), (Sort("t", descending=True),), 1, ("k", "v"), last_first=True)
    bucket = Bucket(operator, schema)
    row = {"k": "a", "t": 5, NOW: 0}
    assert [r["v"] for r in bucket.told(in_order([{**row, "v": 1}, {**row, "v": 2}]))] == [2]
    assert [r["v"] for r in bucket.told(in_order([{**row, "v": 3}, {**row, "t": 4, "v": 4}]))] == [3]
    assert bucket.told(in_order([{**row, "t": 4, "v": 5}])) == []
