"""Compares two versions of a query: the differences as text, and whether the checkpoint still fits."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from penstock.config import describe_duration
from penstock.keyed.operators import Aggregate, Ranking
from penstock.manifest.model import Input, KeyedStep, Phase, QuerySpec, Step
from penstock.manifest.operator_words import describe_operators
from penstock.manifest.queries.input_columns import has_operators, used_input_columns, used_view_columns
from penstock.plan.changes.locations import TOPICS, is_moved, location
from penstock.sql.analyze.statefulness import stateful_constructs
from penstock.sql.analyze.type_choices import state_text, unnested_text
from penstock.sql.analyze.used_columns import ColumnNames, drop_unused_outputs
from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.query import Problem, parse

_OLD_STATE: Final = ", and its state belongs to the old SQL"
_CONF: Final = {
    "spark.sql.shuffle.partitions": "its parallelism",
    "spark.sql.streaming.stateStore.providerClass": "its state backend",
}


def differences(before: QuerySpec, after: QuerySpec) -> Iterator[tuple[str, bool]]:
    """What changed, and whether Spark refuses the old checkpoint because of it.

    Filters, projections and outputs of a query without state may change freely, and inputs may come or go: its
    checkpoint holds only how far each named input was read. One input in place of another would be read from its start.
    State is different: its layout follows from the SQL.
    """
    kept = _keeps_state(before)
    stateful = kept or after.stateful
    if before.stateful and not stateful:
        yield "a join with a lookup table keeps no state", False
    if kept != after.stateful:
        yield ("it keeps state now" if after.stateful else "it no longer keeps state"), True
    elif _definitions(before) != _definitions(after):
        if stateful and _state_of(_definitions(before)) == _state_of(_definitions(after)):
            yield "it is now computed with the column types of Spark", False
        else:
            breaks = stateful and _state_of(_used_definitions(before)) != _state_of(_used_definitions(after))
            yield (_describe_state_break(before, after) if breaks else "its SQL changed"), breaks
    elif _sql_texts(before) != _sql_texts(after):
        yield "its joins keep rows for as long as their conditions can hold", False
    elif _ties(before) != _ties(after):
        yield "of rows with equal times, the last to arrive is now the latest", False
    elif _ttls(before) != _ttls(after):
        yield f"its state has another TTL: {_describe_ttls(after)}, before {_describe_ttls(before)}", False
    gone = {i.name for i in before.inputs} - {i.name for i in after.inputs}
    new = {i.name for i in after.inputs} - {i.name for i in before.inputs}
    if gone or new:
        yield "it reads from other inputs", stateful or bool(gone and new)
    elif [i.name for i in before.inputs] != [i.name for i in after.inputs]:
        yield "it reads its inputs in another order", stateful
    else:
        used = used_input_columns(after) if stateful else {}
        for was, now in zip(before.inputs, after.inputs, strict=True):
            if was != now:
                yield _describe_input_change(was, now), _breaks(was, now, stateful, used.get(now.view))
    yield from _output_changes(before, after, stateful)
    if before.conf != after.conf:
        changed = [words for name, words in _CONF.items() if before.conf.get(name) != after.conf.get(name)]
        yield f"{' and '.join(changed) or 'a setting of Spark'} changed", stateful
    if before.trigger != after.trigger:
        yield "its trigger changed", False
    if before.asks != after.asks:
        yield "an ML model that it calls changed", False
    if changed_functions := _changed_functions(before, after):
        names = " and ".join(f"`{name}`" for name in changed_functions)
        yield f"the source of the function{'s' * (len(changed_functions) > 1)} {names} changed", False
    if before.fan_out != after.fan_out:
        yield "it reads its inputs once for all its sinks, or no longer does", False


def _changed_functions(before: QuerySpec, after: QuerySpec) -> list[str]:
    """The user functions that both versions call, and whose source is another one."""
    known = {function.name: function for function in before.functions}
    return [f.name for f in after.functions if f.name in known and known[f.name] != f]


def rebuild_hint(query: str) -> str:
    """The hint for a query that must be rebuilt."""
    return f"add `--allow-rebuild {query}`, and `--truncate` to empty its output first"


def _keeps_state(query: QuerySpec) -> bool:
    """Whether a recorded query keeps state. Older releases also recorded joins with lookup tables as stateful. If the
    SQL does not tell, the record decides."""
    lookups = frozenset(entry.view.casefold() for entry in query.inputs if entry.static)
    if not query.stateful or not lookups or has_operators(query):
        return query.stateful
    return any(_step_keeps_state(step, lookups) for step in query.steps if isinstance(step, Step))


def _step_keeps_state(step: Step, lookups: frozenset[str]) -> bool:
    parsed = parse(step.sql, SPARK)
    return isinstance(parsed, Problem) or bool(stateful_constructs(parsed, lookups=lookups))


def _describe_state_break(before: QuerySpec, after: QuerySpec) -> str:
    """Why state does not fit any more: a state setting, or the SQL."""
    if [_plain_definition(step) for step in before.steps] == [_plain_definition(step) for step in after.steps]:
        old, new = _ttls(before), _ttls(after)
        if old != new:
            came = sum(ttl is not None for ttl in new) > sum(ttl is not None for ttl in old)
            begun = f"`state_ttl_ms` is new ({_describe_ttls(after)})" if came else "`state_ttl_ms` was removed"
            return f"{begun}, and state has another layout {'with' if came else 'without'} it"
        return "`allowed_lateness_ms` changed, which decides how long its windows stay in state"
    has_others = _has_other_operators(before) or _has_other_operators(after)
    if _has_windows(before) != _has_windows(after) and not has_others:
        now = "late rows correct its windows now" if _has_windows(after) else "late rows no longer correct its windows"
        return f"{now}, and their state has another layout"
    old_words, new_words = (_operator_descriptions(query) for query in (before, after))
    went = [what for what in old_words if what not in new_words]
    came_words = [what for what in new_words if what not in old_words]
    if went and came_words:
        return f"its SQL changed from {' and '.join(went)} to {' and '.join(came_words)}{_OLD_STATE}"
    return f"its SQL changed{_OLD_STATE}"


def _operator_descriptions(query: QuerySpec) -> list[str]:
    return [operator.what for operator in describe_operators(query)] if has_operators(query) else []


def _definitions(query: QuerySpec) -> list[str | KeyedStep]:
    return list(map(_definition, query.steps))


def _state_of(parts: list[str | KeyedStep]) -> list[str | KeyedStep]:
    """The part of the steps that defines state: some outputs of the last one do not."""
    *others, last = (unnested_text(part) if isinstance(part, str) else part for part in parts)
    return [*others, state_text(last) if isinstance(last, str) else last]


def _definition(step: Step | KeyedStep) -> str | KeyedStep:
    """The definition of a step without parameters, late-row handling and TTL values. Its state depends on whether there
    is a TTL, and not on the order of equal rows."""
    if isinstance(step, Step):
        return step.unguarded or step.sql
    operator = replace(step.operator, ttl_ms=1 if step.operator.ttl_ms is not None else None)
    if isinstance(operator, Ranking):
        operator = replace(operator, last_first=False)
    return step.model_copy(update={"operator": operator, "late": None})


def _used_definitions(query: QuerySpec) -> list[str | KeyedStep]:
    """The steps of a query, without unused outputs, which are not in its state."""
    used = used_view_columns(query)
    parts = ((step, _definition(step)) for step in query.steps)
    return [drop_unused_outputs(part, used[step.view]) if isinstance(part, str) else part for step, part in parts]


def _plain_definition(step: Step | KeyedStep) -> str | KeyedStep:
    """The definition of a step by its SQL, without its settings."""
    if isinstance(step, Step):
        return step.unguarded or step.sql
    operator = replace(step.operator, ttl_ms=None)
    if isinstance(operator, Aggregate):
        operator = replace(operator, lateness_ms=0)
    return step.model_copy(update={"operator": operator, "late": None})


def _has_windows(query: QuerySpec) -> bool:
    """Whether it has Penstock window operators."""
    return any(isinstance(step, KeyedStep) and _is_window(step) for step in query.steps)


def _has_other_operators(query: QuerySpec) -> bool:
    return any(isinstance(step, KeyedStep) and not _is_window(step) for step in query.steps)


def _is_window(step: KeyedStep) -> bool:
    return isinstance(step.operator, Aggregate) and step.operator.closes is not None


def _sql_texts(query: QuerySpec) -> list[str]:
    return [step.sql for step in query.steps if isinstance(step, Step)]


def _ties(query: QuerySpec) -> list[bool]:
    operators = (step.operator for step in query.steps if isinstance(step, KeyedStep))
    return [operator.last_first for operator in operators if isinstance(operator, Ranking)]


def _ttls(query: QuerySpec) -> list[int | None]:
    return [step.operator.ttl_ms for step in query.steps if isinstance(step, KeyedStep)]


def _describe_ttls(query: QuerySpec) -> str:
    return ", ".join(describe_duration(ttl) for ttl in dict.fromkeys(_ttls(query)) if ttl is not None)


def _output_changes(before: QuerySpec, after: QuerySpec, stateful: bool) -> Iterator[tuple[str, bool]]:
    """Differences of the outputs. A new location lacks the rows written so far: readers of a topic would miss them, and
    a stateful query does not emit them again."""
    known = {output.node: output.sink for output in before.outputs}
    pairs = [(o, known[o.node]) for o in after.outputs if o.node in known and o.sink != known[o.node]]
    moved = [(o, old) for o, old in pairs if is_moved("sink", old, o.sink)]
    for output, old in moved:
        name, to = output.node.partition(".")[2], location("sink", output.sink)
        text = f"`{name}` is written to `{to}` instead of `{location('sink', old)}`"
        if stateful or output.sink["type"] in TOPICS:
            yield f"{text}, which has none of the rows written so far", True
        else:
            yield f"{text}; rows written so far stay there", False
    if before.outputs != after.outputs and not moved:
        yield "the settings of its output changed", False


def _describe_input_change(before: Input, after: Input) -> str:
    name = after.node.partition(".")[2]
    if _is_another(before, after):
        old, new = (location("source", entry.source) for entry in (before, after))
        return f"`{name}` is read from `{new}` instead of `{old}`, which is another input"
    if _phases(before) != _phases(after):
        return f"what `{name}` reads before its topic changed"
    if before.upsert_key != after.upsert_key:
        return f"`{name}` is {_describe_rows(after)}, and was {_describe_rows(before)}"
    if before.event_time != after.event_time:
        return f"the event time of `{name}` changed"
    if before.source.get("columns") != after.source.get("columns"):
        return f"the columns of `{name}` changed"
    return f"the settings of `{name}` changed"


def _describe_rows(entry: Input) -> str:
    """The meaning of an input's rows: append-only, or the latest row per key."""
    key = ", ".join(entry.upsert_key)
    return f"a table with the latest row per {key}" if key else "an append-only stream"


