"""Find SQL that the parser accepts but Spark cannot run, before types are known."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from functools import partial
from typing import Final, TypeAlias

from sqlglot import exp

from penstock.errors import did_you_mean
from penstock.sql.catalog.function_names import called_name, is_aggregate, written_name
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, argument_problem, offset_of, start_of
from penstock.sql.types.columns import wrong_digits
from penstock.sql.types.flink_inference import TIMESTAMPS
from penstock.sql.types.long_decimals import MOST_DIGITS, SPARK_DIGITS


def find_unsupported(query: Query) -> Iterator[Problem]:
    rules = {**_RULES, **(_FLINK_RULES if query.dialect is PROJECT else {})}
    for node in query.tree.walk():
        for kind, rule in rules.items():
            if isinstance(node, kind):
                yield from rule(node)


# Functions


def _check_function(node: exp.Expr) -> Iterator[Problem]:
    name = called_name(node).upper()
    if name in _PATTERNS and len(given := _arguments(node)) > 1:
        yield from _check_pattern(node, given[1])
    takes_column = is_aggregate(node) and not isinstance(node, exp.Count)
    if takes_column and any(isinstance(argument, exp.Star) for argument in _arguments(node)):
        word = written_name(node)
        yield argument_problem(node, f"{word}(*) names no column", f"write {word}(column)", word)


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    return call.expressions if isinstance(call, exp.Anonymous) else list(call.iter_expressions())


def _check_count(count: exp.Expr) -> Iterator[Problem]:
    if count.expressions:
        hint = "write COUNT(*), or COUNT(DISTINCT a, b) for different pairs"
        yield argument_problem(count, "COUNT takes one column", hint, "COUNT")


def _check_listagg(call: exp.Expr) -> Iterator[Problem]:
    separator = call.args.get("separator")
    if separator is not None and separator.find(exp.Column) is not None:
        hint = "write a text: LISTAGG(name, '; ')"
        yield argument_problem(separator, "the separator of LISTAGG is not a constant", hint, "LISTAGG")


# Units of time


_LENGTHS: Final = frozenset(
    {"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"}
)
"""The units of intervals."""
_PARTS: Final = (_LENGTHS - {"MICROSECOND"}) | {
    "CENTURY", "DAYOFWEEK", "DAYOFWEEK_ISO", "DECADE", "DOW", "DOW_ISO", "DOY", "EPOCH", "ISODOW", "ISOYEAR",
    "MILLENNIUM", "YEAROFWEEK",
}  # fmt: skip
"""The fields that can be extracted from a time."""


def _check_unit(node: exp.Expr, argument: str, known: frozenset[str]) -> Iterator[Problem]:
    unit = node.args.get(argument)
    if isinstance(unit, exp.Var) and (word := unit.name.upper()) not in known and word.removesuffix("S") not in known:
        hint = did_you_mean(word, sorted(known), otherwise="units")
        yield argument_problem(node, f"`{unit.name}` is not a unit of time", hint, unit.name)


# Types and constants


def _check_decimal(node: exp.Expr) -> Iterator[Problem]:
    if isinstance(node, exp.DataType) and (wrong := wrong_digits(node, MOST_DIGITS)) is not None:
        holder = node.find_ancestor(exp.Cast)
        yield Problem("sql-argument", wrong[0], 0 if holder is None else start_of(holder), wrong[1], "DECIMAL")


_READERS: Final[Mapping[exp.DType, tuple[Callable[[str], object], str]]] = {
    exp.DType.DATE: (date.fromisoformat, "DATE '2026-01-31'"),
    **dict.fromkeys(TIMESTAMPS, (datetime.fromisoformat, "TIMESTAMP '2026-01-31 12:00:00'")),
}
_WORDS: Final = frozenset({"epoch", "now", "today", "tomorrow", "yesterday"})
_DAY: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](.*))?")


def _check_time_literal(node: exp.Expr) -> Iterator[Problem]:
    """Report literals like `DATE 'nope'`. Forms that only Spark reads, such as a region at the end, are allowed."""
    text = node.this.name if isinstance(node.this, exp.Literal) and node.this.is_string else None
    found = _READERS.get(node.to.this) if type(node) is exp.Cast else None
    if text is None or found is None or text.strip().casefold() in _WORDS:
        return
    read, written = found
    day = _DAY.fullmatch(text.strip())
    try:
        if day is None:
            read(text.strip())
        else:
            date(int(day[1]), int(day[2]), int(day[3]))
    except ValueError:
        if day is None and re.fullmatch(r"\d{4}(-\d{1,2})?", text.strip()):
            return
        kind = written.partition(" ")[0]
        yield argument_problem(node, f"'{text}' is no {kind}", f"write it like {written}", kind)


def _check_number(node: exp.Expr) -> Iterator[Problem]:
    """Report numbers such as `1e400` that do not fit into DOUBLE: Spark refuses the whole query because of one."""
    text = node.name
    if isinstance(node, exp.Literal) and node.is_number and "e" in text.casefold() and math.isinf(_as_float(text)):
        yield argument_problem(node, f"{_shorten(text)} is beyond every DOUBLE", None, text)


def _check_digits(node: exp.Expr) -> Iterator[Problem]:
    yield from _check_number(node)
    """Report numbers with more digits than a decimal of Spark has, too."""
    text = node.name
    if isinstance(node, exp.Literal) and node.is_number and "e" not in text.casefold():
        digits = len(text.replace(".", "").lstrip("0"))
        if digits > SPARK_DIGITS:
            said = f"{_shorten(text)} has {digits} digits, and numbers have at most {SPARK_DIGITS}"
            yield argument_problem(node, said, "write it with an exponent, as a DOUBLE", text)


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _shorten(text: str) -> str:
    return text if len(text) <= SPARK_DIGITS else f"{text[:20]}…"


_PATTERNS: Final = frozenset(
    {
        "REGEXP", "REGEXP_COUNT", "REGEXP_EXTRACT", "REGEXP_EXTRACT_ALL", "REGEXP_INSTR", "REGEXP_LIKE",
        "REGEXP_REPLACE", "REGEXP_SUBSTR", "RLIKE",
    }
)  # fmt: skip
_UNBALANCED: Final = ("unterminated character set", "missing ), unterminated subpattern", "unbalanced parenthesis")


def _check_pattern(node: exp.Expr, pattern: exp.Expr) -> Iterator[Problem]:
    """Report unbalanced brackets in a pattern. The rest is not checked: patterns of Java and Python differ."""
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or r"\Q" in pattern.name:
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern.name)
    except re.error as error:
        if error.msg in _UNBALANCED:
            text = f"'{pattern.name}' is not a regular expression: a bracket is not closed"
            hint = r"close it, or write a backslash before it to mean the bracket itself"
            yield argument_problem(node, text, hint, pattern.name)


# Statements


def _check_ctes(ctes: exp.Expr) -> Iterator[Problem]:
    seen: set[str] = set()
    for cte in ctes.expressions:
        if cte.alias.casefold() in seen:
            text = f"two subqueries of WITH are called `{cte.alias}`"
            hint = "give one of them another name"
            yield Problem("sql-statement", text, offset_of(cte.args["alias"]), hint, cte.alias)
        seen.add(cte.alias.casefold())


def _check_unnest(node: exp.Expr) -> Iterator[Problem]:
    offset, alias = node.args.get("offset"), node.args.get("alias")
    if offset and (not isinstance(offset, exp.Identifier) or alias is None or not alias.columns):
        hint = "name the columns, the number last: AS u(element, number)"
        yield Problem("sql-argument", "the columns of WITH ORDINALITY have no names", offset_of(node), hint, "UNNEST")


_RulesByClass: TypeAlias = Mapping[type[exp.Expr], Callable[[exp.Expr], Iterator[Problem]]]
_RULES: Final[_RulesByClass] = {
    exp.Func: _check_function,
    exp.Count: _check_count,
    exp.GroupConcat: _check_listagg,
    exp.DataType: _check_decimal,
    exp.Cast: _check_time_literal,
    exp.Literal: _check_number,
    exp.RegexpLike: lambda node: _check_pattern(node, node.expression),
    exp.With: _check_ctes,
}
_FLINK_RULES: Final[_RulesByClass] = {
    exp.TimestampDiff: partial(_check_unit, argument="unit", known=_LENGTHS),
    exp.TimestampAdd: partial(_check_unit, argument="unit", known=_LENGTHS),
    exp.Extract: partial(_check_unit, argument="this", known=_PARTS),
    exp.Floor: partial(_check_unit, argument="to", known=_LENGTHS),
    exp.Ceil: partial(_check_unit, argument="to", known=_LENGTHS),
    exp.Unnest: _check_unnest,
    exp.Literal: _check_digits,
}
