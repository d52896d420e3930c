"""Forms of the first rows of a partition: others become a subquery with a condition, and one is read as versions."""

from collections.abc import Collection, Mapping

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.stateful.relations import inline_chosen_ctes
from penstock.sql.stateful.select import combine_conditions
from penstock.sql.stateful.top_n import TopNQuery, find_top_n


def normalize_top_n(tree: exp.Expr) -> None:
    """Rewrite every numbering of rows to one form."""
    inline_chosen_ctes(tree, lambda cte, _: _has_row_number(cte.this))
    for select in list(tree.find_all(exp.Select)):
        if select.args.get("qualify") is not None:
            _rewrite_qualify(select)


def _rewrite_qualify(select: exp.Select) -> None:
    """Rewrite QUALIFY as WHERE around a subquery."""
    qualify = select.args["qualify"]
    inner = exp.Select()
    for name, value in list(select.args.items()):
        if name not in {"qualify", "with_"}:
            select.set(name, None)
            inner.set(name, value)
    condition = qualify.this
    added: list[exp.Expr] = []
    select.set("qualify", None)
    known = {e.this: e.alias for e in inner.expressions if isinstance(e, exp.Alias) and isinstance(e.this, exp.Window)}
    holder = exp.Where(this=condition)
    for window in list(holder.find_all(exp.Window)):
        if window not in known:
            known[window.copy()] = f"_q{len(added)}"
            added.append(exp.alias_(window.copy(), f"_q{len(added)}"))
        window.replace(exp.column(known[window], quoted=True))
    names = [exp.to_identifier(e.alias, quoted=True) for e in added]
    if any(e.is_star for e in inner.expressions):
        outputs: list[exp.Expr] = [exp.Star(except_=names) if names else exp.Star()]
    else:
        outputs = [exp.column(e.alias_or_name, quoted=True) for e in inner.expressions]
    inner.set("expressions", [*inner.expressions, *added])
    select.set("expressions", outputs)
    select.set("from_", exp.From(this=inner.subquery("_t0", copy=False)))
    select.set("where", holder)


def isolate_top_n(select: exp.Select, found: TopNQuery) -> None:
    """Move joined first rows into a subquery of their own."""
    subquery, where = select.args["from_"].this, select.args["where"]
    limits, rest = found.split(where.this)
    alias = exp.TableAlias(this=exp.to_identifier(subquery.alias or "_t0", quoted=True))
    subquery.set("alias", alias)
    alone = exp.Select(expressions=[exp.Star()], from_=exp.From(this=subquery), where=combine_conditions(limits))
    select.set("from_", exp.From(this=exp.Subquery(this=alone, alias=alias.copy())))
    select.set("where", combine_conditions(rest))


def _has_row_number(query: exp.Expr) -> bool:
    """Whether a CTE numbers its rows. It must be inlined where it is read, to find the limit on the number."""
    outputs = [e.unalias() for e in query.expressions] if isinstance(query, exp.Select) else []
    return any(isinstance(e, exp.Window) and isinstance(e.this, exp.RowNumber) for e in outputs)


# Versions


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
