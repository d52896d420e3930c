"""From the tree that people wrote to the text that Spark runs: a tuple of small rules."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from penstock.sql.dialects import PROJECT, SPARK
from penstock.sql.query import Query
from penstock.sql.rewriting import flink_functions

OPERATION: Final = "_gs_op"
"""The column that tells inserts, updates and deletes apart in a pipeline: `i`, `u`, `d`."""

Rule = Callable[[exp.Query], exp.Query]


def name_projections(tree: exp.Query) -> exp.Query:
    """An output without a name is called by its place, counted from 0 and before stars are expanded."""
    for query in tree.find_all(exp.Select):
        for position, projection in enumerate(query.expressions):
            if not projection.is_star and not projection.output_name:
                projection.replace(exp.alias_(projection.copy(), f"_col_{position}"))
    return tree


def group_windows(tree: exp.Query) -> exp.Query:
    """`TUMBLE(t, INTERVAL '1' HOUR)` and its `_START`, `_END`, `_ROWTIME` become Spark's `window(t, '1 hour')`."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Anonymous):
            return node
        name, _, part = node.name.upper().partition("_")
        call = _spark_window(name, node.expressions)
        match part:
            case _ if call is None:
                return node
            case "":
                return call
            case "START" | "END":
                return exp.Dot(this=call, expression=exp.to_identifier(part.lower()))
            case "ROWTIME":
                end = exp.Dot(this=call, expression=exp.to_identifier("end"))
                return exp.Sub(
                    this=end,
                    expression=exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MILLISECOND")),
                )
            case _:
                return node

    rewritten = tree.transform(rewrite, copy=False)
    assert isinstance(rewritten, exp.Query)
    return rewritten


RULES: Final[tuple[Rule, ...]] = (name_projections, flink_functions, group_windows)


def to_spark(query: Query) -> str:
    tree = query.take_tree()
    for rule in RULES:
        if query.dialect is PROJECT or rule is not flink_functions:
            tree = rule(tree)
    return tree.sql(SPARK, identify=True, comments=False)


def carry_operation(query: Query) -> Query:
    """The query with `_gs_op` among its outputs: appended where a projection leaves it out, never twice."""

    def edit(tree: exp.Query) -> exp.Query:
        local = {cte.alias.casefold(): cte.this for cte in tree.find_all(exp.CTE)}
        _append_operation(tree, local, set())
        return tree

    return query.edited(edit)


def _operation_place(node: exp.Expr) -> int | None:
    """Where a query names the operation itself, counted in outputs."""
    names = [name.casefold() for name in node.named_selects] if isinstance(node, exp.Query) else []
    return names.index(OPERATION) if OPERATION in names else None


def _append_operation(node: exp.Expr, local: dict[str, exp.Expr], done: set[int], place: int | None = None) -> None:
    """Add the operation to the outputs, at the end or at `place`, where the other side of a UNION has it."""
    if id(node) in done:
        return
    done.add(id(node))
    match node:
        case exp.SetOperation():
            given = _operation_place(node.left), _operation_place(node.right)
            place = next((p for p in (place, *given) if p is not None), None)
            _append_operation(node.left, local, done, place)
            _append_operation(node.right, local, done, place)
        case exp.Subquery():
            _append_operation(node.this, local, done)
        case exp.Select():
            origin = node.args.get("from_")
            if origin is None:
                return
            match origin.this:
                case exp.Subquery() as inner:
                    _append_operation(inner, local, done)
                case exp.Table() as table if table.name.casefold() in local and not table.db:
                    _append_operation(local[table.name.casefold()], local, done)
                case _:
                    pass
            present = any(e.is_star or e.output_name.casefold() == OPERATION for e in node.expressions)
            if not present:
                column = exp.column(OPERATION, table=origin.this.alias_or_name or None, quoted=True)
                outputs = list(node.expressions)
                outputs.insert(len(outputs) if place is None else place, column)
                node.set("expressions", outputs)
        case _:
            pass


_INTERVAL_UNITS: Final = frozenset({"MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"})


def _spark_window(name: str, arguments: list[exp.Expr]) -> exp.Expr | None:
    match name, arguments:
        case "TUMBLE", [time, size]:
            return _window("window", time, size)
        case "HOP", [time, slide, size]:
            return _window("window", time, size, slide)
        case "SESSION", [time, gap]:
            return _window("session_window", time, gap)
        case _:
            return None


def _window(function: str, time: exp.Expr, *spans: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[time.copy(), *(_span(s) for s in spans)])


def _span(interval: exp.Expr) -> exp.Expr:
    """`INTERVAL '15' MINUTE` as the text that Spark's window functions take."""
    if isinstance(interval, exp.Interval) and interval.unit is not None:
        unit = interval.unit.name.upper().removesuffix("S")
        if unit in _INTERVAL_UNITS:
            return exp.Literal.string(f"{interval.this.name} {unit.lower()}")
    return interval.copy()
