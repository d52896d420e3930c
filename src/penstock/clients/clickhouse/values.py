"""Conversion of values to the type of their column.

ClickHouse takes almost anything and reports nothing: numbers wrap around, fractions are cut off, nulls become zeros,
text that is not a number becomes null. So pyarrow converts the values, and a loss is an error.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clients.clickhouse.types import COLLECTIONS, SECOND_DIGITS, WIDE, Kind

_FIRST_SECOND: Final = -2_208_988_800
_LAST_SECOND: Final = 10_413_791_999
"""The last second of DateTime64, which covers 1900 to 2299. The server changes other values without an error."""
_UUID: Final = "^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$"


def convert_values(values: pa.Array, kind: Kind, wanted: pa.DataType) -> pa.Array:
    """Convert values to the type of their column. ValueError for a value that would change."""
    if _has_hidden_null(values, kind):
        raise ValueError("null in a column that is not Nullable")
    if values.null_count == len(values):
        return values
    if kind.word in WIDE or kind.word == "UUID":
        _check_text(values, kind)
    elif kind.word in ("Date", "DateTime"):
        _check_time(values, kind)
    if values.type == wanted:
        return values
    if pa.types.is_integer(values.type) and pa.types.is_timestamp(wanted):
        return _numbers_to_times(values, wanted)
    if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
        is_long = pa.types.is_decimal256(wanted)
        values = values.cast(pa.decimal256(76, wanted.scale) if is_long else pa.decimal128(38, wanted.scale))
    found = values.cast(wanted, safe=not pa.types.is_floating(wanted) or pa.types.is_integer(values.type))
    if pa.types.is_floating(wanted) and pa.types.is_floating(values.type):
        _check_range(values, found)
    return found


def _numbers_to_times(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert integers to times. They have the unit of the column, such as milliseconds since 1970 in DateTime64(3)."""
    counts, ticks = values.cast(pa.int64()), 10 ** SECOND_DIGITS[wanted.unit]
    first, last = max(_FIRST_SECOND * ticks, -(2**63)), min((_LAST_SECOND + 1) * ticks - 1, 2**63 - 1)
    wrong = counts.filter(pc.or_(pc.less(counts, first), pc.greater(counts, last)))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()} {wanted.unit} since 1970 is no time that DateTime64 holds")
    return counts.cast(wanted)


def _check_range(values: pa.Array, found: pa.Array) -> None:
    """Refuse a number that becomes infinite in a smaller float. Losing digits is allowed."""
    wrong = values.filter(pc.and_(pc.is_finite(values), pc.invert(pc.is_finite(found))))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()!r} is too large")


def _has_hidden_null(values: pa.Array, kind: Kind) -> bool:
    """Whether a collection has a null inside that its type does not allow. Columns themselves are checked elsewhere."""
    if len(values) == 0 or not kind.inner:
        return False
    if kind.word == "Tuple":
        present = values.drop_null()
        inner = list(present.flatten())
    elif kind.word == "Map":
        inner = [values.keys, values.items]
    else:
        inner = [values.flatten()]
    return any(
        (part.null_count and not k.nullable and k.word not in COLLECTIONS) or _has_hidden_null(part, k)
        for part, k in zip(inner, kind.inner, strict=True)
    )


def _check_text(values: pa.Array, kind: Kind) -> None:
    if pa.types.is_decimal(values.type):
        if kind.word.startswith("UInt") and pc.any(pc.less(values, pa.scalar(0, values.type))).as_py():
            raise ValueError("a negative number in a column of unsigned ones")
        return
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return
    if kind.word == "UUID":
        sound = pc.match_substring_regex(values, _UUID)
    else:
        word, bits = WIDE[kind.word]
        sign = "-?" if word == "Int" else ""
        sound = pc.match_substring_regex(values, f"^{sign}[0-9]+$")
        limit = str(2 ** (bits - (word == "Int")) - (word == "UInt"))
        digits = pc.utf8_ltrim(pc.utf8_ltrim(values, "-"), "0")
        padded = pc.utf8_lpad(digits, len(limit), "0")
        inside = pc.less_equal(padded, limit) if word == "UInt" else _is_in_range(values, padded, limit)
        sound = pc.and_(sound, pc.and_(pc.less_equal(pc.utf8_length(digits), len(limit)), inside))
    wrong = pc.filter(values, pc.invert(pc.fill_null(sound, True)))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()[:100]!r} is no {kind.word}")


def _is_in_range(values: pa.Array, padded: pa.Array, limit: str) -> pa.Array:
    """Whether signed integers are in range: there is one more value below zero."""
    return pc.or_(pc.less(padded, limit), pc.and_(pc.equal(padded, limit), pc.starts_with(values, "-")))


def _check_time(values: pa.Array, kind: Kind) -> None:
    if pa.types.is_integer(values.type):
        return
    days = pa.types.is_date(values.type)
    last = 65535 if days else (2**32) * 10 ** SECOND_DIGITS[values.type.unit] - 1
    numbers = values.cast(pa.int32() if days else pa.int64())
    if pc.min(numbers).as_py() < 0 or pc.max(numbers).as_py() > last:
        raise ValueError(f"a time that {kind.word} cannot hold")


def literals(values: pa.Array, kind: Kind) -> list[str]:
    """Return values without nulls as SQL literals that equal what was inserted.

    ClickHouse converts quoted text to the type of the column it is compared with. Times would get the time zone of the
    column or the server, so they are numbers.
    """
    if pa.types.is_timestamp(values.type):
        column = kind.word if kind.word == "DateTime" else f"DateTime64({kind.numbers[0]})"
        micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        return [f"CAST(fromUnixTimestamp64Micro(toInt64({micro})) AS {column})" for micro in micros.to_pylist()]
    if kind.word == "DateTime":
        return [f"toDateTime({second})" for second in values.to_pylist()]
    text = values.cast(pa.uint8() if pa.types.is_boolean(values.type) else values.type).cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), "'", "\\'")
    quoted: list[str] = pc.binary_join_element_wise("'", escaped, "'", "").to_pylist()
    return quoted
