"""Models of a project as nodes: inputs, outputs, materialization."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from penstock.errors import Diagnostic, Severity, did_you_mean, has_errors
from penstock.graph.analysis import known_ids, match_spelling, missing_key, to_diagnostics, unknown_reference
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.graph import EventTimeColumn, Node
from penstock.graph.model import realtime_mode
from penstock.graph.model.avro_schema import schema_notes
from penstock.graph.model.changelog_mode import find_change_key, masked_keys, node_flow, unbounded_state
from penstock.graph.model.event_time import check_view_time, output_times, window_times
from penstock.graph.model.masks import classify_outputs, resolve_masks
from penstock.graph.model.materialization import choose_materialization, foreign_connector, placement_notes
from penstock.graph.model.ml_models import answer_types, invalid_calls, output_notes, unavailable_calls
from penstock.graph.model.rendered import RenderedModel
from penstock.graph.model.state_settings import state_notes
from penstock.graph.model.topics import check_topic_name, topic_settings
from penstock.graph.model.virtual_topics import gateway_limits
from penstock.graph.stream_project.sources import declared_columns
from penstock.project import stream_project as written
from penstock.project.project import StreamProject
from penstock.project.runtime import Runtime
from penstock.project.templates.template import RenderedSql, Templates
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.analysis import QueryAnalysis, bind_query
from penstock.sql.analyze.column_lineage import ColumnOrigin
from penstock.sql.analyze.statefulness import unsupported_problems
from penstock.sql.parse.query import Problem, Query, union_by_name
from penstock.sql.rewrite.mask import masked_columns
from penstock.sql.stateful.stages import Flow
from penstock.sql.types.columns import Columns
from penstock.sql.types.inference_overrides import MODEL_CALLS
from penstock.sql.types.user_functions import UserFunctions


def render_model(
    declared: Declaration[written.Model], known: Collection[str], templates: Templates
) -> tuple[RenderedModel, list[Diagnostic]]:
    model = declared.value
    diagnostics: list[Diagnostic] = []
    named = [reference.id for reference in model.from_]
    for position, node_id in enumerate(named):
        if node_id not in known:
            origin = declared.origin_of("from", position)
            diagnostics.append(unknown_reference(node_id, known, declared, "from", origin))
    if model.sql is None:
        return RenderedModel(declared, known_ids(named, known)), diagnostics
    rendered = templates.render(model.sql)
    place = partial(declared.origin_inside, "sql")
    diagnostics += to_diagnostics(rendered.problems, declared.label, place)
    for reference in rendered.references:
        if reference.id not in known:
            diagnostics.append(unknown_reference(reference.id, known, declared, "sql", place(reference.offset)))
    inputs = tuple(dict.fromkeys([*(r.id for r in rendered.references), *known_ids(named, known)]))
    if not rendered.problems:
        diagnostics.extend(_unused_inputs(declared, rendered, known))
    return RenderedModel(declared, inputs, rendered), diagnostics


def _unused_inputs(
    declared: Declaration[written.Model], rendered: RenderedSql, known: Collection[str]
) -> Iterable[Diagnostic]:
    used = {reference.id for reference in rendered.references}
    for position, reference in enumerate(declared.value.from_):
        if reference.id not in used and reference.id in known:
            text = f"`{reference.id.partition('.')[2]}` is listed in `from`, but the SQL does not read it"
            yield declared.diagnostic("no-effect", text, "remove it", at=("from", position), severity=Severity.WARNING)


def model_node(
    read: RenderedModel, nodes: Mapping[str, Node], project: StreamProject, memory: AnalysisCache
) -> tuple[Node, list[Diagnostic]]:
    runtime, defaults, functions = project.runtime, project.defaults, project.functions
    declared, model, gateway = read.declared, read.declared.value, runtime.has_gateway
    inputs = {node_id: nodes[node_id] for node_id in read.inputs if node_id in nodes}
    found = _analyze_model(read, inputs, memory, functions)
    key = match_spelling(model.key, found.columns)
    change_key, keyless = find_change_key(found, key)
    here = [*unsupported_problems(found.constructs, never=False), *filter(None, (found.hindrance, keyless))]
    here += unavailable_calls(found.asks, runtime.ml.models)
    times, diagnostics = _sql_diagnostics(read, found, inputs, here)
    diagnostics += _input_mismatches(read, inputs)
    once, calls = found.reads_once, found.calls
    materialized, decided_by = choose_materialization(model, found.constructs, gateway, reads_once=once, calls=calls)
    diagnostics += placement_notes(declared, materialized, gateway)
    passes_all = found.passes_all or (read.sql is None and len(inputs) < 2)
    masks, notes = resolve_masks(declared, found.columns, found.origins, inputs.values(), passes_all=passes_all)
    blurred = masked_keys(change_key, masks)
    diagnostics += [*notes, *to_diagnostics(blurred, declared.label, read.origin_at, Severity.WARNING)]
    levels, covered = classify_outputs(model, found.origins, inputs, masks)
    columns = found.columns and masked_columns(found.columns, masks)
    hidden, view = {m.column for m in masks}, materialized == "virtual_topic"
    (event_time, *further), notes = output_times(declared, columns, found, inputs, times, hidden, view=view)
    operators = tuple(dict.fromkeys(c.name for c in found.constructs if c.name not in MODEL_CALLS))
    node = Node(
        f"model.{model.name}",
        "model",
        model.name,
        model,
        declared.origin,
        inputs=tuple(inputs),
        materialized=materialized,
        query=_bound_query(read.sql or _union_sql(read, inputs), inputs, found, functions),
        columns=columns,
        key=key,
        event_time=event_time,
        further_times=tuple(time for time in further if time is not None),
        asked_times=times,
        stateful=bool(operators),
        operators=operators,
        keyed=found.keyed or any(n.keyed for n in inputs.values() if n.materialized == "virtual_topic"),
        decided_by=decided_by,
        hindrances=tuple(dict.fromkeys(problem.subject for problem in (*here, *blurred))),
        flow="changes" if found.flow == "signed" and not view else found.flow,
        change_key=change_key,
        corrects=found.corrects,
        mixed=view and _has_mixed_rows(read, inputs),
        on_error=model.on_error or defaults.on_error,
        asks={call.model: answer_types(model).get(call.model) for call in found.asks},
        functions=tuple(functions[name] for name in found.calls),
        column_origins=found.origins,
        column_uses=found.uses,
        masks=masks,
        classification=levels,
        covered=covered,
        topic=topic_settings(model, defaults) if _has_topic(model, materialized, runtime, bool(masks)) else None,
        owner=model.owner,
        group=model.group,
        tags=model.tags,
        description=model.description,
    )
    node, trigger = _check_trigger(declared, node, nodes, kafka=runtime.kafka is not None)
    is_served = view and gateway and not has_errors(diagnostics)
    served = gateway_limits(read, node, nodes, found.columns) if is_served else ()
    diagnostics += [*notes, *check_view_time(declared, node, inputs), *trigger]
    diagnostics += [*_node_diagnostics(declared, node, found), *schema_notes(declared, node, runtime), *served]
    return node, diagnostics


def _sql_diagnostics(
    read: RenderedModel, found: QueryAnalysis, inputs: Mapping[str, Node], here: Iterable[Problem]
) -> tuple[dict[str, EventTimeColumn], list[Diagnostic]]:
    """The event times of windows, and the SQL's diagnostics. Valid SQL that cannot run here is a warning."""
    if read.sql is None:
        return {}, []
    label, place = read.declared.label, read.origin_at
    times, problems, notes = window_times(read, found, inputs)
    errors = [*found.problems, *unsupported_problems(found.constructs, never=True), *problems]
    errors += invalid_calls(found.asks)
    return times, [
        *to_diagnostics(errors, label, place),
        *to_diagnostics([*here, *found.notes, *unbounded_state(found)], label, place, Severity.WARNING),
        *notes,
        *output_notes(read.declared, found.asks),
    ]


