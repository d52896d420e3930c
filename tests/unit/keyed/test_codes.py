"""Values of every type as codes: equal codes exactly where values are equal."""

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.keyed.arrow.codes import shared_codes
from penstock.keyed.arrow.tables import non_null_flags
from tests.unit.keyed.turns import TIME

NAN = float("nan")
INNER = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "b", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-1, 0, 1, None]),
    "long": (pa.int64(), [-(2**63), 0, 2**63 - 1, None]),
    "float": (pa.float32(), [0.0, 1.5, NAN, float("inf"), None]),
    "double": (pa.float64(), [0.0, 1e300, NAN, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("1.10"), Decimal(10**35), None]),
    "date": (pa.date32(), [date(1970, 1, 1), date(2024, 2, 29), None]),
    "timestamp": (TIME, [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, microsecond=1, tzinfo=UTC), None]),
    "struct": (INNER, [{"a": None, "b": None}, {"a": 0, "b": []}, {"a": 0, "b": ["x"]}, None]),
    "list": (pa.list_(pa.float64()), [[], [None], [0.0], [NAN, 0.0], [0.0, NAN], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", 1), ("b", 2)], [("a", 2), ("b", 1)], None]),
    "nothing": (pa.null(), [None]),
}


@pytest.mark.parametrize("name", VALUES)
def test_equal_values_of_two_tables_have_one_code(name: str) -> None:
    kind, values = VALUES[name]
    places = [place for place in range(len(values)) for _ in range(3)]
    random = Random(1)
    first, second = (random.sample(places, len(places)) for _ in range(2))
    tables = [
        pa.table({"id": chosen, "value": pa.chunked_array([[], [values[i] for i in chosen]], type=kind)}).slice(1)
        for chosen in (first, second)
    ]
    for names, expected in (["value"], len(values)), (["value", "id"], len(values)), ([], 1):
        (one, other), count = shared_codes([(table, names) for table in tables])
        pairs = [*zip(one.tolist(), first[1:], strict=True), *zip(other.tolist(), second[1:], strict=True)]
        assert count == expected
        assert len({code for code, _ in pairs}) == expected
        assert len(set(pairs)) == len(values)
    assert non_null_flags(tables[0], ["value", "id"]).tolist() == [values[i] is not None for i in first[1:]]


def test_zeros_are_equal_and_so_are_maps_in_another_order() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"zero": [0.0, -0.0], "map": pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], type=kind)})
    (found,), count = shared_codes([(table, ["zero", "map"])])
    assert found.tolist() == [0, 0]
    assert count == 1


def test_all_that_is_not_a_number_is_equal() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, -0x8000000000000], dtype=np.int64)
    (found,), _ = shared_codes([(pa.table({"nan": bits.view(np.float64)}), ["nan"])])
    assert found.tolist() == [0, 0, 0]


def test_numbers_of_two_sizes_meet() -> None:
    narrow, wide = pa.table({"a": pa.array([1, 2], pa.int32())}), pa.table({"b": pa.array([2, 2**40], pa.int64())})
    (first, second), count = shared_codes([(narrow, ["a"]), (wide, ["b"])])
    assert first[1] == second[0]
    assert count == 3
