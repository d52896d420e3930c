"""Time bounds in join conditions: bounds that hold for all rows, and comparisons that imply none.

Spark looks for bounds itself, to drop rows from the state of a join. It treats every column that is compared with event
time as event time: `b.at <= a.expires` then drops rows of `a` by `a.at`, long before they have expired. Comparisons
that imply no bound are guarded: they are written so that Spark cannot solve them.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.select import conjuncts, is_unnest_join, referenced_tables, where_condition
from penstock.sql.stateful.stages import QueryRelation

OUTER: Final = frozenset({"LEFT", "RIGHT", "FULL"})
Bound: TypeAlias = Literal["below", "above"]
BOTH: Final[frozenset[Bound]] = frozenset({"below", "above"})
DROPS: Final[dict[str, frozenset[Bound]]] = {
    "LEFT": frozenset({"above"}), "RIGHT": frozenset({"below"}), "FULL": BOTH
}  # fmt: skip
"""The bounds that an outer join needs, by its side: Spark emits an unmatched row when it drops it."""

_SPANS: Final = (
    exp.Column, exp.Identifier, exp.Add, exp.Sub, exp.Paren, exp.Interval, exp.Literal, exp.Var, exp.Cast, exp.DataType
)  # fmt: skip
_COMPARED: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.EQ)
_IMPRECISE: Final = frozenset({"MONTH", "YEAR", "QUARTER"})
_GUARD: Final = "penstock_guard"
_PAIR: Final = 2


def time_bounds(
    join: exp.Join, left: Sequence[QueryRelation], right: QueryRelation, where: exp.Expr | None
) -> frozenset[Bound]:
    """Return the bounds of the right side's time by the left side's time. With both, state can be dropped."""
    found: set[Bound] = set()
    for lesser, greater in (pair for part in pair_conditions(join, where) for pair in ordered_sides(part)):
        if is_time_span(lesser, left) and is_time_span(greater, [right]):
            found.add("below")
        elif is_time_span(lesser, [right]) and is_time_span(greater, left):
            found.add("above")
    return frozenset(found)


def pair_conditions(join: exp.Join, where: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions on a pair of rows. For an inner join these include the WHERE conditions."""
    return [*conjuncts(join.args.get("on")), *(conjuncts(where) if join.side not in OUTER else ())]


