"""Late rows: the windows that an operator closes because of them, and how those that it drops are found again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import Made
from penstock.sql.parse.window_calls import last_moment, own_calls
from penstock.sql.stateful.select import star_of
from penstock.sql.stateful.stages import Bench, LateRows, Refusal, Relation

LATE_ROW: Final = "row"
LATE_AT: Final = "at"
"""The columns of late rows: the row as it was read, and the time by which it was due."""
_DROP: Final = "leave `late` at `drop` where its event time is declared"


@dataclass(frozen=True, slots=True)
class Closing:
    """A window that is grouped by. Its `time` is the last millisecond in it."""

    kind: str
    start: exp.Expr
    end: exp.Expr
    time: exp.Expr
    lateness_ms: int

    @property
    def telling(self) -> tuple[exp.Expr, ...]:
        """What tells one window from another, each by itself."""
        return (self.end, self.time) if self.kind == "CUMULATE" else (self.end, self.start, self.time)


def is_closed_here(bench: Bench, select: exp.Select, relations: Sequence[Relation]) -> bool:
    """Whether an operator of ours must close the windows that a SELECT groups by."""
    if not bench.has_window(select):
        return False
    read = _rows_of(relations)
    return any(r.flow.keeps_late for r in read) or (len(read) == 1 and read[0].flow.lateness_ms > 0)


def closing(bench: Bench, select: exp.Select, relations: Sequence[Relation]) -> Closing | None:
    """The window that a SELECT groups by, if it is ours to close. Its ends then stand for it everywhere."""
    if not is_closed_here(bench, select, relations):
        return None
    made, lateness_ms = bench.window_of(select), _rows_of(relations)[0].flow.lateness_ms
    if made.call.kind == "SESSION":
        if lateness_ms:
            way_out = "a session that has closed is gone; read the rows through a model whose `event_time` has none"
            raise Refusal("SESSION with `allowed_lateness_ms`", made.call.node, way_out)
        way_out = f"Spark drops late rows of sessions without showing them; {_DROP}"
        raise Refusal("SESSION with `late: dead_letter`", made.call.node, way_out)
    ends = _called(select, made) if made.select is select else _read(bench, select, made)
    return Closing(made.call.kind, *ends, lateness_ms)


def _called(select: exp.Select, made: Made) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """`GROUP BY TUMBLE(at, …)`: the ends are calls as well."""
    calls = own_calls(select)
    arguments = made.call.node.expressions

    def end(part: str) -> exp.Expr:
        return exp.Anonymous(this=f"{made.call.kind}_{part}", expressions=[a.copy() for a in arguments])

    start, stop = end("START"), end("END")
    for call in calls:
        if call.part is None:
            group = select.args["group"]
            rest = [e for e in group.expressions if e is not call.node]
            group.set("expressions", [start.copy(), stop.copy(), *rest])
        elif call.part == "time":
            call.node.replace(last_moment(stop))
    return start, stop, last_moment(stop)


def _read(bench: Bench, select: exp.Select, made: Made) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """`GROUP BY window_start, window_end`: the ends are columns of what is read."""
    found = [f for f in bench.followed.used[id(select)] if f.column.made is made]
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


def _rows_of(relations: Sequence[Relation]) -> list[Relation]:
    return [r for r in relations if not r.flow.static and not isinstance(r.node, exp.Lateral | exp.Unnest)]


# Rows that come too late


def refuse_unseen(join: exp.Join, relations: Sequence[Relation]) -> None:
    """A join that Spark does by event time."""
    if any(r.flow.keeps_late for r in relations):
        way_out = f"Spark drops late rows inside its join without showing them; {_DROP}"
        raise Refusal("JOIN with `late: dead_letter`", join, way_out)


def late_rows(select: exp.Select, relations: Sequence[Relation], time: exp.Expr) -> LateRows | None:
    """The rows that an operator takes, whole; None if late ones are not kept.

    They are selected from one batch of an input, read again: nothing that was before may play a part.
    """
    read = _rows_of(relations)
    if not any(r.flow.keeps_late for r in read):
        return None
    if len(read) > 1 or any(r.flow.static for r in relations) or not read[0].flow.watermarked:
        way_out = f"a late row cannot be told from the input's alone there; {_DROP}"
        raise Refusal("`late: dead_letter` behind a join", time, way_out)
    if read[0].flow.mixed:
        raise Refusal("`late: dead_letter` over UNION ALL", time, f"read each input in a model of its own, or {_DROP}")
    row = exp.alias_(exp.Anonymous(this="struct", expressions=[star_of(read[0])]), LATE_ROW)
    found = exp.Select(expressions=[row, exp.alias_(time.copy(), LATE_AT)])
    for name in ("from_", "joins", "laterals", "where"):
        if (part := select.args.get(name)) is not None:
            found.set(name, [p.copy() for p in part] if isinstance(part, list) else part.copy())
    return LateRows(found, next(found.find_all(exp.Table)).name)
