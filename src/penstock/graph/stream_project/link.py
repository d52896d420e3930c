"""Linking the project format."""

from collections.abc import Mapping
from datetime import date

from penstock.errors import Diagnostic
from penstock.graph.analysis import cycle_diagnostics
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.graph import Graph, LinkedTest, Node
from penstock.graph.model.event_time import unused_lateness
from penstock.graph.model.rendered import RenderedModel
from penstock.graph.model.topics import schema_clashes, topic_clashes
from penstock.graph.model.virtual_topics import virtual_clashes
from penstock.graph.rules import check_rules
from penstock.graph.rules.violation import RuleContext
from penstock.graph.rules.waivers import waive_warnings
from penstock.graph.stream_project.access import access_denials
from penstock.graph.stream_project.data_tests import column_tests, link_data_test
from penstock.graph.stream_project.exposures import exposure_node
from penstock.graph.stream_project.models import model_node, render_model
from penstock.graph.stream_project.sources import source_node, unreadable_formats
from penstock.graph.topological_order import sort_topologically
from penstock.project.project import StreamProject
from penstock.project.stream_project import Model, Source
from penstock.project.validation.declaration import Declaration
from penstock.sql.types.columns import Columns


def link_project(
    project: StreamProject, schemas: Mapping[str, Columns], memory: AnalysisCache, today: date
) -> tuple[Graph, list[Diagnostic]]:
    diagnostics: list[Diagnostic] = []
    nodes: dict[str, Node] = {}
    for source in project.sources:
        node, notes = source_node(source, schemas, project.defaults)
        nodes[node.id] = node
        diagnostics.extend(notes)
    known = {*nodes, *(f"model.{m.value.name}" for m in project.models), *project.refused}
    models: dict[str, RenderedModel] = {}
    for declared in project.models:
        read, notes = render_model(declared, known, project.templates)
        models[f"model.{declared.value.name}"] = read
        diagnostics.extend(notes)
    ordered, cycles = sort_topologically({node_id: model.inputs for node_id, model in models.items()})
    diagnostics.extend(cycle_diagnostics(cycles, lambda node_id: models[node_id].declared))
    for node_id in ordered:
        node, notes = model_node(models[node_id], nodes, project, memory)
        nodes[node_id] = node
        diagnostics.extend(notes)
    tests: list[LinkedTest] = []
    elements: dict[str, Declaration[Source] | Declaration[Model]] = {
        **{f"source.{source.value.name}": source for source in project.sources},
        **{f"model.{model.value.name}": model for model in project.models},
    }
    for node_id, node in nodes.items():
        beside, notes = column_tests(elements[node_id], node)
        tests.extend(beside)
        diagnostics.extend(notes)
    for exposure in project.exposures:
        node, notes = exposure_node(exposure, nodes, known)
        nodes[node.id] = node
        diagnostics.extend(notes)
    for written_test in project.tests:
        test, notes = link_data_test(written_test, nodes, known, project.templates)
        if (taken := next((t for t in tests if t.name == written_test.value.name), None)) is not None:
            text = f"a check of a column of `{taken.node.partition('.')[2]}` already has this name"
            notes.append(Diagnostic("duplicate-name", text, written_test.origin_of("name"), written_test.label))
        tests.extend([test] if test else [])
        diagnostics.extend(notes)
    diagnostics.extend(topic_clashes(project, nodes))
    diagnostics.extend(virtual_clashes(project, nodes) if project.runtime.has_gateway else ())
    diagnostics.extend(schema_clashes(project))
    diagnostics.extend(unreadable_formats(project.sources, nodes, project.runtime))
    diagnostics.extend(access_denials(project, nodes, tuple(tests)))
    diagnostics.extend(check_rules(RuleContext(project, nodes, tuple(tests)), today))
    graph = Graph(
        project.name,
        "project",
        nodes,
        project.runtime,
        tuple(tests),
        project.header,
        project.rules.value,
        clear_dead_letters=project.defaults.dead_letters == "clear",
        functions=project.functions,
    )
    diagnostics.extend(unused_lateness((*project.sources, *project.models), graph))
    return graph, waive_warnings(project.models, diagnostics, today)
