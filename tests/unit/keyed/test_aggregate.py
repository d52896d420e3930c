"""Aggregates by key against a plain model: lists of values, and Python."""

import math
from collections import Counter
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.keyed.aggregates.aggregate import AggregateKernel
from penstock.keyed.operators import Aggregate, AggregateCall
from penstock.row_columns import BEFORE, NOW, OP, ORDER, SIGN
from tests.unit.keyed.turns import ORDER_FIELDS, Bucket, Row, apply
from tests.unit.keyed.values import KINDS, NAN, plain, smaller_first, values

OF_ALL = (
    AggregateCall("rows", "count"),
    AggregateCall("n", "count", "x"),
    AggregateCall("different", "count", "x", distinct=True),
    AggregateCall("low", "min", "x"),
    AggregateCall("high", "max", "x"),
    AggregateCall("first", "first", "x"),
    AggregateCall("last", "last", "x"),
    AggregateCall("all", "list", "x"),
    AggregateCall("each", "list", "x", distinct=True),
)
OF_NUMBERS = (
    *OF_ALL,
    AggregateCall("total", "sum", "x"),
    AggregateCall("total_of_different", "sum", "x", distinct=True),
)
NUMBERS = ("byte", "short", "int", "long", "float", "double", "decimal", "wide")


def schema_of(kind: str, key: str = "string") -> pa.Schema:
    return pa.schema([("k", KINDS[key][0]), ("x", KINDS[kind][0]), (NOW, pa.int64()), (SIGN, pa.int8()), *ORDER_FIELDS])


def row(key: Any, value: Any, place: int, sign: int = 1, now: int = 0) -> Row:
    return {"k": key, "x": value, NOW: now, SIGN: sign, **dict(zip(ORDER, (now, "f", 0, place), strict=True))}


