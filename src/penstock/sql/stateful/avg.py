"""AVG after an operator that has counted and summed."""

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.types.flink_inference import WHOLE_NAMES


def avg_expression(node: exp.Avg, total: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Build the average from a sum and a count. That of integers is an integer, truncated; of no values it is null."""
    kind = operand_kind(node)
    if kind is not None and kind not in WHOLE_NAMES:
        return exp.Anonymous(this="try_divide", expressions=[total, count])
    some = exp.Nullif(this=count, expression=exp.Literal.number(0))
    if kind is None:
        return exp.Div(this=total, expression=some)
    return exp.cast(exp.IntDiv(this=total, expression=some), kind)
