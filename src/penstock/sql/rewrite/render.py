"""Render queries and their clauses as text for display and for other systems."""

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.query import Query
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
