"""From the tree that people wrote to the text that Spark runs: a tuple of small rules."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import OP
from penstock.sql.dialects import PROJECT, SPARK
from penstock.sql.query import Query
from penstock.sql.rewriting import flink_functions, pipeline_functions
from penstock.sql.spark_windows import spark_windows
from penstock.sql.windows import follow

Rule = Callable[[exp.Query], exp.Query]


def name_projections(tree: exp.Query) -> exp.Query:
    """An output without a name is called by its place, counted from 0 and before stars are expanded."""
    for query in tree.find_all(exp.Select):
        for position, projection in enumerate(query.expressions):
            if not projection.is_star and not projection.output_name:
                projection.replace(exp.alias_(projection.copy(), f"_col_{position}"))
    return tree


RULES: Final[tuple[Rule, ...]] = (name_projections, flink_functions)
PIPELINE_RULES: Final[tuple[Rule, ...]] = (name_projections, pipeline_functions)


def to_spark(query: Query, time: str | None = None) -> str:
    return spark_text(query.take_tree(), time, RULES if query.dialect is PROJECT else PIPELINE_RULES)


def needs_time(tree: exp.Query) -> bool:
    """Whether Spark itself goes by event time in a query because of its windows."""
    return bool(follow(tree).made)


def spark_text(tree: exp.Query, time: str | None = None, rules: tuple[Rule, ...] = RULES) -> str:
    """The tree, which is used up, as Spark SQL. `time` is an output that is to stay event time for readers."""
    for rule in rules:
        tree = rule(tree)
    tree = spark_windows(tree, time)
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
    return names.index(OP) if OP in names else None


def _has_operation(projection: exp.Expr) -> bool:
    """Whether an output is the operation, or all columns with it."""
    if not projection.is_star:
        return projection.output_name.casefold() == OP
    star = projection.find(exp.Star)
    left_out = (star.args.get("except_") or star.args.get("except") or []) if star is not None else []
    return OP not in {column.name.casefold() for column in left_out}


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
            present = any(_has_operation(e) for e in node.expressions)
            if not present:
                column = exp.column(OP, table=origin.this.alias_or_name or None, quoted=True)
                outputs = list(node.expressions)
                outputs.insert(len(outputs) if place is None else place, column)
                node.set("expressions", outputs)
        case _:
            pass
