"""Event time that a view computes: its expression moves to the input, where Spark tracks event time."""

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.rewrite.translate import spark_text

COMPUTED_TIME: Final = "_event_time"
"""The input column with the event time that a view computes from the input."""


@dataclass(frozen=True, slots=True)
class ComputedTime:
    """The expression of an input's event time in Spark SQL, and the condition of the rows that have one."""

    made_of: str
    where: str | None


def has_computed_time(query: Query, column: str) -> bool:
    """Whether a query computes a column from single rows of one input."""
    return isinstance(query.tree, exp.Select) and _projection(query.tree, column) is not None


def move_time(tree: exp.Query, column: str) -> ComputedTime | None:
    """Make a query read the column from its input, and return the expression that computes it there.

    Return None if the column is not computed from single rows of one input; the tree is then unchanged.
    """
    found = _projection(tree, column) if isinstance(tree, exp.Select) else None
    if found is None:
        return None
    assert isinstance(tree, exp.Select)
    alias, where = tree.args["from_"].this.alias_or_name, tree.args.get("where")
    taken = ComputedTime(_render_sql(found.unalias(), alias), None if where is None else _render_sql(where.this, alias))
    found.replace(exp.alias_(exp.column(COMPUTED_TIME, quoted=True), column, quoted=True))
    for e in tree.expressions:
        star = e.this if isinstance(e, exp.Column) else e
        if isinstance(star, exp.Star):
            star.set("except_", [*(star.args.get("except_") or ()), exp.to_identifier(COMPUTED_TIME, quoted=True)])
    return taken


def _projection(tree: exp.Select, column: str) -> exp.Expr | None:
    memory = ("group", "distinct", "having", "joins", "laterals", "with_", "limit")
    source = tree.args.get("from_")
    if any(tree.args.get(name) for name in memory) or source is None or not isinstance(source.this, exp.Table):
        return None
    if tree.find(exp.Window, exp.AggFunc) is not None:
        return None
    named = (e for e in tree.expressions if not e.is_star and e.alias_or_name.casefold() == column.casefold())
    return next(named, None)


def _render_sql(made: exp.Expr, alias: str) -> str:
    """Render an expression as Spark SQL, with the column names of the input itself."""
    root = exp.Select(expressions=[exp.alias_(made.copy(), COMPUTED_TIME, quoted=True)])
    for column in list(root.find_all(exp.Column)):
        first, *rest = column.parts
        if rest and first.name.casefold() == alias.casefold():
            names = ("this", "table", "db")[: len(rest)]
            column.replace(exp.Column(**dict(zip(names, reversed(rest), strict=True))))
    return spark_text(root).removeprefix("SELECT ").removesuffix(f" AS `{COMPUTED_TIME}`")
