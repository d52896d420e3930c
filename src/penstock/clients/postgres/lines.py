"""Rows as the lines of COPY, made by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.sql.dialects import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField

_NULL: Final = "\\N"
_ESCAPED: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_PLAIN: Final = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp", "decimal",
)  # fmt: skip
_NESTED: Final = ("struct", "array", "map", "variant")


def line(fields: Sequence[StructField], more: Sequence[Column] = ()) -> Column:
    """One line of COPY's text format for each row: the fields, then texts that need no care."""
    from pyspark.sql import functions as f

    cells = [f.coalesce(_cell(field), f.lit(_NULL)) for field in fields]
    return f.concat(f.concat_ws("\t", *cells, *more), f.lit("\n"))


def _cell(field: StructField) -> Column:
    from pyspark.sql import functions as f

    value, kind = f.col(quoted(field.name)), field.dataType.simpleString()
    if kind.startswith(_PLAIN):
        return value.cast("string")
    if kind == "binary":
        return f.concat(f.lit("\\\\x"), f.hex(value))
    return _escaped(f.to_json(value) if kind.startswith(_NESTED) else value.cast("string"))


def _escaped(text: Column) -> Column:
    from pyspark.sql import functions as f

    for character, written in _ESCAPED:
        text = f.replace(text, f.lit(character), f.lit(written))
    return text
