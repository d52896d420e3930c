"""The parts of one SELECT, and its rows as structs by alias.

Before an operator, the row of each relation is packed into a struct with the name of its alias. After the operator,
`o.amount` and `o.*` then still have the same meaning.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from penstock.row_columns import CLOCK, NOW, OP, ORDER, SIGN
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.stages import ORDERED, QueryRelation, StageBuilder

_OWN: Final = ("expressions", "where", "group", "having", "qualify", "windows", "order")


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Return the expressions of the SELECT itself, without those of its subqueries."""
    for name in _OWN:
        found = select.args.get(name)
        for root in found if isinstance(found, list) else [found]:
            if isinstance(root, exp.Expr):
                yield from _walk_expressions(root)
    for join in select.args.get("joins") or ():
        for name in ("on", "this"):
            root = join.args.get(name)
            if isinstance(root, exp.Expr) and (name == "on" or isinstance(root, exp.Lateral | exp.Unnest | exp.Table)):
                yield from _walk_expressions(root)


def _walk_expressions(root: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in root.walk(prune=lambda n: isinstance(n, exp.Query)) if not isinstance(node, exp.Query))


def is_unnest_join(join: exp.Join) -> bool:
    """Whether a join only unnests a part of the row itself."""
    return isinstance(join.this, exp.Lateral | exp.Unnest)


def own_columns(select: exp.Select) -> list[exp.Column]:
    return [node for node in own_nodes(select) if isinstance(node, exp.Column)]


def pack_rows(
    plan: StageBuilder,
    select: exp.Select,
    relations: Sequence[QueryRelation],
    extra: Iterable[exp.Expr],
    *,
    rows: bool = True,
    order: bool = False,
) -> exp.Select:
    """Build a SELECT of the relations' rows as structs, and of `extra`, from the source of `select`.

    The structs have the columns that the outputs of `select` use.
    """
    outputs = [struct for r in relations if (struct := _row_struct(select, r)) is not None] if rows else []
    inner = exp.Select(expressions=[*outputs, *(e.copy() for e in extra), clock_column()])
    for name in ("from_", "joins", "laterals", "where"):
        if (part := select.args.get(name)) is not None:
            inner.set(name, [p.copy() for p in part] if isinstance(part, list) else part.copy())
    if order:
        _add_order(plan, inner, relations)
    return inner


def _row_struct(select: exp.Select, relation: QueryRelation) -> exp.Expr | None:
    alias = relation.alias.casefold()
    used = [c for e in select.expressions for c in _walk_expressions(e) if isinstance(c, exp.Column)]
    used = [c for c in used if c.table.casefold() == alias]
    if any(isinstance(c.this, exp.Star) for c in used):
        fields: list[exp.Expr] = [relation_star(relation)]
    else:
        names = {c.name.casefold(): c for c in used}
        fields = [exp.alias_(c.copy(), c.name, quoted=True) for _, c in sorted(names.items())]
    if not fields:
        return None
    return exp.alias_(call("struct", *fields), relation.alias, quoted=True)


def relation_star(relation: QueryRelation) -> exp.Column:
    """Return all columns of a relation except those that mark its changes or carry its key."""
    mark = {"changes": OP, "signed": SIGN}.get(relation.flow.kind)
    others = [] if relation.packed else [*([mark] if mark else ()), *sorted(relation.flow.hidden)]
    star = exp.Star(except_=[exp.to_identifier(name, quoted=True) for name in others]) if others else exp.Star()
    return exp.Column(this=star, table=exp.to_identifier(relation.alias, quoted=True))


def blank_order() -> list[exp.Expr]:
    """Return constant order columns, for rows without an order."""
    blanks = {"bigint": exp.Literal.number(0), "string": exp.Literal.string("")}
    kinds = ("bigint", "string", "bigint", "bigint")
    return [exp.alias_(exp.cast(blanks[k].copy(), k), name) for k, name in zip(kinds, ORDER, strict=True)]


def clock_column() -> exp.Expr:
    """Return the column with the start of the batch."""
    return exp.alias_(call("unix_millis", call(CLOCK)), NOW)


def _add_order(plan: StageBuilder, inner: exp.Select, relations: Sequence[QueryRelation]) -> None:
    """Add the order columns. Rows straight from an input have an order; other rows get constants."""
    node = relations[0].node if len(relations) == 1 else None
    columns = blank_order()
    if isinstance(node, exp.Table) and node.name in plan.inputs:
        plan.ordered.add(node.name)
        table = exp.Table(this=exp.to_identifier(node.name + ORDERED, quoted=True))
        row = exp.alias_(exp.column("row"), relations[0].alias, quoted=True)
        source = exp.Select(expressions=[row, *(exp.column(name) for name in ORDER)]).from_(table, copy=False)
        inner.set("from_", exp.From(this=source.subquery("_r", copy=False)))
        columns = [exp.column(name) for name in ORDER]
    inner.set("expressions", [*inner.expressions, *columns])


def read_view(select: exp.Select, view: str, alias: str | None = None, *, joins: bool = False) -> None:
    """Make the SELECT read a view instead of its relations; with `joins`, its joins stay."""
    table = exp.Table(this=exp.to_identifier(view, quoted=True))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    select.set("from_", exp.From(this=table))
    for name in () if joins else ("joins", "laterals"):
        select.set(name, None)


def combine_conditions(conditions: Sequence[exp.Expr]) -> exp.Where | None:
    return exp.Where(this=exp.and_(*(c.copy() for c in conditions))) if conditions else None


def where_condition(select: exp.Select) -> exp.Expr | None:
    where = select.args.get("where")
    return None if where is None else where.this


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    return [*conjuncts(condition.left), *conjuncts(condition.right)] if isinstance(condition, exp.And) else [condition]


def referenced_tables(node: exp.Expr) -> set[str]:
    return {column.table.casefold() for column in node.find_all(exp.Column)}