def ordered_sides(part: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the pairs of a condition of which the first is less than or equal to the second."""
    match part:
        case exp.LT() | exp.LTE():
            return [(part.left, part.right)]
        case exp.GT() | exp.GTE():
            return [(part.right, part.left)]
        case exp.EQ():
            return [(part.left, part.right), (part.right, part.left)]
        case exp.Anonymous() if part.name == _GUARD:
            return [pair for bound in part.expressions[1:] for pair in ordered_sides(bound)]
        case exp.Between():
            return [(part.args["low"], part.this), (part.this, part.args["high"])]
        case _:
            return []


def is_event_time(column: exp.Column, relation: QueryRelation) -> bool:
    flow = relation.flow
    return column.table.casefold() == relation.alias.casefold() and column.name.casefold() in flow.times


def is_time_span(node: exp.Expr, relations: Sequence[QueryRelation]) -> bool:
    """Whether it is an event time of these relations plus intervals, from which Spark can derive a bound."""
    columns = list(node.find_all(exp.Column))
    timed = bool(columns) and all(any(is_event_time(c, r) for r in relations) for c in columns)
    return timed and _is_solvable(node)


def _is_solvable(node: exp.Expr) -> bool:
    return all(isinstance(n, _SPANS) and not _is_imprecise(n) and not _is_rounded(n) for n in node.walk())


def _is_rounded(node: exp.Expr) -> bool:
    """Whether a time is cast to another type, such as a date."""
    return isinstance(node, exp.Cast) and not node.to.is_type(*exp.DataType.TEMPORAL_TYPES - {exp.DataType.Type.DATE})


def _is_imprecise(node: exp.Expr) -> bool:
    """Whether an interval depends on the calendar, so that Spark cannot derive a bound from it."""
    return isinstance(node, exp.Interval) and any(word in node.sql().upper() for word in _IMPRECISE)


def timely_relations(select: exp.Select, relations: Sequence[QueryRelation]) -> list[QueryRelation]:
    """Return the relations of a SELECT whose rows are not late after its joins.

    A row of a side without a bound can match at any time, so it may be late for anything that uses its event time.
    """
    where = where_condition(select)
    kept = list(relations)
    for place, join in enumerate(select.args.get("joins") or ()):
        if is_unnest_join(join) or place + 1 >= len(relations) or relations[place + 1].flow.static:
            continue
        left, right = relations[: place + 1], relations[place + 1]
        if all(r.flow.static for r in left):
            continue
        found = time_bounds(join, left, right, where)
        late = [*(left if "above" not in found else ()), *([right] if "below" not in found else ())]
        kept = [r for r in kept if not any(r is other for other in late)]
    return kept


# Guards


def guard_comparisons(select: exp.Select, relations: Sequence[QueryRelation], native: int | None = None) -> None:
    """Guard the comparisons of a SELECT's joins and WHERE that Spark would mistake for time bounds.

    Spark moves conditions of WHERE into joins, also into those of a subquery, and turns comparisons around. `native` is
    the number of joins that Spark runs, if not all; the keys of the other joins must stay recognisable.
    """
    streams = [r for r in relations if not r.flow.static]
    if len(streams) < _PAIR and not any(r.flow.joined for r in streams):
        return
    on = [join.args.get("on") for join in (select.args.get("joins") or [])[:native]]
    where = [select.args.get("where")]
    for node in _find_comparisons([*on, *where]):
        if not isinstance(node, exp.EQ):
            _guard_bounds(node, streams)
    for node in _find_comparisons([*on, *(where if native is None else ())]):
        if isinstance(node, exp.EQ):
            _guard_key(node, streams)


def _find_comparisons(roots: Sequence[exp.Expr | None]) -> list[exp.Expr]:
    return [node for root in roots if root is not None for node in root.find_all(*_COMPARED)]


def _guard_bounds(node: exp.Expr, relations: Sequence[QueryRelation]) -> None:
    for pair in ordered_sides(node):
        for one, other in (pair, pair[::-1]):
            if _is_any_span(one, relations) and referenced_tables(other) and not _is_any_span(other, relations):
                other.replace(_guard_node(other))


def _guard_key(node: exp.EQ, relations: Sequence[QueryRelation]) -> None:
    """Guard an equality with event time: Spark drops rows of both sides when event time has passed their key.

    That is correct for two event times, but not if only one side is event time, or if the other one is shifted.
    """
    one, other = node.left, node.right
    plain = [isinstance(side, exp.Column) and _is_any_span(side, relations) for side in (one, other)]
    if all(plain) or not any(plain) or not (referenced_tables(one) and referenced_tables(other)):
        return
    shifted = _is_any_span(one, relations) and _is_any_span(other, relations)
    bounds = [exp.LTE(this=one.copy(), expression=other.copy()), exp.GTE(this=one.copy(), expression=other.copy())]
    timed = one if plain[0] else other
    timed.replace(_guard_node(timed))
    if shifted:
        node.replace(call(_GUARD, node.copy(), *bounds))


def _is_any_span(node: exp.Expr, relations: Sequence[QueryRelation]) -> bool:
    """Whether it is an event time of any relation plus intervals. A column may lack its table."""
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(_is_any_time(c, relations) for c in columns) and _is_solvable(node)


def _is_any_time(column: exp.Column, relations: Sequence[QueryRelation]) -> bool:
    if column.table:
        return any(is_event_time(column, r) for r in relations)
    owners = [r for r in relations if r.flow.has(column.name) is not False]
    return bool(owners) and all(column.name.casefold() in r.flow.times for r in owners)


def _guard_node(node: exp.Expr) -> exp.Expr:
    already = isinstance(node.parent, exp.Anonymous) and node.parent.name == _GUARD
    is_guard = isinstance(node, exp.Anonymous) and node.name == _GUARD
    return node if already or is_guard else call(_GUARD, node.copy())


def has_guards(tree: exp.Expr) -> bool:
    return next(_guards(tree), None) is not None


def remove_guards(tree: exp.Query) -> exp.Query:
    while (guard := next(_guards(tree), None)) is not None:
        guard.replace(guard.expressions[0].copy())
    return tree


def render_guards(tree: exp.Query) -> exp.Query:
    """Render guards as Spark SQL: GREATEST of a value and itself, which Spark does not look into."""
    while (guard := next(_guards(tree), None)) is not None:
        first, *more = (e.copy() for e in guard.expressions)
        guard.replace(exp.and_(first, *more) if more else call("GREATEST", first, first.copy()))
    return tree


def _guards(tree: exp.Expr) -> Iterator[exp.Anonymous]:
    return (node for node in tree.find_all(exp.Anonymous) if node.name == _GUARD)
