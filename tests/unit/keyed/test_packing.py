"""State as bytes."""

import pyarrow as pa
import pytest

from penstock.keyed.state_bytes import pack_tables, unpack_tables
from tests.unit.keyed.values import KINDS, MAPS


def test_nothing_is_nothing() -> None:
    assert pack_tables({}) == {}
    assert unpack_tables({}) == {}


@pytest.mark.parametrize("kind", [*KINDS, *MAPS])
def test_tables_of_every_type_come_back_as_they_were(kind: str) -> None:
    type_, some = {**KINDS, **MAPS}[kind]
    whole = pa.table({"x": pa.array([*some, None] * 100, type_)})
    tables = {
        "whole": whole,
        "empty": whole.slice(0, 0),
        "part": pa.concat_tables([whole.slice(1, 2), whole.slice(0, 1)]),
    }
    back = unpack_tables(pack_tables(tables))
    assert list(back) == list(tables)
    for name, table in back.items():
        assert table.schema == tables[name].schema
        assert str(table.to_pylist()) == str(tables[name].to_pylist())
