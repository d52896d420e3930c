"""Strings that Spark reads as numbers, dates, timestamps and booleans. In ANSI mode it fails on any other."""

import re
from datetime import date
from typing import Final

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
