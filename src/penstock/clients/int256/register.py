"""Registers the Java functions for 256-bit integers and long decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.clients.jvm.compile_java import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_int256(session: SparkSession) -> None:
    """Register the functions with a session and load them on its cluster, unless they are registered."""
    register_functions(session, "penstock.clients.int256", "Int256", "penstock_to_u256")
    register_functions(session, "penstock.clients.int256", "LongDecimals", "penstock_to_dec")