class Model:
    """A list of values for each key and call, in the order of arrival."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.rows: Counter[Any] = Counter()
        self.seen: dict[Any, list[Any]] = {}
        self.touched: dict[Any, int] = {}

    def process_batch(self, rows: list[Row], now: int) -> dict[Any, Row]:
        ttl = self.aggregate.ttl_ms
        for key in [key for key, at in self.touched.items() if ttl is not None and now - at >= ttl]:
            del self.rows[key], self.seen[key], self.touched[key]
        came: dict[Any, list[Any]] = {}
        for new in sorted(rows, key=lambda new: new[ORDER[3]]):
            key = plain(new["k"])
            self.touched[key] = now
            self.rows[key] += new[SIGN]
            self.seen.setdefault(key, [])
            if new[SIGN] > 0 and new["x"] is not None:
                came.setdefault(key, []).append(new["x"])
        for new in rows:
            key = plain(new["k"])
            if new[SIGN] < 0 and new["x"] is not None:
                for there in (came.get(key, []), self.seen[key]):
                    equal = [place for place, value in enumerate(there) if plain(value) == plain(new["x"])]
                    if equal:
                        del there[equal[0]]
                        break
        for key, more in came.items():
            self.seen[key] += more
        for key in [key for key, count in self.rows.items() if count <= 0]:
            del self.rows[key], self.seen[key], self.touched[key]
        return {key: {call.name: self.result(call, key) for call in self.aggregate.calls} for key in self.rows}

    def result(self, call: AggregateCall, key: Any) -> Any:
        if call.argument is None:
            return self.rows[key]
        seen = self.seen[key]
        if call.distinct:
            once: dict[Any, Any] = {}
            for value in seen:
                once.setdefault(plain(value), value)
            seen = list(once.values())
        match call.function:
            case "count":
                return len(seen)
            case "sum":
                return total(seen) if seen else None
            case "list":
                return seen or None
        by_size = sorted(seen, key=smaller_first)
        chosen = {"first": seen[:1], "last": seen[-1:], "min": by_size[:1], "max": by_size[-1:]}[call.function]
        return chosen[0] if chosen else None


def total(seen: list[Any]) -> Any:
    if isinstance(seen[0], Decimal):
        with localcontext(prec=60):
            return sum(seen)
    if isinstance(seen[0], int):
        return sum(seen)
    odd = [value for value in seen if not math.isfinite(value)]
    return sum(odd) if odd else math.fsum(seen)


@st.composite
def histories(draw: st.DrawFn, keys: str, kind: str, signed: bool, clock: bool = False) -> list[tuple[int, list[Row]]]:
    """Turns at times, each with rows; a row that goes was there, and may go in the turn that it came in."""
    turns, there, now = [], list[Row](), 0
    for _ in range(draw(st.integers(1, 5))):
        now += draw(st.integers(0, 6)) if clock else 1
        rows = []
        for place in range(draw(st.integers(0, 8))):
            if signed and there and draw(st.booleans()):
                gone = there.pop(draw(st.integers(0, len(there) - 1)))
                rows.append(row(gone["k"], gone["x"], place, -1, now))
            else:
                rows.append(row(draw(values(keys)), draw(values(kind)), place, 1, now))
                there.append(rows[-1])
        turns.append((now, rows))
    return turns


def follow(aggregate: Aggregate, schema: pa.Schema, turns: list[tuple[int, list[Row]]]) -> None:
    """After every turn, the changes so far must make the table that the model has."""
    bucket, model = Bucket(aggregate, schema), Model(aggregate)
    folded: dict[Any, Row] = {}
    for now, rows in turns:
        forgotten = {key for key, at in model.touched.items() if aggregate.ttl_ms and now - at >= aggregate.ttl_ms}
        folded = {key: row for key, row in folded.items() if key[0] not in forgotten}
        changes = bucket.told(rows, now=now)
        for change in changes:
            before = change.pop(BEFORE)
            was = folded.get((plain(change["k"]),))
            assert plain(before) == plain(was and {call.name: was[call.name] for call in aggregate.calls})
        apply(folded, changes, ["k"])
        expected = model.process_batch(rows, now)
        assert {
            key[0]: plain({call.name: row[call.name] for call in aggregate.calls}) for key, row in folded.items()
        } == {key: plain(calls) for key, calls in expected.items()}


def calls_for(kind: str) -> tuple[AggregateCall, ...]:
    return OF_NUMBERS if kind in NUMBERS else OF_ALL


@pytest.mark.parametrize("signed", [False, True], ids=["rows only come", "rows come and go"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_call_over_values_of_every_type(kind: str, signed: bool, data: st.DataObject) -> None:
    aggregate = Aggregate(("k",), calls_for(kind), signed, with_before=True)
    follow(aggregate, schema_of(kind), data.draw(histories("string", kind, signed)))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_keys_of_every_type(kind: str, data: st.DataObject) -> None:
    aggregate = Aggregate(("k",), (AggregateCall("n", "count"), AggregateCall("x", "sum", "x")), with_before=True)
    follow(aggregate, schema_of("long", kind), data.draw(histories(kind, "long", signed=False)))


@given(data=st.data())
def test_a_key_without_rows_for_the_ttl_is_as_if_never_seen(data: st.DataObject) -> None:
    aggregate = Aggregate(("k",), OF_NUMBERS, signed=False, with_before=True, ttl_ms=data.draw(st.integers(1, 8)))
    follow(aggregate, schema_of("long"), data.draw(histories("string", "long", signed=False, clock=True)))


@pytest.mark.parametrize("signed", [False, True], ids=["rows only come", "rows come and go"])
@given(data=st.data())
def test_without_calls_it_is_distinct(signed: bool, data: st.DataObject) -> None:
    aggregate = Aggregate(("k",), (), signed, with_before=True)
    follow(aggregate, schema_of("long", "double"), data.draw(histories("double", "long", signed)))


def bucket_of(aggregate: Aggregate, kind: str = "long") -> Bucket:
    return Bucket(aggregate, schema_of(kind))


def changes_of(changes: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(tuple(change.values()) for change in changes)


def test_two_keys_are_one_only_if_both_columns_are_equal() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.float64()), (NOW, pa.int64())])
    bucket = Bucket(Aggregate(("a", "b"), (AggregateCall("n", "count"),)), schema)
    keys = [("x", None), (None, 0.0), (None, None), ("x", None), (None, -0.0), ("x", NAN), ("x", NAN)]
    found = bucket.told([{"a": a, "b": b, NOW: 0} for a, b in keys])
    counted = {(change["a"], plain(change["b"])): change["n"] for change in found}
    assert counted == {("x", None): 2, (None, 0.0): 2, (None, None): 1, ("x", ("nan",)): 2}
    assert str([change["b"] for change in found if change["b"] == 0]) == "[0.0]"


def test_without_keys_there_is_one_row() -> None:
    bucket = bucket_of(Aggregate((), (AggregateCall("n", "count"),)))
    assert bucket.told([row("a", 1, 0), row("b", 1, 1)]) == [{"n": 2, OP: "i"}]
    assert bucket.told([row(None, 1, 0)]) == [{"n": 3, OP: "u"}]
    assert bucket.told([]) == []


def test_a_sum_of_nulls_is_null_also_after_the_values_have_gone() -> None:
    bucket = bucket_of(Aggregate(("k",), (AggregateCall("x", "sum", "x"),), signed=True))
    assert changes_of(bucket.told([row("a", None, 0), row("a", 5, 1)])) == [("a", 5, "i")]
    assert changes_of(bucket.told([row("a", 5, 0, sign=-1)])) == [("a", None, "u")]
    assert changes_of(bucket.told([row("a", None, 0, sign=-1)])) == [("a", None, "d")]


def test_rows_that_go_are_netted_with_those_that_come() -> None:
    bucket = bucket_of(Aggregate(("k",), (AggregateCall("high", "max", "x"), AggregateCall("n", "count")), signed=True))
    assert changes_of(bucket.told([row("a", 9, 0, sign=-1), row("a", 9, 1), row("a", 2, 2)])) == [("a", 2, 1, "i")]
    assert bucket.told([row("a", 9, 0, sign=-1), row("a", 9, 1)]) == []


@pytest.mark.parametrize("kind", ["long", "double", "decimal", "string"])
def test_what_was_never_there_can_go_without_harm(kind: str) -> None:
    calls = OF_NUMBERS if kind in NUMBERS else OF_ALL
    value, other = KINDS[kind][1][:2]
    bucket = bucket_of(Aggregate(("k",), calls, signed=True), kind)
    assert bucket.told([row("a", value, 0, sign=-1)]) == []
    (change,) = bucket.told([row("a", other, 0)])
    assert (change[OP], change["rows"], change["high"], change["all"]) == ("i", 1, other, [other])


def test_a_row_that_goes_from_a_forgotten_key_says_nothing() -> None:
    bucket = bucket_of(Aggregate(("k",), (AggregateCall("each", "count", "x", distinct=True),), signed=True, ttl_ms=10))
    assert changes_of(bucket.told([row("a", 5, 0), row("b", 6, 1)], now=0)) == [("a", 1, "i"), ("b", 1, "i")]
    assert changes_of(bucket.told([row("b", 7, 0, now=5)], now=5)) == [("b", 2, "u")]
    assert bucket.told([row("a", 5, 0, sign=-1, now=12)], now=12) == []
    assert changes_of(bucket.told([row("a", 8, 0, now=13), row("b", 6, 0, -1, now=13)], now=13)) == [
        ("a", 1, "i"),
        ("b", 1, "u"),
    ]


def test_a_row_that_changes_nothing_still_keeps_its_key_alive() -> None:
    bucket = bucket_of(Aggregate(("k",), (AggregateCall("high", "max", "x"),), ttl_ms=10))
    assert changes_of(bucket.told([row("a", 5, 0, now=0), row("b", 5, 0, now=0)], now=0)) == [
        ("a", 5, "i"),
        ("b", 5, "i"),
    ]
    assert bucket.told([row("a", 1, 0, now=9)], now=9) == []
    assert bucket.told([], now=10) == []
    assert changes_of(bucket.told([row("a", 6, 0, now=18), row("b", 1, 0, now=18)], now=18)) == [
        ("a", 6, "u"),
        ("b", 1, "i"),
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [2**63 - 1, 1]),
        (pa.int64(), [-(2**63), -1]),
        (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1)]),
        (pa.decimal128(38, 0), [Decimal(-(10**38) + 1), Decimal(-(10**38) + 2)]),
    ],
)
def test_a_sum_that_has_no_room_stops_with_its_key(kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("k", pa.string()), ("x", kind), (NOW, pa.int64())])
    for distinct in (False, True):
        bucket = Bucket(Aggregate(("k",), (AggregateCall("total", "sum", "x", distinct),)), schema)
        bucket.told([{"k": key, "x": values[0], NOW: 0} for key in "ab"])
        with pytest.raises(
            ArithmeticError, match=r"a sum of the key \(b\) does not fit into (BIGINT|DECIMAL\(38, 0\))$"
        ):
            bucket.told([{"k": "b", "x": values[1], NOW: 0}] * 2)


def test_a_sum_may_leave_its_type_on_the_way() -> None:
    bucket = bucket_of(Aggregate(("k",), (AggregateCall("x", "sum", "x"),)))
    big = 2**63 - 1
    assert bucket.told([row("a", value, 0) for value in (big, big, -big, -5)])[0]["x"] == big - 5


def test_the_types_of_results() -> None:
    fields = [(kind, KINDS[kind][0]) for kind in NUMBERS]
    calls = (*(AggregateCall(f"sum_{kind}", "sum", kind) for kind in NUMBERS), AggregateCall("all", "list", "short"))
    output = AggregateKernel(Aggregate((), calls), pa.schema([*fields, (NOW, pa.int64())])).output
    assert dict(zip(output.names, map(str, output.types), strict=True)) == {
        "sum_byte": "int64",
        "sum_short": "int64",
        "sum_int": "int64",
        "sum_long": "int64",
        "sum_float": "double",
        "sum_double": "double",
        "sum_decimal": "decimal128(20, 2)",
        "sum_wide": "decimal128(38, 0)",
        "all": "list<item: int16>",
        OP: "string",
    }
