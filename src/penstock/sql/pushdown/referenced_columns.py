"""Which names a query can mean at all."""

from collections.abc import Collection, Iterable

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.parse.dialects import SPARK


def referenced_names(queries: Iterable[str]) -> frozenset[str] | None:
    """Every name of a column, or of a part of one, in these queries of Spark SQL, in lower case.

    None if they may mean others that they do not name, or cannot be read back.
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
    """What of a condition in Spark SQL is asked of these columns alone; None if nothing is."""
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
