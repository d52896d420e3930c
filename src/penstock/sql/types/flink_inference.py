"""Result types of the functions and operators of Flink SQL, for type inference."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from penstock.sql.catalog.flink_functions import TABLE, Function
from penstock.sql.parse.window_tvf import WINDOW_PARTS

WHOLE: Final = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
"""The integer types, from narrow to wide."""
TIMESTAMPS: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)
WHOLE_NAMES: Final = tuple(kind.value for kind in WHOLE)
_SPARK: Final = Spark()
_RETURNS: Final = {
    **dict.fromkeys(("LOG2", "LOG10", "COT", "RAND", "PI", "E"), "DOUBLE"),
    **dict.fromkeys(("URL_ENCODE", "BIN"), "STRING"),
}


@cache
def _type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect=_SPARK)


def named_argument(call: exp.Expr, name: str) -> exp.Expr | None:
    """Return the argument with a name; None if it is not given."""
    found = (a.expression for a in call.expressions if isinstance(a, exp.Kwarg) and a.name.upper() == name)
    return next(found, None)


def call_annotator(table: Mapping[str, Function]) -> Callable[[Any, exp.Expr], exp.Expr]:
    """Build the annotator for calls of the functions in a table."""
    return partial(_annotate_call, table)


def _annotate_call(table: Mapping[str, Function], annotator: Any, call: exp.Expr) -> exp.Expr:
    name = call.name.upper()
    if name in WINDOW_PARTS:
        return _set_type(annotator, call, _type("TIMESTAMP"))
    function = table.get(name)
    returns = function.returns if function is not None else _RETURNS.get(name)
    if returns is None:
        return _set_type(annotator, call, exp.DType.UNKNOWN)
    arguments = call.expressions
    returning = named_argument(call, "RETURNING")
    if isinstance(returning, exp.Cast):
        return _set_type(annotator, call, returning.to)
    match returns:
        case "element":
            whole = arguments[0].type if arguments else None
            inner = whole.expressions if whole is not None and whole.this is exp.DType.ARRAY else []
            return _set_type(annotator, call, inner[0] if inner else exp.DType.UNKNOWN)
        case "_1" | "_2":
            place = int(returns[1]) - 1
            same = arguments[place].type if place < len(arguments) else None
            return _set_type(annotator, call, same or exp.DType.UNKNOWN)
        case _:
            return _set_type(annotator, call, _type(returns))


def annotate_division(annotator: Any, division: exp.Expr) -> exp.Expr:
    """Annotate a division: that of integers has the wider type of the two."""
    annotator._annotate_div(division)
    kinds = [side.type.this for side in (division.this, division.expression) if side.type is not None]
    if len(kinds) == 2 and all(kind in WHOLE for kind in kinds):
        return _set_type(annotator, division, max(kinds, key=WHOLE.index))
    return division


def annotate_time_part(annotator: Any, part: exp.Expr) -> exp.Expr:
    """Annotate EXTRACT in pipelines."""
    return _set_type(annotator, part, exp.DType.DOUBLE if part.name.upper() == "EPOCH" else exp.DType.INT)


def _annotate_avg(annotator: Any, mean: exp.Expr) -> exp.Expr:
    """Annotate AVG: the average of integers is an integer."""
    value = mean.this.expressions[0] if isinstance(mean.this, exp.Distinct) else mean.this
    kind = value.type.this if value.type is not None else None
    return _set_type(annotator, mean, kind if kind in WHOLE else exp.DType.DOUBLE)


def _annotate_rounding(annotator: Any, node: exp.Expr) -> exp.Expr:
    """Annotate FLOOR and CEIL. A time that is rounded to a unit keeps its type."""
    if not node.args.get("to"):
        Spark.EXPRESSION_METADATA[type(node)]["annotator"](annotator, node)
        return node
    return _set_type(annotator, node, _time_type(node.this))


def _annotate_addition(annotator: Any, node: exp.Expr) -> exp.Expr:
    whole_days = node.text("unit").upper() in WHOLE_DAYS
    return _set_type(annotator, node, _time_type(node.this) if whole_days else _type("TIMESTAMP"))


WHOLE_DAYS: Final = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
"""Units that can be added to a date."""


def _time_type(time: exp.Expr) -> exp.DataType | exp.DType:
    if time.type is None or time.type.this is exp.DType.UNKNOWN:
        return exp.DType.UNKNOWN
    return exp.DType.DATE if time.type.this is exp.DType.DATE else _type("TIMESTAMP")


def _set_type(annotator: Any, node: exp.Expr, kind: exp.DataType | exp.DType) -> exp.Expr:
    annotator._set_type(node, kind)
    return node


METADATA: Final[dict[type[exp.Expr], dict[str, Any]]] = {
    exp.Anonymous: {"annotator": call_annotator(TABLE)},
    exp.Avg: {"annotator": _annotate_avg},
    exp.Ceil: {"annotator": _annotate_rounding},
    exp.Div: {"annotator": annotate_division},
    exp.Extract: {"returns": exp.DType.BIGINT},
    exp.JSONObject: {"returns": exp.DType.TEXT},
    exp.JSONObjectAgg: {"returns": exp.DType.TEXT},
    exp.Floor: {"annotator": _annotate_rounding},
    exp.GroupConcat: {"returns": exp.DType.TEXT},
    **{kind: {"returns": exp.DType.BIGINT} for kind in (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)},
    exp.TimestampAdd: {"annotator": _annotate_addition},
    exp.TimestampDiff: {"returns": exp.DType.INT},
}
