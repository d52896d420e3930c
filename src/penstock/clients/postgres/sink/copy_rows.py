"""Encodes rows as lines of COPY, in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.clients.int256.columns import int256_kind
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.int256 import FIELDS, is_decimal, struct_field
from penstock.sql.types.long_decimals import decimal_sizes

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_BACKSLASH: Final = "chr(92)"
"""Not written as a literal: the meaning of a backslash in a literal depends on a setting of Spark."""
_ESCAPED: Final = ((_BACKSLASH, _BACKSLASH), ("chr(9)", "'t'"), ("chr(10)", "'n'"), ("chr(13)", "'r'"))
_PLAIN: Final = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp", "decimal",
)  # fmt: skip
_NESTED: Final = ("struct", "array", "map", "variant")


def copy_line(fields: Sequence[StructField], more: Sequence[str] = ()) -> str:
    """Return a SQL expression for a row in COPY's text format: its fields, then expressions that need no escaping.

    As one text it reaches the JVM in one call; building it function by function takes longer than a small batch.
    """
    *cells, last = [*(f"coalesce({_cell(field)}, concat({_BACKSLASH}, 'N'))" for field in fields), *more]
    return f"concat_ws(chr(9), {', '.join([*cells, f'concat({last}, chr(10))'])})"


def _cell(field: StructField) -> str:
    value, kind = quote_spark_identifier(field.name), field.dataType.simpleString()
    if (wide := int256_kind(field.dataType)) is not None:
        scale = f", {decimal_sizes(wide)[1]}" if is_decimal(wide) else ""
        return f"penstock_{FIELDS.get(wide, 'dec')}_text({value}.{struct_field(wide)}{scale})"
    if kind.startswith(_PLAIN):
        return f"cast({value} AS string)"
    if kind == "binary":
        return f"concat({_BACKSLASH}, {_BACKSLASH}, 'x', hex({value}))"
    is_nested = kind.startswith(_NESTED)
    text = f"to_json({value}, map('ignoreNullFields', 'false'))" if is_nested else f"cast({value} AS string)"
    for character, letter in _ESCAPED:
        text = f"replace({text}, {character}, concat({_BACKSLASH}, {letter}))"
    return text
