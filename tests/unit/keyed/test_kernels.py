"""What holds of every kernel."""

import pickle

import pyarrow as pa
import pytest

from penstock.keyed.kernel import Clock
from penstock.keyed.kernels import kernel_for
from penstock.keyed.operators import NOW, OP, ORDER, SIGN, Aggregate, Call, Latest, Operator, Ranking, Sort
from penstock.keyed.packing import pack, unpack
from tests.unit.keyed.values import KINDS, MAPS

FIELDS = [(kind, type_) for kind, (type_, _) in {**KINDS, **MAPS}.items()]
SCHEMA = pa.schema(
    [*FIELDS, (OP, pa.string()), (SIGN, pa.int8()), (NOW, pa.int64()), *((name, pa.int64()) for name in ORDER)]
)
OPERATORS: list[Operator] = [
    Aggregate(tuple(KINDS), (Call("n", "count", "list", distinct=True), Call("all", "list", "map")), signed=True),
    Ranking(tuple(KINDS), tuple(Sort(kind) for kind in KINDS), 2, tuple(SCHEMA.names[:20]), signed=True),
    Latest(tuple(KINDS), tuple(SCHEMA.names[:20])),
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_turns_without_rows_leave_nothing_and_kernels_can_be_pickled(operator: Operator) -> None:
    kernel = pickle.loads(pickle.dumps(kernel_for(operator, [SCHEMA])))
    assert kernel == kernel_for(operator, [SCHEMA])
    turn = kernel.turn({}, [SCHEMA.empty_table()], Clock(0))
    assert tuple(turn.state) == kernel.tables
    again = kernel.turn(unpack(pack(turn.state)), [pa.Table.from_batches([], SCHEMA)], Clock(1))
    assert again.output.equals(kernel.output.empty_table())
    assert sum(table.num_rows for table in again.state.values()) == 0


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: type(operator).__name__)
def test_rows_of_nothing_but_nulls(operator: Operator) -> None:
    kernel = kernel_for(operator, [SCHEMA])
    own = {SIGN: pa.array([1, 1], pa.int8()), NOW: pa.array([0, 0])}
    nulls = pa.table([own.get(field.name, pa.nulls(2, field.type)) for field in SCHEMA], schema=SCHEMA)
    turn = kernel.turn({}, [nulls], Clock(0))
    turn.output.validate(full=True)
    assert turn.output.num_rows == (2 if isinstance(operator, Ranking) else 1)
    assert kernel.turn(unpack(pack(turn.state)), [SCHEMA.empty_table()], Clock(1)).output.num_rows == 0
