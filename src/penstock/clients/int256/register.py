"""The functions over wide numbers, made known to sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.clients.jvm.compile_java import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_int256(session: SparkSession) -> None:
    """Make the functions known to a session, on all machines of its cluster, unless they are."""
    register_functions(session, "penstock.clients.int256", "WideNumbers", "penstock_to_u256")
    register_functions(session, "penstock.clients.int256", "WideDecimals", "penstock_to_dec")
