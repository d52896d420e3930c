"""What holds of every kernel."""

from typing import get_args

import pyarrow as pa
import pytest

from penstock.keyed.kernel import Clock
from penstock.keyed.kernels import kernel_for
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
from penstock.keyed.state_bytes import pack_tables, unpack_tables
from penstock.row_columns import NOW, OP, SIGN
from tests.unit.keyed.turns import ORDER_FIELDS, Bucket
from tests.unit.keyed.values import KINDS, MAPS

FIELDS = [(kind, type_) for kind, (type_, _) in {**KINDS, **MAPS}.items()]
SCHEMA = pa.schema([*FIELDS, (OP, pa.string()), (SIGN, pa.int8()), (NOW, pa.int64()), *ORDER_FIELDS])
KEYS, COLUMNS = tuple(KINDS), (*KINDS, *MAPS)
CALLS = (OverCall("n", "count"), OverCall("total", "sum", "wide"), OverCall("next", "lead", "map"))
OUT = (COLUMNS, COLUMNS, *(tuple(f"{side}_{name}" for name in COLUMNS) for side in ("left", "right")))
OPERATORS: dict[str, tuple[Operator, int, int]] = {
    "aggregate": (
        Aggregate(
            KEYS, (AggregateCall("n", "count", "list", distinct=True), AggregateCall("all", "list", "map")), signed=True
        ),
        1,
        0,
    ),
    "closing aggregate": (Aggregate(KEYS, (AggregateCall("n", "count"),), closes="timestamp"), 0, 2),
    "ranking": (Ranking(KEYS, tuple(Sort(kind) for kind in KINDS), 2, COLUMNS, signed=True), 2, 0),
    "latest": (LatestPerKey(KEYS, COLUMNS), 1, 0),
    "over by time": (OverWindow(KEYS, "timestamp", CALLS, COLUMNS), 0, 2),
    "over by arrival": (OverWindow(KEYS, None, CALLS, COLUMNS), 1, 0),
    "version join by time": (VersionJoin(KEYS, KEYS, "timestamp", "timestamp", *OUT), 0, 2),
    "version join by arrival": (
        VersionJoin(KEYS, KEYS, None, None, *OUT, keep_unmatched=True),
        2,
        0,
    ),
    "inner change join": (ChangeJoin("inner", KEYS, KEYS, *OUT), 0, 0),
    "full interval join": (
        IntervalJoin(
            "full",
            KEYS,
            KEYS,
            (Comparison("timestamp", "<=", "timestamp"),),
            "timestamp",
            "timestamp",
            "timestamp",
            "timestamp",
            *OUT,
        ),
        0,
        4,
    ),
    "full change join": (ChangeJoin("full", KEYS, KEYS, *OUT), 4, 0),
}
"""Each with how many of two rows of nulls in each of its inputs come out, and how many are late."""


def test_no_operator_is_left_out() -> None:
    assert {type(operator) for operator, *_ in OPERATORS.values()} == set(get_args(Operator))


def inputs_of(operator: Operator) -> int:
    return 2 if isinstance(operator, VersionJoin | ChangeJoin | IntervalJoin) else 1


@pytest.mark.parametrize("name", OPERATORS)
def test_turns_without_rows_leave_nothing(name: str) -> None:
    operator, *_ = OPERATORS[name]
    schemas = (SCHEMA,) * inputs_of(operator)
    bucket = Bucket(operator, *schemas)
    for now in (0, 1):
        assert bucket.process_batch(*[[]] * len(schemas), now=now, watermark=now).output.num_rows == 0
    kernel = kernel_for(operator, schemas)
    without_batches = [pa.Table.from_batches([], schema) for schema in schemas]
    again = kernel.process_batch(unpack_tables(bucket.packed), without_batches, Clock(2, 2))
    assert again.output.equals(kernel.output.empty_table())
    assert sum(table.num_rows for table in unpack_tables(pack_tables(again.state)).values()) == 0


@pytest.mark.parametrize("name", OPERATORS)
def test_rows_of_nothing_but_nulls(name: str) -> None:
    operator, output, late = OPERATORS[name]
    schemas = (SCHEMA,) * inputs_of(operator)
    bucket = Bucket(operator, *schemas)
    nulls = {**dict.fromkeys(SCHEMA.names), SIGN: 1, NOW: 0}
    turn = bucket.process_batch(*[[nulls, nulls]] * len(schemas), watermark=0)
    assert (turn.output.num_rows, turn.late) == (output, late)
    assert bucket.process_batch(*[[]] * len(schemas), now=1, watermark=1).output.num_rows == 0
