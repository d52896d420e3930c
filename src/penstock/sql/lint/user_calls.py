"""Check the calls of user functions, and whether a name can be the name of one."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from penstock.sql.catalog.flink_functions import ABSENT, SPECIAL, TABLE
from penstock.sql.catalog.pipeline_functions import PIPELINE_ABSENT, PIPELINE_TABLE, TRANSLATED
from penstock.sql.catalog.spark_functions import SPARK_NAMES
from penstock.sql.parse.dialects import PIPELINE, PROJECT, SPARK
from penstock.sql.parse.query import PARSER_FAILURES, Problem, offset_of
from penstock.sql.parse.window_tvf import SPANS, WINDOW_PARTS
from penstock.sql.types.columns import SPARK_HAS, data_type, type_text
from penstock.sql.types.families import KnownTypes, family_of_type
from penstock.sql.types.flink_inference import WHOLE
from penstock.sql.types.inference_overrides import MODEL_CALLS
from penstock.sql.types.int256 import NAMES as WIDE_NAMES
from penstock.sql.types.user_functions import UserFunction, UserFunctions, user_calls

FLINK_NAMES: Final = frozenset({*TABLE, *SPECIAL, *ABSENT, *SPANS, *WINDOW_PARTS, *MODEL_CALLS})
PIPELINE_NAMES: Final = frozenset({*PIPELINE_TABLE, *PIPELINE_ABSENT, *TRANSLATED, *WIDE_NAMES})
_OWN: Final = ("PENSTOCK_", "_GS_")
_RESERVED: Final = frozenset(
    {
        "AS", "BY", "CROSS", "ELSE", "END", "FETCH", "FULL", "GROUP", "INNER", "JOIN", "LATERAL", "LIMIT", "NATURAL",
        "NULL", "OFFSET", "ON", "ORDER", "OUTER", "PARTITION", "QUALIFY", "TABLE", "THEN", "USING", "WHEN", "WINDOW",
        "WITHIN",
    }
)  # fmt: skip
"""Reserved words that the parser would accept as the name of a function."""

_AROUND_AGGREGATES: Final = (exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def find_name_conflict(name: str) -> str | None:
    """Return why a user function cannot have this name; None if it can."""
    word = name.upper()
    if word in SPARK_NAMES or word in FLINK_NAMES or word in PIPELINE_NAMES:
        return f"SQL has a function {word}"
    if word.startswith(_OWN):
        return "names of this kind are reserved for Penstock"
    if word in _RESERVED or not all(_is_plain_call(name, dialect) for dialect in (PROJECT, PIPELINE, SPARK)):
        return f"{word} has a meaning of its own in SQL"
    return None


def _is_plain_call(name: str, dialect: Dialect) -> bool:
    try:
        tree = parse_one(f"SELECT {name}(a, b) FROM t", read=dialect)
    except (SqlglotError, *PARSER_FAILURES):
        return False
    if not isinstance(tree, exp.Select) or len(tree.selects) != 1:
        return False
    call = tree.selects[0]
    return isinstance(call, exp.Anonymous) and call.name.upper() == name.upper() and len(call.expressions) == 2


def misused_functions(tree: exp.Expr, functions: UserFunctions) -> Iterator[Problem]:
    """Report calls with a wrong number of arguments, and calls in places where a user function cannot run."""
    for call, function in user_calls(tree, functions):
        word, at = function.name, _offset(call)
        given, wanted = len(call.expressions), len(function.parameters)
        if call.find_ancestor(exp.Lambda) is not None:
            hint = "unnest the array with CROSS JOIN UNNEST, or write a function that takes the whole array"
            yield Problem("sql-unsupported", f"{word} cannot be called in a lambda", at, hint, word)
        elif isinstance(call.parent, _AROUND_AGGREGATES) and call.arg_key == "this":
            text = f"{word} is no aggregate function: OVER, FILTER and the like do not apply to it"
            yield Problem("sql-unsupported", text, at, "it computes one value for each row", word)
        elif isinstance(call.parent, exp.Table | exp.Lateral):
            hint = "call it in the SELECT: it returns one value for each row"
            yield Problem("sql-unsupported", f"{word} cannot be used as a table function", at, hint, word)
        elif any(isinstance(argument, exp.Star | exp.Kwarg | exp.Distinct) for argument in call.expressions):
            yield Problem("sql-argument", f"{word} takes values by position", at, _usage(function), word)
        elif given != wanted:
            text = f"{word} takes {wanted} argument{'s' * (wanted != 1)}, and is given {given}"
            yield Problem("sql-argument", text, at, _usage(function), word)


def mistyped_arguments(typed: exp.Expr, types: KnownTypes, functions: UserFunctions) -> Iterator[Problem]:
    """Report arguments of types that a user function does not accept."""
    for call, function in user_calls(typed, functions):
        for (parameter, wanted), argument in zip(function.parameters, call.expressions, strict=False):
            given = types.type_of(argument)
            if given is not None and not accepts_type(wanted, given):
                text = f"`{parameter}` of {function.name} is {wanted}, and is given {type_text(given)}"
                hint = f"write CAST(… AS {wanted}), or change the hint in {function.file}:{function.line}"
                yield Problem("sql-argument", text, _offset(call) or offset_of(argument), hint, function.name)


def accepts_type(wanted: str, given: exp.DataType) -> bool:
    """Whether a parameter accepts values of a type: those of its family, if no digits behind the point are lost.

    A number that is too large for the parameter fails its row.
    """
    other = data_type(wanted)
    if given.this in (exp.DType.NULL, exp.DType.UNKNOWN):
        return True
    if given.this not in SPARK_HAS or family_of_type(given) != family_of_type(other):
        return False
    match family_of_type(other):
        case "nested":
            return type_text(given) == type_text(other)
        case "number" if other.this in WHOLE:
            return given.this in WHOLE or (given.this is exp.DType.DECIMAL and _scale(given) == 0)
        case "number" if other.this is exp.DType.DECIMAL:
            return given.this in WHOLE or (given.this is exp.DType.DECIMAL and _scale(given) <= _scale(other))
        case "number" if other.this is exp.DType.FLOAT:
            return given.this is not exp.DType.DOUBLE
        case _:
            return True


def _scale(decimal: exp.DataType) -> int:
    return int(decimal.expressions[1].name) if len(decimal.expressions) > 1 else 0


def _usage(function: UserFunction) -> str:
    return f"it is {function.signature}, in {function.file}:{function.line}"


def _offset(call: exp.Expr) -> int:
    start = call.meta.get("start")
    return start if isinstance(start, int) else offset_of(call)
