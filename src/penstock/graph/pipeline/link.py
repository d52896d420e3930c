"""Linking the pipeline format."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.connectors.contract import Sink, Source
from penstock.connectors.hybrid import HybridSource
from penstock.errors import Diagnostic, Origin, Severity, did_you_mean, nearest
from penstock.graph.analysis import cycle_diagnostics, match_spelling, missing_key, to_diagnostics
from penstock.graph.graph import Graph, Node
from penstock.graph.pipeline.checks import check_pipeline, find_orphans, name_affected_sinks
from penstock.graph.pipeline.node_checks import ineffective_fields, missing_columns, name_clashes, phase_mismatches
from penstock.graph.topological_order import sort_topologically
from penstock.project.project import Pipeline
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.variables import find_references
from penstock.row_columns import OP
from penstock.sql.analyze.operand_types import kinds_edit
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.analyze.statefulness import keyword_offset, stateful_constructs
from penstock.sql.analyze.user_calls import called_functions, with_spark_names
from penstock.sql.lint.unknown_to_spark import find_spark_unknowns
from penstock.sql.parse.dialects import PIPELINE
from penstock.sql.parse.query import Problem, Query, bind_tables, parse, tables
from penstock.sql.rewrite.propagate_op import add_op_output
from penstock.sql.rewrite.render import is_plain_filter, spark_condition
from penstock.sql.types.columns import Column, Columns
from penstock.sql.types.user_functions import UserFunctions
from penstock.transforms.sql import SqlTransform


@dataclass(frozen=True, slots=True)
class _ParsedTransform:
    declared: Declaration[SqlTransform]
    inputs: tuple[str, ...]
    query: Query | None
    parsed: bool


def link_pipeline(pipeline: Pipeline, schemas: Mapping[str, Columns]) -> tuple[Graph, list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    readable = {
        **{name.casefold(): f"refused.{name}" for name in pipeline.refused},
        **{name.casefold(): f"source.{name}" for name in pipeline.sources},
        **{name.casefold(): f"transform.{name}" for name in pipeline.transforms},
    }
    nodes: dict[str, Node] = {}
    for name, source in pipeline.sources.items():
        node, notes = _link_source(name, source, schemas)
        nodes[node.id] = node
        diagnostics.extend(notes)
    transforms: dict[str, _ParsedTransform] = {}
    for name, transform in pipeline.transforms.items():
        read, notes = _parse_transform(transform, readable)
        transforms[f"transform.{name}"] = read
        diagnostics.extend(notes)
    ordered, cycles = sort_topologically({node_id: read.inputs for node_id, read in transforms.items()})
    circular = "Circular dependency detected in transforms: "
    diagnostics.extend(cycle_diagnostics(cycles, lambda node_id: transforms[node_id].declared, circular))
    for node_id in ordered:
        nodes[node_id], notes = _link_transform(node_id, transforms[node_id], nodes, pipeline.functions)
        diagnostics.extend(notes)
    for name, sink in pipeline.sinks.items():
        node, notes = _link_sink(name, sink, readable, nodes)
        nodes[node.id] = node
        diagnostics.extend(notes)
    settings = pipeline.settings
    opened = {name: sink.value.with_settings(settings, name) for name, sink in pipeline.sinks.items()}
    usual = {f"sink.{name}": sink.capabilities.flush_interval_ms for name, sink in opened.items()}
    intervals = {node_id: interval for node_id, interval in usual.items() if interval is not None}
    graph = Graph(
        pipeline.name, "pipeline", nodes, job=settings.job_mode, intervals=intervals, functions=pipeline.functions
    )
    diagnostics.extend(check_pipeline(pipeline, graph))
    lost = pipeline.refused or cycles or any(d.code == "unknown-upstream" for d in diagnostics)
    if not lost and all(read.parsed for read in transforms.values()):
        diagnostics.extend(find_orphans(graph, pipeline))
    return graph, list(name_affected_sinks(diagnostics, graph))


def _link_source(
    name: str, declared: Declaration[Source], schemas: Mapping[str, Columns]
) -> tuple[Node, list[Diagnostic]]:
    source = declared.value
    node_id = f"source.{name}"
    columns = schemas.get(node_id)
    if columns is not None:  # rows have it as their last column, wherever it stood
        columns = (*(c for c in columns if c.name != OP), Column(OP, "STRING"))
    condition, diagnostics = _filter_condition(node_id, declared, columns)
    node = Node(
        node_id,
        "source",
        name,
        source,
        declared.origin,
        columns=columns,
        key=match_spelling(source.primary_key, columns),
        unfilled=_unfilled_config(declared),
        condition=condition,
        on_error=source.on_error,
    )
    missing = missing_key(node.key, node, declared, "primary_key")
    unlike = phase_mismatches(declared, columns, schemas) if isinstance(source, HybridSource) else ()
    return node, [*diagnostics, *ineffective_fields(declared), *missing, *unlike, *name_clashes(declared, node)]


_ROWS: Final = "SELECT * FROM rows_ WHERE "


def _filter_condition(
    node_id: str, declared: Declaration[Source], columns: Columns | None
) -> tuple[str | None, list[Diagnostic]]:
    """The filter of a source in Spark SQL, and its diagnostics."""
    facts = declared.value.capabilities
    text, where = facts.condition, facts.condition_at
    if text is None:
        return None, []
    parsed = parse(_ROWS + text, PIPELINE)
    problems = [parsed] if isinstance(parsed, Problem) else []
    query = None if isinstance(parsed, Problem) else bind_tables(parsed, {"rows_": node_id})
    if query is not None:
        analysis = analyze_outputs(query, {node_id: columns})
        query = query.with_edit(kinds_edit(analysis.operands))
        problems = [_reword_problem(p, columns) for p in analysis.problems] or [*find_spark_unknowns(query)]
        if not is_plain_filter(query):
            problems = [Problem("sql-statement", "a filter is one condition, without other clauses", len(_ROWS))]
    found = to_diagnostics(
        problems,
        declared.label,
        lambda offset: declared.document.inside((*declared.path, *where), max(0, offset - len(_ROWS))),
        field=".".join(where),
    )
    return (spark_condition(query) if query is not None and not problems else None), found


def _reword_problem(problem: Problem, columns: Columns | None) -> Problem:
    """Reword an unknown column as an error of the filter."""
    if problem.code != "sql-unknown-column" or "has a column" not in problem.message:
        return problem
    close = nearest(problem.subject, [column.name for column in columns or ()])
    text = f"column '{problem.subject}' in the source filter does not exist in the source schema"
    if close is None:
        return replace(problem, message=text)
    return replace(problem, message=f"{text}. Did you mean '{close}'?", hint=None)


def _parse_transform(
    declared: Declaration[SqlTransform], readable: Mapping[str, str]
) -> tuple[_ParsedTransform, list[Diagnostic]]:
    parsed = parse(declared.value.sql, PIPELINE)
    if isinstance(parsed, Problem):
        text = declared.value.sql.rstrip()
        parsed = replace(parsed, message=f"failed to parse SQL: {parsed.message}\n--- SQL ---\n{text}")
        return _ParsedTransform(declared, (), None, parsed=False), _sql_diagnostics([parsed], declared)
    named = tables(parsed)
    inputs = dict.fromkeys(readable[t.name.casefold()] for t in named if t.name.casefold() in readable)
    others = {name: node_id for name, node_id in readable.items() if node_id != f"transform.{declared.path[-1]}"}
    diagnostics = [
        _unknown_upstream(t.name, others, declared.origin_inside("sql", t.offset), f"{declared.label}.sql")
        for t in named
        if t.name.casefold() not in readable
    ]
    if not named:
        empty = Problem("sql-statement", "the SELECT reads from nothing", 0, "add FROM with the name of a source")
        diagnostics = _sql_diagnostics([empty], declared)
    query = None if diagnostics else add_op_output(bind_tables(parsed, readable))
    return _ParsedTransform(declared, tuple(inputs), query, parsed=True), diagnostics


def _unknown_upstream(name: str, readable: Mapping[str, str], origin: Origin, path: str) -> Diagnostic:
    hint = did_you_mean(name, (node_id.partition(".")[2] for node_id in readable.values()))
    text = f"source '{name}' not found"
    return Diagnostic("unknown-upstream", text, origin, path, hint, params={"name": name})


def _link_transform(
    node_id: str, read: _ParsedTransform, nodes: Mapping[str, Node], functions: UserFunctions
) -> tuple[Node, list[Diagnostic]]:
    declared = read.declared
    inputs = [nodes[i] for i in read.inputs if i in nodes]
    diagnostics: list[Diagnostic] = []
    columns, query = None, read.query
    called = () if query is None else called_functions(query, functions)
    known = {n.id: n.columns for n in inputs}
    analysis = _try_analysis(query, known, functions) if query is not None else None
    if isinstance(analysis, Problem):
        diagnostics.extend(_sql_diagnostics([analysis], declared))
    elif query is not None and analysis is not None:
        query = with_spark_names(query.with_edit(kinds_edit(analysis.operands)), functions)
        hint = "a transform can only project, filter and unite rows; put the rest into a project's model"
        refused = []
        for construct in stateful_constructs(query):
            name, offset = construct.name, keyword_offset(query, construct.name, construct.offset, construct.word)
            refused.append(Problem("sql-unsupported", f"unsupported plan: {name}", offset, hint, name))
        foreign = [] if analysis.problems or refused else find_spark_unknowns(query)
        diagnostics.extend(_sql_diagnostics([*analysis.problems, *refused, *foreign], declared))
        diagnostics.extend(_sql_diagnostics(list(analysis.notes), declared, Severity.WARNING))
        columns = analysis.columns
    name = node_id.partition(".")[2]
    node = Node(
        node_id,
        "transform",
        name,
        declared.value,
        declared.origin,
        inputs=tuple(n.id for n in inputs),
        query=query,
        columns=columns,
        functions=tuple(functions[name] for name in called),
        key=match_spelling(declared.value.primary_key or _inherited_key(inputs, columns), columns),
    )
    missing = missing_key(node.key, node, declared, "primary_key")
    return node, [*diagnostics, *ineffective_fields(declared), *missing]


def _try_analysis(
    query: Query, inputs: Mapping[str, Columns | None], functions: UserFunctions
) -> OutputAnalysis | Problem:
    try:
        return analyze_outputs(query, inputs, functions=functions)
    except RecursionError:
        return Problem("sql-syntax", "the SQL is nested too deeply", hint="split it into several transforms")


def _inherited_key(inputs: list[Node], columns: Columns | None) -> tuple[str, ...]:
    """The key of a transform's inputs, if they have one key and the output has its columns."""
    keys = {node.key for node in inputs}
    key = keys.pop() if len(keys) == 1 else ()
    present = None if columns is None else {c.name.casefold() for c in columns}
    return key if present is None or {name.casefold() for name in key} <= present else ()


