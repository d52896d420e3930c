"""Clauses of a query as text."""

from sqlglot import exp

from penstock.sql.query import Query


def is_plain_filter(query: Query) -> bool:
    """Whether the query is `SELECT *` from one table, with a condition or without."""
    tree = query.tree
    clauses = {name for name, value in tree.args.items() if value and name not in ("expressions", "from_", "where")}
    return isinstance(tree, exp.Select) and [e.is_star for e in tree.expressions] == [True] and clauses <= {"kind"}


def filter_text(query: Query) -> str | None:
    where = query.tree.args.get("where")
    return where.this.sql(query.dialect, comments=False) if where is not None else None
