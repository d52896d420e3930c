"""Expressions of GROUP BY that a query uses again after grouping.

Spark finds a group's value only by the expression in GROUP BY. A 256-bit number is grouped as a struct but computed as
bytes, so the bytes must be taken out of that struct after GROUP BY.
"""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

_GROUPED: Final = "is grouped by"
_BEHIND: Final = ("expressions", "having", "qualify", "order")


def mark_group_values(tree: exp.Query) -> None:
    """Mark the expressions after GROUP BY that are grouping keys. Columns need no mark."""
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        keys = (
            {_comparable_text(select, e) for e in _grouping_keys(select, group)}
            if isinstance(group, exp.Group)
            else set()
        )
        for node in _later_expressions(select) if keys else ():
            if not isinstance(node, exp.Column | exp.Literal) and _comparable_text(select, node) in keys:
                node.meta[_GROUPED] = True


def take_mark(node: exp.Expr) -> bool:
    """Remove the mark of a node. Return whether it had one."""
    return bool(node.meta.pop(_GROUPED, False))


def _grouping_keys(select: exp.Select, group: exp.Group) -> Iterator[exp.Expr]:
    """Return the grouping keys. A number or an alias is replaced by its output."""
    outputs = {e.alias.casefold(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for entry in group.expressions:
        if isinstance(entry, exp.Literal) and not entry.is_string and 0 < int(entry.this) <= len(select.expressions):
            yield select.expressions[int(entry.this) - 1].unalias()
        elif isinstance(entry, exp.Column):
            yield entry if entry.table else outputs.get(entry.name.casefold(), entry)
        else:
            yield entry


def _later_expressions(select: exp.Select) -> Iterator[exp.Expr]:
    """Return the expressions after GROUP BY, without the arguments of aggregates and without subqueries."""
    for place in _BEHIND:
        given = select.args.get(place)
        for root in given if isinstance(given, list) else [given] if given is not None else []:
            yield from root.walk(prune=lambda node: isinstance(node, exp.AggFunc | exp.Query))


def _comparable_text(select: exp.Select, node: exp.Expr) -> str:
    """Render an expression for comparison, without table names if there is only one table."""
    plain = node.unnest().copy() if isinstance(node, exp.Paren) else node.copy()
    for column in plain.find_all(exp.Column) if not select.args.get("joins") else ():
        column.set("table", None)
    return plain.sql(comments=False).casefold()
