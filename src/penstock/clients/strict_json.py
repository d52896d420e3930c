"""Checks that a text is exactly one JSON object, whose values Spark reads without changing them.

Every reader of JSON asks here. Spark's own parser ignores what stands behind the first object, takes the last of two
equal keys, rounds decimals, and takes each number for a timestamp as seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.clients.compiled import load_class

if TYPE_CHECKING:
    from pyspark.sql import Column

_PACKAGE: Final = "penstock.clients.rowwise"


def checked_json(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """The text of an object, for `from_json` with this schema; null where `json_fault` says what is wrong.

    The value is binary. If a schema `registry` may have put its head before the text, that is left out. Of an
    `envelope` that is the payload of another object, only the payload is given.
    """
    return _called("checked", value, _struct(schema), registry, envelope).cast("string")


def json_fault(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """Why a value is no row: a code, and mostly `: ` and the reason. Null if nothing is wrong with it.

    It costs far more than the check, and is meant for the few records that did not pass.
    """
    return _called("fault", value, _struct(schema), registry, envelope)


def json_sorts(value: Column, *, registry: bool = False) -> Column:
    """The keys of an object and the sort of value that each has, as JSON; null if it is not sound."""
    return _called("signature", value, registry)


def _called(function: str, value: Column, *arguments: Any) -> Column:
    from pyspark.sql import Column

    return Column(getattr(_java().penstock.StrictJson, function)(value._jc, *arguments))


def _struct(schema: str) -> Any:
    struct = _java().org.apache.spark.sql.types.StructType
    return struct.fromDDL(schema) if schema else struct()


def line_counted(file: Column, before: int) -> Column:
    """The number of a row among those of its file, behind some that were there `before`, as one task reads them."""
    from pyspark.sql import Column

    return Column(_java().penstock.StrictJson.counted(file._jc, before))


def _java() -> Any:
    """The JVM, which has our checks of JSON."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    load_class(context, _PACKAGE, "StrictJson")
    return context._jvm
