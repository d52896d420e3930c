"""State belongs to a project, an environment, and the place of its topics."""

import shutil
from dataclasses import replace
from pathlib import Path

from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.slots import record_adoption, record_topics, slot_of
from penstock.plan.deployed.state import DeployedState, read_deployed_state, record_query
from penstock.plan.deployed.stores import SqliteStore
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.plan.steps import Plan
from penstock.plan.systems.topics import Brokers
from penstock.workflow.stages import CheckedProject, Target, check, compile_project, plan_project
from tests.support import write

PROJECT = """
    project: {name: p}
    sources:
      - {name: s, topic: s.v1, columns: [{name: id, type: BIGINT}]}
    models:
      - {name: m, sql: "SELECT id FROM {{ source('s') }}"}
      - {name: n, key: id, sql: "SELECT id, COUNT(*) AS n FROM {{ ref('m') }} GROUP BY id"}
    """
ON_KAFKA = "\n    runtime: {kafka: {bootstrap_servers: 'localhost:1'}}\n"
LOCAL = {"environments/local.yml": "environment: {description: here}\nruntime: {}\n"}
KAFKA = {"environments/kafka.yml": "runtime: {kafka: {bootstrap_servers: 'localhost:1'}}\n"}


def run_before(root: Path) -> CheckedProject:
    """A project that has run without environments, as it lies on disk when every query has committed a batch."""
    write(root, {"stream_project.yml": PROJECT})
    checked = check(root)
    manifest = compile_project(checked)
    for query in manifest.queries:
        record_query(checked.store, checked.place, manifest.revision, query)
        at = f".penstock/project.p/default/checkpoints/{query.name}"
        write(root, {f"{at}/metadata": '{"id":"a"}', f"{at}/offsets/0": "v1\n{}\n", f"{at}/commits/0": "v1\n{}"})
        topic = f".penstock/topics/{query.name}/a-000000000000-00000000"
        write(root, {f"{topic}/_batch.json": "{}"})
    return checked


def lines(plan: Plan) -> list[str]:
    found = [explain(step) for step in plan.steps]
    return [f"{line.sign} {line.action} {line.subject} {line.name}" for line in found]


def plan_of(checked: CheckedProject, **options: object) -> Plan:
    return plan_project(checked, compile_project(checked), **options)  # type: ignore[arg-type]


def test_a_directory_of_an_earlier_version_is_gone_on_with(tmp_path: Path) -> None:
    before = run_before(tmp_path)
    assert before.place.checkpoint("m") == tmp_path / ".penstock/project.p/default/checkpoints/m"
    assert lines(plan_of(check(tmp_path))) == ["= resume query m", "= resume query n"]


def test_a_first_environment_is_offered_the_state_that_is_there(tmp_path: Path) -> None:
    run_before(tmp_path)
    write(tmp_path, LOCAL)
    plan = plan_of(check(tmp_path))
    assert lines(plan) == ["~ adopt state local", "= resume query m", "= resume query n"]
    (refusal,) = plan.refusals
    assert (refusal.code, refusal.params["environment"]) == ("state-elsewhere", "local")
    assert refusal.hint is not None
    assert "--adopt-state" in refusal.hint


def test_an_environment_that_adopted_state_keeps_it(tmp_path: Path) -> None:
    before = run_before(tmp_path)
    write(tmp_path, LOCAL)
    checked = replace(check(tmp_path), adopts_state=True)
    plan = plan_of(checked)
    assert plan.refusals == ()
    assert checked.place.checkpoint("m") == before.place.checkpoint("m")
    assert plan.adoption is not None
    record_adoption(checked.store, checked.place, plan.adoption)
    again = check(tmp_path)
    assert again.place == before.place
    assert lines(plan_of(again)) == ["= resume query m", "= resume query n"]
    write(tmp_path, {"environments/other.yml": "environment: {description: there}\nruntime: {}\n"})
    other = plan_of(check(Target(tmp_path, env="other")))
    assert lines(other) == ["! rebuild query m", "! rebuild query n"]


def test_state_of_embedded_topics_says_nothing_of_kafka(tmp_path: Path) -> None:
    before = run_before(tmp_path)
    for files, slot in ((KAFKA, "kafka"), ({"stream_project.yml": PROJECT.rstrip() + ON_KAFKA}, "default@kafka")):
        write(tmp_path, files)
        checked = check(tmp_path)
        assert checked.place.environment == slot
        deployed = read_deployed_state(checked.store, checked.place)
        plan = diff(compile_project(checked), deployed, brokers=Brokers({}, {}))
        assert [line for line in lines(plan) if "query" in line] == ["+ start query m", "+ start query n"]
        assert [line for line in lines(plan) if "topic" in line] == ["+ create topic m", "+ create topic n"]
        assert not [r for r in plan.refusals if r.code != "topic-missing"]
        shutil.rmtree(tmp_path / "environments", ignore_errors=True)
    write(tmp_path, {"stream_project.yml": PROJECT})
    assert check(tmp_path).place == before.place


def test_rows_on_kafka_are_no_rows_of_a_directory(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    manifest = compile_project(check(tmp_path))
    elsewhere = diff(
        manifest, DeployedState(topics=frozenset({"m", "n"})), brokers=Brokers(None, None, frozenset({"m"}))
    )
    assert lines(elsewhere) == ["+ start query m", "+ start query n"]


def test_the_first_place_of_topics_has_the_slot_of_its_environment(tmp_path: Path) -> None:
    store, place = SqliteStore(tmp_path / "state.db"), ProjectPlace(tmp_path, "project.p")
    assert slot_of(store, place, "kafka") == "default"
    record_topics(store, place, "kafka")
    assert slot_of(store, place, "kafka") == "default"
    assert slot_of(store, place, "embedded") == "default@embedded"
