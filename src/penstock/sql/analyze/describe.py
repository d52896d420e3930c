"""Describe generated Spark SQL for display."""

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.parse.dialects import PROJECT, SPARK
from penstock.sql.parse.query import Query, tables


def input_tables(sql: str) -> tuple[str, ...]:
    """Return the views that a statement reads, in order of appearance."""
    return tuple(table.name for table in tables(_spark_query(sql)))


def describe_outputs(sql: str, names: Sequence[str]) -> list[str]:
    """Describe the outputs with these names: a column by its name, other expressions as SQL."""
    made = {output.alias_or_name: output.unalias() for output in _spark_query(sql).tree.selects}
    return [_describe_expression(made[name]) if name in made else name for name in names]


def input_alias(sql: str) -> str | None:
    """Return the name of a statement's first table within the statement."""
    table = _spark_query(sql).tree.find(exp.From)
    return table.alias_or_name if table is not None else None


def _spark_query(sql: str) -> Query:
    return Query(sql, SPARK)


def _describe_expression(expression: exp.Expr) -> str:
    """Render an expression with plain column names, because its tables are internal views."""
    if isinstance(expression, exp.Column):
        return expression.name
    for column in list(expression.find_all(exp.Column)):
        column.replace(exp.column(column.name))
    return expression.sql(dialect=PROJECT)
