"""Spark columns of 256-bit numbers: found by type, created from other values, and converted to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.clients.int256.register import register_int256
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
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


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
    from pyspark.sql import functions as f

    return f.when(raw.isNotNull(), f.struct(raw.alias(struct_field(kind))))


def to_text(value: Column, kind: Int256Type) -> Column:
    """Return the decimal digits of a 256-bit number."""
    from pyspark.sql import functions as f

    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_text", value[struct_field(kind)], *_scale(kind))


def to_decimal_bytes(value: Column, kind: Int256Type) -> Column:
    """Return a 256-bit number as the bytes of an Avro decimal."""
    from pyspark.sql import functions as f

    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_bytes", value[struct_field(kind)], *_scale(kind))


def _scale(kind: Int256Type) -> tuple[Column, ...]:
    from pyspark.sql import functions as f

    return (f.lit(decimal_sizes(kind)[1]),) if is_decimal(kind) else ()


def int256_from_texts(frame: DataFrame, kinds: Mapping[str, Int256Type]) -> DataFrame:
    """Convert these columns of a frame from text to 256-bit numbers."""
    from pyspark.sql import functions as f

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
    from pyspark.sql import functions as f

    return _convert_to_text(f.col(quote_spark_identifier(name)), frame.schema[name].dataType).alias(name)


def _convert_to_text(value: Column, kind: Any) -> Column:
    from pyspark.sql import functions as f

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
