"""Infers the columns of JSON lines and CSV records from their values: a single bad value does not make a column text.

A column gets the type of nearly all of its values. Rows with other values become dead letters, and a warning says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.clients.jvm.strict_json import checked_json, json_sorts
from penstock.clients.warn_once import warn_once
from penstock.spark_functions import f
from penstock.spark_internals.frames import infer_json_schema
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader
    from pyspark.sql.types import DataType, StructType

_LOOKED_AT: Final = 100_000
"""The number of lines that are searched for values of another type."""
_FEWEST: Final = 10
"""With fewer values than this, none of them counts as an exception."""
_NEARLY_ALL: Final = 0.9
_MOST_SHAPES: Final = 10_000
_CORRUPT: Final = "_unreadable"
_WORDS: Final = {
    "NUMBER": "numbers", "STRING": "texts", "BOOLEAN": "true or false", "OBJECT": "objects", "ARRAY": "lists",
}  # fmt: skip


def json_schema(lines: DataFrame, options: Mapping[str, str], path: str) -> StructType:
    """Infer the columns of the objects in the column `value`. All are read; invalid ones are ignored."""
    line = f.col("value").cast("binary")
    odd = _odd_sorts(lines, line, path)
    sound, sorts = lines, json_sorts(line)
    for name, minor in odd.items():
        if "'" not in name:
            unlike = f.get_json_object(sorts, f"$['{name}']").isin(sorted(minor))
            sound = sound.where(~f.coalesce(unlike, f.lit(False)))
    texts = sound.select(checked_json(line).alias("text")).where("text IS NOT NULL")
    return texts_schema(texts, options)


def texts_schema(texts: DataFrame, options: Mapping[str, str]) -> StructType:
    """Infer the columns of JSON objects with Spark."""
    from pyspark.sql.types import StructType

    reader = texts.sparkSession.read.options(**{**options, "columnNameOfCorruptRecord": _CORRUPT})
    schema = infer_json_schema(texts, reader)
    return StructType([field for field in schema if field.name != _CORRUPT])


def _odd_sorts(lines: DataFrame, line: Column, path: str) -> dict[str, set[str]]:
    """Return, by key, the JSON types that only a few objects have."""
    first = lines.limit(_LOOKED_AT).select(json_sorts(line).alias("sorts"))
    shapes = first.where("sorts IS NOT NULL").groupBy("sorts").agg(f.count("*").alias("count"))
    found = shapes.limit(_MOST_SHAPES + 1).collect()
    if len(found) > _MOST_SHAPES:
        return {}
    counts: dict[str, Counter[str]] = {}
    for row in found:
        for name, sort in json.loads(row["sorts"]).items():
            if sort != "NULL":
                counts.setdefault(name, Counter())[sort] += row["count"]
    odd: dict[str, set[str]] = {}
    for name, sorts in counts.items():
        (common, many), total = sorts.most_common(1)[0], sorts.total()
        if len(sorts) > 1 and _is_nearly_all(many, total):
            odd[name] = set(sorts) - {common}
            _warn_column(name, path, f"as {_WORDS.get(common, common)}", many, total)
    return odd


def csv_schema(reader: DataFrameReader, root: str, found: StructType, texts: Iterable[str]) -> StructType:
    """Return the columns of CSV files as inferred by Spark, but with the type of nearly all values if there is one.

    `texts` are columns that must be text, in lower case.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    fixed = set(texts)
    untyped = [field.name for field in found if isinstance(field.dataType, StringType)]
    open_ = [name for name in untyped if name.lower() not in fixed]
    if not open_:
        return found
    rows = reader.options(header="true", inferSchema="false").load(root).limit(_LOOKED_AT)
    asked = [f.count(quote_spark_identifier(name)).alias(f"{place}") for place, name in enumerate(open_)]
    for place, name in enumerate(open_):
        fitting = _candidates(f.col(quote_spark_identifier(name)))
        asked += [f.count_if(fits).alias(f"{place} {kind}") for kind, fits in fitting.items()]
    (counted,) = rows.agg(*asked).collect()
    types: dict[str, DataType] = {}
    for place, name in enumerate(open_):
        total = counted[f"{place}"]
        for kind in _candidates(f.lit("")):
            many = counted[f"{place} {kind}"]
            if many < total and _is_nearly_all(many, total):
                types[name] = StructType.fromDDL(f"x {kind}")["x"].dataType  # type: ignore[index]
                _warn_column(name, root, f"as {kind}", many, total)
                break
    return StructType([StructField(field.name, types.get(field.name, field.dataType)) for field in found])


def _candidates(text: Column) -> dict[str, Column]:
    """Return a condition for each type: whether a text is a value of it."""
    day = text.rlike(r"^\d{4}-\d{1,2}-\d{1,2}$")
    time = text.rlike(r"^\d{4}-\d{1,2}-\d{1,2}[ T]")
    return {
        "BIGINT": text.rlike(r"^[+-]?\d+$") & text.try_cast("BIGINT").isNotNull(),
        "DOUBLE": text.rlike(r"^[+-]?[\d.]+([eE][+-]?\d+)?$") & text.try_cast("DOUBLE").isNotNull(),
        "DATE": day & text.try_cast("DATE").isNotNull(),
        "TIMESTAMP": (day | time) & f.try_to_timestamp(text).isNotNull(),
    }


def _is_nearly_all(many: int, total: int) -> bool:
    return total >= _FEWEST and many >= _NEARLY_ALL * total


def _warn_column(name: str, path: str, how: str, many: int, total: int) -> None:
    warn_once(
        f"the column `{name}` at path {path} is read {how}: {many:,} of {total:,} values are. "
        "Lines with others are dead letters; declare the column to read them otherwise."
    )
