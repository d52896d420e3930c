"""The types of 256-bit numbers, and how values are stored in Spark, which has no such type.

A 256-bit number is UINT256, INT256, or a decimal of more than 38 digits (`long_decimals`). It is stored as a struct
with one field of bytes. The name of the field is the type; it survives every operation of Spark. The order of the bytes
is the order of the numbers, so Spark compares them itself.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from penstock.sql.types.long_decimals import decimal_field, decimal_kind, parse_decimal_kind

Int256Type: TypeAlias = str
"""`UINT256`, `INT256`, or a decimal such as `DECIMAL(100, 18)`."""

FIELDS: Final[Mapping[Int256Type, str]] = {"UINT256": "u256", "INT256": "i256"}
MARKS: Final = (*(f"struct<{field}:binary>" for field in FIELDS.values()), "struct<dec_")
"""The prefixes of these types in Spark's spelling."""
LIMITS: Final[Mapping[Int256Type, tuple[int, int]]] = {"UINT256": (0, 2**256 - 1), "INT256": (-(2**255), 2**255 - 1)}
_DTYPES: Final[Mapping[exp.DType, Int256Type]] = {exp.DType.UINT256: "UINT256", exp.DType.INT256: "INT256"}
_SPELLINGS: Final[Mapping[str, Int256Type]] = {
    spelled: kind
    for kind, field in FIELDS.items()
    for spelled in (kind.lower(), field, f"struct<{field}:binary>")
}  # fmt: skip


def parse_int256_type(text: str | None) -> Int256Type | None:
    """Return the 256-bit type of a name: `u256`, `UINT256`, or the struct in Spark's spelling; None for other names."""
    if text is None:
        return None
    plain = re.sub(r"\s+not null|[\s`]", "", text.lower())
    return _SPELLINGS.get(plain) or parse_decimal_kind(plain)


def struct_field(kind: Int256Type) -> str:
    """Return the name of the field that holds the bytes."""
    return FIELDS.get(kind) or decimal_field(kind)


def conversion_function(kind: Int256Type) -> str:
    """Return the function that converts strings and other numbers to the bytes."""
    return f"penstock_to_{FIELDS.get(kind, 'dec')}"


def int256_type(kind: exp.Expr | None) -> Int256Type | None:
    """Return the 256-bit type of a type in a tree; None if it is another type."""
    if not isinstance(kind, exp.DataType):
        return None
    if kind.this is exp.DType.STRUCT and len(kind.expressions) == 1:
        field = kind.expressions[0]
        is_bytes = isinstance(field, exp.ColumnDef) and field.kind is not None and field.kind.this is exp.DType.BINARY
        return parse_int256_type(f"struct<{field.name}:binary>") if is_bytes else None
    if kind.this is exp.DType.DECIMAL:
        sizes = [int(size.name) for size in kind.expressions if size.name.isdecimal()]
        return decimal_kind(*sizes) if sizes else None
    return _DTYPES.get(kind.this)


def is_decimal(kind: Int256Type | None) -> bool:
    return kind is not None and kind not in FIELDS


def encode_hex(value: int, kind: Int256Type) -> str:
    """Encode a number as the stored bytes, in hexadecimal digits."""
    return format(value - (LIMITS[kind][0] if kind == "INT256" else 0), "064X")


TAKES: Final[Mapping[str, tuple[int, Int256Type | None]]] = {
    **{f"u256_{word}": (2, "UINT256") for word in ("add", "sub", "mul", "div", "mod")},
    **{f"i256_{word}": (2, "INT256") for word in ("add", "sub", "mul", "div", "mod")},
    "i256_neg": (1, "INT256"),
    "i256_abs": (1, "INT256"),
    "u256_to_string": (1, "UINT256"),
    "i256_to_string": (1, "INT256"),
    "to_u256": (1, None),
    "to_i256": (1, None),
    "to_int64": (1, None),
}
"""The functions over 256-bit numbers: the number of arguments, and their type."""
GIVES: Final[Mapping[str, str]] = {
    **{name: kind for name, (_, kind) in TAKES.items() if kind is not None and not name.endswith("_to_string")},
    "u256_to_string": "TEXT",
    "i256_to_string": "TEXT",
    "to_u256": "UINT256",
    "to_i256": "INT256",
    "to_int64": "BIGINT",
}
"""The result types of these functions."""
NAMES: Final = frozenset(name.upper() for name in TAKES)
_LONG_DECIMAL: Final = r"(?:decimal|numeric|dec)\s*\(\s*(?:39|[4-9]\d|\d{3,})"
_MENTIONED: Final = re.compile(rf"\b(?:{'|'.join(TAKES)}|uint256|int256|{_LONG_DECIMAL})\b", re.IGNORECASE)


def mentions_int256(sql: str) -> bool:
    """Whether a query may convert other values to 256-bit numbers."""
    return _MENTIONED.search(sql) is not None
