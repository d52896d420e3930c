"""Conditions of joins: whether an operator runs the join, its equalities, and its filters on one side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.parse.query import offset_of
from penstock.sql.stateful.joins.time_bounds import (
    BOTH,
    DROPS,
    OUTER,
    is_event_time,
    ordered_sides,
    pair_conditions,
    time_bounds,
)
from penstock.sql.stateful.late_rows import refuse_hidden_late_rows
from penstock.sql.stateful.select import combine_conditions, conjuncts, referenced_tables
from penstock.sql.stateful.stages import QueryRelation, StageBuilder, UnsupportedStream

BETWEEN: Final = "bound it in time on both sides: `b.at BETWEEN a.at AND a.at + INTERVAL '1' HOUR`"


def is_operator_join(
    plan: StageBuilder, join: exp.Join, left: list[QueryRelation], right: QueryRelation, where: exp.Expr | None
) -> bool:
    """Whether one of our operators must run a join. Spark runs a join with a table, in every batch."""
    if right.flow.static:
        if join.side in {"RIGHT", "FULL"}:
            hint = "use JOIN or LEFT JOIN: nothing comes from a table"
            raise UnsupportedStream(f"{join.side} JOIN with a table", join, hint)
        return False
    if right.flow.kind == "rows" and all(r.flow.static for r in left):
        if join.side in {"LEFT", "FULL"} or join.kind in {"SEMI", "ANTI"}:
            hint = "use JOIN or RIGHT JOIN, or begin with the stream: nothing comes from a table"
            raise UnsupportedStream(f"{join.side or join.kind} JOIN with a table", join, hint)
        return False
    if all(r.flow.static for r in left):
        raise UnsupportedStream("changes behind a table", join, "begin with the changes: FROM changes JOIN table")
    if join.this.args.get("version") is not None or join.kind == "ANTI":
        return True
    if any(r.flow.kind != "rows" for r in (*left, right)):
        return True
    bounds = time_bounds(join, left, right, where)
    if join.side in OUTER and not bounds >= DROPS[join.side]:
        return True
    if len(bounds) < len(BOTH):
        plan.note_unbounded_state(*_unbounded_state(join, left, right, where, half=bool(bounds)))
        if plan.ttl_ms is not None and join.side not in OUTER:
            return True
    if bounds:
        plan.by_time = True
        refuse_hidden_late_rows(join, (*left, right))
    if not _can_be_equal(join, left, right, where):
        raise _missing_equality(join)
    return False


def _unbounded_state(
    join: exp.Join, left: list[QueryRelation], right: QueryRelation, where: exp.Expr | None, *, half: bool
) -> tuple[str, int, str]:
    """Describe the state that is never dropped: its name, its offset, and a hint that bounds it."""
    if half:
        return "JOIN bounded in time on one side only", offset_of(join), BETWEEN
    relations = {r.alias.casefold(): r for r in (*left, right)}
    for part in pair_conditions(join, where):
        columns = [c for c in part.find_all(exp.Column) if c.table.casefold() in relations]
        others = [c for c in columns if not is_event_time(c, relations[c.table.casefold()])]
        timely = part.find(exp.Interval) is not None or len(others) < len(columns)
        if others and timely and ordered_sides(part) and len({c.table.casefold() for c in columns}) > 1:
            name = f"JOIN by `{others[0].table}.{others[0].name}` (no event time)"
            return name, offset_of(join), event_time_hint(others[0], relations[others[0].table.casefold()])
    return "JOIN without a bound in time", offset_of(join), BETWEEN


def event_time_hint(column: exp.Column, relation: QueryRelation) -> str:
    """Return the hint for a column that is not event time."""
    if relation.flow.times:
        return f"use `{min(relation.flow.times)}`, the event time of `{relation.alias}`"
    return f"declare `event_time: {{column: {column.name}}}` on the source of `{relation.alias}`"


def is_processing_time(node: exp.Expr, relations: Sequence[QueryRelation]) -> bool:
    """Whether an expression is processing time, which means that rows are processed as they arrive."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() == "PROCTIME"
    return isinstance(node, exp.Column) and any(
        node.name.casefold() in r.flow.clocks and node.table.casefold() in ("", r.alias.casefold()) for r in relations
    )


