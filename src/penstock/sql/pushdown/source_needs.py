"""The columns and rows of a source that the queries over it need."""

from collections.abc import Collection, Iterable
from typing import Final

from sqlglot import exp, parse_one

from penstock.sql.parse.dialects import SPARK, parse_spark

_DETERMINISTIC: Final = (
    exp.Column, exp.Identifier, exp.Dot, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Connector, exp.Not, exp.Neg,
    exp.Predicate, exp.In, exp.Between, exp.Lower, exp.Upper, exp.Coalesce,
)  # fmt: skip
"""Nodes with a deterministic result: a condition of them gives the same result whenever it is evaluated."""


def referenced_names(queries: Iterable[str]) -> frozenset[str] | None:
    """Return every name of a column, or of a part of one, in these Spark SQL queries, in lower case.

    Return None if the queries may refer to unnamed columns, or cannot be parsed.
    """
    names: set[str] = set()
    for sql in queries:
        tree = parse_spark(sql)
        if tree is None or any(map(_has_unnamed_columns, tree.find_all(exp.Star, exp.Join))):
            return None
        names.update(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    return frozenset(names)


def _has_unnamed_columns(part: exp.Expr) -> bool:
    return part.method == "NATURAL" if isinstance(part, exp.Join) else not isinstance(part.parent, exp.Count)


def restrict_condition(condition: str, names: Collection[str]) -> str | None:
    """Return the part of a condition in Spark SQL that uses only these columns; None if there is none."""
    whole = parse_one(condition, read=SPARK)
    parts = [
        part
        for part in (whole.flatten() if isinstance(whole, exp.And) else [whole])
        if part.find(exp.Column) and all(column.name.lower() in names for column in part.find_all(exp.Column))
    ]
    return exp.and_(*parts).sql(SPARK) if parts else None


def shared_condition(view: str, queries: Iterable[str]) -> str | None:
    """Return the condition, in Spark SQL, of the rows that these queries need from a view; None if they need all."""
    conditions: list[exp.Expr] = []
    for sql in queries:
        if (tree := parse_spark(sql)) is None:
            return None
        tables = [table for table in tree.find_all(exp.Table) if table.name == view]
        if not tables:
            continue
        condition = _where_condition(tree, tables[0])
        if len(tables) > 1 or condition is None:
            return None
        conditions.append(condition)
    return exp.or_(*conditions).sql(SPARK) if conditions else None


def _where_condition(tree: exp.Expr, table: exp.Table) -> exp.Expr | None:
    """Return the WHERE condition of a query over a single table; None if it has no deterministic one."""
    source, where = tree.args.get("from_"), tree.args.get("where")
    plain = isinstance(tree, exp.Select) and source is not None and source.this is table and not tree.args.get("joins")
    if not plain or where is None or not all(isinstance(part, _DETERMINISTIC) for part in where.this.walk()):
        return None
    condition: exp.Expr = where.this.copy()
    for column in condition.find_all(exp.Column):
        if column.table == table.alias_or_name and not column.args.get("db"):
            column.set("table", None)
    return condition
