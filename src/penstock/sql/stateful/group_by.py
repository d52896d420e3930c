"""GROUP BY and DISTINCT that Spark does not support: an operator keeps an accumulator per key and emits changes."""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import Aggregate
from penstock.row_columns import BEFORE, OP, SIGN
from penstock.sql.parse.query import offset_of
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.changelog import free_name
from penstock.sql.stateful.group_calls import GroupCalls
from penstock.sql.stateful.late_rows import ClosingWindow, late_rows_query
from penstock.sql.stateful.qualify import expand_stars, internal_column, resolve_aliases, resolve_ordinals
from penstock.sql.stateful.select import pack_rows, read_view
from penstock.sql.stateful.stages import Flow, QueryRelation, StageBuilder, UnsupportedStream

_SETS: Final = {exp.GroupingSets: "grouping_sets", exp.Rollup: "rollup", exp.Cube: "cube"}


def extract_group(
    plan: StageBuilder,
    select: exp.Select,
    relations: list[QueryRelation],
    *,
    signed: bool = False,
    window: ClosingWindow | None = None,
) -> Flow:
    """Extract the grouping from a SELECT, which then reads the operator's output. A window is emitted once closed."""
    clause, having = select.args.get("group"), select.args.get("having")
    offset = offset_of(clause or select)
    calls = GroupCalls(_group_keys(select, relations, offset), windowed=window is not None)
    outputs = [calls.output(e) for e in select.expressions]
    condition = calls.lift_expression(having.this) if having is not None else None
    once = window is not None and not window.lateness_ms
    with_before = condition is not None and not once
    view = _aggregate_view(plan, select, relations, calls, window, signed=signed, with_before=with_before)
    if window is None:
        plan.note_unbounded_state("SELECT DISTINCT" if clause is None else "GROUP BY without a window", offset)
    for name in ("group", "having", "where", "distinct"):
        select.set(name, None)
    read_view(select, view)
    if once or not (signed or calls.calls or condition is not None):
        select.set("expressions", outputs)
        select.set("where", None if condition is None else exp.Where(this=condition))
        return Flow(columns=tuple(e.alias_or_name for e in outputs), watermarked=False)
    return _output_changes(select, outputs, calls, condition, window)


def extract_total(plan: StageBuilder, select: exp.Select, relations: list[QueryRelation], *, signed: bool) -> Flow:
    """Extract aggregates over all rows from a SELECT: one row, which is retracted when a new one replaces it."""
    having = select.args.get("having")
    calls = GroupCalls([], windowed=False)
    outputs = [calls.output(e) for e in select.expressions]
    condition = calls.lift_expression(having.this) if having is not None else None
    view = _aggregate_view(plan, select, relations, calls, None, signed=signed, with_before=True)
    now = _signed_struct(outputs, condition, "d", 1)
    before = _signed_struct(
        [exp.alias_(_before_expression(e.unalias(), calls), e.alias, quoted=True) for e in outputs],
        None if condition is None else _before_expression(condition, calls),
        "i",
        -1,
    )
    both = call("array_compact", call("array", before, now))
    inner = exp.Select(expressions=[exp.alias_(call("explode", both), _TOTAL)])
    read_view(inner, view)
    for name in ("having", "where", "joins", "laterals"):
        select.set(name, None)
    select.set("from_", exp.From(this=inner.subquery("_t", copy=False)))
    select.set("expressions", [exp.Column(this=exp.Star(), table=exp.to_identifier(_TOTAL))])
    return Flow("signed", columns=tuple(e.alias for e in outputs), watermarked=False)


def _signed_struct(outputs: list[exp.Expr], condition: exp.Expr | None, absent: str, sign: int) -> exp.Expr:
    """Build a signed row as a struct: null unless the row existed before the change, or exists after it."""
    mark = exp.alias_(exp.cast(exp.Literal.number(sign), "tinyint"), SIGN)
    row = call("struct", *(e.copy() for e in outputs), mark)
    there: exp.Expr = exp.column(OP, quoted=True).neq(absent)
    return exp.Case().when(there if condition is None else exp.and_(there, condition.copy()), row)


_TOTAL: Final = "_total"


def _group_keys(select: exp.Select, relations: list[QueryRelation], offset: int) -> list[exp.Expr]:
    """Return the grouping keys of a SELECT; all its outputs for DISTINCT."""
    clause = select.args.get("group")
    if clause is None:
        if not expand_stars(select, relations):
            raise UnsupportedStream("SELECT DISTINCT *", offset, "name the columns")
        return [e.unalias() for e in select.expressions]
    _refuse_sets(clause)
    if select.args.get("distinct"):
        raise UnsupportedStream("SELECT DISTINCT over GROUP BY", offset, "group in a subquery")
    resolve_aliases(select, clause, select.args.get("having"))
    resolve_ordinals(select, clause)
    return list(clause.expressions)


