"""Decimals of more digits than Spark's 38: their types, the result types of operators, and their bytes.

Values are bytes in the order of the numbers, whatever their scales, so Spark compares them directly. The type defines
how many digits are written. A value never has more digits than its type, unless a result would have more than 1000.
`clients/int256/LongDecimals.java` implements the same in Java and documents the bytes.
"""

import re
from decimal import Decimal
from typing import Final

SPARK_DIGITS: Final = 38
MOST_DIGITS: Final = 1000
"""The maximum precision of NUMERIC in PostgreSQL."""
_QUOTIENT: Final = 18
"""The minimum number of digits of a quotient after the decimal point."""
_NAMED: Final = re.compile(r"(?:decimal|numeric|dec)\((\d+)(?:,(\d+))?\)|struct<dec_(\d+)_(\d+):binary>")
_BIAS: Final = 0x8000


def decimal_kind(precision: int, scale: int = 0) -> str | None:
    """Return the type of decimals of this precision; None if Spark has a type for them, or if they are too long."""
    known = SPARK_DIGITS < precision <= MOST_DIGITS and 0 <= scale <= precision
    return f"DECIMAL({precision}, {scale})" if known else None


def parse_decimal_kind(text: str) -> str | None:
    """Return the type of `decimal(100,18)` or of the struct that stores it, in lower case without blanks."""
    found = _NAMED.fullmatch(text)
    return None if found is None else decimal_kind(int(found[1] or found[3]), int(found[2] or found[4] or 0))


def decimal_sizes(kind: str) -> tuple[int, int]:
    """Return the precision and the scale of a type."""
    precision, scale = re.findall(r"\d+", kind)
    return int(precision), int(scale)


def decimal_field(kind: str) -> str:
    precision, scale = decimal_sizes(kind)
    return f"dec_{precision}_{scale}"


def _clamp_kind(precision: int, scale: int) -> str:
    kind = decimal_kind(min(max(precision, SPARK_DIGITS + 1), MOST_DIGITS), min(scale, MOST_DIGITS))
    assert kind is not None
    return kind


def common_kind(*sizes: tuple[int, int]) -> str:
    """Return the type that can hold values of all these precisions and scales."""
    scale = max(behind for _, behind in sizes)
    return _clamp_kind(max(digits - behind for digits, behind in sizes) + scale, scale)


def result_kind(word: str, one: tuple[int, int], other: tuple[int, int]) -> str:
    """Return the type of a sum, product, quotient or remainder.

    Only a quotient is rounded: to 18 digits after the point, or to the larger scale of its operands.
    """
    (digits, scale), (more_digits, more_scale) = one, other
    behind = max(scale, more_scale)
    match word:
        case "mul":
            return _clamp_kind(digits + more_digits, scale + more_scale)
        case "div":
            behind = max(_QUOTIENT, behind)
            return _clamp_kind(digits - scale + more_scale + behind, behind)
        case "mod":
            return _clamp_kind(max(digits - scale, more_digits - more_scale) + behind, behind)
        case _:
            return _clamp_kind(max(digits - scale, more_digits - more_scale) + behind + 1, behind)


def decimal_bytes(value: Decimal) -> str:
    """Encode a number as the stored bytes, in hexadecimal digits."""
    sign, digits, power = value.as_tuple()
    assert isinstance(power, int)
    text = "".join(map(str, digits)).lstrip("0")
    exponent = len(text) + power
    text = text.rstrip("0")
    if not text:
        return "80"
    text += "0" * (len(text) % 2)
    body = (exponent + _BIAS).to_bytes(2, "big") + bytes(int(text[at : at + 2]) + 1 for at in range(0, len(text), 2))
    return "C0" + body.hex().upper() if not sign else "40" + bytes(255 - byte for byte in body).hex().upper() + "FF"
