"""Event time of a model: the times of its windows, of its output, and of a view."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.graph import EventTimeColumn, Graph, Node
from penstock.graph.model.rendered import RenderedModel
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.analysis import QueryAnalysis
from penstock.sql.analyze.column_lineage import InputColumn
from penstock.sql.analyze.statefulness import Window
from penstock.sql.parse.query import Problem
from penstock.sql.parse.window_calls import WindowPart
from penstock.sql.rewrite.computed_event_time import has_computed_time
from penstock.sql.rewrite.translate import needs_time
from penstock.sql.stateful.stages import JoinLag
from penstock.sql.types.columns import TIME_TYPES, Columns, column_spelling

ASSUMED_DELAY_MS: Final = written.Watermark().delay_ms


def window_times(
    read: RenderedModel, found: QueryAnalysis, inputs: Mapping[str, Node]
) -> tuple[dict[str, EventTimeColumn], list[Problem], list[Diagnostic]]:
    """The event time of each window over an input. Without a declaration, the column of the window is used."""
    if len(inputs) < len(read.inputs) or not found.sound:
        return {}, [], []
    asked: dict[str, EventTimeColumn] = {}
    problems: list[Problem] = []
    notes: list[Diagnostic] = []
    if any(_is_absent(time, node.columns) for node in inputs.values() for time in node.times):
        return {}, [], []  # reported for the input
    declared = {time.column.casefold() for node in inputs.values() for time in node.times}
    for window, time in zip(found.windows, found.times, strict=True):
        node = inputs.get(time.input) if time else None
        if node is None or time is None:
            if window.column.casefold() not in declared:
                problems.append(_missing_time_problem(window, declared))
            continue
        taken = _window_time(window, time, node, asked.get(time.input), declared)
        if isinstance(taken, Problem):
            problems.append(taken)
            continue
        if node.event_time is None and time.input not in asked:
            notes.append(_assumed_time_warning(read, window, node, taken.column))
        asked[time.input] = taken
    return {n: time for n, time in asked.items() if time != inputs[n].event_time}, problems, notes


def _is_absent(time: EventTimeColumn, columns: Columns | None) -> bool:
    return columns is not None and column_spelling(time.column.casefold(), columns) is None


def _window_time(
    window: Window, time: InputColumn, node: Node, asked: EventTimeColumn | None, declared: Collection[str]
) -> EventTimeColumn | Problem:
    """The event time of a window over a column of an input. `asked` is the one of an earlier window."""
    if any(mask.column.casefold() == time.name for mask in node.masks):
        text = f"`{window.column}` is masked in `{node.name}`, so it is no longer a time"
        hint = "remove the mask, or compute the window before it"
        return Problem("window-without-event-time", text, window.offset, hint, window.column)
    if asked is not None:
        return asked if asked.column.casefold() == time.name else _second_time_problem(window, asked)
    known = next((t for t in node.times if t.column.casefold() == time.name), None)
    if known is not None:
        return known
    if _is_made_in_view(node, time.name):
        return _view_time_problem(window, node)
    column = column_spelling(time.name, node.columns) or window.column
    if node.event_time is not None or _type_of(column, node.columns) not in TIME_TYPES:
        return _missing_time_problem(window, declared)
    return EventTimeColumn(column, ASSUMED_DELAY_MS)


def _assumed_time_warning(read: RenderedModel, window: Window, node: Node, column: str) -> Diagnostic:
    late = f"{ASSUMED_DELAY_MS / 1000:g} s late"
    text = f"`{node.name}` declares no event time; `{column}` is used, and rows may be {late}"
    origin, path = read.origin_at(window.offset), f"{read.declared.label}.sql"
    hint, params = _declaration_hint(node, column), {"column": column}
    return Diagnostic("event-time-assumed", text, origin, path, hint, Severity.WARNING, params)


def _is_made_in_view(node: Node, column: str) -> bool:
    """Whether a column is computed in a view. It is never written, so Spark cannot use it as event time."""
    folded = column.casefold()
    found = [o for name, listed in node.column_origins.items() if name.casefold() == folded for o in listed]
    return node.materialized == "virtual_topic" and [o.way for o in found] != ["same"]


def _view_time_problem(window: Window, node: Node) -> Problem:
    text = f"`{window.column}` is computed inside the view `{node.name}`, so it is not an event time"
    hint = f"use the time of the window there (`window_time`, …_ROWTIME), or materialize `{node.name}` as a topic"
    return Problem("window-without-event-time", text, window.offset, hint, window.column)


def _second_time_problem(window: Window, asked: EventTimeColumn) -> Problem:
    text = f"another window of this model uses `{asked.column}`, and a query has one event time per input"
    hint = f"use `{asked.column}` here too, or put each window into its own model"
    return Problem("window-without-event-time", text, window.offset, hint, window.column)


def _declaration_hint(node: Node, column: str) -> str:
    if node.kind == "source":
        return f"declare `event_time: {{column: {column}}}` on the source"
    return f"declare it on the source, and select its column in every model on the way to `{node.name}`"


def _missing_time_problem(window: Window, declared: Collection[str]) -> Problem:
    text = f"a window needs event time, and `{window.column}` is not one" if declared else "a window needs event time"
    hint = f"use {', '.join(f'`{name}`' for name in sorted(declared))}" if declared else _NO_EVENT_TIME
    return Problem("window-without-event-time", text, window.offset, hint, window.column)


_NO_EVENT_TIME: Final = "declare `event_time` on the source, and select its column in every model on the way"


def _type_of(name: str, columns: Columns | None) -> str | None:
    return next((c.type for c in columns or () if c.name == name), None)


def output_times(
    declared: Declaration[written.Model],
    columns: Columns | None,
    found: QueryAnalysis,
    inputs: Mapping[str, Node],
    asked: Mapping[str, EventTimeColumn],
    masked: Collection[str],
    *,
    view: bool,
) -> tuple[list[EventTimeColumn | None], list[Diagnostic]]:
    """The event times of the output, the primary one first: as declared, or from inputs and windows. In a view, only
    the time of a window counts.
    """
    ends = _ENDS[:1] if view else _ENDS
    passed = [*_unchanged_times(found, inputs, masked), *_window_ends(found, inputs, asked, masked, ends)]
    first = next(iter(passed), None)
    settings = declared.value.event_time
    if settings is None:
        return [first, *passed[1:]], []
    if settings.column is None:
        return ([EventTimeColumn.declared(time.column, settings) for time in passed] or [None]), []
    names = [c.name for c in columns or ()]
    if columns is not None and settings.column not in names:
        text, hint = f"the model has no output column `{settings.column}`", did_you_mean(settings.column, names)
        missing = declared.diagnostic("event-time-missing", text, hint, at=("event_time", "column"))
        return [first, *passed[1:]], [missing]
    return [EventTimeColumn.declared(settings.column, settings)], []


def _unchanged_times(
    found: QueryAnalysis, inputs: Mapping[str, Node], masked: Collection[str]
) -> list[EventTimeColumn]:
    """The event times of inputs that reach the output unchanged, in the order of the inputs."""
    passed = []
    for name, origins in found.origins.items():
        if name in masked or len(origins) != 1 or origins[0].way != "same" or origins[0].input not in inputs:
            continue
        for place, time in enumerate(inputs[origins[0].input].times):
            if time.column.casefold() == origins[0].name:
                passed.append((place, _delay_by_lag(replace(time, column=name), found.lag, inputs)))
    return [time for _, time in sorted(passed, key=lambda pair: pair[0])]


def _delay_by_lag(time: EventTimeColumn, lag: JoinLag, inputs: Mapping[str, Node]) -> EventTimeColumn:
    """The event time of joined rows, with a longer delay: a row may have waited for the latest row of another input."""
    if not lag.joined:
        return time
    slowest_ms = max((t.delay_ms for node in inputs.values() for t in node.times[:1]), default=0)
    delay_ms = max(time.delay_ms, slowest_ms) + lag.behind_ms
    return replace(time, delay_ms=delay_ms, unordered=time.unordered or not lag.bounded)


def _window_ends(
    found: QueryAnalysis,
    inputs: Mapping[str, Node],
    asked: Mapping[str, EventTimeColumn],
    masked: Collection[str],
    parts: Sequence[WindowPart],
) -> Iterator[EventTimeColumn]:
    """The outputs that hold the end of a window."""
    ends = [(name, end) for part in parts for name, end in found.window_times.items() if end.part == part]
    for name, end in ends:
        node = inputs.get(end.over.input)
        known = [*([asked[end.over.input]] if end.over.input in asked else []), *(node.times if node else ())]
        time = next((t for t in known if t.column.casefold() == end.over.name), None)
        if time is not None and name not in masked:
            yield replace(time, column=name, delay_ms=time.delay_ms + end.behind_ms)


def unused_lateness(
    elements: Iterable[Declaration[written.Source] | Declaration[written.Model]], graph: Graph
) -> Iterator[Diagnostic]:
    """Report `allowed_lateness_ms` where no window can be corrected."""
    for declared in elements:
        settings, kind = declared.value.event_time, "source" if isinstance(declared.value, written.Source) else "model"
        own = f"{kind}.{declared.value.name}"
        if settings is None or not settings.allowed_lateness_ms or own not in graph.nodes:
            continue
        if not any(graph[node_id].corrects for node_id in graph.downstream(own) - {own}):
            text = "this has no effect: no window over these rows can be corrected by late rows"
            hint, field = "it applies to GROUP BY with TUMBLE, HOP or CUMULATE", "allowed_lateness_ms"
            at = ("event_time", field)
            yield declared.diagnostic("no-effect", text, hint, at=at, severity=Severity.INFO, field=field)


# Event time that a view declares


def is_computed_time(node: Node, column: str) -> bool:
    """Whether a view computes a column, and it is not the end of a window."""
    return _is_made_in_view(node, column) and node.query is not None and not needs_time(node.query.tree)


def check_view_time(
    declared: Declaration[written.Model], node: Node, inputs: Mapping[str, Node]
) -> Iterator[Diagnostic]:
    """Report an event time that a view computes from more than the rows of one topic: Spark cannot put a watermark on
    it."""
    settings = declared.value.event_time
    if settings is None or settings.column is None or not is_computed_time(node, settings.column):
        return
    assert node.query is not None
    below = list(inputs.values())
    views = [n.name for n in below if n.materialized == "virtual_topic"]
    if len(below) == 1 and not views and has_computed_time(node.query, settings.column):
        return
    text = f"`{settings.column}` is computed inside the view `{node.name}`, and is no event time there"
    hint = f"materialize `{node.name}` as a topic"
    if views:
        hint += f", or compute it in `{views[0]}`"
    at = ("event_time", "column")
    yield declared.diagnostic("window-without-event-time", text, hint, at=at, column=settings.column)


_ENDS: Final[tuple[WindowPart, ...]] = ("time", "end", "start")