def _breaks(before: Input, after: Input, stateful: bool, used: ColumnNames) -> bool:
    """Whether a checkpoint no longer fits an input: with another location or other phases, rows would be missing or
    duplicated."""
    other = _is_another(before, after) or _phases(before) != _phases(after)
    return other or before.upsert_key != after.upsert_key or (stateful and not _fits(before, after, used))


def _is_another(before: Input, after: Input) -> bool:
    """Whether a stream is read from another location. A lookup table has no position in a checkpoint."""
    return not (before.static and after.static) and is_moved("source", before.source, after.source)


def _phases(entry: Input) -> tuple[Phase, ...]:
    return entry.backfill.phases if entry.backfill is not None else ()


def _fits(before: Input, after: Input, used: ColumnNames) -> bool:
    """Whether state from an input still fits it. Columns may be added, but used ones may not be removed or changed. The
    delay or limit of event time may change, but not its column, nor whether there are heartbeats."""
    old, new = ({c["name"]: c["type"] for c in entry.source.get("columns", ())} for entry in (before, after))
    kept = {name: kind for name, kind in old.items() if used is None or name.lower() in used}
    return _times(before) == _times(after) and kept.items() <= new.items()


def _times(entry: Input) -> tuple[str, bool] | None:
    """The parts of event time that state depends on."""
    time = entry.event_time
    return None if time is None else (time.column, time.idle_ms is None)
