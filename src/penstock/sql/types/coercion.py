"""Conversions between types without silent loss: Spark fails on a value that does not fit."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from penstock.row_columns import OP
from penstock.sql.types.columns import Columns, data_type
from penstock.sql.types.flink_inference import TIMESTAMPS

_Type: Final = exp.DataType.Type
_WHOLE: Final = {_Type.TINYINT: 3, _Type.SMALLINT: 5, _Type.INT: 10, _Type.BIGINT: 19}
"""The integer types, with their number of digits."""
_EXACT_DIGITS: Final = {_Type.FLOAT: 7, _Type.DOUBLE: 15}
_TIMES: Final = frozenset({*TIMESTAMPS, _Type.DATE})


def can_coerce(given: str | None, wanted: str | None, *, texts_are_bytes: bool = False) -> bool:
    """Whether values of one type convert to the other, or fail the query. An unknown type is accepted.

    A string converts to bytes only with `texts_are_bytes`; elsewhere it may be an encoding of them.
    """
    if given is None or wanted is None:
        return True
    one, other = data_type(given), data_type(wanted)
    if one == other:
        return True
    if other.this is _Type.DECIMAL:
        return _digits(one)[1] <= _digits(other)[1] if _is_exact(one) else False
    if other.this in _WHOLE:
        return _is_exact(one) and _digits(one)[1] == 0
    if other.this in _EXACT_DIGITS:
        whole = _is_exact(one) and _digits(one)[1] == 0 and _digits(one)[0] <= _EXACT_DIGITS[other.this]
        return whole or (one.this is _Type.FLOAT and other.this is _Type.DOUBLE)
    if other.this is _Type.BOOLEAN:
        return one.this in _WHOLE  # 0 and 1
    if other.this is _Type.BINARY:
        return texts_are_bytes and one.this is _Type.TEXT
    # text files have no time types, only strings that are parsed as times
    return other.this in _TIMES and (one.this is _Type.TEXT or (one.this is _Type.DATE and other.this is not one.this))


def mismatches(bounded: Columns, unbounded: Columns, kind: str) -> Iterator[tuple[str, str]]:
    """Return the columns of an unbounded source that the bounded source lacks or has with another type.

    Each comes with a message. `kind` is the kind of the bounded source.
    """
    texts_are_bytes = kind == "clickhouse"  # ClickHouse has no other type for bytes
    found = {column.name: column.type for column in bounded}
    for column in unbounded:
        if column.name == OP:
            continue
        if column.name not in found:
            yield column.name, f"unbounded source column '{column.name}' not found in bounded source"
        elif not can_coerce(found[column.name], column.type, texts_are_bytes=texts_are_bytes):
            text = f"column '{column.name}' type mismatch: bounded source has {found[column.name]}"
            yield column.name, f"{text}, unbounded source has {column.type}"


def _is_exact(kind: exp.DataType) -> bool:
    return kind.this in _WHOLE or kind.this is _Type.DECIMAL


def _digits(kind: exp.DataType) -> tuple[int, int]:
    """Return the precision and the scale of a number type."""
    if kind.this in _WHOLE:
        return _WHOLE[kind.this], 0
    given = [int(part.name) for part in kind.expressions]
    return (given[0] if given else 10), (given[1] if len(given) > 1 else 0)
