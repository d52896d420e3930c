"""Studies of queries as JSON, for keeping."""

from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.sql.analyze.analysis import Study
from penstock.sql.analyze.column_lineage import ColumnOrigin, ColumnUse, InputColumn, Use, Way
from penstock.sql.analyze.ml_calls import ModelCall
from penstock.sql.analyze.output_schema import WindowTime
from penstock.sql.analyze.statefulness import Construct, Window
from penstock.sql.parse.query import Problem
from penstock.sql.parse.window_calls import PARTS
from penstock.sql.stateful.stages import FlowKind, JoinLag
from penstock.sql.types.columns import Column, spark_type


def to_json(found: Study) -> dict[str, Any]:
    return {
        "sound": found.sound,
        "problems": [_problem_json(p) for p in found.problems],
        "notes": [_problem_json(p) for p in found.notes],
        "constructs": [[c.name, c.offset, c.way_out, c.word, c.never] for c in found.constructs],
        "windows": [[w.column, w.offset] for w in found.windows],
        "times": [None if t is None else [t.input, t.name] for t in found.times],
        "columns": None if found.columns is None else [[c.name, c.type] for c in found.columns],
        "reads_once": found.reads_once,
        "passes_all": found.passes_all,
        "flow": found.flow,
        "change_key": list(found.change_key),
        "unbounded": [list(kept) for kept in found.unbounded],
        "hindrance": None if found.hindrance is None else _problem_json(found.hindrance),
        "corrects": found.corrects,
        "window_times": {
            name: [end.over.input, end.over.name, end.part, end.behind_ms] for name, end in found.window_times.items()
        },
        "asks": [[c.function, c.model, c.offset, c.arguments, c.as_table] for c in found.asks],
        "keyed": found.keyed,
        "lag": [found.lag.joined, found.lag.behind_ms, found.lag.bounded],
        "operands": list(found.operands),
        "uses": [[u.input, u.name, u.use] for u in found.uses],
        "origins": {name: [[o.input, o.name, o.way] for o in listed] for name, listed in found.origins.items()},
    }


def _problem_json(problem: Problem) -> list[Any]:
    return [problem.code, problem.message, problem.offset, problem.hint, problem.subject]


def _problem(kept: Any) -> Problem:
    code, message, offset, hint, subject = kept
    return Problem(_text(code), _text(message), _is(int, offset), _is((str, type(None)), hint), _text(subject))


def from_json(kept: Mapping[str, Any]) -> Study:
    """The study that was kept. Anything that is none raises TypeError, ValueError or KeyError."""
    return Study(
        sound=_is(bool, kept["sound"]),
        problems=tuple(_problem(problem) for problem in kept["problems"]),
        notes=tuple(_problem(note) for note in kept["notes"]),
        constructs=tuple(
            Construct(_text(name), _is(int, offset), _text(way_out), _text(word), _is(bool, never))
            for name, offset, way_out, word, never in kept["constructs"]
        ),
        windows=tuple(Window(_text(column), _is(int, offset)) for column, offset in kept["windows"]),
        times=tuple(
            None if time is None else InputColumn(*map(_text, _is(list, time)))
            for time, _ in zip(kept["times"], kept["windows"], strict=kept["sound"])
        ),
        uses=tuple(ColumnUse(_text(node), _text(column), _use(use)) for node, column, use in kept["uses"]),
        columns=None if kept["columns"] is None else tuple(_column(*_is(list, column)) for column in kept["columns"]),
        origins={
            _text(name): tuple(ColumnOrigin(_text(node), _text(column), _way(way)) for node, column, way in listed)
            for name, listed in kept["origins"].items()
        },
        reads_once=_is(bool, kept["reads_once"]),
        passes_all=_is(bool, kept["passes_all"]),
        window_times={_text(name): _window_time(*end) for name, end in kept["window_times"].items()},
        flow=_flow(kept["flow"]),
        change_key=tuple(_text(name) for name in kept["change_key"]),
        unbounded=tuple((_text(name), _is(int, at), _text(way)) for name, at, way in kept["unbounded"]),
        hindrance=None if kept["hindrance"] is None else _problem(kept["hindrance"]),
        corrects=_is(bool, kept["corrects"]),
        asks=tuple(
            ModelCall(_text(function), _text(model), _is(int, offset), _is(int, arguments), _is(bool, as_table))
            for function, model, offset, arguments, as_table in kept["asks"]
        ),
        keyed=_is(bool, kept["keyed"]),
        lag=_lag(*kept["lag"]),
        operands=tuple(_is((str, type(None)), kind) for kind in kept["operands"]),
    )


T = TypeVar("T")


def _is(kind: type[T] | tuple[type[T], ...], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind}")
    return value


def _text(value: Any) -> str:
    return _is(str, value)


def _column(name: Any, kind: Any) -> Column:
    if kind is not None and spark_type(_text(kind)) is None:
        raise ValueError(f"{kind!r} is no type")
    return Column(_text(name), kind)


def _flow(value: Any) -> FlowKind:
    if value not in ("rows", "changes", "signed"):
        raise ValueError(f"{value!r} is no way for rows to flow")
    flow: FlowKind = value
    return flow


def _window_time(node: Any, column: Any, part: Any, behind: Any) -> WindowTime:
    if part not in PARTS.values():
        raise ValueError(f"{part!r} is no end of a window")
    return WindowTime(InputColumn(_text(node), _text(column)), part, _is(int, behind))


def _lag(joined: Any, behind_ms: Any, bounded: Any) -> JoinLag:
    return JoinLag(_is(bool, joined), _is(int, behind_ms), _is(bool, bounded))


def _use(value: Any) -> Use:
    if value not in ("filter", "join", "group"):
        raise ValueError(f"{value!r} is no use of a column")
    use: Use = value
    return use


def _way(value: Any) -> Way:
    if value not in ("same", "made", "counted"):
        raise ValueError(f"{value!r} is no way for a column to come")
    way: Way = value
    return way
