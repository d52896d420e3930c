"""Parse and check calls of TUMBLE, HOP, SESSION and CUMULATE, and of the functions for their starts and ends."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.errors import did_you_mean
from penstock.sql.parse.query import Problem, start_of
from penstock.sql.parse.window_tvf import SPANS

WindowPart: TypeAlias = Literal["start", "end", "time"]
PARTS: Final[Mapping[str, WindowPart]] = {"START": "start", "END": "end", "ROWTIME": "time"}
UNITS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
"""The units of fixed length, in milliseconds."""
_CALENDAR: Final = frozenset({"MONTH", "QUARTER", "YEAR"})
_SMALL: Final = frozenset({"MICROSECOND", "NANOSECOND"})
_NUMBER: Final = re.compile(r"\s*[+-]?\s*\d+(\.\d+)?\s*")


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A call of a window function. `TUMBLE(ts, …)` is the window and has no part; `TUMBLE_START(ts, …)` has one."""

    node: exp.Anonymous
    kind: str
    part: WindowPart | None

    @property
    def time(self) -> exp.Expr | None:
        return self.node.expressions[0] if self.node.expressions else None

    @property
    def spans(self) -> dict[str, exp.Expr]:
        """The intervals by name. A call may have fewer than its kind takes."""
        return dict(zip(SPANS[self.kind], self.node.expressions[1:], strict=False))

    @property
    def keys(self) -> list[exp.Expr]:
        """The columns that separate the sessions."""
        return self.node.expressions[2:] if self.kind == "SESSION" else []

    @property
    def lengths(self) -> dict[str, int]:
        """The intervals of a call without mistakes, in milliseconds."""
        return {name: found for name, span in self.spans.items() if (found := milliseconds(span)) is not None}

    def is_of(self, other: "WindowCall") -> bool:
        """Whether both calls refer to the same window."""
        return self.kind == other.kind and self.node.expressions == other.node.expressions

    def is_same_shape(self, other: "WindowCall") -> bool:
        """Whether both windows divide time in the same way."""
        return self.kind == other.kind and self.lengths == other.lengths


def parse_window_call(node: exp.Expr) -> WindowCall | None:
    if not isinstance(node, exp.Anonymous):
        return None
    kind, _, part = node.name.upper().partition("_")
    if kind not in SPANS or (part and part not in PARTS):
        return None
    return WindowCall(node, kind, PARTS.get(part))


def find_window_calls(nodes: Iterable[exp.Expr]) -> Iterator[WindowCall]:
    return (call for node in nodes if (call := parse_window_call(node)) is not None)


def has_windows(tree: exp.Expr) -> bool:
    return any(True for _ in find_window_calls(tree.find_all(exp.Anonymous)))


def own_calls(select: exp.Select) -> list[WindowCall]:
    """Return the calls of this SELECT, without those of nested ones."""
    return [call for call in find_window_calls(select.find_all(exp.Anonymous)) if call.node.parent_select is select]


def select_windows(select: exp.Select) -> list[WindowCall]:
    """Return the windows of a SELECT: in GROUP BY, or without one the windows whose start, end or time it selects."""
    calls = own_calls(select)
    whole = [call for call in calls if call.part is None]
    if whole or select.args.get("group") is not None:
        return whole
    return [call for place, call in enumerate(calls) if not any(call.is_of(other) for other in calls[:place])]


def milliseconds(span: exp.Expr) -> int | None:
    """Return the length of a constant interval; None for everything else."""
    if isinstance(span, exp.Neg):
        inner = milliseconds(span.this)
        return None if inner is None else -inner
    if not isinstance(span, exp.Interval):
        return None
    sign, number = (-1, span.this.this) if isinstance(span.this, exp.Neg) else (1, span.this)
    unit = UNITS.get(unit_of(span))
    if unit is None or not isinstance(number, exp.Literal) or not _NUMBER.fullmatch(number.name):
        return None
    exact = Decimal(number.name.replace(" ", "")) * unit * sign
    return int(exact) if exact == int(exact) else None


def last_moment(end: exp.Expr) -> exp.Expr:
    """Build the last millisecond before the end of a window, which is its time."""
    millisecond = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MILLISECOND"))
    return exp.Sub(this=end.copy(), expression=millisecond)


def unit_of(span: exp.Interval) -> str:
    """Return the unit of an interval. `DAY(3)` gives a number of digits, and the unit is a day."""
    unit = span.unit
    word = unit.name if isinstance(unit, exp.Var) else type(unit).__name__ if isinstance(unit, exp.Func) else ""
    return word.upper().removesuffix("S")


