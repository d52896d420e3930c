"""Kernels as Spark runs them: state as bytes between turns, rows in any order and in any pieces."""

import pickle
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.keyed.kernel import Clock, KernelResult
from penstock.keyed.kernels import kernel_for
from penstock.keyed.operators import Operator
from penstock.keyed.state_bytes import pack_tables, unpack_tables
from penstock.row_columns import OP, ORDER
from tests.unit.keyed.values import plain

Row: TypeAlias = dict[str, Any]

TIME = pa.timestamp("us", tz="UTC")
ORDER_FIELDS = [pa.field(name, pa.string() if name.endswith("file") else pa.int64()) for name in ORDER]
"""Where a row stood, in the types that sources give it."""


def table(rows: Sequence[Row], schema: pa.Schema, random: Random) -> pa.Table:
    """The rows in any order, in several pieces."""
    shuffled = random.sample(rows, len(rows))
    cut = random.randint(0, len(rows))
    return pa.concat_tables(pa.Table.from_pylist(part, schema) for part in (shuffled[:cut], shuffled[cut:]))


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows with the columns that say that they came in this order."""
    return [{**row, **dict(zip(ORDER, (0, "file", 0, number), strict=True))} for number, row in enumerate(rows)]


class Bucket:
    """A bucket of keys: it takes turns, and its state is nothing but bytes in between."""

    def __init__(self, operator: Operator, *schemas: pa.Schema, seed: int = 0) -> None:
        self.kernel, self.schemas = kernel_for(operator, schemas), schemas
        self.random, self.packed = Random(seed), dict[str, bytes]()

    def process_batch(self, *inputs: Sequence[Row], now: int = 0, watermark: int | None = None) -> KernelResult:
        """What comes of a turn, which is the same whatever the order of the rows."""
        one, two = (self._turn(inputs, Clock(now, watermark)) for _ in range(2))
        assert counted(map(plain, tuples(one.output))) == counted(map(plain, tuples(two.output)))
        assert (one.late, one.wake_ms) == (two.late, two.wake_ms)
        assert [kept.num_rows for kept in one.state.values()] == [kept.num_rows for kept in two.state.values()]
        self.packed = pack_tables(one.state)
        return one

    def told(self, *inputs: Sequence[Row], now: int = 0) -> list[Row]:
        """What comes out of a turn."""
        rows: list[Row] = self.process_batch(*inputs, now=now).output.to_pylist()
        return rows

    def rows(self, name: str) -> list[Row]:
        """What the state remembers."""
        rows: list[Row] = unpack_tables(self.packed)[name].to_pylist()
        return rows

    def _turn(self, inputs: Sequence[Sequence[Row]], clock: Clock) -> KernelResult:
        tables = [table(rows, schema, self.random) for rows, schema in zip(inputs, self.schemas, strict=True)]
        kernel = pickle.loads(pickle.dumps(self.kernel))
        assert kernel == self.kernel
        done: KernelResult = kernel.process_batch(unpack_tables(self.packed), tables, clock)
        done.output.validate(full=True)
        assert done.output.schema.equals(kernel.output)
        assert tuple(done.state) == kernel.tables
        return done


def tuples(output: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in output.columns), strict=True)) if output.num_columns else []


def counted(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows without an order, for comparison: NaN equals NaN."""
    return sorted(repr(tuple(row)) for row in rows)


def apply(folded: dict[Any, Row], changes: Sequence[Row], keys: Sequence[str]) -> None:
    """Carry out the changes, each of which must fit what is there."""
    touched = set()
    for change in changes:
        row = {name: value for name, value in change.items() if name != OP}
        key = tuple(plain(row[name]) for name in keys)
        assert key not in touched, "two changes of one key in one turn"
        touched.add(key)
        match change[OP]:
            case "i":
                assert key not in folded, "an insert of what is there"
                folded[key] = row
            case "u":
                assert key in folded, "an update of what is not there"
                assert plain(folded[key]) != plain(row), "an update that changes nothing"
                folded[key] = row
            case "d":
                assert plain(folded.pop(key)) == plain(row), "a delete that does not say what was"
