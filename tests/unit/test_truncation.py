"""Rebuilds that find their outputs empty, with everybody who reads them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.files.batch_directory import NOTE
from penstock.connectors.topic_sink import TopicSink
from penstock.errors import PlanRefused
from penstock.manifest.model import Manifest
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain, summary
from penstock.plan.query_steps import ALL
from penstock.plan.steps import Plan
from tests.unit.conftest import Compile

SOURCE = "sources:\n  - {name: o, topic: o.v1, columns: [{name: id, type: BIGINT}, {name: v, type: BIGINT}]}\n"
MODELS = """models:
  - {name: a, key: id, sql: "SELECT id, SUM(v) AS v FROM {{ source('o') }} GROUP BY id"}
  - {name: b, sql: "SELECT id, v FROM {{ ref('a') }}"}
  - {name: c, sql: "SELECT id, v FROM {{ ref('b') }}"}
  - {name: d, sql: "SELECT id, v FROM {{ source('o') }}"}
"""
PROJECT = f"project: {{name: p}}\n{SOURCE}{MODELS}"
ON_KAFKA = f"{PROJECT}runtime: {{kafka: {{bootstrap_servers: b}}}}\n"


def deployed(manifest: Manifest) -> DeployedState:
    topics = frozenset(t.name for t in manifest.topics)
    begun = {q.name: Checkpoint(begun=True, unfinished=False) for q in manifest.queries}
    return DeployedState({q.name: q for q in manifest.queries}, topics, topics, begun)


def actions(plan: Plan) -> list[str]:
    lines = [explain(step) for step in plan.steps]
    return [f"{ln.sign} {ln.action} {ln.subject} {ln.name}" for ln in lines if ln.subject != "topic" or ln.sign == "!"]


def risk(plan: Plan, query: str) -> str:
    return next(line.risk for line in map(explain, plan.steps) if (line.subject, line.name) == ("query", query))


@pytest.mark.parametrize("text", [PROJECT, ON_KAFKA])
def test_readers_of_what_is_emptied_are_rebuilt_and_emptied_with_it(project_manifest: Compile, text: str) -> None:
    manifest = project_manifest(text)
    plan = diff(manifest, deployed(manifest), allow_rebuild=["a"], truncate=True)
    assert actions(plan) == [
        "! rebuild query a",
        "! rebuild query b",
        "! rebuild query c",
        "= resume query d",
        "! empty topic a",
        "! empty topic b",
        "! empty topic c",
    ]
    assert plan.refusals == ()
    assert "`a`, which it reads, is truncated" in explain(plan.steps[-6]).reason
    assert summary(plan).endswith("6 to rebuild, empty or hold")
    assert "emptied" in risk(plan, "a")


def test_nothing_is_emptied_without_consent(project_manifest: Compile) -> None:
    before = deployed(project_manifest(PROJECT))
    changed = project_manifest(PROJECT.replace("SUM(v)", "MAX(v)"))
    plan = diff(changed, before, truncate=True)
    assert [action for action in actions(plan) if "empty" in action] == []
    assert [refusal.params["name"] for refusal in plan.refusals] == ["a"]


def test_all_allows_what_is_needed_and_asks_for_nothing_else(project_manifest: Compile) -> None:
    before = deployed(project_manifest(PROJECT))
    changed = project_manifest(PROJECT.replace("SUM(v)", "MAX(v)"))
    plan = diff(changed, before, allow_rebuild=[ALL])
    assert actions(plan) == ["! rebuild query a", "= resume query b", "= resume query c", "= resume query d"]
    assert plan.refusals == ()


def test_a_reader_that_is_not_selected_is_not_passed_over(project_manifest: Compile) -> None:
    manifest = project_manifest(PROJECT)
    plan = diff(manifest, deployed(manifest), select=["a"], allow_rebuild=["a"], truncate=True)
    assert [(refusal.code, refusal.params["name"]) for refusal in plan.refusals] == [("rebuild-refused", "b")]


def test_what_somebody_else_writes_too_is_not_emptied(pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest(
        "sources: {a: {type: kafka, topic: x}, b: {type: kafka, topic: y}}\n"
        "sinks:\n  o: {type: postgres, from: a, table: t, primary_key: id}\n"
        "  q: {type: postgres, from: b, table: t, primary_key: id}\n"
    )
    plan = diff(manifest, deployed(manifest), allow_rebuild=["a"], truncate=True)
    assert [(refusal.code, refusal.params["name"]) for refusal in plan.refusals] == [("rebuild-refused", "b")]
    both = diff(manifest, deployed(manifest), allow_rebuild=["a", "b"], truncate=True)
    assert both.refusals == ()
    assert actions(both)[2:] == ["! empty output t", "! empty output t"]


def test_a_topic_that_a_pipeline_only_makes_is_left_alone(pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest(
        "sources: {a: {type: kafka, topic: x}}\n"
        "sinks: {o: {type: kafka, from: a, topic: y, data_format: json, primary_key: id}}\n"
    )
    plan = diff(manifest, deployed(manifest), allow_rebuild=["a"], truncate=True)
    assert actions(plan) == ["! rebuild query a"]
    assert "stay in its output" in risk(plan, "a")


def test_an_embedded_topic_loses_its_batches_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b-0", "b-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / NOTE).write_text(json.dumps({}))
        (tmp_path / name / "part-0.parquet").write_text("rows")
    (tmp_path / "_staging" / "b-2").mkdir(parents=True)
    (tmp_path / "mine.json").write_text("{}")
    TopicSink(from_="m", topic="t", directory=tmp_path).empty()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.json"]


def test_names_may_be_given_together(tmp_path: Path) -> None:
    from penstock.workflow.stages import check, compile_project, plan_project

    (tmp_path / "stream_project.yml").write_text(PROJECT)
    checked = check(tmp_path)
    plan_project(checked, compile_project(checked), allow_rebuild=["a,b", "all"])
    with pytest.raises(PlanRefused, match="no query `x`"):
        plan_project(checked, compile_project(checked), allow_rebuild=["a,x"])


def test_nothing_is_emptied_for_nobody(tmp_path: Path) -> None:
    (tmp_path / "stream_project.yml").write_text(PROJECT)
    told = CliRunner().invoke(app, ["plan", str(tmp_path), "--truncate"])
    assert told.exit_code == 2
    assert "--allow-rebuild" in told.output
