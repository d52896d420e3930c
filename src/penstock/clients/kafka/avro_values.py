"""Decodes Avro into plain values, to show single records. Spark decodes rows."""

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from io import BytesIO
from itertools import repeat
from typing import Any, Final

from penstock.clients.kafka.confluent_wire import HEAD, ZERO

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Final = {"timestamp-millis": 1_000, "timestamp-micros": 1_000_000}


def schema_number(value: bytes) -> int | None:
    """Return the schema id from a registry's header; None if there is no header."""
    return int.from_bytes(value[1:HEAD], "big") if value.startswith(ZERO) and len(value) >= HEAD else None


def decode_avro(schema: str, value: bytes) -> Any:
    """Decode the value after the header into JSON types; ValueError if the bytes do not fit the schema."""
    stream = BytesIO(value[HEAD:])
    try:
        found = _AvroReader(stream).read(json.loads(schema))
    except (IndexError, KeyError, OverflowError, RecursionError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"its bytes do not fit its schema: {error}") from error
    if stream.read(1):
        raise ValueError("its bytes do not fit its schema: some are left")
    return _json_safe(found)


def _json_safe(value: Any) -> Any:
    """Replace bytes by base64, because JSON has no bytes."""
    match value:
        case bytes():
            return "base64:" + b64encode(value).decode()
        case dict():
            return {name: _json_safe(item) for name, item in value.items()}
        case list():
            return [_json_safe(item) for item in value]
    return value


class _AvroReader:
    """Reads one value. Named types may be referred to by their names."""

    def __init__(self, stream: BytesIO) -> None:
        self._stream = stream
        self._named_types: dict[str, Any] = {}

    def read(self, schema: Any, space: str = "") -> Any:
        if isinstance(schema, list):
            return self.read(schema[self._index(len(schema))], space)
        if isinstance(schema, str):
            return _PLAIN[schema](self) if schema in _PLAIN else self.read(*self._find_named_type(schema, space))
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._read_named_type(schema, space)
        match kind:
            case "array":
                return [self.read(schema["items"], space) for _ in self._items()]
            case "map":
                return {self.text(): self.read(schema["values"], space) for _ in self._items()}
        return _logical(schema, self.read(kind, space))

    def _read_named_type(self, schema: Mapping[str, Any], space: str) -> Any:
        space = schema.get("namespace", schema["name"].rpartition(".")[0] or space)
        self._named_types[f"{space}.{schema['name'].rpartition('.')[2]}".lstrip(".")] = (schema, space)
        match schema["type"]:
            case "enum":
                return schema["symbols"][self._index(len(schema["symbols"]))]
            case "fixed":
                return _logical(schema, self._take(schema["size"]))
        return {each["name"]: self.read(each["type"], space) for each in schema["fields"]}

    def _find_named_type(self, name: str, space: str) -> tuple[Any, str]:
        found: tuple[Any, str] = self._named_types[name if name in self._named_types else f"{space}.{name}"]
        return found

    def _items(self) -> Iterator[None]:
        """Yield once per item. Items come in blocks, and the last block is empty."""
        while size := self.long():
            if size < 0:
                self.long()  # the size of the block in bytes
            if abs(size) > self._stream.getbuffer().nbytes:
                raise IndexError("a block has more items than the record has bytes")
            yield from repeat(None, abs(size))

    def _index(self, size: int) -> int:
        number = self.long()
        if not 0 <= number < size:
            raise IndexError(f"there is no choice {number}")
        return number

    def long(self) -> int:
        shift = number = 0
        while True:
            (byte,) = self._take(1)
            number |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7

    def data(self) -> bytes:
        return self._take(self.long())

    def text(self) -> str:
        return self.data().decode()

    def boolean(self) -> bool:
        return self._take(1) != ZERO

    def number(self, form: str) -> float:
        (found,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return float(found)

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size) if size >= 0 else b""
        if len(data) != size:
            raise IndexError("they end too early")
        return data


_PLAIN: Final[Mapping[str, Callable[[_AvroReader], Any]]] = {
    "null": lambda _: None,
    "boolean": _AvroReader.boolean,
    "int": _AvroReader.long,
    "long": _AvroReader.long,
    "float": lambda reader: reader.number("<f"),
    "double": lambda reader: reader.number("<d"),
    "bytes": _AvroReader.data,
    "string": _AvroReader.text,
}


def _logical(schema: Mapping[str, Any], value: Any) -> Any:
    """Convert a value to a readable form: a time, or a decimal number."""
    kind = schema.get("logicalType")
    if kind in _PER_SECOND:
        moment = _EPOCH + timedelta(microseconds=value * 1_000_000 // _PER_SECOND[kind])
        return moment.isoformat().replace("+00:00", "Z")
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind == "decimal":
        return _decimal(value, int(schema.get("scale", 0)))
    return value


def _decimal(data: bytes, scale: int) -> str:
    with localcontext(prec=len(data) * 3 + abs(scale) + 1):
        return f"{Decimal(int.from_bytes(data, 'big', signed=True)).scaleb(-scale):f}"
