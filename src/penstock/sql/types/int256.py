"""Whole numbers of 256 bits: what their types are called, and how Spark, which has none, holds them.

A wide number is a struct of one field with 32 bytes. The name of the field tells its kind, wherever the value goes; the
order of the bytes is that of the numbers, so Spark compares them itself. Decimals of more digits than Spark's are held
likewise: `wide_decimals` has them.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from penstock.sql.types.wide_decimals import decimal_field, decimal_kind, parse_decimal_kind

WideType: TypeAlias = str
"""`UINT256`, `INT256`, or a decimal such as `DECIMAL(100, 18)`."""

FIELDS: Final[Mapping[WideType, str]] = {"UINT256": "u256", "INT256": "i256"}
MARKS: Final = (*(f"struct<{field}:binary>" for field in FIELDS.values()), "struct<dec_")
"""What the types of wide numbers begin with, as Spark spells them."""
LIMITS: Final[Mapping[WideType, tuple[int, int]]] = {"UINT256": (0, 2**256 - 1), "INT256": (-(2**255), 2**255 - 1)}
_DTYPES: Final[Mapping[exp.DType, WideType]] = {exp.DType.UINT256: "UINT256", exp.DType.INT256: "INT256"}
_SPELLINGS: Final[Mapping[str, WideType]] = {
    spelled: kind
    for kind, field in FIELDS.items()
    for spelled in (kind.lower(), field, f"struct<{field}:binary>")
}  # fmt: skip


def parse_wide_type(text: str | None) -> WideType | None:
    """The kind of wide number that a type is, as people or Spark write it: `u256`, `UINT256`, or the struct."""
    if text is None:
        return None
    plain = re.sub(r"\s+not null|[\s`]", "", text.lower())
    return _SPELLINGS.get(plain) or parse_decimal_kind(plain)


def struct_field(kind: WideType) -> str:
    """The name of the field that holds the bytes, which tells the kind."""
    return FIELDS.get(kind) or decimal_field(kind)


def conversion_function(kind: WideType) -> str:
    """The function that makes the bytes of texts and of other numbers."""
    return f"penstock_to_{FIELDS.get(kind, 'dec')}"


def wide_type(kind: exp.Expr | None) -> WideType | None:
    """The kind of wide number that a type in a tree is."""
    if not isinstance(kind, exp.DataType):
        return None
    if kind.this is exp.DType.STRUCT and len(kind.expressions) == 1:
        field = kind.expressions[0]
        is_bytes = isinstance(field, exp.ColumnDef) and field.kind is not None and field.kind.this is exp.DType.BINARY
        return parse_wide_type(f"struct<{field.name}:binary>") if is_bytes else None
    if kind.this is exp.DType.DECIMAL:
        sizes = [int(size.name) for size in kind.expressions if size.name.isdecimal()]
        return decimal_kind(*sizes) if sizes else None
    return _DTYPES.get(kind.this)


def is_decimal(kind: WideType | None) -> bool:
    return kind is not None and kind not in FIELDS


def physical_type(text: str) -> str:
    """A type as Spark knows it."""
    kind = parse_wide_type(text)
    return text if kind is None else f"STRUCT<{struct_field(kind)}: BINARY>"


def encode_hex(value: int, kind: WideType) -> str:
    """A number as Spark holds it, in hexadecimal digits."""
    return format(value - (LIMITS[kind][0] if kind == "INT256" else 0), "064X")


TAKES: Final[Mapping[str, tuple[int, WideType | None]]] = {
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
"""The functions over wide numbers: how many arguments they have, and of which kind these are."""
GIVES: Final[Mapping[str, str]] = {
    **{name: kind for name, (_, kind) in TAKES.items() if kind is not None and not name.endswith("_to_string")},
    "u256_to_string": "TEXT",
    "i256_to_string": "TEXT",
    "to_u256": "UINT256",
    "to_i256": "INT256",
    "to_int64": "BIGINT",
}
"""The types that they answer with."""
NAMES: Final = frozenset(name.upper() for name in TAKES)
_LONG_DECIMAL: Final = r"(?:decimal|numeric|dec)\s*\(\s*(?:39|[4-9]\d|\d{3,})"
_MENTIONED: Final = re.compile(rf"\b(?:{'|'.join(TAKES)}|uint256|int256|{_LONG_DECIMAL})\b", re.IGNORECASE)


def has_wide_mention(sql: str) -> bool:
    """Whether a text may make wide numbers of others."""
    return _MENTIONED.search(sql) is not None
