"""Models of a project as nodes: what they read, what they put out, how they are materialized."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.graph.analysis import as_diagnostics, missing_key
from penstock.graph.graph import EventTime, Node
from penstock.graph.masking import applied_masks, classified
from penstock.graph.materialization import foreign_connector, materialization, placement_notes
from penstock.graph.memory import Memory
from penstock.graph.names import known_only, unknown
from penstock.graph.sources import declared_columns
from penstock.graph.topics import topic_name_mistakes, topic_settings
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.project.template import Rendered, Templates
from penstock.sql.mask import masked_columns
from penstock.sql.origins import ColumnOrigin, Origins
from penstock.sql.query import Problem, union_by_name
from penstock.sql.shape import Window, unsupported
from penstock.sql.study import Study, bound
from penstock.sql.types import Columns, spark_type, spelled

ASSUMED_DELAY_MS: Final = written.Watermark().delay_ms
_TIMES: Final = frozenset({None, "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT", "INT", "DATE"})


@dataclass(frozen=True, slots=True)
class ReadModel:
    """A model whose template was rendered: what it refers to, and its SQL if there is any to go on with."""

    declared: Declared[written.Model]
    inputs: tuple[str, ...]
    rendered: Rendered | None = None

    @property
    def sql(self) -> str | None:
        return self.rendered.sql if self.rendered is not None and not self.rendered.problems else None

    def origin_at(self, offset: int) -> Origin:
        """Where a place of the rendered SQL was written."""
        assert self.rendered is not None
        return self.declared.origin_inside("sql", self.rendered.written(offset))


def read_model(
    declared: Declared[written.Model], known: Collection[str], templates: Templates
) -> tuple[ReadModel, list[Diagnostic]]:
    model = declared.value
    diagnostics: list[Diagnostic] = []
    named = [reference.id for reference in model.from_]
    for position, node_id in enumerate(named):
        if node_id not in known:
            origin = declared.origin_of("from", position)
            diagnostics.append(unknown(node_id, known, declared, "from", origin))
    if model.sql is None:
        return ReadModel(declared, known_only(named, known)), diagnostics
    rendered = templates.render(model.sql)
    for problem in rendered.problems:
        origin = declared.origin_inside("sql", problem.offset)
        params = {"subject": problem.subject}
        path = f"{declared.label}.sql"
        diagnostics.append(Diagnostic(problem.code, problem.message, origin, path, problem.hint, params=params))
    for reference in rendered.references:
        if reference.id not in known:
            origin = declared.origin_inside("sql", reference.offset)
            diagnostics.append(unknown(reference.id, known, declared, "sql", origin))
    inputs = tuple(dict.fromkeys([*(r.id for r in rendered.references), *known_only(named, known)]))
    if not rendered.problems:
        diagnostics.extend(_unused_from(declared, rendered, known))
    return ReadModel(declared, inputs, rendered), diagnostics


def _unused_from(declared: Declared[written.Model], rendered: Rendered, known: Collection[str]) -> Iterable[Diagnostic]:
    used = {reference.id for reference in rendered.references}
    for position, reference in enumerate(declared.value.from_):
        if reference.id not in used and reference.id in known:
            text = f"`{reference.id.partition('.')[2]}` stands in `from`, but the SQL does not read it"
            origin, path = declared.origin_of("from", position), declared.label_of("from", position)
            yield Diagnostic("no-effect", text, origin, path, "take it out", Severity.WARNING)


def model_node(
    read: ReadModel, nodes: Mapping[str, Node], gateway: bool, defaults: written.Defaults, memory: Memory
) -> tuple[Node, list[Diagnostic]]:
    declared, model = read.declared, read.declared.value
    inputs = {node_id: nodes[node_id] for node_id in read.inputs if node_id in nodes}
    found = _studied(read, inputs, memory)
    diagnostics: list[Diagnostic] = []
    times: dict[str, EventTime] = {}
    if read.sql is not None:
        times, problems, notes = _window_times(read, found, inputs)
        errors = [*found.problems, *unsupported(found.constructs, never=True), *problems]
        diagnostics += as_diagnostics(errors, declared.label, read.origin_at)
        here = unsupported(found.constructs, never=False)
        diagnostics += as_diagnostics(here, declared.label, read.origin_at, Severity.WARNING)
        diagnostics += notes
    diagnostics += _unlike_inputs(read, inputs)
    materialized, decided_by = materialization(model, found.constructs, gateway, reads_once=found.reads_once)
    diagnostics += placement_notes(declared, materialized, gateway)
    masks, notes = applied_masks(
        declared, found.columns, found.origins, passes_all=found.passes_all or (read.sql is None and len(inputs) < 2)
    )
    diagnostics += notes
    levels, covered = classified(model, found.origins, inputs, masks)
    columns = found.columns and masked_columns(found.columns, masks)
    event_time, notes = _event_time(declared, columns, found.origins, inputs, {m.column for m in masks})
    topic = topic_settings(model, defaults) if _has_topic(model, materialized, bool(masks)) else None
    node = Node(
        f"model.{model.name}",
        "model",
        model.name,
        model,
        declared.origin,
        inputs=tuple(inputs),
        materialized=materialized,
        query=bound(sql, tuple(inputs)) if (sql := read.sql or _united(read, inputs)) and found.sound else None,
        columns=columns,
        key=model.key,
        event_time=event_time,
        assumed_times=times,
        stateful=bool(found.constructs),
        decided_by=decided_by,
        hindrances=tuple(dict.fromkeys(p.subject for p in unsupported(found.constructs, never=False))),
        column_origins=found.origins,
        masks=masks,
        classification=levels,
        covered=covered,
        topic=topic,
        owner=model.owner,
        group=model.group,
        tags=model.tags,
        description=model.description,
    )
    diagnostics += notes
    diagnostics += topic_name_mistakes(declared) if topic else []
    diagnostics += missing_key(model.key, node, declared.origin_of("key"), declared.label_of("key"))
    return node, [*diagnostics, *_broken_contract(declared, columns), *_unknown_classified(declared, columns)]


def _has_topic(model: written.Model, materialized: str, is_masked: bool) -> bool:
    """Whether Spark writes the rows into a topic: also for a connector of Kafka Connect, which reads them there."""
    if materialized != "sink":
        return materialized != "virtual_topic"
    return foreign_connector(model, materialized) is not None and (model.sql is not None or is_masked)


def _studied(read: ReadModel, inputs: Mapping[str, Node], memory: Memory) -> Study:
    if read.sql is not None:
        answers = {name: kind for name, kind in map(_answer, read.declared.value.ml_outputs.items()) if kind}
        columns = {node_id: inputs[node_id].columns if node_id in inputs else None for node_id in read.inputs}
        return memory.study(read.sql, columns, answers)
    if read.declared.value.sql is None and len(inputs) == 1:
        (node,) = inputs.values()
        same = {c.name: (ColumnOrigin(node.id, c.name.casefold(), "same"),) for c in node.columns or ()}
        return Study(True, columns=node.columns, origins=same)
    if (sql := _united(read, inputs)) is not None:
        return memory.study(sql, {node_id: node.columns for node_id, node in inputs.items()}, {})
    if read.declared.value.sql is None and not read.inputs:
        return Study(True, columns=declared_columns(read.declared, "STRING")[0])
    return Study(False)


def _united(read: ReadModel, inputs: Mapping[str, Node]) -> str | None:
    """The SQL of a model that only names several inputs, if all of them are known to have the same columns."""
    names = {node_id: [c.name for c in node.columns or ()] for node_id, node in inputs.items()}
    alike = {frozenset(name.casefold() for name in listed) for listed in names.values()}
    is_plain = read.declared.value.sql is None and len(inputs) > 1 and len(inputs) == len(read.inputs)
    return union_by_name(names) if is_plain and len(alike) == 1 and all(names.values()) else None


def _unlike_inputs(read: ReadModel, inputs: Mapping[str, Node]) -> Iterator[Diagnostic]:
    """Inputs that are put together must have the same columns; nothing can be read from a sink."""
    declared = read.declared
    known = {node_id: {c.name.casefold() for c in node.columns} for node_id, node in inputs.items() if node.columns}
    if declared.value.sql is None and len({frozenset(names) for names in known.values()}) > 1:
        every = set.union(*known.values())
        lacking = [
            f"`{n.partition('.')[2]}` lacks {', '.join(sorted(every - known[n]))}" for n in known if every - known[n]
        ]
        text = f"the inputs have different columns: {'; '.join(lacking)}"
        hint = "write the columns that you want as `sql`"
        yield Diagnostic("sql-statement", text, declared.origin_of("from"), declared.label_of("from"), hint)
    for node in inputs.values():
        if node.materialized == "sink":
            text, hint = f"`{node.name}` is a sink: nothing can be read from it", "read what it reads"
            yield Diagnostic("invalid-value", text, declared.origin, declared.label, hint)


def _answer(output: tuple[str, written.MlOutput]) -> tuple[str, str | None]:
    name, answer = output
    fields = [f"`{c.name}`: {spark_type(c.type or 'STRING')}" for c in answer.columns]
    return name, spark_type(f"STRUCT<{', '.join(fields)}>")


# Time


def _window_times(
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


def _event_time(
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


def _unknown_classified(declared: Declared[written.Model], columns: Columns | None) -> Iterator[Diagnostic]:
    """`security.classification` must name columns of the output."""
    names = [c.name for c in columns or ()]
    for name in declared.value.security.classification if columns is not None else ():
        if name.casefold() not in {known.casefold() for known in names}:
            text, hint = f"the SQL puts out no column `{name}`", did_you_mean(name, names, otherwise="columns")
            place = ("security", "classification", name)
            origin, path = declared.origin_of(*place), declared.label_of(*place)
            yield Diagnostic("contract-broken", text, origin, path, hint, params={"column": name})


# Contracts


def _broken_contract(declared: Declared[written.Model], columns: Columns | None) -> list[Diagnostic]:
    """What `columns` says must be in the output, of the type it says."""
    promised, diagnostics = declared_columns(declared, None)
    if columns is None or promised is None:
        return diagnostics
    present = {c.name.casefold(): c for c in columns}
    for position, column in enumerate(promised):
        found = present.get(column.name.casefold())
        path = f"{declared.label}.columns.{column.name}"
        params = {"column": column.name}
        if found is None:
            text = f"the SQL puts out no column `{column.name}`"
            hint = did_you_mean(column.name, [c.name for c in columns], otherwise="columns")
            origin = declared.origin_of("columns", position, "name")
            diagnostics.append(Diagnostic("contract-broken", text, origin, path, hint, params=params))
        elif column.type is not None and found.type is not None and column.type != found.type:
            text = f"`{column.name}` is promised as {column.type}, and the SQL puts out {found.type}"
            hint = f"write CAST({column.name} AS {column.type}) in the SQL, or change the type here"
            origin = declared.origin_of("columns", position, "type")
            diagnostics.append(Diagnostic("contract-broken", text, origin, path, hint, params=params))
    return diagnostics
