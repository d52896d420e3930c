"""The temporal join, against a model that keeps every version for ever and looks at them one by one."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.keyed.operators import VersionJoin
from penstock.row_columns import NOW, OP
from tests.unit.keyed.turns import ORDER_FIELDS, TIME, Bucket, Row, counted, in_order, tuples

LEFT = pa.schema(
    [
        ("region", pa.string()),
        ("customer", pa.float64()),
        ("ordered", TIME),
        pa.field("id", pa.int64(), False),
        (NOW, pa.int64()),
    ]
)
RIGHT = pa.schema(
    [
        ("area", pa.string()),
        ("number", pa.float64()),
        ("valid", TIME),
        ("name", pa.struct([("first", pa.string()), ("tags", pa.list_(pa.int64()))])),
        (OP, pa.string()),
        pa.field(NOW, pa.int64(), False),
        *ORDER_FIELDS,
    ]
)


def told(timed: bool = True, keep_unmatched: bool = False, ttl_ms: int | None = None) -> VersionJoin:
    return VersionJoin(
        left_key=("region", "customer"),
        right_key=("area", "number"),
        left_time="ordered" if timed else None,
        right_time="valid" if timed else None,
        left_columns=("id", "customer"),
        right_columns=("name", "valid"),
        left_out=("order", "customer"),
        right_out=("name", "since"),
        keep_unmatched=keep_unmatched,
        ttl_ms=ttl_ms,
    )


def runner(told: VersionJoin, seed: int = 0) -> Bucket:
    return Bucket(told, LEFT, RIGHT, seed=seed)


REGIONS = st.sampled_from(["north", "south", None])
NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])
TIMES = st.one_of(st.none(), *[st.integers(0, 12_000)] * 9)
VERSIONS = st.fixed_dictionaries(
    {
        "area": REGIONS,
        "number": NUMBERS,
        "valid": TIMES,
        "name": st.one_of(st.none(), st.text(max_size=2).map(lambda text: {"first": text, "tags": [1, None]})),
        OP: st.sampled_from(["i", "u", "u", "d", None]),
    }
)
ORDERS = st.fixed_dictionaries(
    {"region": REGIONS, "customer": NUMBERS, "ordered": TIMES, "id": st.integers(0, 1_000_000)}
)
TURNS = st.lists(
    st.tuples(st.lists(ORDERS, max_size=6), st.lists(VERSIONS, max_size=5), st.integers(0, 5), st.integers(0, 3)),
    max_size=8,
)


@dataclass
class Model:
    """Every version that ever came, in the order of arrival, with the time of its key's last touch."""

    told: VersionJoin
    waiting: list[Row] = field(default_factory=list)
    versions: list[Row] = field(default_factory=list)
    touched: dict[str, int] = field(default_factory=dict)

    def process_batch(
        self, lefts: list[Row], rights: list[Row], now: int, watermark: int
    ) -> tuple[list[tuple[Any, ...]], int]:
        ttl = self.told.ttl_ms
        if ttl is not None:
            self.versions = [v for v in self.versions if now - self.touched[_right_key(v)] < ttl]
        timed = self.told.left_time is not None
        late = [r for r in lefts if timed and (r["ordered"] is None or r["ordered"] <= watermark * 1000)]
        came = [row for row in lefts if row not in late]
        needed = ("area", "number", "valid") if timed else ("area", "number")
        self.versions += [row for row in rights if all(row[name] is not None for name in needed)]
        self.touched.update({_left_key(row): now for row in came} | {_right_key(row): now for row in rights})
        going = [row for row in self.waiting if row["ordered"] <= watermark * 1000] if timed else came
        self.waiting = [row for row in self.waiting if row not in going] + came if timed else []
        joined = [(row, self.valid_for(row)) for row in going]
        return [
            (row["id"], row["customer"], found and found["name"], found and found["valid"])
            for row, found in joined
            if found or self.told.keep_unmatched
        ], len(late)

    def valid_for(self, row: Row) -> Row | None:
        if None in (row["region"], row["customer"]):
            return None
        found = None
        for version in self.versions:
            if _right_key(version) != _left_key(row):
                continue
            if self.told.left_time is None or (
                version["valid"] <= row["ordered"] and (found is None or version["valid"] >= found["valid"])
            ):
                found = version
        return None if found is None or found[OP] == "d" else found


def _left_key(row: Row) -> str:
    return repr((row["region"], row["customer"] or (row["customer"] is not None and 0.0)))


def _right_key(row: Row) -> str:
    return repr((row["area"], row["number"] or (row["number"] is not None and 0.0)))


def _ids(turns: list[tuple[list[Row], list[Row], int, int]]) -> None:
    """Rows are told apart by their id."""
    for number, row in enumerate(row for lefts, *_ in turns for row in lefts):
        row["id"] = number


