"""Avro bytes as plain values."""

import json
import struct
from typing import Any

import pytest

from penstock.clients.kafka.avro_values import decode_avro, schema_number

HEAD = b"\0\0\0\0\7"


def zigzag(number: int) -> bytes:
    rest, found = (number << 1) ^ (number >> 63), b""
    while rest > 0x7F:
        found, rest = found + bytes([rest & 0x7F | 0x80]), rest >> 7
    return found + bytes([rest])


def text(value: str) -> bytes:
    return zigzag(len(value.encode())) + value.encode()


def record(*fields: tuple[str, Any]) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Row", "namespace": "a.b", "fields": listed})


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
CASES: list[tuple[Any, bytes, Any]] = [
    ("long", zigzag(-(2**62)), -(2**62)),
    ("int", zigzag(300), 300),
    ("boolean", b"\1", True),
    ("double", struct.pack("<d", 1.5), 1.5),
    ("float", struct.pack("<f", 0.25), 0.25),
    ("string", text("grün"), "grün"),
    ("bytes", zigzag(2) + b"\xff\0", "base64:/wA="),
    (["null", "string"], zigzag(0), None),
    (["null", "string"], zigzag(1) + text("x"), "x"),
    ({"type": "array", "items": "int"}, zigzag(2) + zigzag(1) + zigzag(2) + zigzag(0), [1, 2]),
    ({"type": "array", "items": "int"}, zigzag(-1) + zigzag(1) + zigzag(5) + zigzag(0), [5]),
    ({"type": "map", "values": "int"}, zigzag(1) + text("k") + zigzag(3) + zigzag(0), {"k": 3}),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, zigzag(1), "B"),
    ({"type": "fixed", "name": "F", "size": 2}, b"\1\2", "base64:AQI="),
    ({"type": "long", "logicalType": "timestamp-millis"}, zigzag(1500), "1970-01-01T00:00:01.500000Z"),
    ({"type": "int", "logicalType": "date"}, zigzag(31), "1970-02-01"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, zigzag(2) + b"\xfb\x2e", "-12.34"),
    (INNER, zigzag(4), {"x": 4}),
]


@pytest.mark.parametrize(("kind", "data", "value"), CASES)
def test_every_type_is_decoded(kind: Any, data: bytes, value: Any) -> None:
    schema = record(("id", "long"), ("it", kind))
    assert decode_avro(schema, HEAD + zigzag(7) + data) == {"id": 7, "it": value}


def test_a_type_that_has_a_name_may_be_used_again() -> None:
    schema = record(("a", INNER), ("b", "Inner"), ("c", ["null", "a.b.Inner"]))
    assert decode_avro(schema, HEAD + zigzag(1) + zigzag(2) + zigzag(1) + zigzag(3)) == {
        "a": {"x": 1},
        "b": {"x": 2},
        "c": {"x": 3},
    }


@pytest.mark.parametrize("data", [b"", zigzag(9) + b"x", zigzag(1) + b"x" + b"left", b"\xff" * 20])
def test_bytes_that_do_not_fit_are_no_value(data: bytes) -> None:
    with pytest.raises(ValueError, match="do not fit its schema"):
        decode_avro(record(("name", "string")), HEAD + data)


def test_the_number_of_a_schema_stands_before_the_bytes() -> None:
    assert [schema_number(value) for value in (HEAD + b"x", b"{}", b"\0\0")] == [7, None, None]
