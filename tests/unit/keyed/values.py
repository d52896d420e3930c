"""Values of every type that Spark sends, few enough of each to meet again."""

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NAN = float("nan")

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "b", "ab", "é", "\U0001f600", "\uffff"]),
    "byte": (pa.int8(), [0, 1, -128, 127]),
    "short": (pa.int16(), [0, 1, -(2**15)]),
    "int": (pa.int32(), [0, 1, -5, 2**31 - 1]),
    "long": (pa.int64(), [0, 1, -7, 2**40, -(2**53) - 1]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, NAN, math.inf]),
    "double": (pa.float64(), [0.0, -0.0, 0.1, 0.2, 0.3, -1e16, 1e16, NAN, math.inf, -math.inf]),
    "decimal": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("1.10"), Decimal("-99999999.99")]),
    "wide": (pa.decimal128(38, 0), [Decimal(10**30), Decimal(-(10**30)), Decimal(2**64), Decimal(-1)]),
    "date": (pa.date32(), [dt.date(1960, 1, 1), dt.date(2026, 2, 28)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
    ),
    "local": (pa.timestamp("us"), [dt.datetime(2026, 1, 1), dt.datetime(1900, 1, 1)]),
    "interval": (pa.duration("us"), [dt.timedelta(seconds=1), dt.timedelta(days=-1)]),
    "boolean": (pa.bool_(), [True, False]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.float64())]),
        [{"a": 1, "b": None}, {"a": None, "b": None}, {"a": 1, "b": NAN}, {"a": 1, "b": 0.0}, {"a": 0, "b": 5.0}],
    ),
    "list": (pa.list_(pa.string()), [[], ["a"], [None], ["a", "b"], ["b"]]),
    "doubles": (pa.list_(pa.float64()), [[0.0], [1.0, NAN], [None, 2.0]]),
    "void": (pa.null(), []),
}
"""The types that can be keys, each with some values; null can be added to all."""

MAPS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", 1), ("b", None)], [("b", None)]]),
}


def values(kind: str) -> st.SearchStrategy[Any]:
    """A value of this type, or null."""
    return st.sampled_from([*{**KINDS, **MAPS}[kind][1], None])


def plain(value: Any) -> Any:
    """A value that is equal to those it equals in SQL, and can be a key of a dict."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return value


def smaller_first(value: Any) -> Any:
    """A key to sort values of one type by, as Spark does: null, then numbers, NaN last; text by its bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, dict):
        return (1, [smaller_first(part) for part in value.values()])
    if isinstance(value, list | tuple):
        return (1, [smaller_first(part) for part in value])
    return (1, value)
