"""The names that queries can refer to."""

from collections.abc import Collection, Iterable

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import SPARK


def referenced_names(queries: Iterable[str]) -> frozenset[str] | None:
    """Return every name of a column, or of a part of one, in these Spark SQL queries, in lower case.

    Return None if the queries may refer to unnamed columns, or cannot be parsed.
    """
    names: set[str] = set()
    for sql in queries:
        try:
            tree = parse_one(sql, read=SPARK)
        except (SqlglotError, RecursionError):
            return None
        if any(map(_has_unnamed_columns, tree.find_all(exp.Star, exp.Join))):
            return None
        names.update(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    return frozenset(names)


def restrict_condition(condition: str, names: Collection[str]) -> str | None:
    """Return the part of a condition in Spark SQL that uses only these columns; None if there is none."""
    whole = parse_one(condition, read=SPARK)
    parts = [
        part
        for part in (whole.flatten() if isinstance(whole, exp.And) else [whole])
        if part.find(exp.Column) and all(column.name.lower() in names for column in part.find_all(exp.Column))
    ]
    return exp.and_(*parts).sql(SPARK) if parts else None


def _has_unnamed_columns(part: exp.Expression) -> bool:
    match part:
        case exp.Join():
            return part.method == "NATURAL"
        case _:
            return not isinstance(part.parent, exp.Count)
