"""Expressions that may fail on a row, such as a division or a cast. Such a row must not reach a query with state.

Expressions that a SELECT computes from single rows of a view are expressed in terms of that view, through the
subqueries in between. The columns of such a subquery matter only where they are read: a column that no query reads is
not computed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import is_aggregate, is_group_aggregate
from penstock.sql.lint.keys import is_nondeterministic
from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.replacement import replace_node
from penstock.sql.parse.window_calls import parse_window_call
from penstock.sql.rewrite.functions import rewrite_flink_functions

_SAFE: Final = (exp.And, exp.Or, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Upper, exp.Lower)
_RISKY: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Bracket, exp.Func)
_WHOLE: Final = (exp.Window, exp.Query, exp.Placeholder, exp.Star)
"""Nodes that need more than a single row, or are not known before the query runs."""
_REGROUPING: Final = ("group", "distinct", "limit", "having", "qualify")


def fallible_expressions(
    tree: exp.Query,
    views: Mapping[str, tuple[str, ...] | None],
    functions: frozenset[str] = frozenset(),
    in_spark: Callable[[exp.Query], exp.Query] = rewrite_flink_functions,
) -> dict[str, tuple[str, ...]]:
    """Return the expressions over the rows of each view that could fail, as Spark SQL.

    `views` has the columns of each view, None where they are not known. Calls of `functions` are skipped; `in_spark`
    translates the other calls to Spark.
    """
    ctes = {cte.alias.casefold(): cte.this for cte in tree.find_all(exp.CTE)}
    found: dict[str, dict[str, None]] = {}
    read = [(select, _select_rows(select, views, ctes)) for select in tree.find_all(exp.Select)]
    followed = _inlined_selects(tree, ctes, [rows for _, rows in read if rows is not None])
    for select, rows in read:
        if rows is None or id(select) in followed:
            continue
        for conditions, node in _computed_expressions(select, rows):
            whole = _guard_expression(conditions, node)
            if _can_fail(node, functions) and _has_known_columns(whole, views[rows.view]):
                found.setdefault(rows.view, {})[_render_sql(whole, in_spark)] = None
    return {view: tuple(texts) for view, texts in found.items()}


def _inlined_selects(tree: exp.Expr, ctes: Mapping[str, exp.Expr], read: list["_ViewRows"]) -> set[int]:
    """Return the SELECTs whose readers all use their rows."""
    names = (table.name.casefold() for table in tree.find_all(exp.Table) if not table.db)
    readers = Counter(id(ctes[name]) for name in names if name in ctes)
    known = Counter(id(rows.inner) for rows in read if rows.inner is not None)
    return {inner for inner, count in known.items() if count >= readers[inner]}


def _computed_expressions(select: exp.Select, rows: "_ViewRows") -> Iterator[tuple[list[exp.Expr], exp.Expr]]:
    """Return the expressions over the rows, each with the conditions that the rows have met before it is evaluated."""
    for place, condition in enumerate(rows.conditions):
        yield rows.conditions[:place], condition
    computed = [rows.resolve_columns(node) for node in _row_expressions(select)]
    if select.is_star:
        computed += rows.outputs.values()
    for node in computed:
        if node is not None:
            yield rows.conditions, node.unnest()


@dataclass(slots=True)
class _ViewRows:
    """The input of a SELECT: rows of a view that meet the conditions. `outputs` are columns that were computed."""

    view: str
    alias: str
    outputs: dict[str, exp.Expr | None] = field(default_factory=dict)
    passes: bool = True
    """Whether all other columns are columns of the view."""
    conditions: list[exp.Expr] = field(default_factory=list)
    inner: exp.Select | None = None
    """The SELECT that emits the rows, if it does nothing but compute columns and filter."""

    def resolve_columns(self, node: exp.Expr) -> exp.Expr | None:
        """Express an expression of the SELECT in terms of the view; None if that is not possible."""
        holder = exp.Paren(this=node.copy())
        for column in list(holder.find_all(exp.Column)):
            parts = [part.copy() for part in column.parts]
            if len(parts) > 1 and parts[0].name.casefold() == self.alias.casefold():
                parts = parts[1:]
            name = parts[0].name.casefold()
            if not self.passes and name not in self.outputs:
                return None
            root = self.outputs.get(name, exp.Column(this=parts[0]))
            if root is None:
                return None
            root = root.copy() if isinstance(root, exp.Column) else exp.Paren(this=root.copy())
            replace_node(column, exp.Dot.build([root, *parts[1:]]) if len(parts) > 1 else root)
        found: exp.Expr = holder.this
        return found


def _select_rows(
    select: exp.Select, views: Mapping[str, tuple[str, ...] | None], ctes: Mapping[str, exp.Expr]
) -> _ViewRows | None:
    """Return the rows that a SELECT reads, with its own condition; None unless it reads rows of one view only."""
    origin = select.args.get("from_")
    if origin is None or select.args.get("joins") or select.args.get("laterals"):
        return None
    rows: _ViewRows | None
    node = origin.this
    if node.args.get("alias") is not None and node.args["alias"].columns:
        return None
    match node:
        case exp.Table() if node.name in views:
            rows = _ViewRows(node.name, node.alias_or_name)
        case exp.Table() if (inner := ctes.get(node.name.casefold())) is not None and not node.db:
            rows = _subquery_rows(inner, node.alias_or_name, views, ctes)
        case exp.Subquery():
            rows = _subquery_rows(node.this, node.alias, views, ctes)
        case _:
            return None
    where = select.args.get("where")
    if rows is not None and where is not None:
        condition = rows.resolve_columns(where.this) if _is_single_row(where.this) else None
        if condition is None:
            return None
        rows.conditions.append(condition)
    return rows


def _subquery_rows(
    inner: exp.Expr, alias: str, views: Mapping[str, tuple[str, ...] | None], ctes: Mapping[str, exp.Expr]
) -> _ViewRows | None:
    """Return the output rows of a SELECT that only computes columns and filters; None for any other query."""
    if not isinstance(inner, exp.Select) or any(map(inner.args.get, _REGROUPING)):
        return None
    if any(is_group_aggregate(node) for projection in inner.expressions for node in projection.walk()):
        return None
    rows = _select_rows(inner, views, ctes)
    if rows is None:
        return None
    outputs = dict(rows.outputs) if inner.is_star else {}
    for projection in inner.expressions:
        if not projection.is_star:
            computed = projection.unalias()
            resolved = rows.resolve_columns(computed) if _is_single_row(computed) else None
            outputs[projection.output_name.casefold()] = resolved
    is_over = any(projection.find(exp.Window) for projection in inner.expressions)
    taken = None if is_over else inner
    return _ViewRows(rows.view, alias, outputs, rows.passes and inner.is_star, rows.conditions, taken)


def _row_expressions(select: exp.Select) -> Iterator[exp.Expr]:
    """Return the largest single-row expressions of a SELECT, without its WHERE condition."""
    group, having = (select.args.get(key) for key in ("group", "having"))
    for projection in select.expressions:
        yield from _largest_expressions(projection.unalias())
    for key in group.expressions if group is not None else ():
        yield from _largest_expressions(key)
    if having is not None:
        for aggregate in filter(is_aggregate, having.find_all(exp.Func)):
            yield from _largest_expressions(aggregate)


def _largest_expressions(node: exp.Expr) -> Iterator[exp.Expr]:
    match node:
        case exp.Query():
            return
        case exp.Filter():
            condition = node.expression.this
            yield from (_guard_expression([condition], found) for found in _largest_expressions(node.this))
        case exp.Window():
            parts = [*node.this.iter_expressions(), *(node.args.get("partition_by") or ()), node.args.get("order")]
            for part in parts:
                yield from _largest_expressions(part) if part is not None else ()
        case exp.Condition() if _is_single_row(node):
            yield node
        case _:
            for child in node.iter_expressions():
                yield from _largest_expressions(child)


def _is_single_row(node: exp.Expr) -> bool:
    return not any(
        isinstance(n, _WHOLE) or is_aggregate(n) or is_nondeterministic(n) or parse_window_call(n) is not None
        for n in node.walk()
    )


def _can_fail(node: exp.Expr, functions: frozenset[str]) -> bool:
    nodes = list(node.walk())
    if any(isinstance(n, exp.Anonymous) and n.name in functions for n in nodes):
        return False
    return any(isinstance(n, _RISKY) and not isinstance(n, _SAFE) for n in nodes)


def _has_known_columns(node: exp.Expr, columns: tuple[str, ...] | None) -> bool:
    known = None if columns is None else {name.casefold() for name in columns}
    return known is None or all(c.parts[0].name.casefold() in known for c in node.find_all(exp.Column))


def _guard_expression(conditions: list[exp.Expr], node: exp.Expr) -> exp.Expr:
    """Wrap an expression so that it is evaluated only where the conditions hold."""
    if not conditions:
        return node
    held = exp.and_(*(condition.copy() for condition in conditions))
    return exp.Case(ifs=[exp.If(this=held, true=node.copy())])


def _render_sql(node: exp.Expr, in_spark: Callable[[exp.Query], exp.Query]) -> str:
    select = in_spark(exp.Select(expressions=[exp.alias_(node.copy(), "found")]))
    return select.selects[0].unalias().sql(SPARK, identify=True, comments=False)
