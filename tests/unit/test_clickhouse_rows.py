"""Types of ClickHouse, and rows on their way there, without a server."""

import zlib
from typing import Any

import pyarrow as pa
import pytest

from penstock.clients.clickhouse.client import quote_identifier
from penstock.clients.clickhouse.insert import Compression
from penstock.clients.clickhouse.last_per_key import chunks, last_per_key
from penstock.clients.clickhouse.rejected_rows import RejectedRows, find_failing, unpack_rejected
from penstock.clients.clickhouse.types import Kind, column_type, kind_of, target_type
from penstock.clients.clickhouse.values import convert_values
from penstock.errors import QueryFailed

I8 = pa.int8()


def test_whole_numbers_are_times_of_the_unit_of_their_column() -> None:
    for text, unit in {"DateTime64(3)": "ms", "Nullable(DateTime64(6, 'UTC'))": "us", "DateTime64": "ms"}.items():
        wanted = target_type(pa.int64(), kind_of(text))
        assert wanted == pa.timestamp(unit, "UTC")
        assert convert_values(pa.array([5, None]), kind_of(text), wanted).cast(pa.int64()).to_pylist() == [5, None]
        with pytest.raises(ValueError, match="no time that DateTime64 holds"):
            convert_values(pa.array([2**60]), kind_of(text), wanted)
    assert target_type(pa.int64(), kind_of("DateTime64(4)")) is None


@pytest.mark.parametrize(
    ("arrow", "column"),
    [
        (pa.bool_(), "Nullable(UInt8)"),
        (pa.int8(), "Nullable(Int8)"),
        (pa.uint64(), "Nullable(UInt64)"),
        (pa.float16(), "Nullable(Float32)"),
        (pa.string(), "Nullable(String)"),
        (pa.binary(16), "Nullable(FixedString(16))"),
        (pa.date32(), "Nullable(Date32)"),
        (pa.timestamp("ms"), "Nullable(DateTime64(3, 'UTC'))"),
        (pa.decimal256(76, 10), "Nullable(Decimal(76, 10))"),
        (pa.list_(pa.list_(pa.int32())), "Array(Array(Nullable(Int32)))"),
        (pa.struct({"a b": I8, "c": pa.list_(I8)}), "Tuple(`a b` Nullable(Int8), `c` Array(Nullable(Int8)))"),
        (pa.map_(pa.string(), pa.float64()), "Map(String, Nullable(Float64))"),
        (pa.duration("us"), None),
        (pa.list_(pa.duration("us")), None),
    ],
)  # fmt: skip
def test_columns_for_values(arrow: pa.DataType, column: str | None) -> None:
    assert column_type(arrow) == column
    if column is not None:
        assert target_type(arrow, kind_of(column)) is not None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Nullable(Decimal(10, 2))", Kind("Decimal", numbers=(10, 2), nullable=True)),
        ("LowCardinality(Nullable(String))", Kind("String", nullable=True)),
        ("DateTime64(6, 'Europe/Berlin')", Kind("DateTime64", numbers=(6,))),
        ("Array(Map(String, UInt8))", Kind("Array", (Kind("Map", (Kind("String"), Kind("UInt8"))),))),
        ("Tuple(a Int8, `b, \\`c(` String)", Kind("Tuple", (Kind("Int8"), Kind("String")), names=("a", "b, `c("))),
        ("Tuple(Int8, Nullable(String))", Kind("Tuple", (Kind("Int8"), Kind("String", nullable=True)), names=("", ""))),
        ("Enum8('a(,' = 1, 'b' = 2)", Kind("Enum8")),
    ],
)
def test_types_are_read_as_they_are_written(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("arrow", "column"),
    [
        (pa.int64(), "String"),
        (pa.float64(), "Int64"),
        (pa.string(), "Int64"),
        (pa.string(), "Nullable(Enum8('a' = 1))"),
        (pa.date32(), "DateTime"),
        (pa.timestamp("us"), "Date"),
        (pa.struct({"a": pa.int32()}), "Tuple(b Int32)"),
        (pa.list_(pa.int32()), "Array(String)"),
        (pa.binary(), "UInt64"),
    ],
)
def test_values_that_no_column_of_this_type_takes(arrow: pa.DataType, column: str) -> None:
    assert target_type(arrow, kind_of(column)) is None


