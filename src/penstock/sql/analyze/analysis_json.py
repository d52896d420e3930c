"""Read and write query analyses as JSON, for the cache."""

from collections.abc import Mapping
from typing import Any, TypeVar

from penstock.sql.analyze.analysis import QueryAnalysis
from penstock.sql.analyze.column_lineage import ColumnOrigin, ColumnUse, Derivation, InputColumn, UseKind
from penstock.sql.analyze.ml_calls import ModelCall
from penstock.sql.analyze.output_schema import WindowTime
from penstock.sql.analyze.statefulness import Construct, Window
from penstock.sql.parse.query import Problem
from penstock.sql.parse.window_calls import PARTS
from penstock.sql.stateful.stages import FlowKind, JoinLag
from penstock.sql.types.columns import Column, spark_type


def to_json(found: QueryAnalysis) -> dict[str, Any]:
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
        "operands": dict(found.operands),
        "uses": [[u.input, u.name, u.use] for u in found.uses],
        "origins": {name: [[o.input, o.name, o.way] for o in listed] for name, listed in found.origins.items()},
    }


def _problem_json(problem: Problem) -> list[Any]:
    return [problem.code, problem.message, problem.offset, problem.hint, problem.subject]


def _parse_problem(kept: Any) -> Problem:
    code, message, offset, hint, subject = kept
    return Problem(
        _expect_text(code),
        _expect_text(message),
        _expect(int, offset),
        _expect((str, type(None)), hint),
        _expect_text(subject),
    )


def from_json(kept: Mapping[str, Any]) -> QueryAnalysis:
    """Read an analysis from JSON. Invalid content raises TypeError, ValueError or KeyError."""
    return QueryAnalysis(
        sound=_expect(bool, kept["sound"]),
        problems=tuple(_parse_problem(problem) for problem in kept["problems"]),
        notes=tuple(_parse_problem(note) for note in kept["notes"]),
        constructs=tuple(
            Construct(
                _expect_text(name),
                _expect(int, offset),
                _expect_text(way_out),
                _expect_text(word),
                _expect(bool, never),
            )
            for name, offset, way_out, word, never in kept["constructs"]
        ),
        windows=tuple(Window(_expect_text(column), _expect(int, offset)) for column, offset in kept["windows"]),
        times=tuple(
            None if time is None else InputColumn(*map(_expect_text, _expect(list, time)))
            for time, _ in zip(kept["times"], kept["windows"], strict=kept["sound"])
        ),
        uses=tuple(
            ColumnUse(_expect_text(node), _expect_text(column), _parse_use(use)) for node, column, use in kept["uses"]
        ),
        columns=None
        if kept["columns"] is None
        else tuple(_parse_column(*_expect(list, column)) for column in kept["columns"]),
        origins={
            _expect_text(name): tuple(
                ColumnOrigin(_expect_text(node), _expect_text(column), _parse_derivation(way))
                for node, column, way in listed
            )
            for name, listed in kept["origins"].items()
        },
        reads_once=_expect(bool, kept["reads_once"]),
        passes_all=_expect(bool, kept["passes_all"]),
        window_times={_expect_text(name): _parse_window_time(*end) for name, end in kept["window_times"].items()},
        flow=_parse_flow(kept["flow"]),
        change_key=tuple(_expect_text(name) for name in kept["change_key"]),
        unbounded=tuple(
            (_expect_text(name), _expect(int, at), _expect_text(way)) for name, at, way in kept["unbounded"]
        ),
        hindrance=None if kept["hindrance"] is None else _parse_problem(kept["hindrance"]),
        corrects=_expect(bool, kept["corrects"]),
        asks=tuple(
            ModelCall(
                _expect_text(function),
                _expect_text(model),
                _expect(int, offset),
                _expect(int, arguments),
                _expect(bool, as_table),
            )
            for function, model, offset, arguments, as_table in kept["asks"]
        ),
        keyed=_expect(bool, kept["keyed"]),
        lag=_parse_lag(*kept["lag"]),
        operands={place: _expect_text(kind) for place, kind in kept["operands"].items()},
    )


T = TypeVar("T")


def _expect(kind: type[T] | tuple[type[T], ...], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind}")
    return value


def _expect_text(value: Any) -> str:
    return _expect(str, value)


def _parse_column(name: Any, kind: Any) -> Column:
    if kind is not None and spark_type(_expect_text(kind)) is None:
        raise ValueError(f"{kind!r} is no type")
    return Column(_expect_text(name), kind)


def _parse_flow(value: Any) -> FlowKind:
    if value not in ("rows", "changes", "signed"):
        raise ValueError(f"{value!r} is no way for rows to flow")
    flow: FlowKind = value
    return flow


def _parse_window_time(node: Any, column: Any, part: Any, behind: Any) -> WindowTime:
    if part not in PARTS.values():
        raise ValueError(f"{part!r} is no end of a window")
    return WindowTime(InputColumn(_expect_text(node), _expect_text(column)), part, _expect(int, behind))


def _parse_lag(joined: Any, behind_ms: Any, bounded: Any) -> JoinLag:
    return JoinLag(_expect(bool, joined), _expect(int, behind_ms), _expect(bool, bounded))


def _parse_use(value: Any) -> UseKind:
    if value not in ("filter", "join", "group"):
        raise ValueError(f"{value!r} is no use of a column")
    use: UseKind = value
    return use


def _parse_derivation(value: Any) -> Derivation:
    if value not in ("same", "made", "counted"):
        raise ValueError(f"{value!r} is no way for a column to come")
    way: Derivation = value
    return way
