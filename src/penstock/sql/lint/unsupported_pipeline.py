"""Find SQL of pipelines without an equivalent in Spark, and arguments that must be literals."""

import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.statefulness import keyword_offset
from penstock.sql.catalog.pipeline_functions import OPTIONS, PIPELINE_TABLE
from penstock.sql.parse.dialects import PIPELINE
from penstock.sql.parse.query import Problem, Query, argument_problem, start_of
from penstock.sql.rewrite.pipeline_datetime import PARTS, extract_template, interval_micros
from penstock.sql.types.arrow_types import arrow_type
from penstock.sql.types.columns import SPARK_HAS
from penstock.sql.types.int256 import int256_type
from penstock.sql.types.long_decimals import MOST_DIGITS


def find_pipeline_misuses(query: Query) -> Iterator[Problem]:
    """Report forms and arguments without an equivalent in Spark."""
    for node in query.tree.find_all(exp.With, exp.Star, exp.Cast, exp.Extract, exp.SimilarTo, exp.Anonymous):
        match node:
            case exp.With() if node.args.get("recursive"):
                hint = "a transform can only project, filter and unite rows"
                place = keyword_offset(query, "WITH RECURSIVE", 0)
                yield Problem("sql-unsupported", "unsupported plan: WITH RECURSIVE", place, hint, "WITH RECURSIVE")
            case exp.Star():
                yield from _check_star(node)
            case exp.Cast():
                yield from _check_cast(node)
            case exp.Extract() if extract_template(node) is None:
                hint = f"take one of {', '.join(PARTS).lower()}"
                text = f"{node.name.lower()} of a time is not supported here"
                yield Problem("sql-unsupported", text, start_of(node), hint, "EXTRACT")
            case exp.SimilarTo() if not isinstance(node.expression, exp.Literal):
                hint = "regexp_like(…, …) takes any text as a pattern"
                text = "the pattern of SIMILAR TO must be written out"
                yield Problem("sql-unsupported", text, start_of(node), hint, "SIMILAR TO")
            case exp.Anonymous() if node.name.upper() in PIPELINE_TABLE:
                yield from _check_arguments(node, node.name.upper())
            case _:
                pass


def _check_star(star: exp.Star) -> Iterator[Problem]:
    for clause in ("replace", "rename"):
        if star.args.get(clause):
            text = f"Spark has no * {clause.upper()}"
            hint = "exclude the columns with * EXCEPT (…), and write the new ones after it"
            yield Problem("sql-unsupported", text, start_of(star), hint, clause.upper())


_INSTEAD: Final = {
    exp.DType.UBIGINT: "write DECIMAL(20, 0)",
    exp.DType.UINT: "write BIGINT",
    exp.DType.USMALLINT: "write INT",
    exp.DType.UTINYINT: "write SMALLINT",
    exp.DType.JSON: "a document is a text here: read it with json_value(…) and json_query(…)",
    exp.DType.JSONB: "a document is a text here: read it with json_value(…) and json_query(…)",
    exp.DType.UUID: "write STRING",
    exp.DType.TIME: "there is no TIME type; to_char(…, '%H:%M:%S') gives a text",
}


def _check_cast(cast: exp.Cast) -> Iterator[Problem]:
    for kind in cast.to.find_all(exp.DataType):
        written = kind.this is exp.DType.INTERVAL and isinstance(cast.this, exp.Literal)
        if kind.this not in SPARK_HAS and not written and int256_type(kind) is None:
            text = f"Spark has no type {kind.sql(PIPELINE)}"
            yield argument_problem(cast, text, _INSTEAD.get(kind.this, "write STRING"), "CAST")
            return


_PATH: Final = re.compile(r"""\$(?:\.(?!\*)[^.\[]+|\[\d{1,9}\]|\['[^']*'\]|\["[^"]*"\])*""")


def _check_arguments(call: exp.Anonymous, word: str) -> Iterator[Problem]:
    """Check arguments that must be literals."""
    function, name = PIPELINE_TABLE[word], call.name.lower()
    for place, argument in enumerate(call.expressions):
        written = argument.name if isinstance(argument, exp.Literal) and argument.is_string else None
        choices = OPTIONS.get(word, {}).get(place, ())
        if choices and (written is None or written.upper() not in {c.upper() for c in choices}):
            shown = " or ".join(f"'{choice}'" for choice in choices)
            yield argument_problem(call, f"argument {place + 1} of {name} does not exist", f"write {shown}", name)
        elif function.argument_kind(place) == "literal" and written is None:
            text = f"argument {place + 1} of {name} must be written out"
            yield argument_problem(call, text, "write a text in single quotes", name)
    yield from _check_special(call, word, name)


def _check_special(call: exp.Anonymous, word: str, name: str) -> Iterator[Problem]:
    given = call.expressions
    if word in _PATHS and len(given) > 1 and isinstance(given[1], exp.Literal) and not _PATH.fullmatch(given[1].name):
        hint = "a path is made of $, .key, [0] and ['key']"
        yield argument_problem(call, f"'{given[1].name}' is no path of {name}", hint, name)
    if word in ("JSON_OBJECT", "JSON_OBJECT_ABSENT_ON_NULL") and len(given) % 2:
        text = f"{name} takes keys and values in turn, and is given {len(given)} argument{'s' * (len(given) > 1)}"
        yield argument_problem(call, text, f"it is written {name}('key', value, …)", name)
    if word == "DATE_BIN" and given and interval_micros(given[0]) is None:
        text = "the first argument of date_bin must be an interval without months"
        yield argument_problem(call, text, "write INTERVAL '15 minutes'", name)
    if word == "ARROW_CAST" and len(given) == 2 and arrow_type(given[1].name) is None:
        text, hint = f"Spark has no type {given[1].name}", "take a signed integer, or Decimal128(38, 0)"
        yield argument_problem(call, text, hint, name)
    if word == "TO_DECIMAL_ARB_FROM_STRING" and len(given) == 3:
        sizes = [int(g.name) for g in given[1:] if isinstance(g, exp.Literal) and g.name.isdecimal()]
        if len(sizes) < 2 or not 0 <= sizes[1] <= sizes[0] <= MOST_DIGITS:
            text = f"{name} takes a precision of up to {MOST_DIGITS} and a scale, as numbers"
            hint = "write to_decimal_arb_from_string(text, 100, 18)"
            yield Problem("sql-unsupported", text, start_of(call), hint, name)


_PATHS: Final = frozenset({"JSON_EXISTS", "JSON_QUERY", "JSON_VALUE"})
