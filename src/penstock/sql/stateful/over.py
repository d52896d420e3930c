"""Functions with OVER: every row once, with results over the earlier rows of its partition."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlglot import exp

from penstock.keyed.operators import OverCall, OverWindow
from penstock.sql.analyze.statefulness import over_offset
from penstock.sql.catalog.function_names import needs_over, written_name
from penstock.sql.parse.window_calls import milliseconds
from penstock.sql.stateful.calls import avg_expression, name_argument
from penstock.sql.stateful.joins.conditions import event_time_hint, is_processing_time
from penstock.sql.stateful.joins.lags import note_late_input
from penstock.sql.stateful.joins.time_bounds import is_event_time, timely_relations
from penstock.sql.stateful.late_rows import late_rows_query
from penstock.sql.stateful.qualify import internal_column, resolve_aliases
from penstock.sql.stateful.select import own_nodes, pack_rows, read_view
from penstock.sql.stateful.stages import Flow, QueryRelation, StageBuilder, UnsupportedStream
from penstock.sql.stateful.stateless import stateless_flow

_UNTIMED: Final = "OVER that is not ordered by time alone"
_TIMED: Final = "write ORDER BY and the event time, ascending"
_ENDS: Final = (exp.First, exp.FirstValue, exp.Last, exp.LastValue)
_FUNCTIONS: Final[Mapping[type[exp.Expr], str]] = {
    exp.First: "first", exp.FirstValue: "first", exp.Last: "last", exp.LastValue: "last", exp.Max: "max",
    exp.Min: "min", exp.Sum: "sum",
}  # fmt: skip
_FIRST_ROWS: Final = (
    "number rows with ROW_NUMBER in a subquery, and write `rn = 1` or `rn <= N` in the WHERE around it; "
    "or QUALIFY ROW_NUMBER() OVER (…) <= N"
)


def over_calls(select: exp.Select) -> list[exp.Window]:
    return [node for node in own_nodes(select) if isinstance(node, exp.Window) and node.args.get("over")]


def extract_over(
    plan: StageBuilder, select: exp.Select, relations: list[QueryRelation], windows: list[exp.Window]
) -> Flow:
    """Extract the functions with OVER from a SELECT, which then reads the operator's output."""
    place = over_offset(windows[0])
    if select.args.get("group") is not None or select.args.get("distinct"):
        word = "GROUP BY" if select.args.get("group") is not None else "DISTINCT"
        raise UnsupportedStream(f"OVER beside {word}", place, "put one of the two into a subquery")
    named = {w.this.name.casefold(): w for w in select.args.get("windows") or ()}
    resolve_aliases(select, *windows, *named.values())
    resolved = [_resolve_frame(w, named) for w in windows]
    partition, order = resolved[0].partition, resolved[0].order
    for window, frame in zip(windows, resolved, strict=True):
        if (frame.partition, frame.order) != (partition, order):
            name = "OVER with several partitions or orders"
            raise UnsupportedStream(name, over_offset(window), "write a model for each")
    if order is None:
        raise UnsupportedStream("OVER without ORDER BY", place, "add ORDER BY with the event time")
    time = _order_time(order, relations, windows)
    if isinstance(time, exp.Column) and not any(is_event_time(time, r) for r in timely_relations(select, relations)):
        hint = "bound the join in time, or order by PROCTIME()"
        raise UnsupportedStream("OVER by event time behind a join without a bound in time", place, hint)
    if time is not None:
        note_late_input(plan, time, relations, "OVER")
    flow = replace(stateless_flow(select, relations), watermarked=False)
    calls = _OverCalls()
    for window, frame in zip(windows, resolved, strict=True):
        window.replace(calls.replace_call(window.this, frame))
    keys = [exp.alias_(e.copy(), f"_p{place}") for place, e in enumerate(partition)]
    select.set("windows", None)
    moment = [exp.alias_(time.copy(), "_t")] if time is not None else []
    arguments = [exp.alias_(a.copy(), name) for name, a in calls.arguments.items()]
    inner = pack_rows(plan, select, relations, [*keys, *moment, *arguments], order=time is None)
    operator = OverWindow(
        partition=tuple(k.alias for k in keys),
        time="_t" if time is not None else None,
        calls=tuple(calls.calls),
        ttl_ms=plan.ttl_ms,
    )
    late = None if time is None else late_rows_query(select, relations, time)
    view = plan.operator(operator, plan.sql(inner), late=late)
    plan.note_unbounded_state("OVER", place)
    select.set("where", None)
    read_view(select, view)
    return flow


@dataclass(frozen=True, slots=True)
class _OverFrame:
    partition: tuple[exp.Expr, ...]
    order: exp.Expr | None
    rows: int | None = None
    range_ms: int | None = None
    by_row: bool = False


def _resolve_frame(window: exp.Window, named: dict[str, exp.Window]) -> _OverFrame:
    meant = named.get(window.alias.casefold(), window) if window.alias else window
    order = meant.args.get("order")
    ordered = order.expressions if order is not None else []
    if len(ordered) > 1 or any(o.args.get("desc") for o in ordered):
        raise _untimed_error(window)
    partition = tuple(meant.args.get("partition_by") or ())
    frame = _OverFrame(partition, ordered[0].this if ordered else None)
    spec = meant.args.get("spec") or window.args.get("spec")
    if spec is None:
        return frame
    if (spec.args.get("end") or "CURRENT ROW") != "CURRENT ROW" or spec.args.get("start_side") == "FOLLOWING":
        name = "a frame that reaches beyond the row"
        raise UnsupportedStream(name, over_offset(window), "end the frame with CURRENT ROW")
    if spec.args.get("start") == "UNBOUNDED":
        return replace(frame, by_row=spec.args.get("kind") == "ROWS")
    rows, range_ms = _frame_bounds(spec, window)
    return replace(frame, rows=rows, range_ms=range_ms)