def _aggregate_view(
    plan: StageBuilder,
    select: exp.Select,
    relations: list[QueryRelation],
    calls: GroupCalls,
    window: ClosingWindow | None,
    *,
    signed: bool,
    with_before: bool,
) -> str:
    """Return the view of the operator's output."""
    keys = [exp.alias_(key.copy(), name) for key, name in calls.named_keys()]
    arguments = [exp.alias_(a, name) for name, a in calls.arguments.items()]
    sign = [exp.alias_(exp.column(SIGN), SIGN)] if signed else []
    inner = pack_rows(plan, select, relations, [*keys, *arguments, *sign], rows=False, order=calls.in_order)
    operator = Aggregate(
        keys=tuple(calls.names),
        calls=tuple(calls.calls),
        signed=signed,
        with_before=with_before,
        ttl_ms=plan.ttl_ms if window is None else None,
        closes=None if window is None else calls.names[calls.keys.index(window.end)],
        lateness_ms=0 if window is None else window.lateness_ms,
    )
    late = None if window is None else late_rows_query(select, relations, window.end)
    return plan.operator(operator, plan.sql(inner), late=late)


def _output_changes(
    select: exp.Select,
    outputs: list[exp.Expr],
    calls: GroupCalls,
    condition: exp.Expr | None,
    window: ClosingWindow | None,
) -> Flow:
    """Emit changes by key. Columns of the key that are not outputs become hidden columns."""
    flow = Flow(columns=tuple(e.alias_or_name for e in outputs), watermarked=False)
    identifier = None if window is None else _window_output(window, outputs, calls)
    spare = () if window is None or identifier is None else (window.start, *window.identifiers)
    names = [name for key, name in calls.named_keys() if key not in spare]
    shown = {e.unalias().name: e.alias_or_name for e in outputs if isinstance(e.unalias(), exp.Column)}
    hidden = {name: free_name(name, flow) for name in names if name not in shown}
    key_columns = [exp.alias_(internal_column(name), other) for name, other in hidden.items()]
    operation = exp.column(OP, quoted=True) if condition is None else _having_operation(condition, calls)
    select.set("expressions", [*outputs, exp.alias_(operation, OP, quoted=True), *key_columns])
    if condition is not None:
        _filter_changes(select)
    key = (*(shown.get(name) or hidden[name] for name in names), *([identifier] if identifier else []))
    return replace(flow, kind="changes", key=key, hidden=frozenset(hidden.values()))


def _window_output(window: ClosingWindow, outputs: list[exp.Expr], calls: GroupCalls) -> str | None:
    """Return the output that identifies a window; None if there is none."""
    ends = [calls.lift_expression(end) for end in window.identifiers]
    return next((e.alias_or_name for end in ends for e in outputs if e.unalias() == end), None)


def _refuse_sets(clause: exp.Group) -> None:
    given = [*clause.expressions, *(e for name in _SETS.values() for e in clause.args.get(name) or ())]
    for kind, name in _SETS.items():
        if any(isinstance(e, kind) for e in given):
            raise UnsupportedStream(name.replace("_", " ").upper(), clause, "write one model for each set of columns")


# HAVING


def _having_operation(condition: exp.Expr, calls: GroupCalls) -> exp.Expr:
    """Build the operation of a change if only groups that meet a condition are emitted."""
    now = exp.and_(exp.column(OP).neq("d"), exp.func("COALESCE", condition.copy(), exp.false()))
    was = _before_expression(condition, calls)
    before = exp.and_(exp.column(OP).neq("i"), exp.func("COALESCE", was, exp.false()))
    return exp.Case().when(exp.and_(now, before), "'u'").when(now, "'i'").when(before.copy(), "'d'")


def _before_expression(node: exp.Expr, calls: GroupCalls) -> exp.Expr:
    """Rewrite an expression to use the results of the calls before the change."""
    root = exp.Paren(this=node.copy())
    for column in list(root.find_all(exp.Column)):
        if column.name in {call.name for call in calls.calls}:
            column.replace(exp.Dot.build([exp.column(BEFORE), exp.to_identifier(column.name)]))
    was = root.this
    assert isinstance(was, exp.Expr)
    return was


def _filter_changes(select: exp.Select) -> None:
    """Filter out groups that met the condition neither before nor after the change."""
    inner = select.copy()
    select.set("expressions", [exp.Star()])
    select.set("from_", exp.From(this=inner.subquery("_g", copy=False)))
    select.set("where", exp.Where(this=exp.column(OP).is_(exp.null()).not_()))
