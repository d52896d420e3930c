"""Late rows: windows that an operator must close because of them, and the query that finds the dropped ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import SelectWindow
from penstock.sql.parse.window_calls import last_moment, own_calls
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.select import relation_star
from penstock.sql.stateful.stages import LateRowsQuery, QueryRelation, StageBuilder, UnsupportedStream

LATE_ROW: Final = "row"
LATE_AT: Final = "at"
"""The columns of late rows: the row as it was read, and the time at which it was due."""
_DROP: Final = "set `late: drop` where its event time is declared"


@dataclass(frozen=True, slots=True)
class ClosingWindow:
    """A window in GROUP BY that an operator closes. Its `time` is the last millisecond in it."""

    kind: str
    start: exp.Expr
    end: exp.Expr
    time: exp.Expr
    lateness_ms: int

    @property
    def identifiers(self) -> tuple[exp.Expr, ...]:
        """The expressions that each identify a window."""
        return (self.end, self.time) if self.kind == "CUMULATE" else (self.end, self.start, self.time)


def needs_operator_close(plan: StageBuilder, select: exp.Select, relations: Sequence[QueryRelation]) -> bool:
    """Whether one of our operators must close the windows that a SELECT groups by."""
    if not plan.has_window(select):
        return False
    read = _stream_relations(relations)
    return any(r.flow.keeps_late for r in read) or (len(read) == 1 and read[0].flow.lateness_ms > 0)


def closing_window(plan: StageBuilder, select: exp.Select, relations: Sequence[QueryRelation]) -> ClosingWindow | None:
    """Return the window that a SELECT groups by, if an operator must close it. Its start and end then replace it."""
    if not needs_operator_close(plan, select, relations):
        return None
    made, lateness_ms = plan.grouped_window(select), _stream_relations(relations)[0].flow.lateness_ms
    if made.call.kind == "SESSION":
        if lateness_ms:
            hint = "a closed session cannot reopen; read the rows through a model whose `event_time` does not set it"
            raise UnsupportedStream("SESSION with `allowed_lateness_ms`", made.call.node, hint)
        hint = f"Spark drops late rows of sessions without showing them; {_DROP}"
        raise UnsupportedStream("SESSION with `late: dead_letter`", made.call.node, hint)
    ends = _call_ends(select, made) if made.select is select else _column_ends(plan, select, made)
    return ClosingWindow(made.call.kind, *ends, lateness_ms)


def _call_ends(select: exp.Select, made: SelectWindow) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """Return the start, end and time of the window in `GROUP BY TUMBLE(at, …)`: they are calls as well."""
    calls = own_calls(select)
    arguments = made.call.node.expressions
    start, stop = (call(f"{made.call.kind}_{part}", *(a.copy() for a in arguments)) for part in ("START", "END"))
    for own in calls:
        if own.part is None:
            group = select.args["group"]
            rest = [e for e in group.expressions if e is not own.node]
            group.set("expressions", [start.copy(), stop.copy(), *rest])
        elif own.part == "time":
            own.node.replace(last_moment(stop))
    return start, stop, last_moment(stop)


def _column_ends(plan: StageBuilder, select: exp.Select, made: SelectWindow) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """Return the start, end and time in `GROUP BY window_start, window_end`: they are columns of the input."""
    found = [f for f in plan.windows.used[id(select)] if f.column.made is made]
    start, stop = (next(f.node for f in found if f.column.part == part).copy() for part in ("start", "end"))
    grouped = select.args["group"].expressions
    for column in (f.node for f in found if f.column.part == "time"):
        if any(column is e for e in grouped):
            column.pop()
        else:
            moment = last_moment(stop)
            is_output = column.parent is select and column.arg_key == "expressions"
            column.replace(exp.alias_(moment, column.name, quoted=True) if is_output else moment)
    return start, stop, last_moment(stop)


def _stream_relations(relations: Sequence[QueryRelation]) -> list[QueryRelation]:
    return [r for r in relations if not r.flow.static and not isinstance(r.node, exp.Lateral | exp.Unnest)]


# Late rows


def refuse_hidden_late_rows(join: exp.Join, relations: Sequence[QueryRelation]) -> None:
    """Refuse a join by event time in Spark if late rows must be kept."""
    if any(r.flow.keeps_late for r in relations):
        hint = f"Spark drops late rows inside its join without showing them; {_DROP}"
        raise UnsupportedStream("JOIN with `late: dead_letter`", join, hint)


def late_rows_query(select: exp.Select, relations: Sequence[QueryRelation], time: exp.Expr) -> LateRowsQuery | None:
    """Build the query for an operator's whole input rows; None if late rows are not kept.

    They are selected from one batch of an input that is read again, so no earlier state may matter.
    """
    read = _stream_relations(relations)
    if not any(r.flow.keeps_late for r in read):
        return None
    if len(read) > 1 or any(r.flow.static for r in relations) or not read[0].flow.watermarked:
        raise UnsupportedStream("`late: dead_letter` behind a join", time, f"late rows cannot be found there; {_DROP}")
    if read[0].flow.mixed:
        hint = f"read each input in a model of its own, or {_DROP}"
        raise UnsupportedStream("`late: dead_letter` over UNION ALL", time, hint)
    row = exp.alias_(call("struct", relation_star(read[0])), LATE_ROW)
    found = exp.Select(expressions=[row, exp.alias_(time.copy(), LATE_AT)])
    for name in ("from_", "joins", "laterals", "where"):
        if (part := select.args.get(name)) is not None:
            found.set(name, [p.copy() for p in part] if isinstance(part, list) else part.copy())
    return LateRowsQuery(found, next(found.find_all(exp.Table)).name)