def _link_sink(
    name: str, declared: Declaration[Sink], readable: Mapping[str, str], nodes: Mapping[str, Node]
) -> tuple[Node, list[Diagnostic]]:
    sink = declared.value
    upstream_id = readable.get(sink.from_.casefold())
    upstream = nodes.get(upstream_id) if upstream_id else None
    diagnostics: list[Diagnostic] = []
    if upstream_id is None:
        origin, path = declared.origin_of("from"), f"{declared.label}.from"
        diagnostics.append(_unknown_upstream(sink.from_, readable, origin, path))
    columns = upstream.columns if upstream else None
    node = Node(
        f"sink.{name}",
        "sink",
        name,
        sink,
        declared.origin,
        inputs=(upstream.id,) if upstream else (),
        columns=columns,
        key=match_spelling(sink.primary_key, columns) or (upstream.key if upstream else ()),
        unfilled=_unfilled_config(declared),
    )
    missing = missing_key(sink.primary_key, node, declared, "primary_key")
    return node, [*diagnostics, *ineffective_fields(declared), *missing, *missing_columns(declared, node)]


def _unfilled_config(declared: Declaration[Any]) -> dict[str, Any] | None:
    return dict(declared.raw) if any(True for _ in find_references(declared.raw)) else None


def _sql_diagnostics(
    problems: list[Problem], declared: Declaration[SqlTransform], severity: Severity = Severity.ERROR
) -> list[Diagnostic]:
    return to_diagnostics(problems, declared.label, lambda offset: declared.origin_inside("sql", offset), severity)
