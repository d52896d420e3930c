"""Literals: the numbers that they write, and strings that Spark can read as values of other types.

In ANSI mode Spark fails on a string that it cannot read.
"""

import re
from datetime import date
from decimal import Decimal
from typing import Final

from sqlglot import exp

_DAY: Final = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](.*))?)?)?", re.DOTALL)
_CLOCK: Final = re.compile(r"T?\d{1,2}:.*", re.DOTALL)
_LARGEST_YEAR: Final = 9999
_TRUTH: Final = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip()[-1:].casefold() in ("d", "f") and is_number(text.strip()[:-1])
    return True


def is_boolean(text: str) -> bool:
    return text.strip().casefold() in _TRUTH


def is_date(text: str) -> bool:
    """Whether Spark can read a string as a date: a year, a month or a day, and any text after the day."""
    found = _DAY.fullmatch(text.strip())
    if found is None:
        return False
    year = abs(int(found[1]))
    try:
        date(min(max(year, 1), _LARGEST_YEAR), int(found[2] or 1), int(found[3] or 1))
    except ValueError:
        return year == 0  # the year 0 is a leap year, which Python does not support
    return True


def is_timestamp(text: str) -> bool:
    """Whether Spark can read a string as a timestamp. Only the date and the start of the time are checked."""
    if _CLOCK.fullmatch(text.strip()):
        return True
    found = _DAY.fullmatch(text.strip())
    behind = found[4] if found else None
    return is_date(text) and (not behind or behind[:1].isdigit())


# Numbers


def int_literal(node: exp.Expr) -> int | None:
    """Return the integer of a literal, as a number or in quotes; None for other nodes."""
    number = decimal_literal(node)
    return int(number) if number is not None and number.as_tuple().exponent == 0 else None


def decimal_literal(node: exp.Expr) -> Decimal | None:
    """Return the number of a literal, with or without a fraction, as a number or in quotes; None for other nodes."""
    match node:
        case exp.Paren():
            return decimal_literal(node.this)
        case exp.Neg():
            found = decimal_literal(node.this)
            return None if found is None else found.copy_negate()  # the operator would round it
        case exp.Literal() if _NUMBER.fullmatch(node.name) and len(node.name) < _LONGEST:
            return Decimal(node.name)
        case exp.Cast(this=exp.Literal()) if _is_lossless(node):
            return decimal_literal(node.this)
        case _:
            return None


_LONGEST: Final = 1000
_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)


def _is_lossless(cast: exp.Cast) -> bool:
    """Whether a cast keeps its number. The parser adds such casts around numbers that are longer than an INT."""
    if cast.to.this is exp.DType.BIGINT:
        return len(cast.this.name) <= _BIGINT_DIGITS
    sizes = [int(size.name) for size in cast.to.expressions] if cast.to.this is exp.DType.DECIMAL else []
    return len(sizes) == 2 and sizes[1] == 0 and len(cast.this.name) <= sizes[0]


_BIGINT_DIGITS: Final = 18
