"""The functions over 256-bit integers and long decimals, made known to sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.clients.jvm.compile_java import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_int256(session: SparkSession) -> None:
    """Make the functions known to a session, on all machines of its cluster, unless they are."""
    register_functions(session, "penstock.clients.int256", "Int256", "penstock_to_u256")
    register_functions(session, "penstock.clients.int256", "LongDecimals", "penstock_to_dec")
