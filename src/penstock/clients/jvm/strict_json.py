"""Checks that a text is exactly one JSON object, whose values Spark reads without changing them.

Every reader of JSON asks here. Spark's own parser ignores what stands behind the first object, takes the last of two
equal keys, rounds decimals, and takes each number for a timestamp as seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.clients.jvm.compile_java import load_classes

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column

_PACKAGE: Final = "penstock.clients.jvm.json"


def checked_json(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """The text of an object, for `from_json` with this schema; null where `json_fault` says what is wrong.

    The value is binary. If a schema `registry` may have put its head before the text, that is left out. Of an
    `envelope` that is the payload of another object, only the payload is given.
    """
    return _call_java("checked", value, _struct(schema), registry, envelope).cast("string")


def json_row(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """The row of an object with this schema; null where `json_fault` says what is wrong.

    It is that of `from_json` over what `checked_json` gives, at a fifth of the time for most records.
    """
    struct = _struct(schema)
    return _row(value, struct, _class("StrictJson").check(struct, registry, envelope), registry, envelope)


def plain_json_row(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """The same for records that are decoded in one pass; null for those that have to be checked and parsed."""
    return _row(value, _struct(schema), None, registry, envelope)


def _row(value: Column, struct: Any, check: Any, registry: bool, envelope: bool) -> Column:
    from pyspark.sql import Column

    return Column(_class("JsonRows").row(value._jc, struct, check, registry, envelope))


def json_fault(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """Why a value is no row: a code, and mostly `: ` and the reason. Null if nothing is wrong with it.

    It costs far more than the check, and is meant for the few records that did not pass.
    """
    return _call_java("fault", value, _struct(schema), registry, envelope)


def json_sorts(value: Column, *, registry: bool = False) -> Column:
    """The keys of an object and the sort of value that each has, as JSON; null if it is not sound."""
    return _call_java("signature", value, registry)


def _call_java(function: str, value: Column, *arguments: Any) -> Column:
    from pyspark.sql import Column

    return Column(getattr(_class("StrictJson"), function)(value._jc, *arguments))


def _struct(schema: str) -> Any:
    struct = getattr(_context()._jvm, "org.apache.spark.sql.types.StructType")
    return struct.fromDDL(schema) if schema else struct()


def line_number(file: Column, before: int) -> Column:
    """The number of a row among those of its file, behind some that were there `before`, as one task reads them."""
    from pyspark.sql import Column

    return Column(_class("StrictJson").counted(file._jc, before))


def _class(name: str) -> Any:
    """A class of ours on the JVM. By its whole name, because py4j would ask the JVM for each part of it."""
    context = _context()
    load_classes(context, _PACKAGE)
    return getattr(context._jvm, f"penstock.{name}")


def _context() -> SparkContext:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    return context