@pytest.mark.parametrize("timed", [True, False], ids=["by time", "by arrival"])
@given(TURNS, st.booleans(), st.sampled_from([None, 3]), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_each_row_meets_the_version_of_its_time_however_versions_come(
    timed: bool, turns: list[tuple[list[Row], list[Row], int, int]], keep: bool, ttl: int | None, seed: int
) -> None:
    _ids(turns)
    operator = told(timed, keep, ttl)
    run, model = runner(operator, seed), Model(operator)
    watermark = now = 0
    for lefts, rights, step, pause in [*turns, ([], [], 12, 0)]:
        watermark, now = watermark + step, now + pause
        rights = in_order(rights)
        expected, late = model.process_batch(lefts, rights, now, watermark)
        done = run.process_batch(
            [{**row, NOW: now} for row in lefts],
            [{**row, NOW: now} for row in rights],
            now=now,
            watermark=watermark if timed else None,
        )
        output = done.output.set_column(3, "since", done.output.column("since").cast(pa.int64()))
        assert counted(tuples(output)) == counted(expected)
        assert done.late == late
        waiting = [row["ordered"] for row in model.waiting]
        assert done.wake_ms == (-(-min(waiting) // 1000) if waiting else None)
    if timed:
        keys = run.rows("right")
        assert len({repr((row["area"], row["number"] + 0.0)) for row in keys}) == len(keys)


def order(id: int, time: int) -> Row:
    return {"region": "north", "customer": 1.0, "ordered": time * 1000, "id": id, NOW: 0}


def version(time: int, name: str | None, op: str = "u") -> Row:
    name_ = None if name is None else {"first": name, "tags": []}
    return {"area": "north", "number": 1.0, "valid": time * 1000, "name": name_, OP: op, NOW: 0}


def names(output: pa.Table) -> dict[int, str]:
    return {row["order"]: row["name"]["first"] for row in output.to_pylist()}


def test_the_name_of_a_customer_is_that_of_the_time_of_the_order() -> None:
    """Ann until 10, Beth from 10, Cora from 20; the last comes first, and the first when half of it is over."""
    run = runner(told())
    run.process_batch([order(1, 12), order(2, 9), order(3, 25)], in_order([version(20, "Cora")]), watermark=1)
    run.process_batch([], in_order([version(10, "Beth")]), watermark=2)
    assert names(run.process_batch([], in_order([version(0, "Ann")]), watermark=11).output) == {2: "Ann"}
    done = run.process_batch([order(4, 10), order(5, 19)], in_order([version(18, "Bea")]), watermark=11)
    assert done.output.num_rows == 0
    assert done.late == 1
    assert done.wake_ms == 12
    assert names(run.process_batch([], [], watermark=30).output) == {1: "Beth", 5: "Bea", 3: "Cora"}
    assert len(run.rows("right")) == 1


def test_a_deleted_version_is_not_revived_by_one_that_comes_late() -> None:
    run = runner(told(keep_unmatched=True))
    run.process_batch([order(1, 15)], in_order([version(5, "Ann"), version(10, None, "d")]), watermark=11)
    done = run.process_batch([], in_order([version(7, "Late")]), watermark=20)
    assert done.output.to_pylist() == [{"order": 1, "customer": 1.0, "name": None, "since": None}]


def test_of_two_versions_of_one_time_the_one_that_came_last_is_valid() -> None:
    run = runner(told())
    run.process_batch([order(1, 15)], in_order([version(10, "first"), version(10, "second")]), watermark=1)
    assert len(run.rows("right")) == 1
    run.process_batch([], in_order([version(10, "third"), version(10, "fourth")]), watermark=1)
    assert names(run.process_batch([], [], watermark=15).output) == {1: "fourth"}


def test_without_places_in_the_input_the_order_of_rows_does_not_matter() -> None:
    schema = pa.schema([field for field in RIGHT if field not in ORDER_FIELDS])
    found = set()
    for seed in range(8):
        run = Bucket(told(), LEFT, schema, seed=seed)
        run.process_batch([order(1, 15)], [{**version(10, None), OP: op} for op in "iud"], watermark=1)
        found.add(run.process_batch([], [], watermark=15).output.num_rows)
    assert len(found) == 1


def test_versions_of_a_key_that_no_row_comes_for_are_forgotten() -> None:
    run = runner(told(timed=False, ttl_ms=10))
    assert names(run.process_batch([order(1, 1)], in_order([version(1, "Ann")]), now=0).output) == {1: "Ann"}
    assert names(run.process_batch([order(2, 2)], [], now=9).output) == {2: "Ann"}
    assert names(run.process_batch([order(3, 3)], [], now=18).output) == {3: "Ann"}
    assert names(run.process_batch([order(4, 4)], [], now=28).output) == {}
    assert len(run.rows("right")) == 0


def test_of_versions_that_came_at_once_one_is_valid_whatever_the_order_of_rows() -> None:
    """Sources whose rows have no places of their own number them by task, so that several have one place."""
    run = runner(told(timed=False))
    versions = [row for name in "abcdefgh" for row in in_order([version(1, name)])]
    assert names(run.process_batch([order(1, 1)], versions).output) == {1: "h"}
