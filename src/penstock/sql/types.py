"""Columns and the names of their types."""

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.sql.dialects import PROJECT, SPARK


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name; `type` is Spark SQL text, None where nobody has said it yet."""

    name: str
    type: str | None = None


Columns: TypeAlias = tuple[Column, ...]


def spark_type(text: str) -> str | None:
    """The Spark type for a type as people write it: `VARCHAR(20)`, `TIMESTAMP(3)`, `ROW<a INT>`; None if it is none."""
    try:
        parsed = exp.DataType.build(text, dialect=PROJECT)
    except SqlglotError:
        return None
    if parsed.is_type(*exp.DataType.TEXT_TYPES):
        return "STRING"  # Spark keeps no length on a column of a stream
    return None if parsed.is_type("unknown", "userdefined") else parsed.sql(SPARK)


def type_text(data_type: exp.DataType | None) -> str | None:
    """The Spark text of an inferred type; None where inference gave up."""
    if data_type is None or data_type.is_type("unknown", "null"):
        return None
    return "STRING" if data_type.is_type(*exp.DataType.TEXT_TYPES) else data_type.sql(SPARK)
