"""The lag of joined rows behind event time, which a reader of their topic must wait for.

A pair is emitted when the later of its rows arrives. The other row has waited for it, so its event time is behind by as
much as the condition allows the two to differ. Inside a query Spark takes that into account; a reader of the topic only
sees the times of the rows.
"""

from collections.abc import Collection, Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.parse.query import Problem, offset_of
from penstock.sql.parse.window_calls import milliseconds
from penstock.sql.stateful.joins.time_bounds import OUTER, is_time_span, ordered_sides, pair_conditions
from penstock.sql.stateful.select import is_unnest_join, where_condition
from penstock.sql.stateful.stages import NO_LAG, JoinLag, QueryRelation, StageBuilder

LATE_CODE: Final = "window-over-late-rows"


def join_lag(select: exp.Select, relations: Sequence[QueryRelation]) -> JoinLag:
    """Return how far the output rows of a SELECT's joins may lag behind their inputs."""
    where, lag = where_condition(select), NO_LAG
    for place, join in enumerate(select.args.get("joins") or ()):
        if is_unnest_join(join) or place + 1 >= len(relations) or join.this.args.get("version") is not None:
            continue
        left, right = [r for r in relations[: place + 1] if not r.flow.static], relations[place + 1]
        if left and not right.flow.static:
            lag += _single_join_lag(join, left, right, where)
    return lag


def _single_join_lag(
    join: exp.Join, left: Sequence[QueryRelation], right: QueryRelation, where: exp.Expr | None
) -> JoinLag:
    lows: list[int] = []
    highs: list[int] = []
    for lesser, greater in (pair for part in pair_conditions(join, where) for pair in ordered_sides(part)):
        ends = _shift_millis(lesser), _shift_millis(greater)
        if ends[0] is None or ends[1] is None:
            continue
        if is_time_span(lesser, left) and is_time_span(greater, [right]):
            lows.append(ends[0] - ends[1])
        elif is_time_span(lesser, [right]) and is_time_span(greater, left):
            highs.append(ends[1] - ends[0])
    behind_ms = max(0, min(highs, default=0)) + max(0, -max(lows, default=0))
    return JoinLag(True, behind_ms, bool(lows) and bool(highs) and join.side not in OUTER)


def _shift_millis(node: exp.Expr) -> int | None:
    """Return the milliseconds that are added to a time; None if they are not constant."""
    match node:
        case exp.Column():
            return 0
        case exp.Paren() | exp.Cast():
            return _shift_millis(node.this)
        case exp.Add() | exp.Sub():
            sign = 1 if isinstance(node, exp.Add) else -1
            own, length = _shift_millis(node.left), milliseconds(node.right)
            if length is None and sign > 0:
                own, length = _shift_millis(node.right), milliseconds(node.left)
            return None if own is None or length is None else own + sign * length
        case _:
            return None


# Readers of such rows


def describe_late_rows(time: str, reader: str) -> str:
    return f"rows that come out of a join when event time has passed `{time}` are late for {reader}, and dropped"


def late_input_hint(time: exp.Column, relations: Sequence[QueryRelation], inputs: Collection[str]) -> str | None:
    """Return the hint for an input whose rows a join of another model emits late; None if there is none."""
    for relation in relations:
        is_input = isinstance(relation.node, exp.Table) and relation.node.name in inputs
        is_owner = time.table.casefold() in ("", relation.alias.casefold())
        if is_input and is_owner and time.name.casefold() in relation.flow.stale:
            said = f"event_time: {{column: {time.name}, watermark: {{max_out_of_orderness_ms: …}}}}"
            return f"declare `{said}` on the model that joins them, or bound its join in time on both sides"
    return None


def note_late_input(plan: StageBuilder, time: exp.Expr, relations: Sequence[QueryRelation], name: str) -> None:
    """Note a part of the query that drops late rows of an input, by a time that a join of another model emits late."""
    hint = late_input_hint(time, relations, plan.inputs) if isinstance(time, exp.Column) else None
    if hint is not None:
        text = describe_late_rows(time.name, name)
        if not any(note.message == text for note in plan.notes):
            plan.notes.append(Problem(LATE_CODE, text, offset_of(time), hint, time.name))


def note_late_joins(plan: StageBuilder, select: exp.Select, relations: Sequence[QueryRelation]) -> None:
    """Note the joins by event time that drop late rows of an input."""
    where = where_condition(select)
    joins = [join for join in select.args.get("joins") or () if not is_unnest_join(join)]
    parts = [part for join in joins for part in pair_conditions(join, where)]
    for lesser, greater in (pair for part in parts for pair in ordered_sides(part)):
        if is_time_span(lesser, relations) and is_time_span(greater, relations):
            for column in (*lesser.find_all(exp.Column), *greater.find_all(exp.Column)):
                note_late_input(plan, column, relations, "the join")
