"""Move the conditions of comma joins from WHERE to the joins."""

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.stateful.joins.conditions import equal_sides
from penstock.sql.stateful.select import combine_conditions, conjuncts, is_unnest_join, referenced_tables, relation_star
from penstock.sql.stateful.stages import QueryRelation, unowned_column


def move_join_conditions(select: exp.Select, relations: list[QueryRelation]) -> list[QueryRelation] | None:
    """Move the conditions of comma joins from WHERE to the joins, in an order that gives each join an equality.

    Spark has no CROSS JOIN of streams, which a comma join would become. Return the relations in the new order; None if
    nothing changes.
    """
    joins = select.args.get("joins") or []
    where = select.args.get("where")
    if where is None or any(join.side in {"RIGHT", "FULL"} for join in joins):
        return None
    plain = [_is_bare_join(join, r) for join, r in zip(joins, relations[1:], strict=True)]
    if not any(plain):
        return None
    conditions = conjuncts(where.this)
    if all(plain):
        ordered = _order_relations(relations, conditions)
        if any(one is not other for one, other in zip(ordered, relations, strict=True)):
            _expand_star(select, relations)
            joins = [next(join for join in joins if join.this is r.node) for r in ordered[1:]]
            relations = ordered
    placed = {relations[0].alias.casefold()}
    for join, relation in zip(joins, relations[1:], strict=True):
        alias = relation.alias.casefold()
        if _is_bare_join(join, relation):
            placeable = ((c, referenced_tables(c)) for c in conditions)
            moved = [c for c, read in placeable if alias in read and len(read) > 1 and read <= placed | {alias}]
            if not moved and (unowned := _unowned_column(conditions)) is not None:
                raise unowned_column(unowned)
            if moved:
                conditions = [c for c in conditions if not any(c is m for m in moved)]
                join.set("on", exp.and_(*(c.copy() for c in moved)))
                join.set("kind", None)
        placed.add(alias)
    select.set("joins", joins)
    select.set("where", combine_conditions(conditions))
    return relations


def _unowned_column(conditions: Sequence[exp.Expr]) -> exp.Column | None:
    """Return a column without a table in an equality: its relation is unknown."""
    equalities = (c for c in conditions if isinstance(c, exp.EQ) and len(list(c.find_all(exp.Column))) > 1)
    return next((column for c in equalities for column in c.find_all(exp.Column) if not column.table), None)


def _is_bare_join(join: exp.Join, right: QueryRelation) -> bool:
    """Whether it is a comma join or CROSS JOIN of streams, without a condition."""
    inner = not join.side and join.kind in {"", "CROSS", "INNER"}
    conditioned = join.args.get("on") is not None or join.args.get("using") or join.this.args.get("version") is not None
    return inner and not conditioned and not is_unnest_join(join) and not right.flow.static


def _order_relations(relations: list[QueryRelation], conditions: Sequence[exp.Expr]) -> list[QueryRelation]:
    """Order the relations so that each equals an earlier one; without such an order, return them unchanged."""
    found, waiting = relations[:1], relations[1:]
    while waiting:
        aliases = {r.alias.casefold() for r in found}
        fitting = (r for r in waiting if any(equal_sides(c, aliases, r.alias.casefold()) for c in conditions))
        if (chosen := next(fitting, None)) is None:
            return relations
        found = [*found, chosen]
        waiting = [r for r in waiting if r is not chosen]
    return found


def _expand_star(select: exp.Select, relations: Sequence[QueryRelation]) -> None:
    """Expand `*`, whose columns come in the order of the text."""
    outputs: list[exp.Expr] = []
    for e in select.expressions:
        is_whole = isinstance(e, exp.Star) and not e.args.get("except_")
        outputs += map(relation_star, relations) if is_whole else [e]
    select.set("expressions", outputs)
