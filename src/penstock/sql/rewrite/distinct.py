"""Replace DISTINCT in windowed aggregates, which Spark refuses in a stream, by functions over the set of values."""

from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import set_kind
from penstock.sql.rewrite.templates import call
from penstock.sql.types.columns import data_type
from penstock.sql.types.flink_inference import WHOLE

_LISTS: Final = ("COLLECT", "COLLECT_LIST")
"""Functions that collect lists, as written and as translated."""


def distinct_aggregates(select: exp.Select) -> list[exp.Expr]:
    """Return the aggregates over distinct values in this SELECT, without those in nested ones."""
    found = (a for a in select.find_all(exp.AggFunc, exp.Anonymous) if _distinct_values(a))
    return [a for a in found if a.parent_select is select]


def _distinct_values(aggregate: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of DISTINCT in an aggregate."""
    given = aggregate.expressions[:1] if isinstance(aggregate, exp.Anonymous) else [aggregate.this]
    return [value for argument in given if isinstance(argument, exp.Distinct) for value in argument.expressions]


def can_expand_distinct(aggregate: exp.Expr) -> bool:
    """Whether an aggregate can be rewritten. A sum needs a type that is visible in the SQL."""
    match aggregate:
        case exp.Count() | exp.Min() | exp.Max() | exp.GroupConcat() | exp.ArrayAgg():
            return True
        case exp.Anonymous():
            return aggregate.name.upper() in _LISTS
        case exp.Sum() | exp.Avg():
            return _sum_type(aggregate) is not None
        case _:
            return False


def expand_distinct(select: exp.Select) -> None:
    for aggregate in distinct_aggregates(select):
        values = _distinct_values(aggregate)
        whole = aggregate.parent if isinstance(aggregate.parent, exp.Filter) else aggregate
        if isinstance(aggregate, exp.Min | exp.Max):
            aggregate.set("this", values[0])
        elif can_expand_distinct(aggregate):
            found: exp.Expr = call("COLLECT_SET", _combine_values(values))
            if isinstance(whole, exp.Filter):
                found = exp.Filter(this=found, expression=whole.expression.copy())
            whole.replace(_aggregate_set(aggregate, found))


def _combine_values(values: list[exp.Expr]) -> exp.Expr:
    """Combine several values into a struct; null if one of them is null. A single value stays as it is."""
    if len(values) == 1:
        return values[0].copy()
    nothing = exp.or_(*(value.copy().is_(exp.null()) for value in values))
    return exp.If(this=nothing, true=exp.null(), false=call("STRUCT", *(value.copy() for value in values)))


def _aggregate_set(aggregate: exp.Expr, values: exp.Expr) -> exp.Expr:
    match aggregate:
        case exp.Count():
            return exp.cast(call("SIZE", values.copy()), data_type("BIGINT").copy())
        case exp.GroupConcat():
            separator = aggregate.args.get("separator") or exp.Literal.string(",")
            some = exp.GT(this=call("SIZE", values.copy()), expression=exp.Literal.number(0))
            return exp.If(this=some, true=call("ARRAY_JOIN", values.copy(), separator.copy()), false=exp.null())
        case exp.ArrayAgg() | exp.Anonymous():
            return values
        case _:
            return _sum_values(aggregate, values)


def _sum_values(aggregate: exp.Expr, values: exp.Expr) -> exp.Expr:
    """Build the sum or the average of a set of values; null if the set is empty."""
    kind = _sum_type(aggregate)
    assert kind is not None
    zero = exp.cast(exp.Literal.number(0), kind.copy())
    added = exp.cast(exp.Add(this=exp.column("s"), expression=exp.column("x")), kind.copy())
    step = exp.Lambda(this=added, expressions=[exp.to_identifier("s"), exp.to_identifier("x")])
    result: exp.Expr = call("AGGREGATE", values.copy(), zero, step)
    count = call("SIZE", values.copy())
    if isinstance(aggregate, exp.Avg):
        result = set_kind(exp.Div(this=result, expression=count.copy()), "DOUBLE")
        if kind.this is exp.DType.DECIMAL:
            precision, scale = (int(part.name) for part in kind.expressions)
            result = exp.cast(result, data_type(f"DECIMAL({min(precision - 6, 38)}, {scale + 4})").copy())
    some = exp.GT(this=count, expression=exp.Literal.number(0))
    return exp.If(this=some, true=result, false=exp.null())


def _sum_type(aggregate: exp.Expr) -> exp.DataType | None:
    """Return the type in which Spark sums the values of a CAST; None for other values."""
    values = _distinct_values(aggregate)
    kind = values[0].to if len(values) == 1 and isinstance(values[0], exp.Cast) else None
    if kind is None:
        return None
    if kind.this in WHOLE:
        return data_type("BIGINT" if isinstance(aggregate, exp.Sum) else "DOUBLE")
    if kind.this in (exp.DType.FLOAT, exp.DType.DOUBLE):
        return data_type("DOUBLE")
    if kind.this is exp.DType.DECIMAL and len(kind.expressions) == 2:
        precision, scale = (int(part.name) for part in kind.expressions)
        return data_type(f"DECIMAL({precision + 10}, {scale})") if precision <= 28 else None
    return None
