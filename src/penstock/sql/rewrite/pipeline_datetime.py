"""Times in pipelines: conversion from numbers and strings, extraction, formatting and binning."""

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.parse.dialects import PIPELINE, SPARK
from penstock.sql.parse.window_calls import UNITS
from penstock.sql.rewrite.templates import Rewrite, fill_template

_WIDTHS: Final = {"MICROSECOND": 1, **{unit: length * 1000 for unit, length in UNITS.items()}}
"""The units of fixed length, in microseconds."""


def interval_micros(interval: exp.Expr) -> int | None:
    """Return the length of a literal interval in microseconds; None if it has no fixed length."""
    if isinstance(interval, exp.Cast) and interval.to.this is exp.DType.INTERVAL:
        number, _, unit = interval.this.name.strip().partition(" ")
    elif isinstance(interval, exp.Interval):
        number, unit = interval.name, interval.text("unit")
    else:
        return None
    word = unit.strip().upper().removesuffix("S")
    return int(number) * _WIDTHS[word] if number.isdecimal() and word in _WIDTHS and int(number) else None


def _rewrite_date_bin(node: exp.Expr) -> exp.Expr | None:
    """Rewrite DATE_BIN: the start of the interval that contains a time, counted from an origin."""
    interval, time, *origin = node.expressions
    if (width := interval_micros(interval)) is None:
        return None
    since = "UNIX_MICROS(CAST(_1 AS TIMESTAMP))"
    behind = f"{since} - UNIX_MICROS(CAST(_2 AS TIMESTAMP))" if origin else since
    return fill_template(f"TIMESTAMP_MICROS({since} - PMOD({behind}, {width}))", time, *origin)


def _time_format(given: exp.Expr) -> exp.Expr:
    """Translate a time format. A format with `%` is an strftime format, any other is PostgreSQL's."""
    return exp.Literal.string(given.name) if "%" in given.name else PIPELINE.format_time(given) or given


def _format_time(node: exp.Expr) -> exp.Expr | None:
    time, how = node.expressions
    return exp.TimeToStr(this=time.copy(), format=_time_format(how)) if isinstance(how, exp.Literal) else None


def _parse_time(kind: str) -> Rewrite:
    """Build the conversion of a number of seconds or a string to a time. A format, if given, parses the string."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        value, *how = node.expressions
        if not how:
            return exp.cast(value.copy(), kind, dialect=SPARK)
        made = exp.StrToTime(this=exp.cast(value.copy(), "STRING", dialect=SPARK), format=_time_format(how[0]))
        return made if kind == "TIMESTAMP" else exp.cast(made, kind, dialect=SPARK)

    return rewrite


def _convert_epoch(number: str) -> Rewrite:
    """Build the conversion of a number of fractions of a second to a time. Strings and times are cast."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        kind = operand_kind(node)
        if kind is not None and kind.startswith(("STRING", "TIMESTAMP", "DATE")):
            return exp.cast(node.expressions[0].copy(), "TIMESTAMP", dialect=SPARK)
        return fill_template(number, node.expressions[0])

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


def extract_template(node: exp.Extract) -> str | None:
    """Return the template that extracts a part of a time; None if there is none."""
    word = node.name.upper()
    return PARTS.get(_SPELLED.get(word, word))


def rewrite_extract(node: exp.Expr) -> exp.Expr | None:
    template = extract_template(node) if isinstance(node, exp.Extract) else None
    return None if template is None else fill_template(template, node.expression)


TIME_CALLS: Final[Mapping[str, Rewrite]] = {
    "DATE_BIN": _rewrite_date_bin,
    "TO_CHAR": _format_time,
    "TO_DATE": _parse_time("DATE"),
    "TO_TIMESTAMP": _parse_time("TIMESTAMP"),
    "TO_TIMESTAMP_MICROS": _convert_epoch("TIMESTAMP_MICROS(CAST(_1 AS BIGINT))"),
    "TO_TIMESTAMP_MILLIS": _convert_epoch("TIMESTAMP_MILLIS(CAST(_1 AS BIGINT))"),
    "TO_TIMESTAMP_NANOS": _convert_epoch("TIMESTAMP_MICROS(CAST(_1 AS BIGINT) DIV 1000)"),
    "TO_TIMESTAMP_SECONDS": _convert_epoch("TIMESTAMP_SECONDS(CAST(_1 AS BIGINT))"),
}
