"""The keys and aggregate calls of a SELECT with GROUP BY, for an operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import AggregateCall
from penstock.sql.catalog.function_names import is_group_aggregate, written_name
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.calls import avg_expression, name_argument
from penstock.sql.stateful.qualify import internal_column
from penstock.sql.stateful.stages import UnsupportedStream

_FUNCTIONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.AnyValue: "first", exp.ArrayAgg: "list", exp.First: "first", exp.FirstValue: "first", exp.Last: "last",
    exp.LastValue: "last", exp.LogicalAnd: "min", exp.LogicalOr: "max", exp.Max: "max", exp.Min: "min", exp.Sum: "sum",
}  # fmt: skip


@dataclass(slots=True)
class GroupCalls:
    """The keys of a SELECT, its aggregate calls without duplicates, and the columns that they aggregate."""

    keys: list[exp.Expr]
    windowed: bool
    calls: list[AggregateCall] = field(default_factory=list)
    arguments: dict[str, exp.Expr] = field(default_factory=dict)
    in_order: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the keys in the operator's output."""
        return [f"_k{place}" for place in range(len(self.keys))]

    def named_keys(self) -> list[tuple[exp.Expr, str]]:
        return list(zip(self.keys, self.names, strict=True))

    def output(self, projection: exp.Expr) -> exp.Expr:
        return exp.alias_(self.lift_expression(projection.unalias()), projection.alias_or_name, quoted=True)

    def lift_expression(self, node: exp.Expr) -> exp.Expr:
        """Rewrite an expression over the operator's output: keys and calls are replaced by their names."""
        for key, name in self.named_keys():
            if node == key:
                return internal_column(name)
        if isinstance(node, exp.IgnoreNulls) and is_group_aggregate(node.this):
            return self._replace_call(node.this, None)
        if isinstance(node, exp.Filter):
            inner = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
            return self._replace_call(inner, node.expression.this)
        if is_group_aggregate(node):
            return self._replace_call(node, None)
        lifted = node.copy()
        for name, child in list(lifted.args.items()):
            if isinstance(child, exp.Expr):
                lifted.set(name, self.lift_expression(child))
            elif isinstance(child, list):
                lifted.set(name, [self.lift_expression(c) if isinstance(c, exp.Expr) else c for c in child])
        if isinstance(node, exp.Column):
            raise UnsupportedStream(f"`{lifted.name}` beside GROUP BY", node, "group by it, or aggregate it")
        return lifted

    def _replace_call(self, node: exp.Expr, only: exp.Expr | None) -> exp.Expr:
        """Return the replacement of an aggregate after the operator. `only` is the condition of its FILTER."""
        argument = node.this if not isinstance(node, exp.Anonymous) else node.expressions[0]
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) > 1:
                raise UnsupportedStream("DISTINCT over several columns", node, "count a CONCAT_WS of them")
            argument = argument.expressions[0]
        match node:
            case exp.Count() if isinstance(argument, exp.Star) or (isinstance(argument, exp.Literal) and not distinct):
                return self._call("count", None if only is None else exp.Literal.number(1), only, distinct)
            case exp.Count():
                return self._call("count", argument, only, distinct)
            case exp.CountIf():
                return self._call("count", exp.Literal.number(1), argument, False)
            case exp.Avg():
                total = self._call("sum", argument, only, distinct)
                return avg_expression(node, total, self._call("count", argument, only, distinct))
            case exp.GroupConcat():
                listed = self._call("list", exp.cast(argument, "string"), only, distinct)
                separator = node.args.get("separator") or exp.Literal.string(",")
                return exp.Case().when(call("size", listed) > 0, call("array_join", listed.copy(), separator.copy()))
        name = written_name(node)
        function = "list" if name == "COLLECT" else _FUNCTIONS.get(type(node))
        if function is not None:
            return self._call(function, argument, only, distinct and function in ("sum", "list"))
        if self.windowed:
            hint = "read the rows through a model whose `event_time` sets neither that nor `late`"
            raise UnsupportedStream(f"{name} in a window with `allowed_lateness_ms`", node, hint)
        raise UnsupportedStream(f"{name} without a window", node, "aggregate in a window: TUMBLE, HOP or SESSION")

    def _call(self, function: str, argument: exp.Expr | None, only: exp.Expr | None, distinct: bool) -> exp.Expr:
        self.in_order |= function in ("first", "last", "list")
        if argument is not None and only is not None:
            argument = exp.Case().when(only.copy(), argument.copy())
        column = None if argument is None else name_argument(self.arguments, argument)
        for known in self.calls:
            if (known.function, known.argument, known.distinct) == (function, column, distinct):
                return internal_column(known.name)
        added = AggregateCall(f"_c{len(self.calls)}", function, column, distinct)  # type: ignore[arg-type]
        self.calls.append(added)
        return internal_column(added.name)
