"""Describes the stateful operators of a query in terms of its SQL."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.keyed.operators import Aggregate, ChangeJoin, IntervalJoin, LatestPerKey, OverWindow, Ranking, VersionJoin
from penstock.manifest.model import KeyedStep, QuerySpec, Step
from penstock.row_columns import CLOCK
from penstock.sql.rewrite.render import describe_outputs, input_alias, input_tables


@dataclass(frozen=True, slots=True)
class OperatorDescription:
    """A description of a Penstock operator: `GROUP BY customer`. It is part of the SQL of `node`."""

    view: str
    node: str
    what: str
    ttl_ms: int | None


_Steps: TypeAlias = Mapping[str, Step | KeyedStep]


def describe_operators(query: QuerySpec, times: Collection[str] = ()) -> tuple[OperatorDescription, ...]:
    """Describe the Penstock operators in Spark's numbering: from the output back to the inputs, left before right.

    `times` are the columns that hold times.
    """
    steps = {step.view: step for step in query.steps}
    return tuple(
        OperatorDescription(step.view, step.node, _describe_step(step, steps, times), step.operator.ttl_ms)
        for output in query.outputs
        for step in _walk_back(output.view, steps)
    )


def _walk_back(view: str, steps: _Steps) -> Iterator[KeyedStep]:
    match steps.get(view):
        case KeyedStep() as step:
            yield step
            for name in step.inputs:
                yield from _walk_back(name, steps)
        case Step() as step:
            for name in input_tables(step.sql):
                yield from _walk_back(name, steps)
        case None:
            pass


_WINDOW: Final = re.compile(r"(?is)(?:session_)?window(?:\(.*|_start|_end|_time)?|_window|sessionStartTime")


def window_by(keys: Sequence[str]) -> str:
    """A window with its other keys: `window by customer`."""
    plain = [key for key in (key.replace("`", "") for key in keys) if not _WINDOW.fullmatch(key)]
    shown = ["an expression" if key == "_groupingexpression" else key for key in plain]
    return f"window by {', '.join(shown)}" if shown else "window"


def _describe_step(step: KeyedStep, steps: _Steps, times: Collection[str]) -> str:
    match step.operator:
        case Aggregate(keys=keys, closes=str()):
            return window_by(_columns(step, 0, keys, steps))
        case Aggregate(keys=keys, calls=calls):
            return f"{'GROUP BY' if calls else 'DISTINCT'} {_keys(step, 0, keys, steps)}"
        case LatestPerKey(keys=keys):
            return f"latest row by {_keys(step, 0, keys, steps)}"
        case Ranking(partition=partition, limit=limit):
            by = _keys(step, 0, partition, steps)
            first, order = _order(step, step.operator, steps, times)
            return f"{first} {'row' if limit == 1 else f'{limit} rows'}{f' by {by}' if by else ''}{order}"
        case OverWindow(partition=partition):
            by = _keys(step, 0, partition, steps)
            return f"OVER (PARTITION BY {by})" if by else "OVER all rows"
        case VersionJoin(left_key=left, right_key=right):
            return f"JOIN {_table(step, steps)} AS OF ON {_pairs(step, left, right, steps)}"
        case (
            ChangeJoin(side=side, left_key=left, right_key=right)
            | IntervalJoin(side=side, left_key=left, right_key=right)
        ):
            kind = "JOIN" if side == "inner" else f"{side.upper()} JOIN"
            return f"{kind} {_table(step, steps)} ON {_pairs(step, left, right, steps)}"


def _order(step: KeyedStep, ranking: Ranking, steps: _Steps, times: Collection[str]) -> tuple[str, str]:
    """Which rows come first, and the order if it is not by time."""
    columns = _columns(step, 0, [sort.column for sort in ranking.order], steps)
    if columns and (columns[0] in times or CLOCK in columns[0].lower()):
        return ("latest" if ranking.order[0].descending else "first"), ""
    pairs = zip(columns, ranking.order, strict=True)
    order = ", ".join(f"{column}{' DESC' if sort.descending else ''}" for column, sort in pairs)
    return "first", f" ordered by {order}" if order else ""


def _pairs(step: KeyedStep, left: Sequence[str], right: Sequence[str], steps: _Steps) -> str:
    sides = (_columns(step, 0, left, steps), _columns(step, 1, right, steps))
    return " AND ".join(f"{one} = {other}" for one, other in zip(*sides, strict=True))


def _keys(step: KeyedStep, side: int, names: Sequence[str], steps: _Steps) -> str:
    return ", ".join(_columns(step, side, names, steps))


def _columns(step: KeyedStep, side: int, names: Sequence[str], steps: _Steps) -> list[str]:
    before = steps.get(step.inputs[side])
    return describe_outputs(before.sql, names) if isinstance(before, Step) else list(names)


def _table(step: KeyedStep, steps: _Steps) -> str:
    """The right side of a join: its node, or its name in the SQL."""
    before = steps.get(step.inputs[1])
    if not isinstance(before, Step):
        return step.inputs[1].partition(".")[2]
    first = next(iter(input_tables(before.sql)), "")
    is_stage = "$" in first or not first
    return (input_alias(before.sql) or "") if is_stage else first.partition(".")[2].partition("#")[0]
