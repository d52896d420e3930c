"""Columns and the names of their types."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import PROJECT, SPARK


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name; `type` is Spark SQL text, None where nobody has said it yet."""

    name: str
    type: str | None = None


Columns: TypeAlias = tuple[Column, ...]


TIME_TYPES: Final = frozenset({None, "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT", "INT", "DATE"})
"""What can say when a row happened; None is a type that is not known."""


def column_spelling(folded: str, columns: Columns | None) -> str | None:
    """A column as its owner writes it."""
    return next((c.name for c in columns or () if c.name.casefold() == folded), None)


def find_case_clash(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that SQL takes for one: it does not tell upper from lower case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return seen[name.lower()], name
        seen[name.lower()] = name
    return None


@cache
def data_type(text: str) -> exp.DataType:
    """A Spark type as sqlglot knows it. Shared: never to be changed."""
    return exp.DataType.build(text, dialect=SPARK)


@cache
def spark_type(text: str) -> str | None:
    """The Spark type for a type as people write it: `VARCHAR(20)`, `TIMESTAMP(3)`, `ROW<a INT>`; None if it is none."""
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


_DIGITS: Final = 38
"""The most digits that a decimal has."""


def wrong_digits(kind: exp.DataType, most: int = _DIGITS) -> tuple[str, str] | None:
    """What is wrong with the digits of a decimal, and the way out."""
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
"""The names of types that people write, the common ones first."""
_NULLABILITY: Final = re.compile(r"\s+(NOT\s+)?NULL\s*$", re.IGNORECASE)
SPARK_HAS: Final = frozenset(
    {
        *exp.DataType.TEXT_TYPES,
        exp.DType.TINYINT,
        exp.DType.SMALLINT,
        exp.DType.INT,
        exp.DType.BIGINT,
        exp.DType.FLOAT,
        exp.DType.DOUBLE,
        exp.DType.DECIMAL,
        exp.DType.BOOLEAN,
        exp.DType.BINARY,
        exp.DType.VARBINARY,
        exp.DType.DATE,
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPTZ,
        exp.DType.TIMESTAMPLTZ,
        exp.DType.TIMESTAMPNTZ,
        exp.DType.ARRAY,
        exp.DType.MAP,
        exp.DType.STRUCT,
    }
)
_PLAIN: Final = {
    kind: exp.DataType(this=kind).sql(SPARK)
    for kind in (exp.DType.BIGINT, exp.DType.INT, exp.DType.DOUBLE, exp.DType.BOOLEAN, exp.DType.DATE)
} | {exp.DType.TIMESTAMP: "TIMESTAMP", exp.DType.TIMESTAMPTZ: "TIMESTAMP"}


def type_text(inferred: exp.DataType | None) -> str | None:
    """The Spark text of an inferred type; None where inference gave up."""
    if inferred is None or inferred.this in (exp.DType.UNKNOWN, exp.DType.NULL):
        return None
    if inferred.this in exp.DataType.TEXT_TYPES:
        return "STRING"  # Spark keeps no length on a column of a stream
    if inferred.this in (exp.DType.BINARY, exp.DType.VARBINARY):
        return "BINARY"
    if not inferred.expressions:
        return _PLAIN.get(inferred.this) or inferred.sql(SPARK)
    return inferred.sql(SPARK)
