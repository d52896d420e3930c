"""What a plan makes of inputs and outputs that are read and written elsewhere."""

from dataclasses import replace

import pytest

from penstock.manifest.model import Manifest
from penstock.plan.changes.locations import resolve_locations
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.plan.steps import Plan
from tests.unit.conftest import Compile

KAFKA = "runtime: {kafka: {bootstrap_servers: b}}\n"
SOURCE = "sources:\n  - {name: o, topic: o.v1, columns: [{name: id, type: BIGINT}, {name: v, type: BIGINT}]}\n"
PLAIN = "SELECT id, v FROM {{ source('o') }}"
TOTALS = "SELECT id, SUM(v) AS v FROM {{ source('o') }} GROUP BY id"


def model(name: str, sql: str, topic: str = "") -> str:
    topic = f", advanced: {{topic: {topic}}}" if topic else ""
    return f'  - {{name: {name}, key: id, sql: "{sql}"{topic}}}\n'


def deployed(manifest: Manifest) -> DeployedState:
    topics = frozenset(t.name for t in manifest.topics)
    begun = {q.name: Checkpoint(begun=True, unfinished=False) for q in manifest.queries}
    return DeployedState({q.name: q for q in manifest.queries}, topics, topics, begun)


def actions(plan: Plan) -> list[str]:
    lines = [explain(step) for step in plan.steps]
    return [f"{ln.sign} {ln.action} {ln.subject} {ln.name}" for ln in lines]


def reason(plan: Plan, query: str) -> str:
    return next(line.reason for line in map(explain, plan.steps) if line.name == query and line.subject == "query")


@pytest.mark.parametrize("runtime", ["", KAFKA])
@pytest.mark.parametrize("sql", [PLAIN, TOTALS])
def test_another_topic_of_a_source_is_another_input(project_manifest: Compile, runtime: str, sql: str) -> None:
    text = f"project: {{name: p}}\n{runtime}{SOURCE}models:\n{model('m', sql)}"
    plan = diff(project_manifest(text.replace("o.v1", "o.v2")), deployed(project_manifest(text)))
    assert "! rebuild query m" in actions(plan)
    assert "`o` is read from `o.v2` instead of `o.v1`" in reason(plan, "m")
    assert "rebuild-refused" in {refusal.code for refusal in plan.refusals}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("type: kafka, topic: a", "type: kafka, topic: b"),
        ("type: file, path: /a, format: json", "type: file, path: /b, format: json"),
        ("type: clickhouse, table_name: a", "type: clickhouse, table_name: b"),
        ("type: postgres_cdc, user: u, database: d, table: a", "type: postgres_cdc, user: u, database: d, table: b"),
        ("type: postgres_cdc, user: u, database: a, table: t", "type: postgres_cdc, user: u, database: b, table: t"),
        ("type: file, path: /a, format: json", "type: kafka, topic: a"),
    ],
)
def test_each_source_knows_what_makes_it_another_one(before: str, after: str, pipeline_manifest: Compile) -> None:
    text = "sources: {{a: {{{}}}}}\nsinks: {{o: {{type: blackhole, from: a}}}}\n"
    plan = diff(pipeline_manifest(text.format(after)), deployed(pipeline_manifest(text.format(before))))
    assert actions(plan) == ["! rebuild query a"]


@pytest.mark.parametrize("runtime", ["", KAFKA])
@pytest.mark.parametrize("sql", [PLAIN, TOTALS])
def test_a_renamed_topic_of_a_model_must_be_filled_and_read_again(
    project_manifest: Compile, runtime: str, sql: str
) -> None:
    reader = model("r", "SELECT id, v FROM {{ ref('m') }}")
    text = f"project: {{name: p}}\n{runtime}{SOURCE}models:\n{model('m', sql, 'm.v1')}{reader}"
    plan = diff(project_manifest(text.replace("m.v1", "m.v2")), deployed(project_manifest(text)))
    assert [a for a in actions(plan) if "query" in a] == ["! rebuild query m", "! rebuild query r"]
    assert "`m` is written to `m.v2` instead of `m.v1`, which has none of the rows written so far" in reason(plan, "m")
    assert "`m` is read from `m.v2` instead of `m.v1`" in reason(plan, "r")
    risks = {line.name: line.risk for line in map(explain, plan.steps) if line.subject == "query"}
    assert risks["m"] == "rows written so far stay in `m.v1`, which nothing in this project reads"
    assert "written again" in risks["r"]


@pytest.mark.parametrize(("sql", "action"), [(TOTALS, "! rebuild query m"), (PLAIN, "~ restart query m")])
def test_another_table_needs_all_rows_only_of_a_query_with_state(
    project_manifest: Compile, sql: str, action: str
) -> None:
    config = "{connection.url: 'jdbc:postgresql://h/d', connection.user: u, table.name.format: t1}"
    connector = f"materialized: sink, advanced: {{connector: {{type: jdbc-sink, config: {config}}}}}"
    text = f'project: {{name: p}}\n{SOURCE}models:\n  - {{name: m, key: id, sql: "{sql}", {connector}}}\n'
    plan = diff(project_manifest(text.replace("t1", "t2")), deployed(project_manifest(text)))
    assert actions(plan) == [action]
    assert "`m` is written to `t2` instead of `t1`" in reason(plan, "m")


def test_another_word_for_the_same_connector_is_no_other_input(pipeline_manifest: Compile) -> None:
    source = "sources: {a: {type: postgres_cdc, user: u, database: d, table: t}}"
    text = f"{source}\nsinks: {{o: {{type: blackhole, from: a}}}}\n"
    plan = diff(pipeline_manifest(text.replace("_cdc", "_cdc_source")), deployed(pipeline_manifest(text)))
    assert actions(plan) == ["~ restart query a"]


def test_files_of_a_directory_inside_another_are_the_same_input(pipeline_manifest: Compile) -> None:
    text = "sources: {a: {type: file, path: /data, format: json}}\nsinks: {o: {type: blackhole, from: a}}\n"
    plan = diff(pipeline_manifest(text.replace("/data", "/data/2026/")), deployed(pipeline_manifest(text)))
    assert actions(plan) == ["~ restart query a"]


def test_another_value_of_a_variable_is_another_place(pipeline_manifest: Compile) -> None:
    source = "{type: kafka, topic: '${T:-t}', data_format: json, schema: {id: BIGINT}, primary_key: id}"
    sink = "{type: kafka, topic: '${OUT:-o}', data_format: json, from: a}"
    manifest = pipeline_manifest(f"sources: {{a: {source}}}\nsinks: {{o: {sink}}}\n")
    (query,) = manifest.queries
    places = resolve_locations(query, {})
    assert places == {query.inputs[0].name: "t", "sink.o": "o"}
    before = replace(deployed(manifest), places={"a": places})
    assert "= resume query a" in actions(diff(manifest, before, environ={}))
    plan = diff(manifest, before, environ={"T": "u"})
    assert "! rebuild query a" in actions(plan)
    assert "a variable says `u` instead of `t`" in reason(plan, "a")
    assert "= resume query a" in actions(diff(manifest, deployed(manifest), environ={"T": "u"}))
