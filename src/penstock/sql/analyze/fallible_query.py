"""Find the fallible expressions of a whole query, in terms of the rows that it reads."""

from collections.abc import Mapping

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from penstock.sql.analyze.fallible import fallible_expressions
from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.query import PARSER_FAILURES


def find_fallible(
    view: str, steps: Mapping[str, str], inputs: Mapping[str, tuple[str, ...]], functions: frozenset[str] = frozenset()
) -> dict[str, tuple[str, ...]]:
    """Return by input the expressions over its rows that could fail on the way to a view.

    `steps` has the Spark SQL of each view, `inputs` the columns of each input. Calls of `functions` are skipped. The
    result is empty if the SQL cannot be analyzed.
    """
    try:
        tree = _combine_query(view, {name: parse_one(sql, read=SPARK) for name, sql in steps.items()})
        return {} if tree is None else fallible_expressions(tree, inputs, functions, lambda select: select)
    except (SqlglotError, RecursionError, *PARSER_FAILURES):
        return {}


def _combine_query(view: str, steps: Mapping[str, exp.Expr]) -> exp.Query | None:
    """Combine a view's query with the queries that it reads from, as CTEs under their names."""
    tree = steps.get(view)
    if not isinstance(tree, exp.Query):
        return None
    needed = _upstream_steps(view, steps)
    for name in [view, *needed]:
        _rename_ctes(steps[name], name)
    for name in needed:
        tree = tree.with_(exp.to_identifier(name, quoted=True), as_=steps[name], copy=False)
    return tree


def _upstream_steps(view: str, steps: Mapping[str, exp.Expr]) -> list[str]:
    """Return the other steps that a view is made of."""
    found: dict[str, None] = {}
    waiting = [view]
    while waiting:
        names = {table.name for table in steps[waiting.pop()].find_all(exp.Table) if not table.db}
        waiting += (new := [name for name in steps if name in names and name not in found])
        found |= dict.fromkeys(new)
    return list(found)


def _rename_ctes(tree: exp.Expr, view: str) -> None:
    """Rename the CTEs of a query so that their names are unique across queries."""
    names = {cte.alias.casefold(): f"{view}/{cte.alias}" for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        new = None if table.db else names.get(table.name.casefold())
        if new is not None:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(new, quoted=True))
    for cte in tree.find_all(exp.CTE):
        cte.args["alias"].set("this", exp.to_identifier(names[cte.alias.casefold()], quoted=True))
