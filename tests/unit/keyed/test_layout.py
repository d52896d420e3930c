"""State in the layout that a kernel works with today."""

import pyarrow as pa
import pytest

from penstock.keyed.kernel import Clock
from penstock.keyed.kernels import kernel_for
from penstock.keyed.layout import LayoutMismatch, fit_table, make_nullable, state_layout
from penstock.keyed.operators import (
    Aggregate,
    AggregateCall,
    ChangeJoin,
    Comparison,
    IntervalJoin,
    LatestPerKey,
    Operator,
    OverCall,
    OverWindow,
    Ranking,
    Sort,
    VersionJoin,
)
from penstock.row_columns import NOW, OP, ORDER, SIGN

ROW = pa.struct([("id", pa.int64()), ("v", pa.int64())])
WIDE = pa.struct([("id", pa.int64()), ("v", pa.int64()), ("extra", pa.string())])
TIME = pa.timestamp("us", "UTC")


def schema(**columns: pa.DataType) -> pa.Schema:
    order = dict(zip(ORDER, (pa.int64(), pa.string(), pa.int64(), pa.int64()), strict=True))
    return pa.schema({**columns, NOW: pa.int64(), **order})


OPERATORS: list[tuple[Operator, list[pa.Schema]]] = [
    (
        Aggregate(("k",), (AggregateCall("c", "count"), AggregateCall("s", "sum", "a"))),
        [schema(k=pa.int64(), a=pa.int64())],
    ),
    (Ranking(("p",), (Sort("o"),), 1, ("row",)), [schema(p=pa.int64(), o=pa.int64(), row=ROW)]),
    (LatestPerKey(("id",), ("id", "v")), [schema(id=pa.int64(), v=pa.int64(), **{OP: pa.string()})]),
    (
        OverWindow(
            ("p",), "t", (OverCall("n", "count"), OverCall("l", "lag", "a"), OverCall("m", "lead", "a")), ("row",)
        ),
        [schema(p=pa.int64(), t=TIME, a=pa.int64(), row=ROW)],
    ),
    (
        VersionJoin(("_l",), ("_r",), "lt", "rt", ("o",), ("p",), ("o",), ("p",)),
        [schema(_l=pa.int64(), lt=TIME, o=ROW), schema(_r=pa.int64(), rt=TIME, p=ROW)],
    ),
    (
        ChangeJoin("left", ("_l",), ("_r",), ("o",), ("p",), ("o",), ("p",)),
        [schema(_l=pa.int64(), o=ROW, **{SIGN: pa.int8()}), schema(_r=pa.int64(), p=ROW, **{SIGN: pa.int8()})],
    ),
    (
        IntervalJoin(
            *("left", ("_l",), ("_r",), (Comparison("lt", "<=", "rt"),), "lu", None, "lt", "rt"),
            *(("o",), ("p",), ("o",), ("p",)),
        ),
        [schema(_l=pa.int64(), lt=TIME, lu=TIME, o=ROW), schema(_r=pa.int64(), rt=TIME, p=ROW)],
    ),
]


@pytest.mark.parametrize(("operator", "schemas"), OPERATORS, ids=lambda value: getattr(value, "kind", ""))
def test_the_layout_of_every_state_is_known_before_there_are_rows(operator: Operator, schemas: list[pa.Schema]) -> None:
    kernel = kernel_for(operator, tuple(schemas))
    layout = state_layout(kernel, schemas)
    assert set(layout) == set(kernel.tables)
    again = kernel.process_batch(
        {name: s.empty_table() for name, s in layout.items()}, [s.empty_table() for s in schemas], Clock(0)
    )
    assert {name: table.schema for name, table in again.state.items()} == layout


def test_columns_and_fields_that_nobody_uses_are_left_out_of_old_state() -> None:
    old = pa.table({"k": [1], "gone": ["x"], "row": pa.array([{"id": 1, "v": 2, "extra": "e"}], WIDE)})
    wanted = pa.schema([("k", pa.int64()), ("row", ROW)])
    assert fit_table(old, wanted).to_pylist() == [{"k": 1, "row": {"id": 1, "v": 2}}]


def test_a_column_that_came_later_is_null_in_old_state_where_that_may_be() -> None:
    old = pa.table({"k": [1], "row": pa.array([{"id": 1, "v": 2}], ROW)})
    wanted = pa.schema([("k", pa.int64()), ("m", pa.string()), ("row", WIDE)])
    assert fit_table(old, wanted, ["m"]).to_pylist() == [{"k": 1, "m": None, "row": {"id": 1, "v": 2, "extra": None}}]
    with pytest.raises(LayoutMismatch, match="no column `m`"):
        fit_table(old, wanted)


