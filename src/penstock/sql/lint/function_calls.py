"""Check function calls before a query runs: unknown names and wrong arguments."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from penstock.errors import nearest
from penstock.sql.catalog.flink_functions import ABSENT, TABLE, Function
from penstock.sql.catalog.function_names import called_name, has_over, needs_over, written_name
from penstock.sql.catalog.pipeline_functions import PIPELINE_ABSENT, PIPELINE_TABLE
from penstock.sql.catalog.spark_functions import SPARK_NAMES
from penstock.sql.lint.unsupported_pipeline import find_pipeline_misuses
from penstock.sql.lint.user_calls import FLINK_NAMES, PIPELINE_NAMES, misused_functions
from penstock.sql.parse.allowed_forms import UNSAFE_FUNCTIONS
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, argument_problem, offset_of, start_of
from penstock.sql.parse.window_calls import parse_window_call, unknown_unit
from penstock.sql.types.columns import type_text
from penstock.sql.types.families import MEMBERS, KnownTypes
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions


def wrong_calls(query: Query, functions: UserFunctions = NO_FUNCTIONS) -> Iterator[Problem]:
    """Report functions that do not exist, have no equivalent, or have a wrong number of arguments.

    `functions` are those of the user.
    """
    in_flink = query.dialect is PROJECT
    table, missing = (TABLE, ABSENT) if in_flink else (PIPELINE_TABLE, PIPELINE_ABSENT)
    names = SPARK_NAMES | (FLINK_NAMES if in_flink else PIPELINE_NAMES)
    yield from _unknown_units(query.tree) if in_flink else find_pipeline_misuses(query)
    yield from misused_functions(query.tree, functions)
    for node in query.tree.find_all(exp.Func, exp.Overlaps):
        if in_flink and (absent := _absent_form(node)) is not None:
            yield absent
            continue
        if (lacking := _incomplete_call(node)) is not None:
            yield lacking
            continue
        name = called_name(node)
        if not name or isinstance(node.parent, exp.Dot):
            continue
        word = name.upper()
        if word in missing:
            shown = word if in_flink else word.lower()
            text = f"{shown} cannot run as a stream here"
            yield Problem("sql-unsupported", text, _call_offset(node), missing[word], shown)
        elif word not in names and word not in functions:
            close = nearest(word, [*functions, *(known for known in names if known not in UNSAFE_FUNCTIONS)])
            own = functions.get(close or "")
            named = own.name if own is not None else close if in_flink or close is None else close.lower()
            hint = f"did you mean `{named}`?" if named else _FUNCTIONS
            yield Problem("sql-unknown-function", f"there is no function `{name}`", _call_offset(node), hint, name)
        elif word in table and isinstance(node, exp.Anonymous):
            yield from _check_argument_count(node, word, table[word])


_FUNCTIONS: Final = "docs/sql.md lists the functions"


def _unknown_units(tree: exp.Expr) -> Iterator[Problem]:
    """Report unknown units of intervals. The intervals of windows are checked with the windows."""
    for span in tree.find_all(exp.Interval):
        parent = span.parent
        if (unknown := unknown_unit(span)) is not None and (parent is None or parse_window_call(parent) is None):
            place = start_of(span) or (0 if parent is None else start_of(parent))
            yield Problem("sql-argument", unknown[0], place, unknown[1], "INTERVAL")


def _absent_form(node: exp.Expr) -> Problem | None:
    if isinstance(node, exp.Overlaps):
        hint = "compare the ends: start1 < end2 AND start2 < end1"
        return Problem("sql-unsupported", "OVERLAPS cannot run as a stream here", offset_of(node), hint, "OVERLAPS")
    if isinstance(node, exp.Cast) and node.to.this is exp.DType.TIME:
        hint = "use TIMESTAMP, or a text: DATE_FORMAT(…, 'HH:mm:ss')"
        return Problem("sql-unsupported", "a TIME cannot run as a stream here", offset_of(node), hint, "TIME")
    return None


def _incomplete_call(node: exp.Expr) -> Problem | None:
    """Report incomplete calls that the parser accepts."""
    if isinstance(node, exp.If) and not isinstance(node.parent, exp.Case) and node.args.get("false") is None:
        hint = "the syntax is IF(condition, value, otherwise)"
        return argument_problem(node, "IF takes 3 arguments, and is given 2", hint, "IF")
    if needs_over(node) and not has_over(node):
        word = written_name(node)
        hint = f"write {word}({'…' * bool(node.args.get('this'))}) OVER (PARTITION BY … ORDER BY the event time)"
        return Problem("sql-argument", f"{word} needs OVER", _call_offset(node), hint, word)
    return None


def _call_offset(node: exp.Expr) -> int:
    start = node.meta.get("start")
    return start if isinstance(start, int) else offset_of(node)


def _check_argument_count(call: exp.Anonymous, word: str, function: Function) -> Iterator[Problem]:
    given = sum(not isinstance(argument, exp.Kwarg) for argument in call.expressions)
    if given < function.min_arguments or (function.max_arguments is not None and given > function.max_arguments):
        text = f"{word} takes {_describe_count(function.min_arguments, function.max_arguments)}, and is given {given}"
        yield Problem("sql-argument", text, _call_offset(call), f"it is written {signature(word, function)}", word)


def signature(word: str, function: Function) -> str:
    """Render the signature of a function: `SPLIT_INDEX(text, text, whole)`."""
    shown = [_ARGUMENTS.get(a.rstrip("?*"), a.rstrip("?*")) + ", …" * a.endswith("*") for a in function.takes.split()]
    optional = sum(a.endswith("?") for a in function.takes.split())
    needed, more = shown[: len(shown) - optional], shown[len(shown) - optional :]
    listed = ", ".join(needed) + "".join(f"[, {a}" if needed or n else f"[{a}" for n, a in enumerate(more))
    return f"{word}({listed}{']' * len(more)})"


_ARGUMENTS: Final = {"whole": "integer", "bool": "boolean", "string": "text", "bytes": "text", "option": "clause"}


def _describe_count(fewest: int, most: int | None) -> str:
    if fewest == most:
        return "no arguments" if not most else f"{most} argument{'s' * (most > 1)}"
    return f"at least {fewest} arguments" if most is None else f"{fewest} to {most} arguments"


# Types of arguments

_NUMBERS, _TEXTS, _TRUTH = MEMBERS["number"], MEMBERS["text"], MEMBERS["truth"]
_BYTES, _NESTED = MEMBERS["bytes"], MEMBERS["nested"]
_TIMES: Final = MEMBERS["time"] | MEMBERS["date"]
_EVERYTHING: Final = _NUMBERS | _NESTED | _TIMES | _BYTES | _TEXTS | _TRUTH

_RefusedTypes: TypeAlias = Mapping[str, frozenset[exp.DType]]
_REFUSED: Final[_RefusedTypes] = {
    "text": _NESTED,
    "string": _EVERYTHING - _TEXTS,
    "bytes": _EVERYTHING - _TEXTS - _BYTES,
    "number": _EVERYTHING - _NUMBERS,
    "whole": _EVERYTHING - _NUMBERS,
    "time": _NUMBERS | _TRUTH | _BYTES | _NESTED,
    "array": _EVERYTHING - {exp.DType.ARRAY},
    "map": _EVERYTHING - {exp.DType.MAP},
    "collection": _EVERYTHING - {exp.DType.ARRAY, exp.DType.MAP},
    "bool": _EVERYTHING - _TRUTH,
}
"""The types that are refused for each kind of argument."""
_REFUSED_BY_SPARK: Final = {**_REFUSED, **{kind: _REFUSED[kind] - _TEXTS for kind in ("number", "whole")}}

_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("a text", "convert it with JSON_STRING(…)"),
    "string": ("a text", "write CAST(… AS STRING)"),
    "bytes": ("a text", "write CAST(… AS STRING)"),
    "number": ("a number", "write CAST(… AS DOUBLE), or CASE WHEN … THEN 1 ELSE 0 END"),
    "whole": ("a whole number", "write CAST(… AS INT)"),
    "time": ("a time", "convert milliseconds with TO_TIMESTAMP_LTZ(…, 3), a text with TO_TIMESTAMP(…)"),
    "array": ("an array", "use SPLIT(…, ',') for a text, ARRAY[…] for values"),
    "map": ("a map", "use STR_TO_MAP(…) for a text, MAP[…] for values"),
    "collection": ("an array or a map", "use CHAR_LENGTH for a text"),
    "bool": ("TRUE or FALSE", "write a comparison"),
}

_OF_NUMBERS: Final = (
    exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Abs, exp.Sqrt,
    exp.Exp, exp.Ln, exp.Round, exp.Sign,
)  # fmt: skip
_OF_TEXTS: Final = (
    exp.Upper, exp.Lower, exp.Trim, exp.Initcap, exp.Length, exp.Substring, exp.GroupConcat, exp.Replace
)  # fmt: skip
_BY_CLASS: Final[Mapping[type[exp.Expr], tuple[tuple[str, str], ...]]] = {
    **dict.fromkeys(_OF_NUMBERS, (("this", "number"),)),
    **dict.fromkeys(_OF_TEXTS, (("this", "text"),)),
    **dict.fromkeys((exp.Left, exp.Right), (("this", "text"), ("expression", "whole"))),
    **dict.fromkeys((exp.MD5, exp.SHA, exp.SHA2), (("this", "bytes"),)),
    exp.ArrayDistinct: (("this", "array"),),
    exp.MapKeys: (("this", "map"),),
    exp.Extract: (("expression", "time"),),
    exp.TimestampDiff: (("this", "time"), ("expression", "time")),
    exp.TimestampAdd: (("this", "time"),),
}


def wrong_arguments(typed: exp.Expr, types: KnownTypes, *, in_flink: bool) -> Iterator[Problem]:
    """Report arguments of types that a function refuses. Spark accepts strings as numbers; Flink does not."""
    refused = _REFUSED if in_flink else _REFUSED_BY_SPARK
    table = TABLE if in_flink else PIPELINE_TABLE
    for node in typed.find_all(exp.Anonymous, exp.Bracket, *_BY_CLASS):
        if isinstance(node, exp.Bracket):
            yield from _check_zero_index(node) if in_flink else ()
        elif not isinstance(node, exp.Anonymous):
            for place, kind in _BY_CLASS[type(node)]:
                yield from _check_argument(node, node.args.get(place), kind, types, refused)
        elif (function := table.get(node.name.upper())) is not None:
            plain = [argument for argument in node.expressions if not isinstance(argument, exp.Kwarg)]
            for position, argument in enumerate(plain):
                yield from _check_argument(node, argument, function.argument_kind(position), types, refused)


def _check_zero_index(node: exp.Bracket) -> Iterator[Problem]:
    """Report `a[0]`, because the elements of an array are numbered from 1."""
    key = node.expressions[0] if len(node.expressions) == 1 else None
    is_array = node.this.type is not None and node.this.type.this is exp.DType.ARRAY
    if is_array and isinstance(key, exp.Literal) and key.name == "0":
        text, hint = "an array has no element 0", "the first element has the number 1"
        yield Problem("sql-argument", text, offset_of(node), hint, "0")


def _check_argument(
    node: exp.Expr, argument: object, kind: str, types: KnownTypes, refused: _RefusedTypes
) -> Iterator[Problem]:
    if not isinstance(argument, exp.Expr) or kind not in refused:
        return
    value = argument.expressions[0] if isinstance(argument, exp.Distinct) and argument.expressions else argument
    found = types.type_of(value)
    if found is not None and found.this in refused[kind]:
        name, (wanted, hint) = written_name(node), _WORDS[kind]
        text = f"{name} takes {wanted}, and is given {type_text(found)}"
        yield Problem("sql-argument", text, _call_offset(node) or offset_of(value), hint, name)
