"""Kernels in tests: rows as dicts, turn after turn, the state through IPC, inputs shuffled and in chunks."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.keyed.kernel import Clock, Kernel, Tables, Turn
from penstock.keyed.operators import ORDER

Row: TypeAlias = dict[str, Any]

TIME = pa.timestamp("us", tz="UTC")
ORDER_FIELDS = [
    pa.field(name, type) for name, type in zip(ORDER, (TIME, pa.string(), pa.int64(), pa.int64()), strict=True)
]


def through_ipc(state: Tables) -> dict[str, pa.Table]:
    """What is left of the state when it was written and read."""
    kept = {}
    for name, table in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        kept[name] = pa.ipc.open_stream(sink.getvalue()).read_all()
    return kept


def table(rows: Sequence[Row], schema: pa.Schema, random: Random) -> pa.Table:
    """The rows in any order, in several chunks."""
    shuffled = random.sample(rows, len(rows))
    cut = random.randint(0, len(rows))
    chunks = [pa.Table.from_pylist(part, schema=schema) for part in (shuffled[:cut], shuffled[cut:])]
    return pa.concat_tables(chunks)


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows with the columns that say that they came in this order."""
    order: Mapping[str, Any] = {ORDER[0]: 0, ORDER[1]: "file", ORDER[2]: 0}
    return [{**row, **order, ORDER[3]: number} for number, row in enumerate(rows)]


@dataclass
class Runner:
    """A kernel with its state."""

    kernel: Kernel
    schemas: Sequence[pa.Schema]
    random: Random = field(default_factory=lambda: Random(0))
    state: Tables = field(default_factory=dict)

    def turn(self, *inputs: Sequence[Row], now: int = 0, watermark: int | None = None) -> Turn:
        tables = [table(rows, schema, self.random) for rows, schema in zip(inputs, self.schemas, strict=True)]
        kernel = pickle.loads(pickle.dumps(self.kernel))
        done: Turn = kernel.turn(self.state, tables, Clock(now, watermark))
        assert set(done.state) == set(kernel.tables)
        assert done.output.schema.equals(kernel.output)
        self.state = through_ipc(done.state)
        return done

    def rows(self, name: str) -> int:
        return self.state[name].num_rows


def counted(rows: Iterator[Sequence[Any]] | Sequence[Sequence[Any]]) -> list[str]:
    """Rows without an order, for comparison: NaN equals NaN."""
    return sorted(repr(tuple(row)) for row in rows)


def tuples(output: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in output.columns), strict=True)) if output.num_columns else []