def test_a_field_that_may_be_null_by_now_fits_state_that_had_none() -> None:
    strict = pa.struct([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    old = pa.table({"row": pa.array([{"id": 1, "v": None}, None], strict)})
    wanted = make_nullable(old.schema)
    assert wanted == pa.schema([("row", ROW)])
    assert fit_table(old, wanted).to_pylist() == [{"row": {"id": 1, "v": None}}, {"row": None}]


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(LayoutMismatch, match="`v` is int64 in the state, and decimal128"):
        fit_table(pa.table({"v": [1]}), pa.schema([("v", pa.decimal128(20, 2))]))


def joined(kind: pa.DataType) -> tuple[ChangeJoin, list[pa.Schema]]:
    operator = ChangeJoin("inner", ("_l",), ("_r",), ("o",), ("p",), ("o",), ("p",))
    sides = {"_l": "o", "_r": "p"}
    return operator, [schema(**{key: pa.int64(), row: kind, SIGN: pa.int8()}) for key, row in sides.items()]


def rows(like: pa.Schema, *given: tuple[int, dict[str, object]], sign: int = 1) -> pa.Table:
    filled = {name: 0 if pa.types.is_integer(like.field(name).type) else "" for name in (NOW, *ORDER)}
    key, row = like.names[:2]
    return pa.Table.from_pylist([{**filled, key: k, row: r, SIGN: sign} for k, r in given], like)


def test_rows_that_are_alike_since_a_column_was_left_out_are_counted_together() -> None:
    operator, schemas = joined(WIDE)
    wide = kernel_for(operator, tuple(schemas))
    left = rows(schemas[0], (1, {"id": 1, "v": 2, "extra": "a"}), (1, {"id": 1, "v": 2, "extra": "b"}))
    state = wide.process_batch({}, [left, schemas[1].empty_table()], Clock(0)).state

    operator, schemas = joined(ROW)
    narrow = kernel_for(operator, tuple(schemas))
    layout = state_layout(narrow, schemas)
    kept = {name: fit_table(table, layout[name]) for name, table in state.items()}
    turn = narrow.process_batch(kept, [schemas[0].empty_table(), rows(schemas[1], (1, {"id": 7, "v": 8}))], Clock(0))
    assert [row["o"] for row in turn.output.to_pylist()] == [{"id": 1, "v": 2}] * 2
    gone = rows(schemas[0], (1, {"id": 1, "v": 2}), sign=-1)
    turn = narrow.process_batch(turn.state, [gone, schemas[1].empty_table()], Clock(0))
    assert [(row["o"], row[SIGN]) for row in turn.output.to_pylist()] == [({"id": 1, "v": 2}, -1)]
    assert [row["_count"] for row in turn.state["left"].to_pylist()] == [1]


def test_a_ranking_goes_on_when_a_column_comes_and_goes() -> None:
    def turn(kind: pa.DataType, state: dict[str, pa.Table], v: int) -> tuple[dict[str, pa.Table], list[object]]:
        like = schema(p=pa.int64(), o=pa.int64(), row=kind)
        kernel = kernel_for(Ranking(("p",), (Sort("o", descending=True),), 1, ("row",)), (like,))
        layout = state_layout(kernel, [like])
        blank = {NOW: 0, ORDER[0]: v, ORDER[1]: "", ORDER[2]: 0, ORDER[3]: 0}
        row = {field.name: "e" if field.name == "extra" else v for field in kind}
        given = pa.Table.from_pylist([{**blank, "p": 1, "o": v, "row": row}], like)
        kept = {name: fit_table(table, layout[name], {"row"}) for name, table in state.items()}
        done = kernel.process_batch(kept, [given], Clock(0))
        return dict(done.state), [(r["row"]["v"], r[OP]) for r in done.output.to_pylist()]

    state, changes = turn(ROW, {}, 10)
    assert changes == [(10, "i")]
    state, changes = turn(WIDE, state, 5)
    assert changes == []
    state, changes = turn(WIDE, state, 12)
    assert changes == [(12, "u")]
    state, changes = turn(ROW, state, 11)
    assert changes == []
    assert state["rows"].column("row").to_pylist() == [{"id": 12, "v": 12}]