def _check_trigger(
    declared: Declaration[written.Model], node: Node, nodes: Mapping[str, Node], *, kafka: bool
) -> tuple[Node, list[Diagnostic]]:
    """Mark the node as not runnable if its query does not qualify for its trigger."""
    job = declared.value.advanced.spark
    slow = tuple(realtime_mode.realtime_obstacles(node, nodes, kafka=kafka)) if job.trigger == "realtime" else ()
    bound = realtime_mode.async_obstacles(node, nodes, kafka=kafka) if job.async_progress else ()
    hindrances = [
        name for name, reasons in ((realtime_mode.REALTIME, slow), (realtime_mode.ASYNC_PROGRESS, bound)) if reasons
    ]
    node = replace(node, hindrances=(*node.hindrances, *hindrances)) if hindrances else node
    notes = realtime_mode.trigger_notes(declared, node, slow) if job.trigger is not None else ()
    return node, [*notes, *(realtime_mode.async_notes(declared, node, bound) if job.async_progress else ())]


def _node_diagnostics(declared: Declaration[written.Model], node: Node, found: QueryAnalysis) -> Iterator[Diagnostic]:
    """The diagnostics of the declaration that need the node."""
    yield from state_notes(declared, node, found)
    yield from check_topic_name(declared) if node.topic else ()
    yield from missing_key(declared.value.key, node, declared, "key")
    yield from _broken_contract(declared, node.columns)
    yield from _unknown_classifications(declared, node.columns)


def _has_mixed_rows(read: RenderedModel, inputs: Mapping[str, Node]) -> bool:
    """Whether rows of several inputs, or of one input that is read twice, are united."""
    references = read.rendered.references if read.rendered is not None else read.inputs
    return len(references) > 1 or any(node.mixed for node in inputs.values())


def _has_topic(model: written.Model, materialized: str, runtime: Runtime, is_masked: bool) -> bool:
    """Whether Spark writes the rows to a topic, also for a connector of Kafka Connect that reads them there."""
    if materialized != "sink":
        return materialized != "virtual_topic"
    foreign = foreign_connector(model, materialized, runtime.connect)
    return foreign is not None and (model.sql is not None or is_masked)


