"""Interval joins whose bounds are columns of the rows: each row is kept until it can no longer match."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.keyed.operators import Comparison, IntervalJoin
from penstock.sql.parse.query import offset_of
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.joins.changelog_joins import left_side, name_keys, read_join_view, right_side
from penstock.sql.stateful.joins.conditions import JoinConditions, join_conditions, take_side_filters
from penstock.sql.stateful.joins.time_bounds import is_time_span, ordered_sides
from penstock.sql.stateful.late_rows import refuse_hidden_late_rows
from penstock.sql.stateful.select import pack_rows, referenced_tables
from penstock.sql.stateful.stages import Flow, QueryRelation, StageBuilder

_Sign: TypeAlias = Literal["<", "<=", ">", ">=", "="]
_SIGNS: Final[dict[type[exp.Expr], _Sign]] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TURNED: Final[dict[_Sign, _Sign]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_DENIED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT
}  # fmt: skip
_ALONE: Final = {"LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1)}
"""The sides whose unmatched rows are emitted."""


@dataclass(frozen=True, slots=True)
class JoinIntervals:
    """The conditions of a join beyond equalities. `until` are the times after which a row of a side cannot match."""

    asked: JoinConditions
    comparisons: tuple[tuple[exp.Expr, _Sign, exp.Expr], ...]
    able: tuple[tuple[exp.Expr, ...], tuple[exp.Expr, ...]]
    until: tuple[exp.Expr | None, exp.Expr | None]


def find_intervals(join: exp.Join, left: Sequence[QueryRelation], right: QueryRelation) -> JoinIntervals | None:
    """Return the intervals of an outer join.

    Return None if an unmatched row would never be emitted, or if the condition has more than comparisons of both sides.
    """
    relations = [*left, right]
    if any(r.flow.kind != "rows" or r.flow.static or not r.flow.watermarked for r in relations):
        return None
    asked = join_conditions(join, list(left), right, None)
    aliases = {r.alias.casefold() for r in left}, {right.alias.casefold()}
    able: tuple[list[exp.Expr], list[exp.Expr]] = [], []
    comparisons: list[tuple[exp.Expr, _Sign, exp.Expr]] = []
    bounds = [(one, other) for pair in zip(asked.left, asked.right, strict=True) for one, other in (pair, pair[::-1])]
    for part in map(_remove_negation, asked.rest):
        own = [place for place in (0, 1) if referenced_tables(part) and referenced_tables(part) <= aliases[place]]
        found = _compared_sides(part, *aliases)
        if own:
            able[own[0]].append(part)
        elif found:
            comparisons += found
            bounds += ordered_sides(part)
        else:
            return None
    until = _expiry_time(bounds, list(left), [right]), _expiry_time(bounds, [right], list(left))
    if any(until[place] is None for place in _ALONE[join.side]):
        return None
    return JoinIntervals(asked, tuple(comparisons), (tuple(able[0]), tuple(able[1])), until)


def join_intervals(
    plan: StageBuilder,
    select: exp.Select,
    left: list[QueryRelation],
    right: QueryRelation,
    join: exp.Join,
    place: int,
    intervals: JoinIntervals,
) -> Flow:
    """Extract a join by the times of single rows. The SELECT then reads its result, and its later joins follow."""
    refuse_hidden_late_rows(join, (*left, right))
    asked, comparisons = intervals.asked, intervals.comparisons
    for_left, for_right = take_side_filters(select, join, place, left, right)
    times = _side_time(left), _side_time([right])
    extras = [
        [
            *name_keys(f"_{mark}", _matchable_keys(keys, intervals.able[i]), times[i]),
            *([exp.alias_(until.copy(), f"_{mark}u")] if (until := intervals.until[i]) is not None else ()),
            *(exp.alias_((one, other)[i].copy(), f"_{mark}c{n}") for n, (one, _, other) in enumerate(comparisons)),
        ]
        for i, (mark, keys) in enumerate((("l", asked.left), ("r", asked.right)))
    ]
    side = left_side(select, place, left, [*asked.on_left, *for_left])
    one_view = plan.sql(pack_rows(plan, side, left, extras[0]))
    side = right_side(select, place, right, [*asked.on_right, *for_right])
    other_view = plan.sql(pack_rows(plan, side, [right], extras[1]))
    operator = IntervalJoin(
        side=join.side.lower(),  # type: ignore[arg-type]
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        comparisons=tuple(Comparison(f"_lc{n}", sign, f"_rc{n}") for n, (_, sign, _) in enumerate(comparisons)),
        left_until=None if intervals.until[0] is None else "_lu",
        right_until=None if intervals.until[1] is None else "_ru",
        left_time=None if times[0] is None else "_lt",
        right_time=None if times[1] is None else "_rt",
        ttl_ms=plan.ttl_ms,
    )
    view = plan.operator(operator, one_view, other_view)
    if not all(intervals.until):
        name = f"{join.side} JOIN bounded in time on one side only"
        plan.note_unbounded_state(name, offset_of(join), "bound the time of the other side too")
    read_join_view(select, view, place, [*left, right])
    return Flow(watermarked=False)


def _remove_negation(part: exp.Expr) -> exp.Expr:
    """Rewrite `NOT (a > b)` as `a <= b`."""
    inner = part.this.unnest() if isinstance(part, exp.Not) else None
    if not isinstance(inner, exp.Binary) or type(inner) not in _DENIED:
        return part
    return _DENIED[type(inner)](this=inner.this.copy(), expression=inner.expression.copy())


def _compared_sides(part: exp.Expr, left: set[str], right: set[str]) -> list[tuple[exp.Expr, _Sign, exp.Expr]]:
    """Return the comparisons of a condition, left side first; none unless each compares the two sides of the join."""
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        both = [(part.this, ">=", low), (part.this, "<=", high)]
    elif isinstance(part, exp.Binary) and (sign := _SIGNS.get(type(part))) is not None:
        both = [(part.left, sign, part.right)]
    else:
        return []
    found: list[tuple[exp.Expr, _Sign, exp.Expr]] = []
    for one, how, other in both:
        ones, others = referenced_tables(one), referenced_tables(other)
        if ones and others and ones <= left and others <= right:
            found.append((one, how, other))  # type: ignore[arg-type]
        elif ones and others and ones <= right and others <= left:
            found.append((other, _TURNED[how], one))  # type: ignore[index]
        else:
            return []
    return found


def _expiry_time(
    bounds: Sequence[tuple[exp.Expr, exp.Expr]], own: Sequence[QueryRelation], other: Sequence[QueryRelation]
) -> exp.Expr | None:
    """Return the time after which rows of `own` cannot match. Where it is null, a comparison never holds."""
    aliases = {r.alias.casefold() for r in own}
    found = [
        end
        for lesser, greater in bounds
        if is_time_span(lesser, other) and referenced_tables(greater) and referenced_tables(greater) <= aliases
        if (end := _solve_bound(lesser, exp.cast(greater.copy(), "TIMESTAMP"))) is not None
    ]
    if not found:
        return None
    least = found[0] if len(found) == 1 else call("array_min", call("array", *found))
    time = _side_time(own)
    return least if time is None else call("coalesce", least, time)


def _solve_bound(lesser: exp.Expr, greater: exp.Expr) -> exp.Expr | None:
    """Solve `event time + intervals <= greater` for the event time: return its upper bound."""
    match lesser:
        case exp.Paren():
            return _solve_bound(lesser.this, greater)
        case exp.Column():
            return greater
        case exp.Add() | exp.Sub() if isinstance(lesser.expression, exp.Interval):
            turned = exp.Sub if isinstance(lesser, exp.Add) else exp.Add
            return _solve_bound(lesser.this, turned(this=greater, expression=lesser.expression.copy()))
        case _:
            return None


def _side_time(relations: Sequence[QueryRelation]) -> exp.Expr | None:
    """Return the event time of a side that is a single input; otherwise None."""
    if len(relations) != 1 or not relations[0].flow.times:
        return None
    return exp.column(min(relations[0].flow.times), table=relations[0].alias, quoted=True)


def _matchable_keys(keys: Sequence[exp.Expr], able: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the keys of a side, null for rows that cannot match."""
    if not able:
        return list(keys)
    first, *others = keys
    return [exp.Case().when(exp.and_(*(part.copy() for part in able)), first.copy()), *others]
