"""256-bit numbers in Avro schemas: decimals with more digits than Spark supports, and their replacements."""

import json
from dataclasses import dataclass
from typing import Any, Final

from penstock.sql.types.avro_types import SIGNED
from penstock.sql.types.int256 import FIELDS, Int256Type, conversion_function, parse_int256_type
from penstock.sql.types.long_decimals import SPARK_DIGITS, decimal_kind

_SIGNED_DIGITS: Final = 76
"""Up to this many digits, every number fits into 256 bits with a sign. Longer decimals count as unsigned."""
_WIDTH: Final = 32


@dataclass(frozen=True, slots=True)
class Int256Decimal:
    """How a decimal is read: as a 256-bit number that a function creates, or as text with a scale."""

    function: str
    kind: Int256Type | None = None
    scale: int | None = None

    @property
    def type(self) -> str:
        return self.kind or "STRING"


def int256_decimal(schema: Any) -> Int256Decimal | None:
    """Return how values of an Avro type are read if Spark has no decimal for them; None for other types."""
    match schema:
        case list():
            inner = [part for part in schema if part != "null"]
            return int256_decimal(inner[0]) if len(inner) == 1 else None
        case {"logicalType": str(word), "type": "bytes" | "fixed" | "string"} if (
            kind := parse_int256_type(word)
        ) is not None:
            return Int256Decimal(conversion_function(kind), kind)
        case {"logicalType": "decimal", "precision": int(digits)} if digits > SPARK_DIGITS:
            scale = schema.get("scale", 0)
            if scale:
                kind = decimal_kind(digits, scale)
                return Int256Decimal(
                    "penstock_decimal_text" if kind is None else "penstock_dec_from_bytes", kind, scale
                )
            return _whole_number(schema, digits)
        case {"type": dict() | list() as inner}:
            return int256_decimal(inner)
        case _:
            return None


def _whole_number(schema: dict[str, Any], digits: int) -> Int256Decimal:
    said = parse_int256_type(str(schema.get(SIGNED, "")))
    kind: Int256Type = said or ("INT256" if digits <= _SIGNED_DIGITS else "UINT256")
    if kind == "UINT256" and schema.get("type") == "fixed" and schema.get("size") == _WIDTH:
        return Int256Decimal("penstock_to_u256", kind)  # all of the bits are digits
    return Int256Decimal(f"penstock_{FIELDS[kind]}_from_bytes", kind)


def int256_fields(schema: str, within: tuple[str, ...] = ()) -> dict[str, Int256Decimal]:
    """Return the fields of a record that Spark has no type for, or those of a record in one of its fields."""
    records: dict[str, Any] = {}
    _collect_records(json.loads(schema), records)
    found = _record(json.loads(schema), records)
    for name in within:
        fields = {field["name"]: field["type"] for field in found.get("fields", ())}
        if (inner := _record(fields.get(name), records)).get("fields"):
            found = inner
            break
    carried = {field["name"]: int256_decimal(field["type"]) for field in found.get("fields", ())}
    return {name: how for name, how in carried.items() if how is not None}


def readable_schema(schema: str) -> str:
    """Return a schema whose values Spark can read: decimals with too many digits are bytes."""
    return json.dumps(_strip_decimals(json.loads(schema)))


def _strip_decimals(schema: Any) -> Any:
    match schema:
        case list():
            return [_strip_decimals(part) for part in schema]
        case {"logicalType": "decimal", "precision": int(digits)} if digits > SPARK_DIGITS:
            return {key: part for key, part in schema.items() if key not in ("logicalType", "precision", "scale")}
        case dict():
            within = ("type", "items", "values", "fields")
            return {key: _strip_decimals(part) if key in within else part for key, part in schema.items()}
        case _:
            return schema


def _record(schema: Any, records: dict[str, Any]) -> dict[str, Any]:
    match schema:
        case list():
            inner = [part for part in schema if part != "null"]
            return _record(inner[0], records) if len(inner) == 1 else {}
        case {"type": "record"}:
            return dict(schema)
        case {"type": dict() | list() as inner}:
            return _record(inner, records)
        case str():
            return dict(records.get(schema.rpartition(".")[2], {}))
        case _:
            return {}


def _collect_records(schema: Any, records: dict[str, Any]) -> None:
    match schema:
        case list():
            for part in schema:
                _collect_records(part, records)
        case dict():
            if schema.get("type") == "record":
                records[str(schema.get("name", "")).rpartition(".")[2]] = schema
            for key in ("type", "items", "values", "fields"):
                _collect_records(schema.get(key), records)
