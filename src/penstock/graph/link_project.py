"""Linking the project format."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.graph.analysis import as_diagnostics, cycle_diagnostics, missing_key, passed_event_time
from penstock.graph.graph import EventTime, Graph, Node
from penstock.graph.order import topological
from penstock.graph.topics import topic_clashes, topic_name_mistakes
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.project.parse import StreamProject
from penstock.project.template import Reference, Rendered, render
from penstock.sql.columns import analyse
from penstock.sql.dialects import PROJECT
from penstock.sql.query import Problem, Query, bind, has_subqueries, parse, tables
from penstock.sql.shape import Construct, stateful_constructs, unsupported, windows
from penstock.sql.types import Column, Columns, spark_type


@dataclass(frozen=True, slots=True)
class _Read:
    """A model whose text was read: what it refers to, and its query if it has a sound one."""

    declared: Declared[written.Model]
    inputs: tuple[str, ...]
    rendered: Rendered | None
    query: Query | None
    constructs: tuple[Construct, ...] = ()


def link_project(project: StreamProject, schemas: Mapping[str, Columns]) -> tuple[Graph, list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    nodes: dict[str, Node] = {}
    for source in project.sources:
        node, notes = _source(source, schemas)
        nodes[node.id] = node
        diagnostics.extend(notes)
    known = {*nodes, *(f"model.{m.value.name}" for m in project.models), *project.refused}
    models: dict[str, _Read] = {}
    for declared in project.models:
        model, notes = _read_model(declared, known)
        models[f"model.{declared.value.name}"] = model
        diagnostics.extend(notes)
    ordered, cycles = topological({node_id: model.inputs for node_id, model in models.items()})
    diagnostics.extend(cycle_diagnostics(cycles, lambda node_id: models[node_id].declared))
    gateway = project.runtime.has_gateway
    for node_id in ordered:
        node, notes = _model(node_id, models[node_id], nodes, gateway)
        nodes[node_id] = node
        diagnostics.extend(notes)
    for exposure in project.exposures:
        node, notes = _exposure(exposure, nodes, known)
        nodes[node.id] = node
        diagnostics.extend(notes)
    diagnostics.extend(topic_clashes(project, nodes))
    return Graph(project.name, "project", nodes, project.runtime), diagnostics


# Sources


def _source(declared: Declared[written.Source], schemas: Mapping[str, Columns]) -> tuple[Node, list[Diagnostic]]:
    source = declared.value
    diagnostics = topic_name_mistakes(declared)
    columns: list[Column] = []
    for position, column in enumerate(source.columns):
        name = spark_type(column.type) if column.type else "STRING"
        if name is None:
            origin = declared.origin_of("columns", position, "type")
            path = f"{declared.label}.columns.{column.name}.type"
            diagnostics.append(Diagnostic("unknown-column-type", f"`{column.type}` is not a type", origin, path))
        columns.append(Column(column.name, name))
    event_time = None
    if source.event_time is not None:
        event_time = EventTime(source.event_time.column, source.event_time.watermark.delay_ms)
        columns = [_as_time(c) if c.name == event_time.column else c for c in columns]
        if columns and event_time.column not in [c.name for c in columns]:
            text = f"the source has no column `{event_time.column}`"
            hint = did_you_mean(event_time.column, [c.name for c in columns])
            origin = declared.origin_of("event_time", "column")
            path = f"{declared.label}.event_time.column"
            diagnostics.append(Diagnostic("event-time-missing", text, origin, path, hint))
    node_id = f"source.{source.name}"
    node = Node(
        node_id,
        "source",
        source.name,
        source,
        declared.origin,
        columns=tuple(columns) or schemas.get(node_id),
        event_time=event_time,
        owner=source.owner,
        tags=source.tags,
        description=source.description,
    )
    return node, diagnostics


def _as_time(column: Column) -> Column:
    """An event time is a timestamp, however it was declared: text is parsed as one by the reader."""
    return Column(column.name, "TIMESTAMP") if column.type in ("STRING", None) else column


# Models


def _read_model(declared: Declared[written.Model], known: Collection[str]) -> tuple[_Read, list[Diagnostic]]:
    model = declared.value
    diagnostics = topic_name_mistakes(declared)
    named = [reference.id for reference in model.from_]
    for position, node_id in enumerate(named):
        if node_id not in known:
            origin = declared.origin_of("from", position)
            diagnostics.append(_unknown(node_id, known, declared, "from", origin))
    if model.sql is None:
        return _Read(declared, _known_only(named, known), None, None), diagnostics
    rendered = render(model.sql)
    for offset, text in rendered.problems:
        origin = declared.origin_inside("sql", offset)
        hint = 'write `{{ source("name") }}` or `{{ ref("name") }}`'
        diagnostics.append(Diagnostic("template-syntax", text, origin, f"{declared.label}.sql", hint))
    for reference in rendered.references:
        if reference.id not in known:
            origin = declared.origin_inside("sql", reference.offset)
            diagnostics.append(_unknown(reference.id, known, declared, "sql", origin))
    inputs = _known_only([*(r.id for r in rendered.references), *named], known)
    query: Query | None = None
    constructs: tuple[Construct, ...] = ()
    if not rendered.problems:
        query, constructs, problems = _query(rendered)
        diagnostics.extend(_sql_diagnostics(problems, declared, rendered))
    return _Read(declared, inputs, rendered, query, constructs), diagnostics


def _query(rendered: Rendered) -> tuple[Query | None, tuple[Construct, ...], list[Problem]]:
    parsed = parse(rendered.sql, PROJECT)
    if isinstance(parsed, Problem):
        return None, (), [parsed]
    referred: dict[str, Reference] = {r.id.casefold(): r for r in rendered.references}
    problems = [
        Problem("sql-unknown-table", f"`{t.name}` is read directly", t.offset, _table_hint(t.name), subject=t.name)
        for t in tables(parsed)
        if t.name.casefold() not in referred
    ]
    if not referred and not problems:
        text = "the SELECT reads from nothing"
        problems.append(Problem("sql-statement", text, 0, 'add FROM {{ source("name") }}'))
    constructs = stateful_constructs(parsed)
    bound = bind(parsed, {folded: reference.id for folded, reference in referred.items()})
    return (None if problems else bound), constructs, problems


def _table_hint(name: str) -> str:
    return f'write {{{{ source("{name}") }}}} or {{{{ ref("{name}") }}}}'


def _model(node_id: str, read: _Read, nodes: Mapping[str, Node], gateway: bool) -> tuple[Node, list[Diagnostic]]:
    declared, model = read.declared, read.declared.value
    inputs = [nodes[i] for i in read.inputs if i in nodes]
    columns, event_time, diagnostics = None, None, []
    if read.query is not None and read.rendered is not None:
        analysis = analyse(read.query, {n.id: n.columns for n in inputs})
        problems = [*analysis.problems, *unsupported(read.constructs), *_windows_without_time(read, inputs)]
        diagnostics = _sql_diagnostics(problems, declared, read.rendered)
        columns, event_time = analysis.columns, passed_event_time(analysis, inputs)
    elif model.sql is None and len(inputs) == 1:
        columns, event_time = inputs[0].columns, inputs[0].event_time
    materialized = _materialized(model, bool(read.constructs), gateway)
    node = Node(
        node_id,
        "model",
        model.name,
        model,
        declared.origin,
        inputs=tuple(n.id for n in inputs),
        materialized=materialized,
        query=read.query,
        columns=columns,
        key=model.key,
        event_time=event_time,
        stateful=bool(read.constructs),
        owner=model.owner,
        tags=model.tags,
        description=model.description,
    )
    diagnostics += missing_key(model.key, node, declared.origin_of("key"), f"{declared.label}.key")
    return node, [*diagnostics, *_placement_notes(declared, materialized, gateway)]


def _windows_without_time(read: _Read, inputs: list[Node]) -> list[Problem]:
    """A window must be over the event time of an input. Behind a subquery the column may have another name by then."""
    if not read.constructs or read.query is None or len(inputs) < len(read.inputs):
        return []
    times = {n.event_time.column.casefold() for n in inputs if n.event_time}
    nested = has_subqueries(read.query)
    found = []
    for window in windows(read.query):
        if not times or (not nested and window.column.casefold() not in times):
            text = f"a window needs event time, and `{window.column}` is none" if times else "a window needs event time"
            hint = did_you_mean(window.column, times, otherwise="event time") if times else _NO_EVENT_TIME
            found.append(Problem("window-without-event-time", text, window.offset, hint, window.column))
    return found


_NO_EVENT_TIME: Final = "declare `event_time` on the source, and select its column in every model on the way"


def _materialized(model: written.Model, stateful: bool, gateway: bool) -> written.Materialized:
    if model.materialized is not None:
        return model.materialized
    if model.advanced.connector is not None or (model.sql is None and model.from_):
        return "sink"
    if stateful:
        return "spark"
    return "virtual_topic" if gateway and model.sql is not None else "topic"


def _placement_notes(
    declared: Declared[written.Model], materialized: written.Materialized, gateway: bool
) -> list[Diagnostic]:
    """What is to be said about where a model's rows go."""
    model = declared.value
    connector = model.advanced.connector
    path = f"{declared.label}.advanced.connector"
    notes: list[Diagnostic] = []
    if materialized == "sink" and connector is None:
        text = "a sink needs a connector to write with"
        hint = "add `advanced: {connector: {type: …, config: {…}}}`, or `sql:` if this is no sink"
        notes.append(Diagnostic("missing-field", text, declared.origin, path, hint, params={"field": "connector"}))
    if materialized != "sink" and connector is not None:
        text = f"a model that is materialized as `{materialized}` has no connector"
        origin = declared.origin_of("advanced", "connector")
        notes.append(Diagnostic("invalid-value", text, origin, path, "write `materialized: sink`, or leave it out"))
    if materialized == "virtual_topic" and not gateway:
        text = "without a gateway this is a view inside the queries that read it"
        hint = "configure `runtime.conduktor.gateway` if others are to read it"
        origin = declared.origin_of("materialized")
        notes.append(Diagnostic("gateway-absent", text, origin, f"{declared.label}.materialized", hint, Severity.INFO))
    return notes


