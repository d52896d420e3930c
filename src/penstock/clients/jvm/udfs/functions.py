"""Registers our Java functions on single rows with sessions whose SQL calls them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.clients.jvm.compile_java import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE: Final = "penstock.clients.jvm.udfs"
_CLASSES: Final = {
    "RowDigests": frozenset({"keccak256", "xxhash"}),
    "RowJson": frozenset(
        {
            "clickhouse_tuples", "is_json", "json", "json_array", "json_exists", "json_object", "json_query",
            "json_quote", "json_unquote", "json_value",
        }
    ),
    "RowOperators": frozenset({"divide", "entries", "mean", "type_of"}),
    "RowTexts": frozenset(
        {
            "conv_base", "decimal", "from_base58", "hex_to_byte", "instr", "regexp_count", "regexp_extract",
            "regexp_extract_all", "regexp_instr", "regexp_match", "regexp_replace", "reverse_bytes", "url_decode",
        }
    ),
}  # fmt: skip
"""The classes and their functions. In SQL, their names begin with `penstock_row_`."""
_CALLED: Final = re.compile(r"\bpenstock_row_(\w+)", re.IGNORECASE)


def register_row_functions(session: SparkSession, sql: str) -> None:
    """Register the functions that this SQL calls with a session, and load them on its cluster."""
    called = {name.lower() for name in _CALLED.findall(sql)}
    for name, functions in _CLASSES.items():
        if called & functions:
            register_functions(session, _PACKAGE, name, f"penstock_row_{min(functions)}")
