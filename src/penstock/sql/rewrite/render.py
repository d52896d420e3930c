"""Render queries and their clauses as text for display and for other systems, and describe generated Spark SQL."""

from collections.abc import Sequence

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import PROJECT, SPARK
from penstock.sql.parse.query import Query, tables
from penstock.sql.rewrite.translate import to_spark


def is_plain_filter(query: Query) -> bool:
    """Whether a query is `SELECT *` from one table, with or without a condition on single rows."""
    tree = query.tree
    if len(list(tree.find_all(exp.Select))) != 1:
        return False
    clauses = {name for name, value in tree.args.items() if value and name not in ("expressions", "from_", "where")}
    plain = isinstance(tree, exp.Select) and [e.is_star for e in tree.expressions] == [True] and clauses <= {"kind"}
    return plain and isinstance(tree.args["from_"].this, exp.Table)


def spark_condition(query: Query) -> str | None:
    """Return the WHERE condition of a query in Spark SQL; None if it has none."""
    where = parse_one(to_spark(query), read=SPARK).args.get("where")
    return where.this.sql(SPARK, comments=False) if where is not None else None


def spark_literal(value: object) -> str:
    """Render a Python value as a Spark SQL literal."""
    return exp.convert(value).sql(SPARK)


def format_sql(sql: str) -> str:
    """Format Spark SQL with line breaks and indentation. SQL that cannot be parsed stays unchanged."""
    try:
        return parse_one(sql, read=SPARK).sql(SPARK, pretty=True)
    except (SqlglotError, RecursionError):
        return sql


def input_tables(sql: str) -> tuple[str, ...]:
    """Return the views that a statement reads, in order of appearance."""
    return tuple(table.name for table in tables(Query(sql, SPARK)))


def describe_outputs(sql: str, names: Sequence[str]) -> list[str]:
    """Describe the outputs with these names: a column by its name, other expressions as SQL."""
    made = {output.alias_or_name: output.unalias() for output in Query(sql, SPARK).tree.selects}
    return [_describe_expression(made[name]) if name in made else name for name in names]


def input_alias(sql: str) -> str | None:
    """Return the name of a statement's first table within the statement."""
    table = Query(sql, SPARK).tree.find(exp.From)
    return table.alias_or_name if table is not None else None


def _describe_expression(expression: exp.Expr) -> str:
    """Render an expression with plain column names, because its tables are internal views."""
    if isinstance(expression, exp.Column):
        return expression.name
    for column in list(expression.find_all(exp.Column)):
        column.replace(exp.column(column.name))
    return expression.sql(dialect=PROJECT)