def test_rows_come_in_tables_of_one_size_however_they_came() -> None:
    def sizes(*lengths: int) -> list[list[int]]:
        batches, begin = [], 0
        for length in lengths:
            batches.append(pa.record_batch({"n": list(range(begin, begin + length))}))
            begin += length
        return [table["n"].to_pylist() for table in chunks(batches, 4)]

    assert sizes(10) == sizes(3, 0, 3, 4) == sizes(1, 9) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert sizes(4) == [[0, 1, 2, 3]]
    assert sizes() == sizes(0) == []


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_the_last_row_of_each_key_is_kept_in_order() -> None:
    rows = table(k=[1, 2, 1, None, 3, None], n=[0, 1, 2, 3, 4, 5])
    assert last_per_key(rows, ["k"], None)["n"].to_pylist() == [1, 2, 4, 5]
    several = table(k=[1, 1, 1], l=["a", "b", "a"], n=[0, 1, 2])
    assert last_per_key(several, ["k", "l"], None)["n"].to_pylist() == [1, 2]
    unique = table(k=[3, 1], n=[0, 1])
    assert last_per_key(unique, ["k"], None) is unique


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ([], []),
        ([1, 2, 3], [0, 1, 2]),
        ([3, 1, 2], [0, 1, 2]),
        ([1, 2, 2, 3], [0, 2, 3]),
        ([2, 1, 2], [1, 2]),
        ([1, None, 2, None], [0, 2, 3]),
        (["a", "b", "a"], [1, 2]),
    ],
)
def test_keys_that_come_twice_are_seen_in_any_order(keys: list[object], left: list[int]) -> None:
    kind = pa.string() if "a" in keys else pa.int64()
    pieces = pa.chunked_array([pa.array(keys[:2], kind), pa.array(keys[2:], kind)])
    rows = pa.table({"id": pieces, "place": pa.array(range(len(keys)), pa.int64())})
    assert last_per_key(rows, ["id"], None)["place"].to_pylist() == left


def test_with_versions_the_last_row_of_the_highest_is_kept() -> None:
    rows = table(k=[1, 1, 1, 2, 2], v=[5, 9, 4, 7, 7], n=[0, 1, 2, 3, 4])
    assert last_per_key(rows, ["k"], "v")["n"].to_pylist() == [1, 4]


def test_of_numbers_as_text_those_without_one_come_last() -> None:
    rows = table(k=[1, 1, 1], v=["9", None, "10"], n=[0, 1, 2])
    assert last_per_key(rows, ["k"], "v", as_numbers=True)["n"].to_pylist() == [1]
    assert last_per_key(rows.slice(0, 1), ["k", "k"], "v", as_numbers=True)["n"].to_pylist() == [0]


def test_rows_are_packed_as_the_header_says() -> None:
    rows = table(k=list(range(1000)), n=["row"] * 1000)

    def read(source: pa.NativeFile) -> pa.Table:
        return pa.ipc.open_stream(source).read_all()

    plain = Compression("none", 6)
    assert (read(pa.BufferReader(plain.compress_rows(rows))), plain.encoding) == (rows, None)
    assert read(pa.BufferReader(zlib.decompress(Compression("gzip", 1).compress_rows(rows), wbits=31))) == rows
    assert Compression("gzip", 1).encoding == "gzip"
    for codec in ("zstd", "lz4"):
        packing = Compression(codec, 6)
        packed = packing.compress_rows(rows)
        assert len(packed) < len(plain.compress_rows(rows))
        assert (read(pa.BufferReader(packed)), packing.encoding) == (rows, None)


def test_names_are_quoted_whatever_is_in_them() -> None:
    assert quote_identifier("a`b\\c") == "`a\\`b\\\\c`"


def test_rows_that_are_refused_come_back_with_what_was_said() -> None:
    refused = RejectedRows()
    refused.add(pa.table({"id": [1, 2, 3], "a b": ["x", "y", None]}), {2: "no", 0: "never"})
    told = pa.RecordBatch.from_pylist(
        list(refused.dead_letters()), pa.schema([("rejected", pa.binary()), ("message", pa.string())])
    )
    found = [row for batch in unpack_rejected([told]) for row in batch.to_pylist()]
    assert found == [{"c0": 3, "c1": None, "said": "no"}, {"c0": 1, "c1": "x", "said": "never"}]


def test_rows_that_fail_are_found_by_halving() -> None:
    def attempt(begin: int, end: int) -> None:
        if wrong := {3, 90}.intersection(range(begin, end)):
            raise QueryFailed("rows-refused", f"{sorted(wrong)}")

    assert list(find_failing(100, attempt, 0)) == [(3, "[3]"), (90, "[90]")]
    with pytest.raises(QueryFailed, match="more than 100 rows"):
        list(find_failing(100, attempt, 99))


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [
        (9_007_199_254_740_993, "Float64", "not in range"),
        (16_777_217, "Float32", "not in range"),
        (16_777_216, "Float32", None),
        (1e300, "Float32", "too large"),
        (float("inf"), "Float32", None),
        (0.1, "Float32", None),
    ],
)
def test_numbers_that_a_float_would_change_for_good_are_refused(value: float, column: str, said: str | None) -> None:
    values, kind = pa.array([value]), kind_of(column)
    wanted = target_type(values.type, kind)
    if said is None:
        assert convert_values(values, kind, wanted)[0].as_py() == pytest.approx(value)
    else:
        with pytest.raises((ValueError, pa.ArrowInvalid), match=said):
            convert_values(values, kind, wanted)
