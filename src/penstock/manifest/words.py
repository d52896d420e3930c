"""The stateful operators of a query in the words of the project."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.keyed.operators import Aggregate, ChangeJoin, Latest, Over, Ranking, VersionJoin
from penstock.manifest.model import KeyedStep, QuerySpec, Step
from penstock.sql.read_back import alias_read, made_from, tables_read


@dataclass(frozen=True, slots=True)
class Told:
    """What an operator of ours does: `GROUP BY customer`. It is part of the SQL of `node`."""

    view: str
    node: str
    what: str
    ttl_ms: int | None


_Steps: TypeAlias = Mapping[str, Step | KeyedStep]


def told(query: QuerySpec) -> tuple[Told, ...]:
    """Our operators in the order in which Spark numbers them: from the output back to the inputs, left before right."""
    steps = {step.view: step for step in query.steps}
    return tuple(
        Told(step.view, step.node, _what(step, steps), step.operator.ttl_ms)
        for output in query.outputs
        for step in _backwards(output.view, steps)
    )


def _backwards(view: str, steps: _Steps) -> Iterator[KeyedStep]:
    match steps.get(view):
        case KeyedStep() as step:
            yield step
            for name in step.inputs:
                yield from _backwards(name, steps)
        case Step() as step:
            for name in tables_read(step.sql):
                yield from _backwards(name, steps)
        case None:
            pass


def _what(step: KeyedStep, steps: _Steps) -> str:
    match step.operator:
        case Aggregate(keys=keys, calls=calls):
            return f"{'GROUP BY' if calls else 'DISTINCT'} {_keys(step, 0, keys, steps)}"
        case Latest(keys=keys):
            return f"latest row by {_keys(step, 0, keys, steps)}"
        case Ranking(partition=partition, limit=limit):
            by = _keys(step, 0, partition, steps)
            return f"first {'row' if limit == 1 else f'{limit} rows'}{f' by {by}' if by else ''}"
        case Over(partition=partition):
            by = _keys(step, 0, partition, steps)
            return f"OVER (PARTITION BY {by})" if by else "OVER all rows"
        case VersionJoin(left_key=left, right_key=right):
            return f"JOIN {_table(step, steps)} AS OF ON {_pairs(step, left, right, steps)}"
        case ChangeJoin(side=side, left_key=left, right_key=right):
            kind = "JOIN" if side == "inner" else f"{side.upper()} JOIN"
            return f"{kind} {_table(step, steps)} ON {_pairs(step, left, right, steps)}"


def _pairs(step: KeyedStep, left: Sequence[str], right: Sequence[str], steps: _Steps) -> str:
    sides = (_columns(step, 0, left, steps), _columns(step, 1, right, steps))
    return " AND ".join(f"{one} = {other}" for one, other in zip(*sides, strict=True))


def _keys(step: KeyedStep, side: int, names: Sequence[str], steps: _Steps) -> str:
    return ", ".join(_columns(step, side, names, steps))


def _columns(step: KeyedStep, side: int, names: Sequence[str], steps: _Steps) -> list[str]:
    before = steps.get(step.inputs[side])
    return made_from(before.sql, names) if isinstance(before, Step) else list(names)


def _table(step: KeyedStep, steps: _Steps) -> str:
    """The right side of a join: the node that it is, or what the SQL calls it."""
    before = steps.get(step.inputs[1])
    if not isinstance(before, Step):
        return step.inputs[1].partition(".")[2]
    first = next(iter(tables_read(before.sql)), "")
    is_stage = "$" in first or not first
    return (alias_read(before.sql) or "") if is_stage else first.partition(".")[2].partition("#")[0]