def _can_be_equal(join: exp.Join, left: list[QueryRelation], right: QueryRelation, where: exp.Expr | None) -> bool:
    """Whether a join may have an equality of both sides, as far as the owners of columns are known."""
    parts = pair_conditions(join, where)
    aliases = {r.alias.casefold() for r in left}
    if join.args.get("using") or any("" in referenced_tables(part) for part in parts):
        return True
    return any(equal_sides(part, aliases, right.alias.casefold()) is not None for part in parts)


def _missing_equality(join: exp.Join) -> UnsupportedStream:
    return UnsupportedStream("a join without an equality", join, "add `left.column = right.column` to its condition")


@dataclass(frozen=True, slots=True)
class JoinConditions:
    """The conditions of a join: pairs of equal expressions, filters that can run before it, and the rest."""

    left: tuple[exp.Expr, ...]
    right: tuple[exp.Expr, ...]
    on_left: tuple[exp.Expr, ...]
    on_right: tuple[exp.Expr, ...]
    rest: tuple[exp.Expr, ...]


def join_conditions(
    join: exp.Join, left: list[QueryRelation], right: QueryRelation, where: exp.Expr | None
) -> JoinConditions:
    aliases, right_alias = {r.alias.casefold() for r in left}, right.alias.casefold()
    pairs = [_using_pair(name.name.casefold(), left, right) for name in join.args.get("using") or ()]
    on_left: list[exp.Expr] = []
    on_right: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    for part in conjuncts(join.args.get("on")):
        tables = referenced_tables(part)
        if (pair := equal_sides(part, aliases, right_alias)) is not None:
            pairs.append(pair)
        elif tables == {right_alias} and join.side in {"", "LEFT"}:
            on_right.append(part)
        elif tables and tables <= aliases and join.side in {"", "RIGHT"}:
            on_left.append(part)
        elif part != exp.true():
            rest.append(part)
    if join.side not in OUTER:
        pairs += [pair for part in conjuncts(where) if (pair := equal_sides(part, aliases, right_alias)) is not None]
    if not pairs:
        raise _missing_equality(join)
    ones, others = zip(*pairs, strict=True)
    return JoinConditions(tuple(ones), tuple(others), tuple(on_left), tuple(on_right), tuple(rest))


def _using_pair(name: str, left: Sequence[QueryRelation], right: QueryRelation) -> tuple[exp.Expr, exp.Expr]:
    """Return the two columns that USING compares."""
    owner = next((r for r in left if r.flow.has(name)), left[0])
    one, other = (exp.column(name, table=r.alias, quoted=True) for r in (owner, right))
    return one, other


def equal_sides(part: exp.Expr, left: set[str], right: str) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the two sides of an equality, the left side of the join first; None for other conditions."""
    if not isinstance(part, exp.EQ):
        return None
    one, other = referenced_tables(part.left), referenced_tables(part.right)
    if one and one <= left and other == {right}:
        return part.left, part.right
    if other and other <= left and one == {right}:
        return part.right, part.left
    return None


def take_side_filters(
    select: exp.Select, join: exp.Join, place: int, left: list[QueryRelation], right: QueryRelation
) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Move conditions on one side of a join out of WHERE, to filter before the join and keep less state.

    This excludes a side whose rows may be null-padded, by this join or a later one.
    """
    where = select.args.get("where")
    later = (select.args.get("joins") or [])[place + 1 :]
    if where is None or any(j.side in {"RIGHT", "FULL"} for j in later):
        return [], []
    aliases, right_alias = {r.alias.casefold() for r in left}, right.alias.casefold()
    for_left: list[exp.Expr] = []
    for_right: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for part in conjuncts(where.this):
        tables = referenced_tables(part)
        if tables and tables <= aliases and join.side in {"", "LEFT"}:
            for_left.append(part)
        elif tables == {right_alias} and join.side in {"", "RIGHT"} and join.this.args.get("version") is None:
            for_right.append(part)
        else:
            others.append(part)
    select.set("where", combine_conditions(others))
    return for_left, for_right
