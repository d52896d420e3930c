"""Append a column of a query's input to its outputs."""

from typing import Final

from sqlglot import exp

from penstock.sql.lint.keys import is_nondeterministic
from penstock.sql.parse.dialects import SPARK, parse_spark

_MORE: Final = ("joins", "laterals", "pivots", "group", "having", "qualify", "distinct", "limit", "offset")
_OF_MANY: Final = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Query)
_MAKE_ROWS: Final = ("INLINE_OUTER", "STACK", "JSON_TUPLE")
"""Functions that make several rows of one, and have no class of their own."""


def append_column(sql: str, column: str) -> str | None:
    """Append a column of the query's only table to its outputs, in Spark SQL.

    Return None unless each output row is made of exactly one row of that table, no two output rows of the same one, and
    the same ones in every run. Unknown functions are not excluded, although they may aggregate rows.
    """
    tree = parse_spark(sql)
    return tree.sql(dialect=SPARK) if tree is not None and _append_to_query(tree, column, {}) else None


def _append_to_query(query: object, column: str, named: dict[str, object]) -> bool:
    """Append the column to a query and to the queries that it reads. `named` are the CTEs that are not read yet."""
    if not isinstance(query, exp.Select) or any(query.args.get(part) for part in _MORE):
        return False
    own = [*query.expressions, *filter(None, (query.args.get("where"),))]
    if any(map(_is_unpredictable, (part for each in own for part in each.walk()))):
        return False
    named = {**named, **{each.alias.lower(): each.this for each in query.ctes}}
    if not any(projection.is_star for projection in query.expressions):
        query.select(exp.column(column, quoted=True), copy=False)
    source = query.args.get("from_")
    match source.this if source is not None else None:
        case exp.Table() as table if not any(table.args.get(part) for part in _MORE):
            inner = None if table.args.get("db") else named.pop(table.name.lower(), None)
            return inner is None or _append_to_query(inner, column, named)
        case exp.Subquery() as inner if not any(inner.args.get(part) for part in _MORE):
            return _append_to_query(inner.this, column, named)
        case _:
            return False


def _is_unpredictable(part: exp.Expr) -> bool:
    """Whether a node makes it impossible to tell from the SQL which input row an output row is made of."""
    makes_rows = isinstance(part, exp.Anonymous) and part.name.upper() in _MAKE_ROWS
    return isinstance(part, _OF_MANY) or makes_rows or is_nondeterministic(part)
