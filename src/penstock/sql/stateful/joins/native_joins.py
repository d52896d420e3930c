"""Joins that Spark runs itself, rewritten so that their results are correct."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.joins.conditions import equal_sides
from penstock.sql.stateful.joins.time_bounds import OUTER
from penstock.sql.stateful.select import (
    combine_conditions,
    conjuncts,
    is_unnest_join,
    referenced_tables,
    where_condition,
)
from penstock.sql.stateful.stages import QueryRelation, unowned_column

_PRESERVING: Final = (frozenset({"LEFT", "FULL"}), frozenset({"RIGHT", "FULL"}))
"""The joins that emit unmatched rows of the left side, or of the right side."""
_NO_PARTNER: Final = (1, 2)
"""The values on the left and on the right of an equality that must not hold for a row."""


def rewrite_joins(select: exp.Select, relations: list[QueryRelation], count: int | None = None) -> bool:
    """Rewrite the first `count` joins of a SELECT, or all, for correct results. Return whether any was rewritten."""
    written = False
    for place, join in enumerate((select.args.get("joins") or [])[:count]):
        left, right = relations[: place + 1], relations[place + 1]
        if is_unnest_join(join) or right.flow.static or all(r.flow.static for r in left):
            continue
        if join.side in OUTER and join.kind != "SEMI" and join.args.get("on") is not None:
            written |= _add_partner_key(join, left, right)
        else:
            written |= _require_keys(select, join, left, right)
    return written


def _add_partner_key(join: exp.Join, left: Sequence[QueryRelation], right: QueryRelation) -> bool:
    """Add to the key of an outer join whether a row can match at all.

    Spark takes `a.n > 1` for a time bound, and then never drops the rows of `a` that wait for a match. And where keys
    may be null, it takes two nulls for equal.
    """
    sides = {r.alias.casefold() for r in left}, {right.alias.casefold()}
    asked: tuple[list[exp.Expr], list[exp.Expr]] = [], []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(join.args["on"]):
        tables = referenced_tables(part)
        _refuse_unowned_column(part)
        alone = [place for place in (0, 1) if tables and tables <= sides[place] and join.side in _PRESERVING[place]]
        for place in alone:
            asked[place].append(part)
        if not alone:
            rest.append(part)
        if (pair := equal_sides(part, sides[0], right.alias.casefold())) is not None:
            pairs.append(pair)
    if not any(asked) and join.side != "FULL" and not any(map(_is_computed, pairs)):
        return False
    marks = [_partner_mark([pair[place] for pair in pairs], asked[place], _NO_PARTNER[place]) for place in (0, 1)]
    join.set("on", exp.and_(*(part.copy() for part in rest), exp.EQ(this=marks[0], expression=marks[1])))
    return True


def _refuse_unowned_column(part: exp.Expr) -> None:
    """Refuse a condition whose side cannot be determined. An equality belongs to both sides."""
    is_equality = isinstance(part, exp.EQ) and referenced_tables(part.left) and referenced_tables(part.right)
    if "" in referenced_tables(part) and not is_equality:
        raise unowned_column(next(c for c in part.find_all(exp.Column) if not c.table))


def _partner_mark(keys: Sequence[exp.Expr], asked: Sequence[exp.Expr], no_partner: int) -> exp.Expr:
    """Build a key that is 0 for rows that can match. It must not become a constant for keys that are never null."""
    able = exp.and_(*map(_not_null, keys), *(part.copy() for part in asked))
    hashed = call("HASH", *(key.copy() for key in keys))
    zero = exp.BitwiseAnd(this=hashed, expression=exp.Literal.number(0))
    return exp.Case().when(able, zero).else_(exp.Literal.number(no_partner))


def _require_keys(select: exp.Select, join: exp.Join, left: Sequence[QueryRelation], right: QueryRelation) -> bool:
    """Filter out rows without a key where Spark does not: it does so by itself for plain columns only."""
    aliases = {r.alias.casefold() for r in left}
    written = False
    for holder in (join.args.get("on"), where_condition(select)):
        parts = conjuncts(holder)
        pairs = [pair for part in parts if (pair := equal_sides(part, aliases, right.alias.casefold())) is not None]
        if known := [_not_null(pair[1]) for pair in pairs if _is_computed(pair)]:
            both = combine_conditions([*parts, *known])
            assert both is not None
            if holder is join.args.get("on"):
                join.set("on", both.this)
            else:
                select.set("where", both)
            written = True
    return written


def _is_computed(pair: tuple[exp.Expr, exp.Expr]) -> bool:
    return not any(isinstance(key, exp.Column | exp.Dot) for key in pair)


def _not_null(key: exp.Expr) -> exp.Expr:
    return exp.Paren(this=key.copy()).is_(exp.null()).not_()
