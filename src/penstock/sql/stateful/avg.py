"""AVG behind an operator that has counted and summed."""

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.types.flink_inference import WHOLE_NAMES


def avg_expression(node: exp.Avg, total: exp.Expr, count: exp.Expr) -> exp.Expr:
    """The mean that a call asks for; that of whole numbers is a whole number, cut off. Nothing has no mean."""
    kind = operand_kind(node)
    if kind is not None and kind not in WHOLE_NAMES:
        return exp.Anonymous(this="try_divide", expressions=[total, count])
    some = exp.Nullif(this=count, expression=exp.Literal.number(0))
    if kind is None:
        return exp.Div(this=total, expression=some)
    return exp.cast(exp.IntDiv(this=total, expression=some), kind)
