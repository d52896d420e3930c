"""Compare SQL whose operators depend on types that only Spark knows, as far as state depends on it."""

from functools import lru_cache
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import is_aggregate
from penstock.sql.parse.dialects import SPARK, parse_spark
from penstock.sql.parse.replacement import replace_node
from penstock.sql.rewrite.operators import DIVIDE, ENTRIES, MEAN
from penstock.sql.rewrite.templates import fill_template, wrap_operand

_CHOSEN: Final = (DIVIDE, MEAN)
_NUMBERED: Final = "TRANSFORM(_1, (e, i) -> STRUCT(e AS e, i + 1 AS col2))"


@lru_cache(maxsize=512)
def state_text(sql: str) -> str:
    """Normalize the last SQL of a query: texts that lead to the same state become equal.

    The variant of a division or a mean does not matter where the result is only an output.
    """
    if not any(word in sql.lower() for word in (*_CHOSEN, "/", "avg(", "try_divide")):
        return sql
    if (tree := parse_spark(sql)) is None:
        return sql
    for node in [node for node in tree.find_all(exp.Anonymous, exp.SafeDivide) if _is_only_output(node, tree)]:
        match node.name.lower() if isinstance(node, exp.Anonymous) else "try_divide":
            case name if name == MEAN:
                replace_node(node, node.expressions[0].copy())
            case name if name == DIVIDE:
                replace_node(node, _build_division(*node.expressions))
            case "try_divide":
                one, other = node.expressions if isinstance(node, exp.Anonymous) else (node.this, node.expression)
                divisor = exp.Nullif(this=other.copy(), expression=exp.Literal.number(0))
                replace_node(node, _build_division(one, divisor))
    return tree.sql(SPARK, identify=True, comments=False)


@lru_cache(maxsize=512)
def unnested_text(sql: str) -> str:
    """Normalize SQL: both ways to turn an array into rows become equal if only Spark knows its type.

    The rows are the same: one of the ways accepts maps too.
    """
    if not any(word in sql.lower() for word in ("explode(", "inline(")):
        return sql
    if (tree := parse_spark(sql)) is None:
        return sql
    for view in tree.find_all(exp.Lateral):
        call = view.this.this if isinstance(view.this, exp.Inline) else None
        if isinstance(call, exp.Anonymous) and call.name.lower() == ENTRIES:
            given, *numbers = (argument.copy() for argument in call.expressions)
            columns = view.args["alias"].columns
            maker = exp.Explode if len(columns) == 1 and not numbers else exp.Inline
            view.set("this", maker(this=fill_template(_NUMBERED, given) if numbers else given))
    return tree.sql(SPARK, identify=True, comments=False)


def _build_division(one: exp.Expr, other: exp.Expr) -> exp.Expr:
    return exp.Div(this=wrap_operand(one.copy()), expression=wrap_operand(other.copy()))


def _is_only_output(node: exp.Expr, tree: exp.Expr) -> bool:
    above = node.parent
    while above is not None and above is not tree:
        if isinstance(above, exp.Query | exp.Group | exp.Window) or is_aggregate(above):
            return False
        above = above.parent
    return above is tree
