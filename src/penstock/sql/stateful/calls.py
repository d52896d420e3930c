"""What the calls of every operator share: the columns of their arguments, and AVG from a sum and a count."""

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.rewrite.templates import call
from penstock.sql.types.flink_inference import WHOLE_NAMES


def avg_expression(node: exp.Avg, total: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Build the average from a sum and a count. That of integers is an integer, truncated; of no values it is null."""
    kind = operand_kind(node)
    if kind is not None and kind not in WHOLE_NAMES:
        return call("try_divide", total, count)
    some = exp.Nullif(this=count, expression=exp.Literal.number(0))
    if kind is None:
        return exp.Div(this=total, expression=some)
    return exp.cast(exp.IntDiv(this=total, expression=some), kind)


def name_argument(arguments: dict[str, exp.Expr], argument: exp.Expr) -> str:
    """Return the name of an argument's column, which is added to `arguments` unless an equal one is there."""
    for name, known in arguments.items():
        if known == argument:
            return name
    name = f"_a{len(arguments)}"
    arguments[name] = argument.copy()
    return name
