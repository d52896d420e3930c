"""Views of the latest row of each key that are read as of a time: every row that arrived is then a version."""

from collections.abc import Collection, Mapping

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.stateful.top_n import find_top_n


def versioned_tables(query: Query) -> frozenset[str]:
    """Return the tables that a query only reads as of a time."""
    tables = list(query.tree.find_all(exp.Table))
    plain = {table.name for table in tables if table.args.get("version") is None}
    return frozenset(table.name for table in tables) - plain


def read_all_versions(tree: exp.Query, times: Mapping[str, Collection[str]]) -> None:
    """Make a view of the latest row of each key by event time emit every row: the join selects the valid one.

    Numbering the rows first would leave only the last version of each batch. `times` has the event time columns of each
    table.
    """
    found = find_top_n(tree) if isinstance(tree, exp.Select) else None
    if found is None or found.limit != 1 or tree.args.get("joins") or found.split(tree.args["where"].this)[1]:
        return
    inner = found.inner
    memory = any(inner.args.get(name) for name in ("group", "distinct", "joins"))
    order = found.window.args.get("order")
    by = order.expressions if order is not None else []
    table = inner.args["from_"].this
    if memory or len(by) != 1 or not isinstance(table, exp.Table) or not by[0].args.get("desc"):
        return
    if not isinstance(by[0].this, exp.Column) or by[0].this.name.casefold() not in times.get(table.name, ()):
        return
    found.window.replace(exp.cast(exp.Literal.number(1), "BIGINT"))