def _sql_diagnostics(
    problems: Iterable[Problem], declared: Declared[written.Model], rendered: Rendered
) -> list[Diagnostic]:
    return as_diagnostics(
        problems, declared.label, lambda offset: declared.origin_inside("sql", rendered.written(offset))
    )


# Exposures and names


def _exposure(
    declared: Declared[written.Exposure], nodes: Mapping[str, Node], known: Collection[str]
) -> tuple[Node, list[Diagnostic]]:
    exposure = declared.value
    diagnostics: list[Diagnostic] = []
    for section in ("consumes", "depends_on", "produces"):
        for position, reference in enumerate(getattr(exposure, section)):
            if reference.id not in known:
                origin = declared.origin_of(section, position)
                diagnostics.append(_unknown(reference.id, known, declared, section, origin))
    reads = [r.id for r in (*exposure.consumes, *exposure.depends_on)]
    node_id = f"exposure.{exposure.name}"
    node = Node(
        node_id,
        "exposure",
        exposure.name,
        exposure,
        declared.origin,
        inputs=_known_only(reads, nodes),
        outputs=_known_only((r.id for r in exposure.produces), nodes),
        owner=exposure.owner,
        tags=exposure.tags,
        description=exposure.description,
    )
    return node, diagnostics


def _unknown(
    node_id: str, known: Collection[str], declared: Declared[object], field: str, origin: Origin
) -> Diagnostic:
    kind, _, name = node_id.partition(".")
    names = [n.partition(".")[2] for n in known if n.startswith(f"{kind}.")]
    hint = did_you_mean(name, names)
    other = "model" if kind == "source" else "source"
    if f"{other}.{name}" in known:
        call = "ref" if other == "model" else "source"
        instead = f'{call}("{name}")' if field == "sql" else f"{{{call}: {name}}}"
        hint = f"there is a {other} of that name: write {instead}"
    text = f"there is no {kind} `{name}`"
    return Diagnostic(f"unknown-{kind}", text, origin, f"{declared.label}.{field}", hint, params={"name": name})


def _known_only(node_ids: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node_id for node_id in node_ids if node_id in known))
