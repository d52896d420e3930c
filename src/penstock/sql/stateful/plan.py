"""Split a tree into stages: subqueries first, then the SELECT around them: its joins, and then its outputs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from penstock.sql.analyze.statefulness import over_offset
from penstock.sql.analyze.window_columns import index_windows
from penstock.sql.catalog.function_names import is_group_aggregate
from penstock.sql.parse.query import Problem, offset_of
from penstock.sql.stateful.changelog import (
    add_change_order,
    forward_changes,
    read_ordered_changes,
    read_signed_rows,
    signed_view,
)
from penstock.sql.stateful.group_by import extract_group, extract_total
from penstock.sql.stateful.joins.comma_joins import move_join_conditions
from penstock.sql.stateful.joins.conditions import BETWEEN
from penstock.sql.stateful.joins.lags import LATE_CODE, describe_late_rows, join_lag, late_input_hint, note_late_joins
from penstock.sql.stateful.joins.native_joins import rewrite_joins
from penstock.sql.stateful.joins.plan_joins import operator_joins, plan_joins, sign_unfolded
from penstock.sql.stateful.joins.time_bounds import guard_comparisons
from penstock.sql.stateful.late_rows import closing_window, needs_operator_close
from penstock.sql.stateful.over import extract_over, over_calls
from penstock.sql.stateful.qualify import qualify_columns
from penstock.sql.stateful.relations import collect_relations, inline_ctes, inline_relations
from penstock.sql.stateful.select import is_unnest_join, own_nodes
from penstock.sql.stateful.stages import (
    NO_LAG,
    Flow,
    JoinLag,
    QueryRelation,
    QueryStage,
    StageBuilder,
    UnsupportedStream,
)
from penstock.sql.stateful.stateless import stateless_flow
from penstock.sql.stateful.top_n import TopNQuery, extract_top_n, find_top_n
from penstock.sql.stateful.top_n_forms import isolate_top_n, normalize_top_n


@dataclass(frozen=True, slots=True)
class StagePlan:
    """A query in stages. `tree` reads the last stage; `ordered` are the inputs whose rows need their order.

    The key of changes names outputs; it is empty if no outputs determine it. `unbounded` has the constructs whose state
    grows for ever, with their offsets and hints; `by_time` is whether Spark joins by event time. `notes` are warnings.
    `lag` is how far the event times of its rows may be behind those of its inputs.
    """

    tree: exp.Query
    flow: Flow
    stages: tuple[QueryStage, ...] = ()
    ordered: frozenset[str] = frozenset()
    unbounded: tuple[tuple[str, int, str], ...] = ()
    problem: Problem | None = None
    by_time: bool = False
    notes: tuple[Problem, ...] = ()
    lag: JoinLag = NO_LAG


def plan_stages(
    tree: exp.Query,
    view: str,
    tables: Mapping[str, Flow],
    inputs: Collection[str],
    ttl_ms: int | None = None,
    *,
    nested: bool = False,
) -> StagePlan:
    """Split a tree into stages, and consume it. A query that needs no stages is returned unchanged.

    `inputs` are the tables that are read from outside. A `nested` query is read by another one in the same stream.
    """
    normalize_top_n(tree)
    plan = StageBuilder(view, tables, inputs, ttl_ms, index_windows(tree))
    try:
        flow = _plan_query(plan, tree, nested=nested)
    except UnsupportedStream as refusal:
        return StagePlan(tree, Flow(), problem=refusal.problem)
    tree, flow = _drop_hidden_columns(tree, flow)
    ordered, unbounded = frozenset(plan.ordered), tuple(plan.unbounded)
    notes, stages = tuple(plan.notes), tuple(plan.stages)
    return StagePlan(tree, flow, stages, ordered, unbounded, by_time=plan.by_time, notes=notes, lag=plan.lag)


def _drop_hidden_columns(tree: exp.Query, flow: Flow) -> tuple[exp.Query, Flow]:
    """Remove the outputs that are only hidden columns of a key."""
    if flow.kind != "changes" or not flow.hidden:
        return tree, flow
    star = exp.Star(except_=[exp.to_identifier(name, quoted=True) for name in sorted(flow.hidden)])
    inner = tree.subquery("_all", copy=False)
    return exp.Select(expressions=[star]).from_(inner, copy=False), replace(flow, key=(), hidden=frozenset())


def _plan_query(plan: StageBuilder, query: exp.Expr, *, nested: bool = True) -> Flow:
    with_ = query.args.get("with_")
    outer = dict(plan.local)
    for cte in with_.expressions if with_ is not None else ():
        flow = _plan_query(plan, cte.this)
        plan.local[cte.alias.casefold()] = QueryRelation(cte.alias, cte.this, flow)
    match query:
        case exp.Select():
            flow = _plan_select(plan, query, nested=nested)
        case exp.SetOperation():
            flow = _plan_union(plan, query)
        case exp.Subquery():
            flow = _plan_query(plan, query.this, nested=nested)
        case _:
            flow = Flow()
    if with_ is not None and plan.stages:
        query.set("with_", None)
        inline_ctes(query, plan.local)
    plan.local = outer
    return flow


def _plan_union(plan: StageBuilder, union: exp.SetOperation) -> Flow:
    sides = [_plan_query(plan, side) for side in (union.left, union.right)]
    if any(side.kind != "rows" for side in sides):
        hint = "unite the rows before they are grouped or joined"
        raise UnsupportedStream("UNION of changes", offset_of(union.right), hint)
    if isinstance(union, exp.Intersect):
        raise UnsupportedStream("INTERSECT", offset_of(union.right), "use an inner join")
    if isinstance(union, exp.Union) and union.args.get("distinct"):
        raise UnsupportedStream("UNION", offset_of(union.right), "write SELECT DISTINCT … FROM (… UNION ALL …)")
    one, other = sides
    return Flow(
        columns=one.columns,
        times=one.times & other.times,
        watermarked=one.watermarked and other.watermarked,
        lateness_ms=max(one.lateness_ms, other.lateness_ms),
        keeps_late=one.keeps_late or other.keeps_late,
        mixed=True,
        joined=one.joined or other.joined,
    )


def _plan_select(plan: StageBuilder, select: exp.Select, *, nested: bool) -> Flow:
    if select.args.get("from_") is None:
        return Flow()
    if (found := find_top_n(select)) is not None:
        if all(map(is_unnest_join, select.args.get("joins") or ())):
            return _plan_top_n(plan, select, found)
        isolate_top_n(select, found)
    return _plan_select_body(plan, select, collect_relations(plan, select, partial(_plan_query, plan)), nested=nested)


def _plan_top_n(plan: StageBuilder, select: exp.Select, found: TopNQuery) -> Flow:
    inner = found.inner
    relations = inline_relations(plan, collect_relations(plan, inner, partial(_plan_query, plan)))
    qualify_columns(inner, relations)
    relations = move_join_conditions(inner, relations) or relations
    plan.lag += join_lag(inner, relations)
    flow, relations = plan_joins(plan, inner, sign_unfolded(plan, inner, relations))
    if flow.kind == "changes":
        relations = [read_signed_rows(inner, relations[0], signed_view(plan, relations[0]))]
    relation = extract_top_n(plan, select, found, relations, signed=flow.kind != "rows")
    unfolded = [QueryRelation(join.this.alias_or_name, join.this, Flow()) for join in select.args.get("joins") or ()]
    qualify_columns(select, [relation, *unfolded])
    flow, relations = plan_joins(plan, select, sign_unfolded(plan, select, [relation, *unfolded]))
    return _plan_outputs(plan, select, relations, flow)


def _plan_select_body(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation], *, nested: bool) -> Flow:
    watched = all(r.flow.watermarked for r in relations)
    _note_late_windows(plan, select, relations)
    native = plan.has_window(select) and watched and not needs_operator_close(plan, select, relations)
    special = any(r.flow.kind != "rows" for r in relations)
    needs_operator = special or bool(over_calls(select)) or (_is_grouped(select) and not native) or _is_total(select)
    if native and select.args.get("distinct"):
        raise UnsupportedStream("SELECT DISTINCT over GROUP BY", offset_of(select), "group in a subquery")
    if not needs_operator and all(map(is_unnest_join, select.args.get("joins") or ())):
        guard_comparisons(select, relations)
        return stateless_flow(select, relations)
    before = select.copy()
    qualify_columns(select, relations, strict=False)
    ordered = move_join_conditions(select, relations)
    relations = relations if ordered is None else ordered
    plan.lag += join_lag(select, relations)
    note_late_joins(plan, select, relations)
    if not needs_operator and not operator_joins(plan, select, relations):
        flow = stateless_flow(select, relations)
        written = rewrite_joins(select, relations)
        if ordered is None:
            _restore_select(select, before, keep_joins=written)
        guard_comparisons(select, relations)
        return flow
    relations = inline_relations(plan, relations)
    changing = len(relations) == 1 and _is_changing_input(plan, relations[0])
    forwards = changing and not nested and bool(relations[0].flow.key) and _is_stateless(select)
    if forwards:
        relations = [read_ordered_changes(plan, select, relations[0])]
    qualify_columns(select, relations)
    if changing and (nested or (not relations[0].flow.key and _is_stateless(select))):
        relations = [read_signed_rows(select, relations[0], signed_view(plan, relations[0]))]
    flow, relations = plan_joins(plan, select, sign_unfolded(plan, select, relations))
    found = _plan_outputs(plan, select, relations, flow)
    return add_change_order(select, found) if forwards else found


def _note_late_windows(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation]) -> None:
    """Note a window over the time of rows that a join emits at any time: many of them are late for the window."""
    made = plan.windows.made.get(id(select))
    time = None if made is None else made.call.time
    if not isinstance(time, exp.Column):
        return
    output = exp.Select(expressions=[exp.alias_(time.copy(), "_time")])
    for name in ("joins", "where"):
        output.set(name, select.args.get(name))
    if "_time" in stateless_flow(output, relations).stale:
        text = describe_late_rows(time.name, "the window")
        hint = late_input_hint(time, relations, plan.inputs) or BETWEEN
        plan.notes.append(Problem(LATE_CODE, text, offset_of(time), hint, time.name))


def _is_stateless(select: exp.Select) -> bool:
    """Whether a SELECT keeps no state."""
    return not (_is_grouped(select) or over_calls(select) or _is_total(select))


def _restore_select(select: exp.Select, before: exp.Select, *, keep_joins: bool) -> None:
    """Restore a SELECT as written, but keep its joins if these were rewritten."""
    for name in ("expressions", "group", "having", *(() if keep_joins else ("where", "joins"))):
        select.set(name, before.args.get(name))


def _is_grouped(select: exp.Select) -> bool:
    return select.args.get("group") is not None or bool(select.args.get("distinct"))


def _is_total(select: exp.Select) -> bool:
    """Whether a SELECT aggregates all rows into one."""
    return not _is_grouped(select) and any(is_group_aggregate(node) for node in own_nodes(select))


def _is_changing_input(plan: StageBuilder, relation: QueryRelation) -> bool:
    """Whether one batch can have several changes of a key. Their order is known only where the input is read."""
    node = relation.node
    return relation.flow.kind == "changes" and isinstance(node, exp.Table) and node.name in plan.inputs


def _plan_outputs(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation], flow: Flow) -> Flow:
    """Plan the rest of a SELECT over joined rows: OVER, GROUP BY, DISTINCT, or only outputs."""
    if plan.has_window(select):
        if flow.kind != "rows":
            raise UnsupportedStream("a window over changes", select, "use windows over append-only rows")
        if not flow.watermarked:
            hint = "compute it in another model, which reads this one"
            raise UnsupportedStream("a window behind another operator", select, hint)
        window = closing_window(plan, select, relations)
        if window is None:
            return stateless_flow(select, relations)
        return extract_group(plan, select, relations, window=window)
    if windows := over_calls(select):
        if flow.kind != "rows":
            raise UnsupportedStream("OVER of changes", over_offset(windows[0]), "use it over append-only rows")
        return extract_over(plan, select, relations, windows)
    if not _is_grouped(select) and not _is_total(select):
        return forward_changes(select, relations, flow)
    extract = extract_group if _is_grouped(select) else extract_total
    if flow.kind == "changes":
        view = signed_view(plan, relations[0])
        return extract(plan, select, [read_signed_rows(select, relations[0], view), *relations[1:]], signed=True)
    return extract(plan, select, relations, signed=flow.kind == "signed")
