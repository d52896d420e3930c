"""Everything that a query tells once the columns of its inputs are known: one pass, and plain values out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.sql.columns import analyse
from penstock.sql.dialects import PROJECT
from penstock.sql.origins import ColumnOrigin, InputColumn, Origins
from penstock.sql.query import Problem, Query, bind, parse, tables
from penstock.sql.shape import Construct, Window, stateful_constructs, windows
from penstock.sql.types import Column, Columns


@dataclass(frozen=True, slots=True)
class Study:
    """What a query tells. `sound` is whether it can be worked with at all.

    `times` has the input column that each window is over, if that is a column of an input.
    """

    sound: bool
    problems: tuple[Problem, ...] = ()
    constructs: tuple[Construct, ...] = ()
    windows: tuple[Window, ...] = ()
    times: tuple[InputColumn | None, ...] = ()
    columns: Columns | None = None
    origins: Mapping[str, Origins] = field(default_factory=dict)


def bound(sql: str, node_ids: Sequence[str]) -> Query:
    """The query of a model; nothing is parsed before somebody looks."""
    return bind(Query(sql, PROJECT), {node_id.casefold(): node_id for node_id in node_ids})


def study(sql: str, inputs: Mapping[str, Columns | None], answers: Mapping[str, str]) -> Study:
    """Study a model's SQL, in which inputs are called by their node ids. Unknown columns of an input are None."""
    parsed = parse(sql, PROJECT)
    if isinstance(parsed, Problem):
        return Study(False, (parsed,))
    known = {node_id.casefold(): node_id for node_id in inputs}
    problems = [
        Problem("sql-unknown-table", f"`{t.name}` is read directly", t.offset, _table_hint(t.name), subject=t.name)
        for t in tables(parsed)
        if t.name.casefold() not in known
    ]
    if not known and not problems:
        problems.append(Problem("sql-statement", "the SELECT reads from nothing", 0, 'add FROM {{ source("name") }}'))
    constructs, calls = stateful_constructs(parsed), windows(parsed)
    if problems:
        return Study(False, tuple(problems), constructs, calls)
    analysis = analyse(bind(parsed, known), inputs, answers)
    times = analysis.times if len(analysis.times) == len(calls) else (None,) * len(calls)
    return Study(True, analysis.problems, constructs, calls, times, analysis.columns, analysis.origins)


def _table_hint(name: str) -> str:
    return f'write {{{{ source("{name}") }}}} or {{{{ ref("{name}") }}}}'


# As JSON, for keeping


def to_json(found: Study) -> dict[str, Any]:
    return {
        "sound": found.sound,
        "problems": [[p.code, p.message, p.offset, p.hint, p.subject] for p in found.problems],
        "constructs": [[c.name, c.offset, c.way_out, c.word, c.never] for c in found.constructs],
        "windows": [[w.column, w.offset] for w in found.windows],
        "times": [None if t is None else [t.input, t.name] for t in found.times],
        "columns": None if found.columns is None else [[c.name, c.type] for c in found.columns],
        "origins": {name: [[o.input, o.name, o.way] for o in listed] for name, listed in found.origins.items()},
    }


def from_json(kept: Mapping[str, Any]) -> Study:
    """The study that was kept. Anything that is none raises TypeError, ValueError or KeyError."""
    return Study(
        kept["sound"],
        tuple(Problem(*p) for p in kept["problems"]),
        tuple(Construct(*c) for c in kept["constructs"]),
        tuple(Window(*w) for w in kept["windows"]),
        tuple(None if t is None else InputColumn(*t) for t in kept["times"]),
        None if kept["columns"] is None else tuple(Column(*c) for c in kept["columns"]),
        {name: tuple(ColumnOrigin(*o) for o in listed) for name, listed in kept["origins"].items()},
    )
