"""When a row happened: the times that windows are over, and the one that a model hands on."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.graph import EventTime, Node
from penstock.graph.read_model import ReadModel
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.sql.origins import Origins
from penstock.sql.query import Problem
from penstock.sql.shape import Window
from penstock.sql.study import Study
from penstock.sql.types import Columns, spelled

ASSUMED_DELAY_MS: Final = written.Watermark().delay_ms
_TIMES: Final = frozenset({None, "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT", "INT", "DATE"})


def window_times(
    read: ReadModel, found: Study, inputs: Mapping[str, Node]
) -> tuple[dict[str, EventTime], list[Problem], list[Diagnostic]]:
    """A window is over the event time of an input. If nobody has declared one, the column it names is taken for it."""
    if len(inputs) < len(read.inputs) or not found.sound:
        return {}, [], []
    assumed: dict[str, EventTime] = {}
    problems: list[Problem] = []
    notes: list[Diagnostic] = []
    declared = {n.event_time.column.casefold() for n in inputs.values() if n.event_time}
    for window, time in zip(found.windows, found.times, strict=True):
        node = inputs.get(time.input) if time else None
        if node is None or time is None:
            if not declared or window.column.casefold() not in declared:
                problems.append(_no_time(window, declared))
        elif any(mask.column.casefold() == time.name for mask in node.masks):
            text = f"`{window.column}` is masked in `{node.name}`, so it is no time any more"
            hint = "leave the mask off, or window before it"
            problems.append(Problem("window-without-event-time", text, window.offset, hint, window.column))
        elif node.event_time is not None:
            if node.event_time.column.casefold() != time.name:
                problems.append(_no_time(window, declared))
        elif time.input not in assumed:
            column = spelled(time.name, node.columns) or window.column
            if _type_of(column, node.columns) not in _TIMES:
                problems.append(_no_time(window, declared))
                continue
            assumed[time.input] = EventTime(column, ASSUMED_DELAY_MS)
            text = f"nobody says when a row of `{node.name}` happened; `{column}` is taken, and rows may be 5 s late"
            hint = _declare_it(node, column)
            origin, path = read.origin_at(window.offset), f"{read.declared.label}.sql"
            params = {"column": column}
            notes.append(Diagnostic("event-time-assumed", text, origin, path, hint, Severity.WARNING, params))
    return assumed, problems, notes


def _declare_it(node: Node, column: str) -> str:
    if node.kind == "source":
        return f"declare `event_time: {{column: {column}}}` on the source"
    return f"declare it on the source, and select its column in every model on the way to `{node.name}`"


def _no_time(window: Window, declared: Collection[str]) -> Problem:
    text = f"a window needs event time, and `{window.column}` is none" if declared else "a window needs event time"
    hint = f"use {', '.join(f'`{name}`' for name in sorted(declared))}" if declared else _NO_EVENT_TIME
    return Problem("window-without-event-time", text, window.offset, hint, window.column)


_NO_EVENT_TIME: Final = "declare `event_time` on the source, and select its column in every model on the way"


def _type_of(name: str, columns: Columns | None) -> str | None:
    return next((c.type for c in columns or () if c.name == name), None)


def event_time(
    declared: Declared[written.Model],
    columns: Columns | None,
    origins: Mapping[str, Origins],
    inputs: Mapping[str, Node],
    masked: Collection[str],
) -> tuple[EventTime | None, list[Diagnostic]]:
    """The event time of the output: as declared, or that of an input whose column comes out unchanged."""
    passed = next(_passed_times(origins, inputs, masked), None)
    said = declared.value.event_time
    if said is None:
        return passed, []
    delay = said.watermark.delay_ms
    if said.column is None:
        return (EventTime(passed.column, delay) if passed else None), []
    names = [c.name for c in columns or ()]
    if columns is not None and said.column not in names:
        text, hint = f"the model puts out no column `{said.column}`", did_you_mean(said.column, names)
        origin, path = declared.origin_of("event_time", "column"), declared.label_of("event_time", "column")
        return passed, [Diagnostic("event-time-missing", text, origin, path, hint)]
    return EventTime(said.column, delay), []


def _passed_times(
    origins: Mapping[str, Origins], inputs: Mapping[str, Node], masked: Collection[str]
) -> Iterator[EventTime]:
    for name, found in origins.items():
        if name in masked or len(found) != 1 or found[0].way != "same" or found[0].input not in inputs:
            continue
        time = inputs[found[0].input].event_time
        if time is not None and time.column.casefold() == found[0].name:
            yield EventTime(name, time.delay_ms)
