"""Spark columns of 256-bit numbers and long decimals: their Java functions, and their conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.clients.jvm.compile_java import register_functions
from penstock.spark_functions import f
from penstock.spark_internals.expressions import try_column
from penstock.spark_internals.frames import schema_text
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.int256 import (
    FIELDS,
    MARKS,
    Int256Type,
    conversion_function,
    is_decimal,
    parse_int256_type,
    struct_field,
)
from penstock.sql.types.long_decimals import decimal_sizes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


def register_int256(session: SparkSession) -> None:
    """Register the functions with a session and load them on its cluster, unless they are registered."""
    register_functions(session, "penstock.clients.int256", "Int256", "penstock_to_u256")
    register_functions(session, "penstock.clients.int256", "LongDecimals", "penstock_to_dec")


def has_int256(frame: DataFrame) -> bool:
    """Whether a frame has 256-bit numbers, also inside nested values."""
    types = schema_text(frame)
    return any(mark in types for mark in MARKS)


def int256_kind(kind: DataType) -> Int256Type | None:
    return parse_int256_type(kind.simpleString()) if kind.typeName() == "struct" else None


def int256_columns(schema: StructType) -> dict[str, Int256Type]:
    return {field.name: kind for field in schema if (kind := int256_kind(field.dataType)) is not None}


def to_int256(raw: Column, kind: Int256Type) -> Column:
    """Put the bytes of a 256-bit number into the struct that holds it."""
    return f.when(raw.isNotNull(), f.struct(raw.alias(struct_field(kind))))


def to_text(value: Column, kind: Int256Type) -> Column:
    """Return the decimal digits of a 256-bit number."""
    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_text", value[struct_field(kind)], *_scale(kind))


def to_decimal_bytes(value: Column, kind: Int256Type) -> Column:
    """Return a 256-bit number as the bytes of an Avro decimal."""
    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_bytes", value[struct_field(kind)], *_scale(kind))


def _scale(kind: Int256Type) -> tuple[Column, ...]:
    return (f.lit(decimal_sizes(kind)[1]),) if is_decimal(kind) else ()


def int256_from_texts(frame: DataFrame, kinds: Mapping[str, Int256Type]) -> DataFrame:
    """Convert these columns of a frame from text to 256-bit numbers."""
    if not kinds:
        return frame
    register_int256(frame.sparkSession)
    made = {
        name: to_int256(f.call_function(conversion_function(kind), f.col(quote_spark_identifier(name))), kind)
        for name, kind in kinds.items()
    }
    return frame.withColumns(made)


def int256_to_texts(frame: DataFrame) -> DataFrame:
    """Convert all 256-bit numbers of a frame to decimal text, also inside nested values."""
    if not has_int256(frame):
        return frame
    register_int256(frame.sparkSession)
    return frame.select(*(text_column(frame, name) for name in frame.columns))


def text_column(frame: DataFrame, name: str) -> Column:
    """Return a column of a frame with its 256-bit numbers as text."""
    return _convert_to_text(f.col(quote_spark_identifier(name)), frame.schema[name].dataType).alias(name)


def _convert_to_text(value: Column, kind: Any) -> Column:
    if not any(mark in kind.simpleString() for mark in MARKS):
        return value
    if (wide := int256_kind(kind)) is not None:
        return to_text(value, wide)
    match kind.typeName():
        case "array":
            return f.transform(value, lambda item: _convert_to_text(item, kind.elementType))
        case "map":
            return f.transform_values(value, lambda _, item: _convert_to_text(item, kind.valueType))
        case "struct":
            fields = [_convert_to_text(value[field.name], field.dataType).alias(field.name) for field in kind]
            return f.when(value.isNotNull(), f.struct(*fields))
    return value


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column that Spark has no type for: a function computes it from the value that is read instead."""

    function: str
    kind: Int256Type | None = None
    scale: int | None = None

    def of(self, read: Column) -> Column:
        """Return the column; null for values that cannot be converted."""
        more = () if self.scale is None else (f.lit(self.scale),)
        raw = try_column(f.call_function(self.function, read, *more))
        return raw if self.kind is None else to_int256(raw, self.kind)

    def of_key(self, text: Column) -> Column:
        """Return the column of a deleted row from the text of its key."""
        return text if self.kind is None else DerivedColumn(conversion_function(self.kind), self.kind).of(text)
