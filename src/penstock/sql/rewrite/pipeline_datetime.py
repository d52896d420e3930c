"""Times in pipelines: made of numbers and texts, taken apart, shown, and put into spans."""

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import kind_of
from penstock.sql.parse.dialects import PIPELINE, SPARK
from penstock.sql.rewrite.templates import filled

Rewrite = Callable[[exp.Expr], exp.Expr | None]

_WIDTHS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


def width_of(interval: exp.Expr) -> int | None:
    """The length of an interval that is written out, in microseconds; None where it has no fixed one."""
    if isinstance(interval, exp.Cast) and interval.to.this is exp.DType.INTERVAL:
        number, _, unit = interval.this.name.strip().partition(" ")
    elif isinstance(interval, exp.Interval):
        number, unit = interval.name, interval.text("unit")
    else:
        return None
    word = unit.strip().upper().removesuffix("S")
    return int(number) * _WIDTHS[word] if number.isdecimal() and word in _WIDTHS and int(number) else None


def _binned(node: exp.Expr) -> exp.Expr | None:
    """DATE_BIN: the beginning of the span that a time is in, counted from an origin."""
    interval, time, *origin = node.expressions
    if (width := width_of(interval)) is None:
        return None
    since = "UNIX_MICROS(CAST(_1 AS TIMESTAMP))"
    behind = f"{since} - UNIX_MICROS(CAST(_2 AS TIMESTAMP))" if origin else since
    return filled(f"TIMESTAMP_MICROS({since} - PMOD({behind}, {width}))", time, *origin)


def _format_of(given: exp.Expr) -> exp.Expr:
    """A format for times with `%` is one of strftime; others are those of PostgreSQL."""
    if "%" in given.name:
        return exp.Literal.string(given.name)
    return PIPELINE.format_time(given) or given


def _shown_time(node: exp.Expr) -> exp.Expr | None:
    time, how = node.expressions
    if isinstance(how, exp.Literal):
        return exp.TimeToStr(this=time.copy(), format=_format_of(how))
    return None


def _read_time(kind: str) -> Rewrite:
    """A time of a number of seconds, or of a text; one in a format is read by that."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        value, *how = node.expressions
        if not how:
            return exp.cast(value.copy(), kind, dialect=SPARK)
        made = exp.StrToTime(this=exp.cast(value.copy(), "STRING", dialect=SPARK), format=_format_of(how[0]))
        return made if kind == "TIMESTAMP" else exp.cast(made, kind, dialect=SPARK)

    return rewrite


def _scaled_time(number: str) -> Rewrite:
    """A time of a number of parts of a second. Of anything else than a number it is what it says."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        kind = kind_of(node)
        if kind is not None and kind.startswith(("STRING", "TIMESTAMP", "DATE")):
            return exp.cast(node.expressions[0].copy(), "TIMESTAMP", dialect=SPARK)
        return filled(number, node.expressions[0])

    return rewrite


PARTS: Final[Mapping[str, str]] = {
    "YEAR": "YEAR(_1)",
    "QUARTER": "QUARTER(_1)",
    "MONTH": "MONTH(_1)",
    "WEEK": "WEEKOFYEAR(_1)",
    "DAY": "DAYOFMONTH(_1)",
    "HOUR": "HOUR(_1)",
    "MINUTE": "MINUTE(_1)",
    "SECOND": "SECOND(_1)",
    "MILLISECOND": "CAST(PMOD(UNIX_MILLIS(CAST(_1 AS TIMESTAMP)), 60000) AS INT)",
    "MICROSECOND": "CAST(PMOD(UNIX_MICROS(CAST(_1 AS TIMESTAMP)), 60000000) AS INT)",
    "DOW": "(DAYOFWEEK(_1) - 1)",
    "DOY": "DAYOFYEAR(_1)",
    "EPOCH": "(UNIX_MICROS(CAST(_1 AS TIMESTAMP)) / CAST(1000000 AS DOUBLE))",
}
_SPELLED: Final = {"MILLISECONDS": "MILLISECOND", "MICROSECONDS": "MICROSECOND"}


def part_of(node: exp.Extract) -> str | None:
    """How Spark says a part of a time; None if there is none."""
    word = node.name.upper()
    return PARTS.get(_SPELLED.get(word, word))


def extracted(node: exp.Expr) -> exp.Expr | None:
    template = part_of(node) if isinstance(node, exp.Extract) else None
    return None if template is None else filled(template, node.expression)


TIME_CALLS: Final[Mapping[str, Rewrite]] = {
    "DATE_BIN": _binned,
    "TO_CHAR": _shown_time,
    "TO_DATE": _read_time("DATE"),
    "TO_TIMESTAMP": _read_time("TIMESTAMP"),
    "TO_TIMESTAMP_MICROS": _scaled_time("TIMESTAMP_MICROS(CAST(_1 AS BIGINT))"),
    "TO_TIMESTAMP_MILLIS": _scaled_time("TIMESTAMP_MILLIS(CAST(_1 AS BIGINT))"),
    "TO_TIMESTAMP_NANOS": _scaled_time("TIMESTAMP_MICROS(CAST(_1 AS BIGINT) DIV 1000)"),
    "TO_TIMESTAMP_SECONDS": _scaled_time("TIMESTAMP_SECONDS(CAST(_1 AS BIGINT))"),
}