# Mistakes


def unknown_unit(span: exp.Expr) -> tuple[str, str] | None:
    """Return the message and the hint for an interval of an unknown unit; None if the unit is known."""
    if not isinstance(span, exp.Interval) or not isinstance(span.unit, exp.Var):
        return None
    known = {*UNITS, *_CALENDAR, *_SMALL}
    if unit_of(span) in known:
        return None
    return f"`{span.unit.name}` is not a unit of time", did_you_mean(unit_of(span), known, otherwise="units") or ""


def window_problems(tree: exp.Expr) -> Iterator[Problem]:
    """Report invalid windows. An error in several parts of one window is reported once."""
    seen: set[tuple[int, str]] = set()
    for select in tree.find_all(exp.Select):
        if len(made := select_windows(select)) > 1:
            yield _problem(made[1].node, "a SELECT can have only one window", "compute the other one in another model")
        whole = [call for call in own_calls(select) if call.part is None]
        for call in own_calls(select):
            said_already = call.part is not None and any(call.is_of(other) for other in whole)
            for problem in () if said_already else (*_call_problems(call), *_ungrouped_end(call, select, whole)):
                if (problem.offset, problem.message) not in seen:
                    seen.add((problem.offset, problem.message))
                    yield problem


def _call_problems(call: WindowCall) -> Iterator[Problem]:
    kind, spans = call.kind, call.spans
    missing = [name for name in SPANS[kind] if name != "OFFSET" and name not in spans]
    if call.time is None or missing:
        yield _problem(call.node, f"{kind} needs {' and '.join(missing).lower() or 'a time'}", _usage_hint(kind))
        return
    if kind != "SESSION" and len(call.node.expressions) > len(SPANS[kind]) + 1:
        yield _problem(call.node, f"{kind} has too many arguments", _usage_hint(kind))
        return
    bad = [problem for name, span in spans.items() if (problem := _bad_span(call, name, span)) is not None]
    yield from bad
    if not bad:
        yield from _unfit_lengths(call, call.lengths)


def _bad_span(call: WindowCall, name: str, span: exp.Expr) -> Problem | None:
    said = f"the {name.lower()} of {call.kind}"
    length = milliseconds(span)
    if length is not None:
        if length <= 0 and name != "OFFSET":
            return _problem(span, f"{said} is {'zero' if not length else 'negative'}", "write an interval above zero")
        return None
    if isinstance(span, exp.Interval) and unit_of(span) in _CALENDAR:
        return _problem(span, f"{said} is in months or years, which have no fixed length", "write it in days or hours")
    if (unknown := unknown_unit(span)) is not None:
        return _problem(span, *unknown)
    if isinstance(span, exp.Interval) and isinstance(span.this, exp.Literal):
        return _problem(span, f"{said} cannot be read", "write it like INTERVAL '90' SECOND, with one unit")
    return _problem(span, f"{said} is not a constant interval", "write it like INTERVAL '10' MINUTE")


def _unfit_lengths(call: WindowCall, lengths: Mapping[str, int]) -> Iterator[Problem]:
    """Report intervals that are valid on their own but not together."""
    size = lengths.get("SIZE", 0)
    match call.kind:
        case "HOP" if lengths["SLIDE"] > size:
            text = "HOP slides by more than its size, so that rows fall between the windows"
            yield _problem(call.spans["SLIDE"], text, "the slide comes first, then the size; are they swapped?")
        case "CUMULATE" if lengths["STEP"] > size:
            text = "the step of CUMULATE is larger than its size"
            yield _problem(call.spans["STEP"], text, "the step comes first, then the size; are they swapped?")
        case "CUMULATE" if size % lengths["STEP"]:
            text = "the size of CUMULATE is not a multiple of its step"
            yield _problem(call.spans["STEP"], text, "choose a step that divides the size")


def _ungrouped_end(call: WindowCall, select: exp.Select, whole: Sequence[WindowCall]) -> Iterator[Problem]:
    """Report the start, end or time of a window that the SELECT does not group by."""
    if call.part is not None and select.args.get("group") is not None:
        text = f"{call.node.name.upper()} is over a window that the SELECT does not group by"
        same = "give it the arguments of the window in GROUP BY"
        yield _problem(call.node, text, same if whole else f"add {call.kind}(…) to GROUP BY")


def _usage_hint(kind: str) -> str:
    return f"write {kind}({', '.join(('time', *(s.lower() for s in SPANS[kind] if s != 'OFFSET')))})"


def _problem(node: exp.Expr, text: str, hint: str) -> Problem:
    return Problem("window-invalid", text, start_of(node), hint)
