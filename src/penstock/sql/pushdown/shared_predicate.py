"""The rows of a stream that its readers need."""

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
"""Nodes with a deterministic result: a condition of them gives the same result whenever it is evaluated."""


def shared_condition(view: str, queries: Iterable[str]) -> str | None:
    """Return the condition, in Spark SQL, of the rows that these queries need from a view; None if they need all."""
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
    """Return the WHERE condition of a query over a single table; None if it has no deterministic one."""
    source, where = tree.args.get("from_"), tree.args.get("where")
    plain = isinstance(tree, exp.Select) and source is not None and source.this is table and not tree.args.get("joins")
    if not plain or where is None or not all(isinstance(part, _SURE) for part in where.this.walk()):
        return None
    condition: exp.Expr = where.this.copy()
    for column in condition.find_all(exp.Column):
        if column.table == table.alias_or_name and not column.args.get("db"):
            column.set("table", None)
    return condition
