"""Columns of Spark that are wide numbers: found by their type, made of other values, and turned into text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.clients.int256.register import register_int256
from penstock.spark_internals.frames import schema_text
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.int256 import (
    FIELDS,
    MARKS,
    WideType,
    conversion_function,
    is_decimal,
    parse_wide_type,
    struct_field,
)
from penstock.sql.types.wide_decimals import decimal_sizes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def has_int256(frame: DataFrame) -> bool:
    """Whether there are any in the columns of a frame, or inside of them."""
    types = schema_text(frame)
    return any(mark in types for mark in MARKS)


def int256_kind(kind: DataType) -> WideType | None:
    return parse_wide_type(kind.simpleString()) if kind.typeName() == "struct" else None


def int256_columns(schema: StructType) -> dict[str, WideType]:
    """The columns that are wide numbers."""
    return {field.name: kind for field in schema if (kind := int256_kind(field.dataType)) is not None}


def to_int256(raw: Column, kind: WideType) -> Column:
    """The bytes of a wide number as Spark holds it."""
    from pyspark.sql import functions as f

    return f.when(raw.isNotNull(), f.struct(raw.alias(struct_field(kind))))


def to_text(value: Column, kind: WideType) -> Column:
    """The digits of a wide number."""
    from pyspark.sql import functions as f

    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_text", value[struct_field(kind)], *_scale(kind))


def to_decimal_bytes(value: Column, kind: WideType) -> Column:
    """A wide number as a decimal of Avro has it."""
    from pyspark.sql import functions as f

    return f.call_function(f"penstock_{FIELDS.get(kind, 'dec')}_bytes", value[struct_field(kind)], *_scale(kind))


def _scale(kind: WideType) -> tuple[Column, ...]:
    from pyspark.sql import functions as f

    return (f.lit(decimal_sizes(kind)[1]),) if is_decimal(kind) else ()


def int256_from_texts(frame: DataFrame, kinds: Mapping[str, WideType]) -> DataFrame:
    """The frame with wide numbers in place of these columns, which are their texts."""
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
    """The frame with all wide numbers as decimal text, also those inside of other values."""
    if not has_int256(frame):
        return frame
    register_int256(frame.sparkSession)
    return frame.select(*(text_column(frame, name) for name in frame.columns))


def text_column(frame: DataFrame, name: str) -> Column:
    """A column of a frame with its wide numbers as text."""
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
