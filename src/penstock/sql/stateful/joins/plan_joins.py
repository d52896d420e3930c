"""Split the joins of a SELECT into those that Spark runs and those that an operator runs."""

from dataclasses import replace

from sqlglot import exp

from penstock.sql.stateful.changelog import read_signed_rows, signed_view
from penstock.sql.stateful.joins.changelog_joins import join_changes, join_versions
from penstock.sql.stateful.joins.conditions import is_operator_join
from penstock.sql.stateful.joins.interval_joins import find_intervals, join_intervals
from penstock.sql.stateful.joins.native_joins import rewrite_joins
from penstock.sql.stateful.joins.time_bounds import OUTER, guard_comparisons
from penstock.sql.stateful.select import is_unnest_join, where_condition
from penstock.sql.stateful.stages import Flow, FlowKind, QueryRelation, StageBuilder


def operator_joins(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation]) -> list[int]:
    """Return the positions of the operators' joins: from the first one on, as Spark has no event time after it."""
    found: list[int] = []
    for place, join in enumerate(select.args.get("joins") or ()):
        if is_unnest_join(join):
            continue
        left, right = relations[: place + 1], relations[place + 1]
        if found or is_operator_join(plan, join, left, right, where_condition(select)):
            found.append(place)
    return found


def plan_joins(
    plan: StageBuilder, select: exp.Select, relations: list[QueryRelation]
) -> tuple[Flow, list[QueryRelation]]:
    """Extract the joins that need an operator, from left to right. Return the flow of rows after them."""
    if len(relations) == 1:
        guard_comparisons(select, relations)
        return relations[0].flow, relations
    if relations[0].flow.kind != "rows" and all(map(is_unnest_join, select.args.get("joins") or ())):
        return relations[0].flow, relations
    places = operator_joins(plan, select, relations)
    rewrite_joins(select, relations, places[0] if places else None)
    guard_comparisons(select, relations, places[0] if places else None)
    kind: FlowKind = "signed" if any(r.flow.kind == "signed" for r in relations) else "rows"
    flow = Flow(kind, watermarked=all(r.flow.watermarked for r in relations))
    if not places:
        return flow, [replace(r, flow=replace(r.flow, watermarked=flow.watermarked)) for r in relations]
    done = 0
    for place in places:
        join = (select.args.get("joins") or [])[place - done]
        left, right = relations[: place + 1], relations[place + 1]
        flow = _plan_join(plan, select, left, right, join, place - done)
        behind = [
            replace(r, flow=replace(r.flow, kind=flow.kind, key=(), hidden=frozenset(), watermarked=False), packed=True)
            for r in (*left, right)
        ]
        relations = [*behind, *relations[place + 2 :]]
        done = place + 1
    return flow, relations


def _plan_join(
    plan: StageBuilder, select: exp.Select, left: list[QueryRelation], right: QueryRelation, join: exp.Join, place: int
) -> Flow:
    """Extract one join that an operator must run."""
    if join.this.args.get("version") is not None:
        return join_versions(plan, select, left, right, join, place)
    intervals = find_intervals(join, left, right) if join.side in OUTER and not join.kind else None
    if intervals is not None:
        return join_intervals(plan, select, left, right, join, place, intervals)
    return join_changes(plan, select, left, right, join, place)


def sign_unfolded(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation]) -> list[QueryRelation]:
    """Read changes as signed rows where one change becomes several rows, which its key cannot tell apart.

    UNNEST makes several rows of one, and so can a lookup table.
    """
    first, *others = relations
    joins = select.args.get("joins") or ()
    looked_up = any(other.flow.static for other in others)
    if first.flow.kind != "changes" or not (looked_up or any(map(is_unnest_join, joins))):
        return relations
    return [read_signed_rows(select, first, signed_view(plan, first)), *others]