def _frame_bounds(spec: exp.Expr, window: exp.Window) -> tuple[int | None, int | None]:
    start = spec.args.get("start")
    if start == "CURRENT ROW":
        return (0, None) if spec.args.get("kind") == "ROWS" else (None, 0)
    if spec.args.get("kind") == "ROWS" and isinstance(start, exp.Literal):
        return int(start.this), None
    range_ms = milliseconds(start) if spec.args.get("kind") == "RANGE" and isinstance(start, exp.Expr) else None
    if range_ms is not None and range_ms >= 0:
        return None, range_ms
    hint = "write ROWS BETWEEN n PRECEDING or RANGE BETWEEN INTERVAL … PRECEDING"
    raise UnsupportedStream("this frame of OVER", over_offset(window), hint)


def _order_time(order: exp.Expr, relations: list[QueryRelation], windows: list[exp.Window]) -> exp.Expr | None:
    """Return the event time that orders the rows; None if they are processed as they arrive."""
    if is_processing_time(order, relations):
        return None
    if not isinstance(order, exp.Column):
        raise _untimed_error(windows[0])
    if any(r.flow.watermarked and is_event_time(order, r) for r in relations):
        return order
    ranks = [window for window in windows if _is_rank(window.this)]
    owner = next((r for r in relations if r.alias.casefold() == order.table.casefold()), None)
    if ranks or owner is None or is_event_time(order, owner):
        raise _untimed_error(ranks[0] if ranks else windows[0])
    name = f"OVER ordered by `{order.name}` (no event time of `{owner.alias}`)"
    raise UnsupportedStream(name, over_offset(windows[0]), event_time_hint(order, owner))


def _untimed_error(window: exp.Window) -> UnsupportedStream:
    if _is_rank(window.this):
        lacking = "without a limit on the first rows" if isinstance(window.this, exp.RowNumber) else "with OVER"
        return UnsupportedStream(f"{written_name(window.this)} {lacking}", over_offset(window), _FIRST_ROWS)
    return UnsupportedStream(_UNTIMED, over_offset(window), _TIMED)


def _is_rank(node: exp.Expr) -> bool:
    return needs_over(node) and not isinstance(node, exp.Lag | exp.Lead | exp.NthValue)


@dataclass(slots=True)
class _OverCalls:
    calls: list[OverCall] = field(default_factory=list)
    arguments: dict[str, exp.Expr] = field(default_factory=dict)

    def replace_call(self, node: exp.Expr, frame: _OverFrame) -> exp.Expr:
        """Return the replacement of a function with OVER after the operator."""
        is_end = isinstance(node.this, _ENDS)
        if isinstance(node, exp.RespectNulls) and is_end:
            raise UnsupportedStream("RESPECT NULLS with OVER", node, "nulls are skipped here: remove it, or use LAG")
        if isinstance(node, exp.RespectNulls) or (isinstance(node, exp.IgnoreNulls) and is_end):
            node = node.this
        if any(isinstance(argument, exp.Distinct) for argument in node.iter_expressions()):
            raise UnsupportedStream("DISTINCT with OVER", node, "aggregate in a window: TUMBLE, HOP or SESSION")
        match node:
            case exp.IgnoreNulls():
                raise UnsupportedStream("IGNORE NULLS with OVER", node, "filter the nulls in a subquery")
            case exp.RowNumber():
                return self._call("row_number", None, frame)
            case exp.Count():
                argument = None if isinstance(node.this, exp.Star | exp.Literal) else node.this
                return self._call("count", argument, frame)
            case exp.Avg():
                total = self._call("sum", node.this, frame)
                return avg_expression(node, total, self._call("count", node.this, frame))
            case exp.Lag() | exp.Lead():
                return self._shift_call(node)
            case _ if (function := _FUNCTIONS.get(type(node))) is not None:
                return self._call(function, node.this, frame)
            case _:
                hint = _FIRST_ROWS if _is_rank(node) else "aggregate in a window: TUMBLE, HOP or SESSION"
                raise UnsupportedStream(f"{written_name(node)} with OVER", node, hint)

    def _shift_call(self, node: exp.Lag | exp.Lead) -> exp.Expr:
        offset, default = node.args.get("offset"), node.args.get("default")
        if offset is not None and not (isinstance(offset, exp.Literal) and offset.this.isdigit()):
            raise UnsupportedStream(f"{written_name(node)} with an offset that is no number", node, "write a number")
        function = "lag" if isinstance(node, exp.Lag) else "lead"
        otherwise = name_argument(self.arguments, default) if default is not None else None
        argument, steps = name_argument(self.arguments, node.this), 1 if offset is None else int(offset.this)
        return self._add(function, argument, offset=steps, default=otherwise)

    def _call(self, function: str, argument: exp.Expr | None, frame: _OverFrame) -> exp.Expr:
        column = None if argument is None else name_argument(self.arguments, argument)
        return self._add(function, column, rows=frame.rows, range_ms=frame.range_ms, by_row=frame.by_row)

    def _add(self, function: str, argument: str | None, **frame: Any) -> exp.Expr:
        added = OverCall(f"_w{len(self.calls)}", function, argument, **frame)  # type: ignore[arg-type]
        self.calls.append(added)
        return internal_column(added.name)
