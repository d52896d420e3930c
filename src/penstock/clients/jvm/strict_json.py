"""Checks that a text is exactly one JSON object, whose values Spark reads without changing them.

All JSON is read through this module. Spark's own parser ignores what follows the first object, takes the last of two
equal keys, rounds decimals, and interprets a number for a timestamp as seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.clients.jvm.compile_java import load_classes
from penstock.spark_internals.expressions import java_column, java_struct
from penstock.spark_internals.jvm import active_context, java_class

if TYPE_CHECKING:
    from pyspark.sql import Column

_PACKAGE: Final = "penstock.clients.jvm.json"


def checked_json(value: Column, schema: str = "", *, registry: bool = False, envelope: bool = False) -> Column:
    """Return the text of an object, for `from_json` with this schema; null if `json_fault` has a fault.

    The value is binary. With `registry`, a schema registry's header before the text is removed. With `envelope`, only
    the payload is returned of an object that wraps it.
    """
    return _call_java("checked", value, java_struct(schema), registry, envelope).cast("string")


def json_row(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """Return the row of an object with this schema; null if `json_fault` has a fault.

    The result is that of `from_json` on `checked_json`, in a fifth of the time for most records.
    """
    struct = java_struct(schema)
    check = java_class(_loaded("StrictJson")).check(struct, registry, envelope)
    return java_column("penstock.JsonRows", "row", value, struct, check, registry, envelope)


def json_fault(value: Column, schema: str, *, registry: bool = False, envelope: bool = False) -> Column:
    """Return why a value cannot be decoded: a code, and mostly `: ` and a reason; null for a valid value.

    It is far more expensive than the check, and is meant for the few records that did not pass.
    """
    return _call_java("fault", value, java_struct(schema), registry, envelope)


def json_sorts(value: Column) -> Column:
    """Return the keys of an object and the JSON type of each value, as JSON; null if the object is invalid."""
    return _call_java("signature", value)


def line_number(file: Column, before: int) -> Column:
    """Return the number of a row in its file, after `before` other lines, if one task reads the whole file."""
    return _call_java("counted", file, before)


def _call_java(function: str, value: Column, *arguments: Any) -> Column:
    return java_column(_loaded("StrictJson"), function, value, *arguments)


def _loaded(name: str) -> str:
    """Return the qualified name of one of our classes, and load it."""
    load_classes(active_context(), _PACKAGE)
    return f"penstock.{name}"
