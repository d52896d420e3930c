"""Which rows of a stream somebody reads."""

from collections.abc import Iterable
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import SPARK

_SURE: Final = (
    exp.Column,
    exp.Identifier,
    exp.Dot,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Connector,
    exp.Not,
    exp.Neg,
    exp.Predicate,
    exp.In,
    exp.Between,
    exp.Lower,
    exp.Upper,
    exp.Coalesce,
)
"""Of these, a row meets a condition always or never: whoever asks, and however often."""


def shared_condition(view: str, queries: Iterable[str]) -> str | None:
    """What rows of a view meet if one of these queries, in Spark SQL, wants them; None if all may be wanted."""
    conditions: list[exp.Expr] = []
    for sql in queries:
        try:
            tree = parse_one(sql, read=SPARK)
        except (SqlglotError, RecursionError):
            return None
        tables = [table for table in tree.find_all(exp.Table) if table.name == view]
        if not tables:
            continue
        condition = _condition(tree, tables[0])
        if len(tables) > 1 or condition is None:
            return None
        conditions.append(condition)
    return exp.or_(*conditions).sql(SPARK) if conditions else None


def _condition(tree: exp.Expr, table: exp.Table) -> exp.Expr | None:
    """What a query asks of every row of its only table."""
    source, where = tree.args.get("from_"), tree.args.get("where")
    plain = isinstance(tree, exp.Select) and source is not None and source.this is table and not tree.args.get("joins")
    if not plain or where is None or not all(isinstance(part, _SURE) for part in where.this.walk()):
        return None
    condition: exp.Expr = where.this.copy()
    for column in condition.find_all(exp.Column):
        if column.table == table.alias_or_name and not column.args.get("db"):
            column.set("table", None)
    return condition
