"""The keys and aggregate calls of a SELECT with GROUP BY, for an operator."""

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.keyed.operators import AggregateCall
from penstock.sql.catalog.function_names import is_group_aggregate, written_name
from penstock.sql.stateful.avg import avg_expression
from penstock.sql.stateful.qualify import internal_column
from penstock.sql.stateful.stages import UnsupportedStream


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
            return self.taken(node.this, None)
        if isinstance(node, exp.Filter):
            inner = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
            return self.taken(inner, node.expression.this)
        if is_group_aggregate(node):
            return self.taken(node, None)
        lifted = node.copy()
        for name, child in list(lifted.args.items()):
            if isinstance(child, exp.Expr):
                lifted.set(name, self.lift_expression(child))
            elif isinstance(child, list):
                lifted.set(name, [self.lift_expression(c) if isinstance(c, exp.Expr) else c for c in child])
        if isinstance(node, exp.Column):
            raise UnsupportedStream(f"`{lifted.name}` beside GROUP BY", node, "group by it, or aggregate it")
        return lifted

    def taken(self, node: exp.Expr, only: exp.Expr | None) -> exp.Expr:
        """Return the replacement of an aggregate after the operator."""
        argument = node.this if not isinstance(node, exp.Anonymous) else node.expressions[0]
        distinct = isinstance(argument, exp.Distinct)
        if distinct:
            if len(argument.expressions) > 1:
                raise UnsupportedStream("DISTINCT over several columns", node, "count a CONCAT_WS of them")
            argument = argument.expressions[0]
        match node:
            case exp.Count():
                if isinstance(argument, exp.Star) or (isinstance(argument, exp.Literal) and not distinct):
                    return self._call("count", None if only is None else exp.Literal.number(1), only, distinct)
                return self._call("count", argument, only, distinct)
            case exp.CountIf():
                return self._call("count", exp.Literal.number(1), argument, False)
            case exp.Sum():
                return self._call("sum", argument, only, distinct)
            case exp.Min() | exp.LogicalAnd():
                return self._call("min", argument, only, False)
            case exp.Max() | exp.LogicalOr():
                return self._call("max", argument, only, False)
            case exp.Avg():
                total = self._call("sum", argument, only, distinct)
                return avg_expression(node, total, self._call("count", argument, only, distinct))
            case exp.First() | exp.FirstValue() | exp.AnyValue():
                return self._ordered_call("first", argument, only)
            case exp.Last() | exp.LastValue():
                return self._ordered_call("last", argument, only)
            case exp.GroupConcat():
                listed = self._ordered_call("list", exp.cast(argument, "string"), only, distinct)
                separator = node.args.get("separator") or exp.Literal.string(",")
                some = exp.Anonymous(this="size", expressions=[listed]) > 0
                joined = exp.Anonymous(this="array_join", expressions=[listed.copy(), separator.copy()])
                return exp.Case().when(some, joined)
            case exp.ArrayAgg():
                return self._ordered_call("list", argument, only, distinct)
            case exp.Anonymous() if written_name(node) == "COLLECT":
                return self._ordered_call("list", argument, only, distinct)
            case _:
                name = written_name(node)
                if self.windowed:
                    way_out = "read the rows through a model whose `event_time` sets neither that nor `late`"
                    raise UnsupportedStream(f"{name} in a window with `allowed_lateness_ms`", node, way_out)
                raise UnsupportedStream(
                    f"{name} without a window", node, "aggregate in a window: TUMBLE, HOP or SESSION"
                )

    def _ordered_call(
        self, function: str, argument: exp.Expr, only: exp.Expr | None, distinct: bool = False
    ) -> exp.Expr:
        self.in_order = True
        return self._call(function, argument, only, distinct)

    def _call(self, function: str, argument: exp.Expr | None, only: exp.Expr | None, distinct: bool) -> exp.Expr:
        column = None if argument is None else self._argument(argument, only)
        for call in self.calls:
            if (call.function, call.argument, call.distinct) == (function, column, distinct):
                return internal_column(call.name)
        call = AggregateCall(f"_c{len(self.calls)}", function, column, distinct)  # type: ignore[arg-type]
        self.calls.append(call)
        return internal_column(call.name)

    def _argument(self, argument: exp.Expr, only: exp.Expr | None) -> str:
        taken = argument.copy() if only is None else exp.Case().when(only.copy(), argument.copy())
        for name, known in self.arguments.items():
            if known == taken:
                return name
        name = f"_a{len(self.arguments)}"
        self.arguments[name] = taken
        return name
