"""Columns and the names of their types."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import PROJECT, SPARK
from penstock.sql.types.flink_inference import TIMESTAMPS, WHOLE
from penstock.sql.types.long_decimals import SPARK_DIGITS


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name. `type` is Spark SQL text; None if it is not known yet."""

    name: str
    type: str | None = None


Columns: TypeAlias = tuple[Column, ...]


TIME_TYPES: Final = frozenset({None, "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT", "INT", "DATE"})
"""The types that event time can have. None is an unknown type."""


def column_spelling(folded: str, columns: Columns | None) -> str | None:
    """Return a column's name as its owner spells it; None if there is no such column."""
    return next((c.name for c in columns or () if c.name.casefold() == folded), None)


def find_case_clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that differ only in case, which SQL takes for one name."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return seen[name.lower()], name
        seen[name.lower()] = name
    return None


@cache
def data_type(text: str) -> exp.DataType:
    """Return a Spark type as a sqlglot type. It is cached: callers must not change it."""
    return exp.DataType.build(text, dialect=SPARK)


@cache
def spark_type(text: str) -> str | None:
    """Return the Spark type of a written type, such as `VARCHAR(20)` or `ROW<a INT>`; None if it is not a type."""
    plain = _NULLABILITY.sub("", text)
    if plain.count("(") != plain.count(")"):
        return None
    try:
        cast = parse_one(f"CAST(x AS {plain})", read=PROJECT)
    except SqlglotError:
        return None
    parsed = cast.to if isinstance(cast, exp.Cast) and not cast.args.get("format") else None
    kinds = [] if parsed is None else list(parsed.find_all(exp.DataType))
    if parsed is None or any(kind.this not in SPARK_HAS or wrong_digits(kind) for kind in kinds):
        return None
    return type_text(parsed)


def wrong_digits(kind: exp.DataType, most: int = SPARK_DIGITS) -> tuple[str, str] | None:
    """Return the message and the hint for wrong digits of a decimal; None if they are valid."""
    sizes = [int(e.name) for e in kind.expressions if e.name.isdigit()] if kind.this is exp.DType.DECIMAL else []
    if sizes and not 1 <= sizes[0] <= most:
        return f"a DECIMAL has 1 to {most} digits, and not {sizes[0]}", f"write DECIMAL({most}, …) at most"
    if len(sizes) > 1 and sizes[1] > sizes[0]:
        text = f"a DECIMAL of {sizes[0]} digits cannot have {sizes[1]} after the decimal point"
        return text, f"the first number counts all digits: DECIMAL({min(sum(sizes), most)}, {sizes[1]})"
    return None


TYPE_NAMES: Final = (
    "STRING", "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL", "BOOLEAN", "TIMESTAMP", "DATE",
    "BINARY", "ARRAY", "MAP", "ROW", "VARCHAR",
)  # fmt: skip
"""The names of types that users write, the common ones first."""
_NULLABILITY: Final = re.compile(r"\s+(NOT\s+)?NULL\s*$", re.IGNORECASE)
SPARK_HAS: Final = frozenset(
    {
        *exp.DataType.TEXT_TYPES, *TIMESTAMPS, *WHOLE, exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL,
        exp.DType.BOOLEAN, exp.DType.BINARY, exp.DType.VARBINARY, exp.DType.DATE, exp.DType.ARRAY, exp.DType.MAP,
        exp.DType.STRUCT,
    }
)  # fmt: skip
_PLAIN: Final = {
    kind: exp.DataType(this=kind).sql(SPARK)
    for kind in (exp.DType.BIGINT, exp.DType.INT, exp.DType.DOUBLE, exp.DType.BOOLEAN, exp.DType.DATE)
} | {exp.DType.TIMESTAMP: "TIMESTAMP", exp.DType.TIMESTAMPTZ: "TIMESTAMP"}


def type_text(inferred: exp.DataType | None) -> str | None:
    """Render an inferred type as Spark SQL; None if inference failed."""
    if inferred is None or inferred.this in (exp.DType.UNKNOWN, exp.DType.NULL):
        return None
    if inferred.this in exp.DataType.TEXT_TYPES:
        return "STRING"  # Spark keeps no length on a column of a stream
    if inferred.this in (exp.DType.BINARY, exp.DType.VARBINARY):
        return "BINARY"
    if not inferred.expressions:
        return _PLAIN.get(inferred.this) or inferred.sql(SPARK)
    return inferred.sql(SPARK)
