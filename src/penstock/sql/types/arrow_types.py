"""The type names of pipelines, and their Spark types."""

import re
from typing import Final

from penstock.sql.types.columns import spark_type
from penstock.sql.types.long_decimals import SPARK_DIGITS

_NAMES: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT",
    "uint8": "INT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)",
    "float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE",
    "string": "STRING", "utf8": "STRING", "large_utf8": "STRING", "binary": "BINARY", "boolean": "BOOLEAN",
    "bool": "BOOLEAN", "date32": "DATE", "date64": "DATE", "timestamp": "TIMESTAMP", "time32": "STRING",
    "time64": "STRING", "duration": "BIGINT", "interval": "STRING", "null": "STRING",
    "u256": "UINT256", "i256": "INT256", "uint256": "UINT256", "int256": "INT256",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal(128|256)?(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_MOST_DIGITS: Final = 76

TYPE_NAMES: Final = (*_NAMES, "decimal128(p,s)", "decimal256(p)")


def column_type(name: str) -> str | None:
    """Return the Spark type of an Arrow name (`int64`, `decimal128(20,4)`) or a SQL name; None for other names."""
    word = name.strip().lower()
    if word in _NAMES:
        return _NAMES[word]
    if (size := _decimal_size(word)) is None:
        return spark_type(name)
    precision, scale, most = size
    if not 1 <= precision <= most or scale > precision:
        return None
    if precision <= SPARK_DIGITS:
        return f"DECIMAL({precision}, {scale})"
    return None if scale else "INT256"


def is_long_fraction(name: str) -> bool:
    """Whether a name is a decimal with a fraction and more digits than Spark supports.

    In JSON such a number would be read as a float, so it has no type.
    """
    size = _decimal_size(name.strip().lower())
    return size is not None and SPARK_DIGITS < size[0] <= size[2] and 0 < size[1] <= size[0]


def _decimal_size(word: str) -> tuple[int, int, int] | None:
    """Return the precision, the scale and the maximum precision of a decimal."""
    found = _DECIMAL.fullmatch(word)
    if found is None:
        return None
    most = SPARK_DIGITS if found[1] == "128" else _MOST_DIGITS
    return (38, 9, most) if found[2] is None else (int(found[2]), int(found[3] or 0), most)


_CAST_TO: Final = {
    "largeutf8": "STRING", "utf8view": "STRING", "largebinary": "BINARY", "binaryview": "BINARY",
}  # fmt: skip
_MOMENT: Final = re.compile(r"timestamp\((?:second|millisecond|microsecond|nanosecond|s|ms|µs|us|ns)\b.*\)")


def arrow_type(name: str) -> str | None:
    """Return the Spark type for a type name in `arrow_cast`; None if Spark has no type with the same values."""
    word = name.strip().lower()
    if word.startswith(("uint", "time32", "time64", "duration", "interval", "null", "u256", "i256", "int256")):
        return None
    if _MOMENT.fullmatch(word):
        return "TIMESTAMP"
    if decimal := _DECIMAL.fullmatch(word):
        known = None if decimal[2] is None else column_type(word)
        return known if known is not None and known.startswith("DECIMAL") else None
    return _CAST_TO.get(word) or (column_type(word) if word in _NAMES else None)
