"""The names that pipelines give to types, in the words of Spark."""

import re
from typing import Final

from penstock.sql.types import spark_type

_NAMES: Final = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT",
    "uint8": "SMALLINT", "uint16": "INT", "uint32": "BIGINT", "uint64": "DECIMAL(20, 0)",
    "float16": "FLOAT", "float32": "FLOAT", "float64": "DOUBLE",
    "string": "STRING", "utf8": "STRING", "large_utf8": "STRING", "binary": "BINARY", "boolean": "BOOLEAN",
    "bool": "BOOLEAN", "date32": "DATE", "date64": "DATE", "timestamp": "TIMESTAMP", "time32": "STRING",
    "time64": "STRING", "duration": "BIGINT", "interval": "STRING", "null": "STRING",
    "u256": "UINT256", "i256": "INT256", "uint256": "UINT256", "int256": "INT256",
}  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal(?:128|256)?(?:\((\d+)(?:,\s*(\d+))?\))?")
_DIGITS: Final = 38

TYPE_NAMES: Final = (*_NAMES, "decimal128(p,s)")


def column_type(name: str) -> str | None:
    """The Spark type for a name: Arrow's (`int64`, `decimal128(20,4)`) or one of SQL; None if it is none."""
    word = name.strip().lower()
    if word in _NAMES:
        return _NAMES[word]
    if found := _DECIMAL.fullmatch(word):
        precision, scale = (38, 9) if found[1] is None else (int(found[1]), int(found[2] or 0))
        return f"DECIMAL({min(precision, _DIGITS)}, {scale})"
    return spark_type(name)


_CAST_TO: Final = {
    "largeutf8": "STRING", "utf8view": "STRING", "largebinary": "BINARY", "binaryview": "BINARY",
}  # fmt: skip
_MOMENT: Final = re.compile(r"timestamp\((?:second|millisecond|microsecond|nanosecond|s|ms|µs|us|ns)\b.*\)")


def arrow_type(name: str) -> str | None:
    """The Spark type for what `arrow_cast` names; None if Spark has none that takes the same values."""
    word = name.strip().lower()
    if word.startswith(("uint", "time32", "time64", "duration", "interval", "null", "u256", "i256", "int256")):
        return None
    if _MOMENT.fullmatch(word):
        return "TIMESTAMP"
    if (found := _DECIMAL.fullmatch(word)) and (found[1] is None or int(found[1]) > _DIGITS):
        return None
    return _CAST_TO.get(word) or (column_type(word) if word in _NAMES or _DECIMAL.fullmatch(word) else None)
