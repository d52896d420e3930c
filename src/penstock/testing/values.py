"""Values of every type that a sink must preserve, and their comparison with what was read back."""

import base64
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Value:
    """A column with one value, its Spark SQL type, and the check that it belongs to."""

    name: str
    type: str
    value: Any
    check: str = "writes_every_type"

    @property
    def is_plain(self) -> bool:
        """Whether the value is a scalar. Not every system supports a null in place of a list."""
        return not isinstance(self.value, (list, dict, tuple))


_TEXTS: Final = "keeps_texts"
_ODD: Final = "keeps_nan_and_infinity"
_DIGITS: Final = "keeps_every_digit"
VALUES: Final = (
    Value("flag", "BOOLEAN", True),
    Value("tiny", "TINYINT", -128),
    Value("small", "SMALLINT", 32767),
    Value("whole", "INT", -(2**31)),
    Value("big", "BIGINT", -(2**63)),
    Value("real", "FLOAT", 1.5),
    Value("double", "DOUBLE", 1.7976931348623157e308),
    Value("raw", "BINARY", b"\x00\\\xff"),
    Value("day", "DATE", date(2024, 2, 29)),
    Value("moment", "TIMESTAMP", datetime(2024, 2, 29, 12, 30, 1, 123456, tzinfo=UTC)),
    Value("exact", "DECIMAL(10,2)", Decimal("-12345678.90")),
    Value("list", "ARRAY<INT>", [1, None, 3]),
    Value("pairs", "MAP<STRING, BIGINT>", {"k": 2**53 + 1}),
    Value("record", "STRUCT<a: INT, b: STRING>", {"a": 1, "b": 'x"y\\'}),
    Value("select", "STRING", "a name that is a word of SQL"),
    Value('a "b" c', "INT", 7),
    Value("unicode", "STRING", "«ünï» 日本 🐟 e\u0301 \u202e \ufeff", _TEXTS),
    Value("control", "STRING", "tab\there \\N back\\slash\nnew line\r\x01 'quoted' \"too\" \\. , ;", _TEXTS),
    Value("empty", "STRING", "", _TEXTS),
    Value("long", "STRING", "ä" * 70_000, _TEXTS),
    Value("not_a_number", "DOUBLE", math.nan, _ODD),
    Value("above", "DOUBLE", math.inf, _ODD),
    Value("below", "FLOAT", -math.inf, _ODD),
    Value("most", "DECIMAL(38,0)", Decimal(10**38 - 1), _DIGITS),
    Value("least", "DECIMAL(38,0)", Decimal(1 - 10**38), _DIGITS),
    Value("finest", "DECIMAL(38,10)", Decimal("1234567890123456789012345678.0123456789"), _DIGITS),
    Value("fraction", "DECIMAL(38,38)", Decimal("0." + "9" * 38), _DIGITS),
)


def schema_of(values: Iterable[Value]) -> str:
    """Return the schema of the columns, after the column `id`."""
    return ", ".join(["id BIGINT", *(f"`{value.name}` {value.type}" for value in values)])


def same(wanted: Any, found: Any) -> bool:
    """Whether a value equals the one that was written: as itself, or as text that represents it."""
    if wanted is None or found is None:
        return wanted is found
    try:
        return _same(wanted, found)
    except (ValueError, TypeError, ArithmeticError):
        return False


def _same(wanted: Any, found: Any) -> bool:
    match wanted:
        case bool():
            return found in (wanted, str(wanted).lower())
        case int():
            return not isinstance(found, float) and int(found) == wanted
        case float():
            number = float(found)
            return number == wanted or (math.isnan(number) and math.isnan(wanted))
        case Decimal():
            return not isinstance(found, float) and Decimal(str(found)) == wanted
        case bytes():
            return _bytes(found) == wanted
        case datetime():
            moment = found if isinstance(found, datetime) else datetime.fromisoformat(found)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) == wanted
        case date():
            return date.fromisoformat(str(found)) == wanted
        case list():
            parts = _parse_json(found)
            return len(parts) == len(wanted) and all(map(same, wanted, parts))
        case Mapping():
            parts = dict(_parse_json(found))
            return parts.keys() == wanted.keys() and all(same(wanted[key], parts[key]) for key in wanted)
    return bool(found == wanted)


def _bytes(found: Any) -> bytes:
    """Decode bytes, which are text in most systems: `\\x00ff`, or base64."""
    if not isinstance(found, str):
        return bytes(found)
    return bytes.fromhex(found[2:]) if found.startswith("\\x") else base64.b64decode(found, validate=True)


def _parse_json(found: Any) -> Any:
    return json.loads(found) if isinstance(found, str) else found
