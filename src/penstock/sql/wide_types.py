"""Whole numbers of 256 bits: what their types are called, and how Spark, which has none, holds them.

A wide number is a struct of one field with 32 bytes. The name of the field tells its kind, wherever the value goes; the
order of the bytes is that of the numbers, so Spark compares them itself.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from sqlglot import exp

Wide: TypeAlias = Literal["UINT256", "INT256"]

FIELDS: Final[Mapping[Wide, str]] = {"UINT256": "u256", "INT256": "i256"}
SPARK_TYPES: Final[Mapping[Wide, str]] = {kind: f"STRUCT<{field}: BINARY>" for kind, field in FIELDS.items()}
LIMITS: Final[Mapping[Wide, tuple[int, int]]] = {"UINT256": (0, 2**256 - 1), "INT256": (-(2**255), 2**255 - 1)}
_DTYPES: Final[Mapping[exp.DType, Wide]] = {exp.DType.UINT256: "UINT256", exp.DType.INT256: "INT256"}
_SPELLINGS: Final[Mapping[str, Wide]] = {
    spelled: kind
    for kind, field in FIELDS.items()
    for spelled in (kind.lower(), field, f"struct<{field}:binary>")
}  # fmt: skip


def wide_name(text: str | None) -> Wide | None:
    """The kind of wide number that a type is, as people or Spark write it: `u256`, `UINT256`, or the struct."""
    return None if text is None else _SPELLINGS.get(re.sub(r"\s+not null|[\s`]", "", text.lower()))


def wide_of(kind: exp.Expr | None) -> Wide | None:
    """The kind of wide number that a type in a tree is."""
    if not isinstance(kind, exp.DataType):
        return None
    if kind.this is exp.DType.STRUCT and len(kind.expressions) == 1:
        field = kind.expressions[0]
        is_bytes = isinstance(field, exp.ColumnDef) and field.kind is not None and field.kind.this is exp.DType.BINARY
        return _SPELLINGS.get(field.name.lower()) if is_bytes and field.name.lower() in FIELDS.values() else None
    return _DTYPES.get(kind.this)


def spark_type_of(text: str) -> str:
    """A type as Spark knows it."""
    kind = wide_name(text)
    return text if kind is None else SPARK_TYPES[kind]


def as_bytes(value: int, kind: Wide) -> str:
    """A number as Spark holds it, in hexadecimal digits."""
    return format(value - (LIMITS[kind][0] if kind == "INT256" else 0), "064X")


TAKES: Final[Mapping[str, tuple[int, Wide | None]]] = {
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
_MENTIONED: Final = re.compile(rf"\b({'|'.join(TAKES)}|uint256|int256)\b", re.IGNORECASE)


def mentions_wide(sql: str) -> bool:
    """Whether a text may make wide numbers of others."""
    return _MENTIONED.search(sql) is not None
