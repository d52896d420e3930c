"""What a turn of a keyed operator costs without Spark: CPU time of 30,000 new rows over a state of 6,000 keys.

    python bench/keyed.py [--rows 30000] [--keys 6000] [--repeat 20]

Bar for the sum and count: a few milliseconds, state to bytes and back included.
"""

import argparse
import time

import numpy as np
import pyarrow as pa

from penstock.keyed.kernel import Clock, StateTables
from penstock.keyed.kernels import kernel_for
from penstock.keyed.operators import Aggregate, AggregateCall, LatestPerKey, Operator, Ranking, Sort
from penstock.keyed.state_bytes import pack_tables, unpack_tables
from penstock.row_columns import NOW, OP, ORDER, SIGN

COLUMNS = ("key", "whole", "number", "name")
OPERATORS: dict[str, Operator] = {
    "sum and count of whole numbers": Aggregate(
        ("key",), (AggregateCall("s", "sum", "whole"), AggregateCall("n", "count"))
    ),
    "sum and count of doubles": Aggregate(("key",), (AggregateCall("s", "sum", "number"), AggregateCall("n", "count"))),
    "sum and count of decimals": Aggregate(("key",), (AggregateCall("s", "sum", "money"), AggregateCall("n", "count"))),
    "sum and count, signed": Aggregate(
        ("key",), (AggregateCall("s", "sum", "whole"), AggregateCall("n", "count")), signed=True
    ),
    "largest text": Aggregate(("key",), (AggregateCall("m", "max", "name"),)),
    "last value": Aggregate(("key",), (AggregateCall("l", "last", "name"),)),
    "count of different values": Aggregate(("key",), (AggregateCall("d", "count", "whole", distinct=True),)),
    "distinct": Aggregate(("key",), ()),
    "first row": Ranking(("key",), (), 1, COLUMNS),
    "largest row": Ranking(("key",), (Sort("number", descending=True),), 1, COLUMNS),
    "three largest rows, ranked": Ranking(("key",), (Sort("number", descending=True),), 3, COLUMNS, "rank"),
    "three largest rows, signed": Ranking(("key",), (Sort("number", descending=True),), 3, COLUMNS, signed=True),
    "latest row": LatestPerKey(("key",), COLUMNS),
}


def some_rows(count: int, keys: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    whole = pa.array(random.integers(0, 1_000_000, count))
    order = (np.full(count, seed), np.zeros(count, np.int64), np.zeros(count, np.int64), np.arange(count))
    return pa.table(
        {
            "key": [f"customer-{number:08d}" for number in random.integers(0, keys, count)],
            "whole": whole,
            "number": random.random(count) * 100,
            "money": whole.cast(pa.decimal128(22, 2)).cast(pa.decimal128(12, 2)),
            "name": [f"name {number}" for number in random.integers(0, 1000, count)],
            OP: ["u"] * count,
            SIGN: np.ones(count, np.int8),
            NOW: np.zeros(count, np.int64),
            **dict(zip(ORDER, order, strict=True)),
        }
    )


def cost(operator: Operator, rows: int, keys: int, repeat: int) -> tuple[float, float, int]:
    """Milliseconds of a turn, of its state to bytes and back, and the bytes."""
    before, new = some_rows(2 * rows, keys, 1), some_rows(rows, keys, 2)
    kernel = kernel_for(operator, (new.schema,))
    state: StateTables = kernel.process_batch({}, [before], Clock(0)).state
    turns, bytes_ = [], []
    for _ in range(repeat):
        start = time.process_time()
        after = kernel.process_batch(state, [new], Clock(0)).state
        middle = time.process_time()
        packed = pack_tables(after)
        unpack_tables(packed)
        turns.append(middle - start)
        bytes_.append(time.process_time() - middle)
    return 1000 * min(turns), 1000 * min(bytes_), sum(map(len, packed.values()))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--keys", type=int, default=6_000)
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    print(f"{'':32} {'turn':>9} {'state':>9} {'rows/s':>12} {'bytes':>10}")
    for name, operator in OPERATORS.items():
        turn, state, size = cost(operator, given.rows, given.keys, given.repeat)
        print(f"{name:32} {turn:6.1f} ms {state:6.1f} ms {1000 * given.rows / (turn + state):12,.0f} {size:10,}")


if __name__ == "__main__":
    main()
