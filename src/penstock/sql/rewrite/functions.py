"""Rewrite functions and operators so that Spark gives the results of the query's dialect.

One pass finds the nodes that have a rule, by class or by function name. They are replaced from the inside outwards, so
that no rule sees the result of another one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.catalog.flink_functions import TABLE, Function
from penstock.sql.catalog.pipeline_functions import PIPELINE_TABLE
from penstock.sql.parse.replacement import replace_node
from penstock.sql.rewrite.json import JSON_CALLS
from penstock.sql.rewrite.operators import OPERATORS, TYPE_OF
from penstock.sql.rewrite.pipeline_calls import PIPELINE_CALLS, PIPELINE_OPERATORS
from penstock.sql.rewrite.templates import Rewrite, call, fill_template, rename_call, wrap_operand
from penstock.sql.types.user_functions import PREFIX


def rewrite_flink_functions(tree: exp.Query) -> exp.Query:
    """Replace every function that Spark lacks or interprets differently by an expression with Flink's result."""
    return _apply_rules(tree, lambda node: _rule_for(node, TABLE, _BY_NAME, OPERATORS))


def rewrite_pipeline_functions(tree: exp.Query) -> exp.Query:
    """Replace the functions and operators of pipelines that Spark lacks or interprets differently."""
    return _apply_rules(tree, pipeline_rule)


def pipeline_rule(node: exp.Expr) -> Rewrite | None:
    """Return the rewrite of a node of a pipeline's SQL; None if it stays unchanged."""
    return _rule_for(node, PIPELINE_TABLE, PIPELINE_CALLS, PIPELINE_OPERATORS)


def _apply_rules(tree: exp.Query, rule_for: Callable[[exp.Expr], Rewrite | None]) -> exp.Query:
    found = [(node, rule) for node in tree.walk() if (rule := rule_for(node)) is not None]
    for node, rule in reversed(found):
        made = rule(node)
        if made is not None:
            output = node.output_name if isinstance(node.parent, exp.Select) and node.arg_key == "expressions" else ""
            replace_node(node, exp.alias_(made, output, quoted=True) if output else made)
    return tree


def _rule_for(
    node: exp.Expr,
    table: Mapping[str, Function],
    by_name: Mapping[str, Rewrite],
    by_class: Mapping[type[exp.Expr], Rewrite],
) -> Rewrite | None:
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        if name.startswith(PREFIX):
            return _raise_errors
        return by_name.get(name) or (partial(_apply_template, table[name]) if name in table else None)
    return by_class.get(type(node))


def _apply_template(function: Function, node: exp.Expr) -> exp.Expr | None:
    place = len(node.expressions) - function.min_arguments
    return fill_template(function.spark[place], *node.expressions) if 0 <= place < len(function.spark) else None


def _raise_errors(node: exp.Expr) -> exp.Expr:
    """Rewrite a call of a user function, which returns a value and an error: the error is raised for its row.

    The call must not be repeated, because calls in its arguments would then be repeated with it.
    """
    return fill_template(_VALUE_OR_ERROR, node)


_VALUE_OR_ERROR: Final = (
    "GET(TRANSFORM(ARRAY(_1), r -> IF(r.error IS NULL, r.value, RAISE_ERROR(CONCAT(r.error, '. SQLSTATE: 22023')))), 0)"
)


# By name


def _rewrite_elt(node: exp.Expr) -> exp.Expr:
    """Rewrite ELT. An index without a value gives null."""
    index, *choices = node.expressions
    place = exp.Sub(this=wrap_operand(index.copy()), expression=exp.Literal.number(1))
    return call("GET", call("ARRAY", *(c.copy() for c in choices)), place)


def _local_time(node: exp.Expr) -> exp.Expr | None:
    """Rewrite TO_TIMESTAMP_LTZ of seconds, of milliseconds, or of a string with a format."""
    if len(node.expressions) != 2:
        return None
    value, how = node.expressions
    if isinstance(how, exp.Literal) and how.is_string:
        return fill_template("TRY_TO_TIMESTAMP(_1, _2)", value, how)
    match how.name if isinstance(how, exp.Literal) else "":
        case "0":
            return fill_template("TIMESTAMP_SECONDS(_1)", value)
        case "3":
            return fill_template("TIMESTAMP_MILLIS(CAST(_1 AS BIGINT))", value)
        case "6":
            return fill_template("TIMESTAMP_MICROS(CAST(_1 AS BIGINT))", value)
        case _:
            return fill_template("TIMESTAMP_SECONDS(_1 / POWER(10, _2))", value, how)


def _rewrite_truncate(node: exp.Expr) -> exp.Expr:
    """Rewrite TRUNCATE, which rounds towards zero. Spark returns a decimal, which is cast back to the number's type."""
    number = node.expressions[0]
    digits: exp.Expr = node.expressions[1] if len(node.expressions) > 1 else exp.Literal.number(0)
    written = isinstance(digits.this if isinstance(digits, exp.Neg) else digits, exp.Literal)
    template = "IF(_1 < 0, CEIL(_1, _2), FLOOR(_1, _2))" if written else _SHIFTED
    made = fill_template(template, number, digits)
    kind = operand_kind(node)
    if kind is None:
        return call(TYPE_OF, made, number.copy())
    return made if kind.startswith("DECIMAL") else exp.cast(made, kind)


_SHIFTED: Final = "SIGN(_1) * FLOOR(ABS(_1) * POWER(10, _2)) / POWER(10, _2)"
"""The template for a number of digits that is known only when the query runs."""


def _rewrite_array_sort(node: exp.Expr) -> exp.Expr:
    """Rewrite ARRAY_SORT, which puts nulls first in ascending order. The position of nulls is an argument."""
    array, *choices = node.expressions
    if len(choices) < 2 and all(isinstance(choice, exp.Boolean) for choice in choices):
        return call("SORT_ARRAY", *(a.copy() for a in node.expressions))
    if len(choices) == 1:
        choices *= 2
    return fill_template(
        "CASE WHEN _2 AND _3 THEN SORT_ARRAY(_1) WHEN _2 THEN ARRAY_SORT(_1) WHEN _3 THEN REVERSE(ARRAY_SORT(_1)) "
        "ELSE SORT_ARRAY(_1, FALSE) END",
        array,
        *choices,
    )


def _rewrite_map_union(node: exp.Expr) -> exp.Expr:
    """Rewrite MAP_UNION. Of two values for one key the later one wins."""
    made: exp.Expr = node.expressions[0].copy()
    for other in node.expressions[1:]:
        kept = "MAP_FILTER(_1, (k, v) -> NOT ARRAY_CONTAINS(MAP_KEYS(_2), k))"
        made = fill_template(f"MAP_CONCAT({kept}, _2)", made, other)
    return made


_BY_NAME: Final[Mapping[str, Rewrite]] = {
    **JSON_CALLS,
    "ARRAY_CONCAT": rename_call("CONCAT"),
    "ARRAY_SORT": _rewrite_array_sort,
    "ELT": _rewrite_elt,
    "MAP_UNION": _rewrite_map_union,
    "PRINTF": rename_call("FORMAT_STRING"),
    "ROW": rename_call("STRUCT"),
    "TO_TIMESTAMP_LTZ": _local_time,
    "TRUNCATE": _rewrite_truncate,
}
