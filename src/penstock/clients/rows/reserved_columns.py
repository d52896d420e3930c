"""Checks the names of a source's columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.errors import ServiceError
from penstock.row_columns import ERROR, OP, ORDER, ORIGIN
from penstock.sql.types.columns import find_case_clash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS: Final = frozenset({ERROR, ORIGIN, *ORDER})


def invalid_names_error(names: Iterable[str], whose: str, hint: str, ours: Iterable[str] = ()) -> ServiceError | None:
    """Return an error if two names are equal for SQL, or if a name is reserved.

    `ours` are names that are reserved in this source in addition to those of all rows.
    """
    listed = list(names)
    taken = {name.lower() for name in (*_OURS, *ours)}
    if own := next((name for name in listed if name.lower() in taken), None):
        text = f"{whose} cannot have a column `{own}`: Penstock uses that name itself"
        return ServiceError("column-names", text, hint=hint)
    if operation := next((name for name in listed if name.lower() == OP and name != OP), None):
        return ServiceError("column-names", f"`{operation}` of {whose} must be written `{OP}`", hint=hint)
    return duplicate_names_error(listed, whose, hint)


def duplicate_names_error(names: Iterable[str], whose: str, hint: str) -> ServiceError | None:
    """Return an error if two names are equal for SQL, which ignores case."""
    match find_case_clash(names):
        case None:
            return None
        case one, other if one == other:
            return ServiceError("column-names", f"{whose} cannot have two columns `{one}`", hint=hint)
        case one, other:
            text = f"{whose} cannot have the columns `{one}` and `{other}`: names in SQL are not case-sensitive"
            return ServiceError("column-names", text, hint=hint)


def case_sensitive_session(spark: SparkSession) -> SparkSession:
    """Open a session that distinguishes names by case, to infer columns of text: of two names that differ only by case,
    Spark would keep one, and read values of the other as nulls."""
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    return session