def _analyze_model(
    read: RenderedModel, inputs: Mapping[str, Node], memory: AnalysisCache, functions: UserFunctions
) -> QueryAnalysis:
    if read.sql is not None:
        columns = {node_id: inputs[node_id].columns if node_id in inputs else None for node_id in read.inputs}
        model = read.declared.value
        flows = {node_id: node_flow(inputs[node_id]) if node_id in inputs else Flow() for node_id in read.inputs}
        nested = model.materialized == "virtual_topic"
        ttl_ms = model.advanced.spark.state_ttl_ms
        types = answer_types(model)
        return memory.analyze(read.sql, columns, types, flows, ttl_ms, nested=nested, functions=functions)
    if read.declared.value.sql is None and len(inputs) == 1:
        (node,) = inputs.values()
        same = {c.name: (ColumnOrigin(node.id, c.name.casefold(), "same"),) for c in node.columns or ()}
        return QueryAnalysis(True, columns=node.columns, origins=same, flow=node.flow, change_key=node.change_key)
    if (sql := _union_sql(read, inputs)) is not None:
        columns = {node_id: node.columns for node_id, node in inputs.items()}
        return memory.analyze(sql, columns, {}, {node_id: node_flow(node) for node_id, node in inputs.items()})
    if read.declared.value.sql is None and not read.inputs:
        return QueryAnalysis(True, columns=declared_columns(read.declared, "STRING")[0])
    return QueryAnalysis(False)


def _bound_query(
    sql: str | None, inputs: Mapping[str, Node], found: QueryAnalysis, functions: UserFunctions
) -> Query | None:
    called = {name: functions[name] for name in found.calls}
    return bind_query(sql, tuple(inputs), found.operands, called) if sql and found.sound else None


def _union_sql(read: RenderedModel, inputs: Mapping[str, Node]) -> str | None:
    """The UNION of a model that only names several inputs, if all are known to have the same columns."""
    names = {node_id: [c.name for c in node.columns or ()] for node_id, node in inputs.items()}
    alike = {frozenset(name.casefold() for name in listed) for listed in names.values()}
    is_plain = read.declared.value.sql is None and len(inputs) > 1 and len(inputs) == len(read.inputs)
    return union_by_name(names) if is_plain and len(alike) == 1 and all(names.values()) else None


def _input_mismatches(read: RenderedModel, inputs: Mapping[str, Node]) -> Iterator[Diagnostic]:
    """Report united inputs with different columns, and inputs that are sinks."""
    declared = read.declared
    known = {node_id: {c.name.casefold() for c in node.columns} for node_id, node in inputs.items() if node.columns}
    if declared.value.sql is None and len({frozenset(names) for names in known.values()}) > 1:
        every = set.union(*known.values())
        lacking = [
            f"`{n.partition('.')[2]}` lacks {', '.join(sorted(every - known[n]))}" for n in known if every - known[n]
        ]
        text = f"the inputs have different columns: {'; '.join(lacking)}"
        hint = "write the columns that you want as `sql`"
        yield declared.diagnostic("sql-statement", text, hint, at=("from",))
    for node in inputs.values():
        if node.materialized == "sink":
            text = f"`{node.name}` is a sink: nothing can be read from it"
            yield declared.diagnostic("invalid-value", text, "read what it reads")


def _unknown_classifications(declared: Declaration[written.Model], columns: Columns | None) -> Iterator[Diagnostic]:
    """Report names in `security.classification` that are not output columns."""
    names = [c.name for c in columns or ()]
    for name in declared.value.security.classification if columns is not None else ():
        if name.casefold() not in {known.casefold() for known in names}:
            text, hint = f"the SQL has no output column `{name}`", did_you_mean(name, names, otherwise="columns")
            at = ("security", "classification", name)
            yield declared.diagnostic("contract-broken", text, hint, at=at, column=name)


# Contracts


def _broken_contract(declared: Declaration[written.Model], columns: Columns | None) -> list[Diagnostic]:
    """Report columns of the contract that the output lacks, or has with another type."""
    promised, diagnostics = declared_columns(declared, None)
    if columns is None or promised is None:
        return diagnostics
    present = {c.name.casefold(): c for c in columns}
    for position, column in enumerate(promised):
        found = present.get(column.name.casefold())
        path = f"{declared.label}.columns.{column.name}"
        params = {"column": column.name}
        if found is None:
            text = f"the SQL has no output column `{column.name}`"
            hint = did_you_mean(column.name, [c.name for c in columns], otherwise="columns")
            origin = declared.origin_of("columns", position, "name")
            diagnostics.append(Diagnostic("contract-broken", text, origin, path, hint, params=params))
        elif column.type is not None and found.type is not None and column.type != found.type:
            text = f"`{column.name}` is declared as {column.type}, and the SQL gives {found.type}"
            hint = f"write CAST({column.name} AS {column.type}) in the SQL, or change the type here"
            origin = declared.origin_of("columns", position, "type")
            diagnostics.append(Diagnostic("contract-broken", text, origin, path, hint, params=params))
    return diagnostics
