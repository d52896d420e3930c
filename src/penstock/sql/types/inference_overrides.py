"""Names of model functions, and types that inference gets wrong for Spark."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.parse.replacement import replace_node
from penstock.sql.types.columns import data_type
from penstock.sql.types.flink_inference import WHOLE
from penstock.sql.types.long_decimals import SPARK_DIGITS
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions

MODEL_CALLS: Final = frozenset({"ML_PREDICT", "ML_EVALUATE"})


def insert_type_casts(tree: exp.Expr, answers: Mapping[str, str], functions: UserFunctions = NO_FUNCTIONS) -> None:
    """Insert casts for types that inference does not know, or gets wrong for Spark.

    `answers` has the result types of `ML_PREDICT` by model; `functions` are those of the user.
    """
    for node in list(tree.find_all(exp.Anonymous, exp.Literal, exp.Year, exp.Uuid, exp.TimestampTrunc)):
        kind = _type_of(node, answers, functions)
        if kind is not None:
            cast = exp.Cast(this=exp.null(), to=data_type(kind).copy())
            replace_node(node, cast)
            cast.set("this", node)


def _type_of(node: exp.Expr, answers: Mapping[str, str], functions: UserFunctions) -> str | None:
    match node:
        case exp.Year():
            return "INT"
        case exp.Uuid():
            return "STRING"
        case exp.TimestampTrunc():
            return "TIMESTAMP"
        case exp.Literal() if not node.is_string:
            return _number_type(node.name)
        case exp.Anonymous() if node.name.upper() in MODEL_CALLS and node.expressions:
            return answers.get(node.expressions[0].name)
        case exp.Anonymous() if (function := functions.get(node.name.upper())) is not None:
            return function.returns or None
        case _:
            return None


def _number_type(digits: str) -> str | None:
    """Return the type of a number literal. One with a decimal point is a decimal with exactly its digits."""
    whole, point, fraction = digits.partition(".")
    if "e" in digits.casefold():
        return "DOUBLE"
    if point:
        return f"DECIMAL({max(len(whole.lstrip('0')) + len(fraction), 1)}, {len(fraction)})"
    if len(digits) > _LONGEST_BIGINT:
        return f"DECIMAL({len(digits)}, 0)"
    return "BIGINT" if len(digits) > 9 and int(digits) > _LARGEST_INT else None


_LARGEST_INT: Final = 2**31 - 1
_LONGEST_BIGINT: Final = 18


def is_trusted(projection: exp.Expr) -> bool:
    """Whether inference knows Spark's type of everything in an annotated expression."""
    return next(doubtful_nodes(projection), None) is None


def doubtful_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Return the nodes of an annotated tree whose Spark type inference does not know."""
    return filter(_is_doubtful, tree.find_all(*_DOUBTED))


_NEVER_RIGHT: Final = (exp.DateDiff, exp.TsOrDsDiff, exp.WeekOfYear, exp.DateTrunc, exp.Map, exp.ArrayPosition)
_DOUBTED: Final = (
    exp.Round, exp.Avg, exp.Coalesce, exp.Extract, exp.Binary, exp.Case, exp.If, exp.Array, exp.Interval, *_NEVER_RIGHT
)  # fmt: skip
_TEMPORAL: Final = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.DATE, exp.DType.TIMESTAMPNTZ})


def _is_doubtful(node: exp.Expr) -> bool:
    match node:
        case exp.Round():
            return not _has_type(node.this, exp.DType.DOUBLE, exp.DType.FLOAT)
        case exp.Avg():
            return _has_type(node.this, exp.DType.DECIMAL, exp.DType.UNKNOWN)
        case exp.Coalesce():
            return not _is_widest(node, [node.this, *node.expressions])
        case exp.Extract():
            return node.name.upper() == "SECOND" and not _has_type(node, exp.DType.BIGINT)
        case exp.Case():
            results = [branch.args["true"] for branch in node.args["ifs"]]
            return not _is_widest(node, [*results, node.args.get("default")])
        case exp.If():
            is_branch = isinstance(node.parent, exp.Case)
            return not is_branch and not _is_widest(node, [node.args["true"], node.args.get("false")])
        case exp.Array():
            return len({part.type.this for part in node.expressions if part.type is not None}) > 1
        case exp.Interval():
            return not isinstance(node.parent, exp.Add | exp.Sub | exp.Anonymous)
        case exp.Sub() if _has_type(node.left, *_TEMPORAL) and _has_type(node.right, *_TEMPORAL):
            return not isinstance(node.right, exp.Interval)
        case _ if isinstance(node, _NEVER_RIGHT):
            return True
        case exp.Binary():
            kinds = {side.type.this for side in (node.left, node.right) if side.type is not None}
            return exp.DType.FLOAT in kinds and not kinds <= {exp.DType.FLOAT, exp.DType.DOUBLE}
        case _:
            return False


_WIDTHS: Final = (*WHOLE, exp.DType.DOUBLE)


def _is_widest(node: exp.Expr, parts: Sequence[exp.Expr | None]) -> bool:
    """Whether a node has the widest type of its parts, if one of them is the widest. A part may be missing."""
    given = (part for part in parts if part is not None)
    kinds = {part.type.this if part.type is not None else exp.DType.UNKNOWN for part in given}
    if kinds <= set(exp.DataType.TEXT_TYPES):
        return True
    claimed = node.type.this if node.type is not None else exp.DType.UNKNOWN
    if kinds <= set(_WIDTHS):
        return claimed == max(kinds, key=_WIDTHS.index)
    return kinds == {claimed}


def decimal_type(expression: exp.Expr) -> str | None:
    """Return Spark's type of SUM, AVG, MIN or MAX of decimals; None for other expressions, which have more rules."""
    inner = expression.this if isinstance(expression, exp.Sum | exp.Avg | exp.Min | exp.Max) else None
    if not isinstance(inner, exp.Column | exp.Cast) or inner.type is None or len(inner.type.expressions) != 2:
        return None
    precision, scale = (int(part.name) for part in inner.type.expressions)
    match expression:
        case exp.Sum():
            precision += 10
        case exp.Avg():
            precision, scale = precision + 4, scale + 4
    return f"DECIMAL({precision}, {scale})" if precision <= SPARK_DIGITS else None


def _has_type(node: exp.Expr, *kinds: exp.DType) -> bool:
    return node.type is None or node.type.this in kinds
