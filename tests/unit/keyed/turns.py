"""Kernels as Spark runs them: state through bytes between turns, rows in any order and in any pieces."""

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.keyed.kernel import Clock, Kernel
from penstock.keyed.operators import OP
from penstock.keyed.packing import pack, unpack
from tests.unit.keyed.values import plain

Row = dict[str, Any]


def table(rows: Sequence[Row], schema: pa.Schema, seed: int = 0) -> pa.Table:
    """The rows as a table of several pieces, in an order of its own."""
    shuffled = random.Random(seed).sample(rows, len(rows))
    cut = random.Random(seed).randint(0, len(rows))
    pieces = [pa.Table.from_pylist(part, schema) for part in (shuffled[:cut], shuffled[cut:])]
    return pa.concat_tables(pieces)


class Bucket:
    """A bucket of keys: it takes turns, and its state is nothing but bytes in between."""

    def __init__(self, kernel: Kernel, schema: pa.Schema) -> None:
        self.kernel, self.schema, self.packed = kernel, schema, dict[str, bytes]()

    def turn(self, rows: Sequence[Row], now: int = 0) -> list[Row]:
        """What comes out, which is the same whatever the order of the rows."""
        state = unpack(self.packed)
        turns = [self.kernel.turn(state, [table(rows, self.schema, seed)], Clock(now)) for seed in (1, 2)]
        outputs = [turn.output for turn in turns]
        for output in outputs:
            output.validate(full=True)
            assert output.schema.equals(self.kernel.output)
        one, two = ([plain(row) for row in output.to_pylist()] for output in outputs)
        assert sorted(map(repr, one)) == sorted(map(repr, two))
        assert set(turns[0].state) == set(self.kernel.tables)
        self.packed = pack(turns[0].state)
        result: list[Row] = outputs[0].to_pylist()
        return result


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
