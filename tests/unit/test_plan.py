from collections.abc import Collection
from dataclasses import replace

import pytest

from penstock.keyed.operators import Ranking
from penstock.manifest.model import KeyedStep, Manifest, Step
from penstock.plan.deployed.state import NOTHING, Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain, summary, to_json
from penstock.plan.steps import Plan, RestartQuery
from tests.unit.conftest import Compile

FILTER = 'SELECT id FROM {{ source("s") }}'
WINDOW = "SELECT COUNT(*) AS n FROM {{ source('s') }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)"


def project(*models: str, runtime: str = "{}") -> str:
    return (
        f"project: {{name: p}}\nruntime: {runtime}\nsources:\n"
        "  - {name: s, topic: s.v1, columns: [{name: id}, {name: at, type: TIMESTAMP}], event_time: {column: at}}\n"
        "models:\n" + "".join(f'  - {{name: m{n}, sql: "{sql}"}}\n' for n, sql in enumerate(models))
    ).replace('source("s")', "source('s')")


def deployed(manifest: Manifest, checkpoints: Collection[str] | None = None) -> DeployedState:
    names = [q.name for q in manifest.queries]
    kept = names if checkpoints is None else checkpoints
    topics = frozenset(t.name for t in manifest.topics)
    return DeployedState({q.name: q for q in manifest.queries}, topics, topics, dict.fromkeys(kept, COMMITTED))


COMMITTED = Checkpoint(begun=True, unfinished=False)


def actions(plan: Plan) -> list[str]:
    lines = [explain(step) for step in plan.steps]
    return [f"{ln.sign} {ln.action} {ln.subject} {ln.name}" for ln in lines]


def test_nothing_deployed_means_topics_first_then_queries(project_manifest: Compile) -> None:
    plan = diff(project_manifest(project(FILTER, WINDOW)), NOTHING)
    assert actions(plan) == ["+ create topic m0", "+ create topic m1", "+ start query m0", "+ start query m1"]
    assert summary(plan) == "Plan: 4 to create"
    assert plan.refusals == ()


def test_nothing_changed_means_everything_goes_on(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER, WINDOW))
    plan = diff(manifest, deployed(manifest))
    assert actions(plan) == ["= resume query m0", "= resume query m1"]
    assert plan.changes == ()
    assert summary(plan) == "No changes."


def test_a_key_of_a_source_gives_its_rows_another_meaning(project_manifest: Compile) -> None:
    plain = project(FILTER)
    keyed = plain.replace("topic: s.v1,", "topic: s.v1, key: id,")
    for before, after, said in (
        (plain, keyed, "`s` is a table with the latest row per id, and was an append-only stream"),
        (
            keyed,
            keyed.replace("key: id", "key: [id, at]"),
            "per id, at, and was a table with the latest row per id",
        ),
    ):
        plan = diff(project_manifest(after), deployed(project_manifest(before)))
        (refusal,) = (refusal for refusal in plan.refusals if refusal.code == "rebuild-refused")
        assert said in refusal.message


def test_stateless_sql_may_change_and_goes_on(project_manifest: Compile) -> None:
    before = project_manifest(project(FILTER))
    plan = diff(project_manifest(project(f"{FILTER} WHERE id > 1")), deployed(before))
    assert actions(plan) == ["~ restart query m0"]
    assert plan.refusals == ()


def test_stateful_sql_that_changed_needs_consent_by_name(project_manifest: Compile) -> None:
    before = deployed(project_manifest(project(FILTER, WINDOW)))
    after = project_manifest(project(FILTER, WINDOW.replace("1", "2")))
    refused = diff(after, before)
    assert actions(refused) == ["= resume query m0", "! rebuild query m1"]
    assert [(r.code, r.params["name"]) for r in refused.refusals] == [("rebuild-refused", "m1")]
    assert refused.refusals[0].hint is not None
    assert "--allow-rebuild m1" in refused.refusals[0].hint
    assert explain(refused.steps[1]).risk != "none"
    assert diff(after, before, allow_rebuild=["m0"]).refusals
    assert diff(after, before, allow_rebuild=["m1"]).refusals == ()


@pytest.mark.parametrize(("before", "after"), [(FILTER, WINDOW), (WINDOW, FILTER)])
def test_state_that_comes_or_goes_needs_consent(project_manifest: Compile, before: str, after: str) -> None:
    plan = diff(project_manifest(project(after)), deployed(project_manifest(project(before))))
    assert actions(plan) == ["! rebuild query m0"]


def test_a_comment_in_stateful_sql_changes_nothing(project_manifest: Compile) -> None:
    before = deployed(project_manifest(project(WINDOW)))
    plan = diff(project_manifest(project(WINDOW.replace(" FROM", " /* orders */ FROM"))), before)
    assert actions(plan) == ["= resume query m0"]


def test_a_lost_checkpoint_is_never_rebuilt_in_silence(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER))
    plan = diff(manifest, deployed(manifest, checkpoints=[]))
    assert actions(plan) == ["! rebuild query m0"]
    assert [r.code for r in plan.refusals] == ["rebuild-refused"]


def test_a_checkpoint_without_a_record_is_gone_on_with(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER))
    plan = diff(manifest, DeployedState(topics=frozenset({"m0"}), checkpoints={"m0": COMMITTED}))
    assert actions(plan) == ["~ restart query m0"]


def test_state_without_a_record_needs_consent(project_manifest: Compile) -> None:
    manifest = project_manifest(project(WINDOW))
    unknown = DeployedState(topics=frozenset({"m0"}), checkpoints={"m0": COMMITTED})
    assert actions(diff(manifest, unknown)) == ["! rebuild query m0"]
    unbegun = DeployedState(topics=frozenset({"m0"}), checkpoints={"m0": Checkpoint(begun=False, unfinished=True)})
    assert actions(diff(manifest, unbegun)) == ["+ start query m0"]


def test_a_moved_project_needs_consent(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER))
    moved = replace(deployed(manifest), moved_from="/elsewhere")
    assert actions(diff(manifest, moved)) == ["! rebuild query m0"]


def test_rows_of_an_earlier_run_in_its_topic_need_consent(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER))
    left = DeployedState(topics=frozenset({"m0"}), filled=frozenset({"m0"}))
    assert actions(diff(manifest, left)) == ["! rebuild query m0"]


def test_one_input_in_place_of_another_needs_consent(project_manifest: Compile) -> None:
    before = deployed(project_manifest(project(FILTER)))
    query = before.queries["m0"]
    renamed = query.inputs[0].model_copy(update={"name": "source_other"})
    earlier = replace(before, queries={"m0": query.model_copy(update={"inputs": (renamed,)})})
    assert actions(diff(project_manifest(project(FILTER)), earlier)) == ["! rebuild query m0"]


def test_an_input_may_go_unless_a_batch_of_it_is_unfinished(project_manifest: Compile) -> None:
    both = 'SELECT id FROM {{ source("s") }} UNION ALL SELECT id FROM {{ source("s") }}'
    before = deployed(project_manifest(project(both)))
    manifest = project_manifest(project(FILTER))
    assert actions(diff(manifest, before)) == ["~ restart query m0"]
    unfinished = replace(before, checkpoints={"m0": Checkpoint(begun=True, unfinished=True)})
    assert actions(diff(manifest, unfinished)) == ["! rebuild query m0"]


def test_a_rebuild_can_be_asked_for(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER))
    plan = diff(manifest, deployed(manifest), allow_rebuild=["m0"])
    assert actions(plan) == ["! rebuild query m0"]
    assert plan.refusals == ()


def test_a_query_that_is_gone_is_retired(project_manifest: Compile) -> None:
    before = deployed(project_manifest(project(FILTER, FILTER)))
    plan = diff(project_manifest(project(FILTER)), before)
    assert actions(plan) == ["= resume query m0", "- retire query m1"]
    assert [q.name for q in plan.queries] == ["m0"]


def test_a_selection_touches_nothing_else(project_manifest: Compile) -> None:
    manifest = project_manifest(project(FILTER, FILTER))
    assert actions(diff(manifest, NOTHING, select=["m1"])) == ["+ create topic m1", "+ start query m1"]
    gone = deployed(project_manifest(project(FILTER, FILTER, FILTER)))
    assert actions(diff(manifest, gone, select=["m1"])) == ["= resume query m1"]


def test_what_this_installation_cannot_run_is_refused(project_manifest: Compile) -> None:
    runtime = "{spark: {master: 'spark://x:7077'}}"
    cluster = diff(project_manifest(project(FILTER, runtime=runtime)), NOTHING)
    assert [(r.code, r.params["master"]) for r in cluster.refusals] == [("not-runnable-here", "spark://x:7077")]
    assert all(r.hint for r in cluster.refusals)
    on_kafka = runtime.replace("{spark", "{kafka: {bootstrap_servers: b}, spark")
    assert diff(project_manifest(project(FILTER, runtime=on_kafka)), NOTHING).refusals == ()


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("type: kafka, topic: t", "from the earliest rows"),
        ("type: kafka, topic: t, starting_offsets: '${FROM:-earliest}'", "where `starting_offsets` says"),
        ("type: kafka, topic: '${T:-t}', starting_offsets: earliest", "from the earliest rows"),
        ("type: kafka, topic: t, starting_offsets: latest", "where `starting_offsets` says"),
        ("type: kafka, topic: t, starting_offsets: {0: 5}", "where `starting_offsets` says"),
        ("type: clickhouse, table_name: t, start_at: 5", "where `start_at` says"),
        ("type: postgres_cdc, user: u, database: d, table: t, snapshot: never", "where `snapshot` says"),
        (
            "type: hybrid, bounded_sources: [{source_type: clickhouse, table_name: t}],"
            " unbounded_source: {source_type: kafka, topic: t, start_at: latest}",
            "from the earliest rows",
        ),
        (
            "type: hybrid, bounded_sources: [{source_type: clickhouse, table_name: t, start_at: 0}],"
            " unbounded_source: {source_type: kafka, topic: t}",
            "where `start_at` says",
        ),
    ],
)
def test_a_plan_says_where_a_query_begins(source: str, where: str, pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest(f"sources: {{a: {{{source}}}}}\nsinks: {{o: {{type: blackhole, from: a}}}}\n")
    (step,) = diff(manifest, NOTHING).steps
    assert explain(step).reason == f"new; starts {where}"
    again = diff(manifest, deployed(manifest), allow_rebuild=["a"]).steps[0]
    assert explain(again).reason.endswith(f"; starts over {where}")


def test_json_says_what_the_lines_say(project_manifest: Compile) -> None:
    plan = diff(project_manifest(project(FILTER)), NOTHING)
    document = to_json(plan)
    assert (document["project"], document["changes"]) == ("p", 2)
    assert document["revision"] == plan.manifest.revision
    assert [f"{s['action']} {s['subject']} {s['name']}" for s in document["steps"]] == [
        "create topic m0",
        "start query m0",
    ]
    assert document["refusals"] == []


JOINED = """
project: {name: p}
sources:
  - name: a
    topic: a.v1
    columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP(3)}, {name: ends, type: TIMESTAMP(3)}]
    event_time: {column: at}
  - name: b
    topic: b.v1
    columns: [{name: id, type: BIGINT}, {name: bt, type: TIMESTAMP(3)}]
    event_time: {column: bt}
models:
  - name: pairs
    sql: |
      SELECT a.id FROM {{ source("a") }} AS a JOIN {{ source("b") }} AS b
      ON a.id = b.id AND b.bt BETWEEN a.at AND a.ends
  - name: latest
    key: id
    sql: |
      SELECT id, ends FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at DESC) AS rn FROM {{ source("a") }}
      ) WHERE rn = 1
"""


def test_state_that_is_laid_out_alike_is_gone_on_with(project_manifest: Compile) -> None:
    """A deployment from before joins were guarded, and from before the last of equal rows was taken."""
    now = project_manifest(JOINED)

    def older(step: Step | KeyedStep) -> Step | KeyedStep:
        if isinstance(step, Step):
            return step.model_copy(update={"sql": step.unguarded or step.sql, "unguarded": None})
        assert isinstance(step.operator, Ranking)
        return step.model_copy(update={"operator": replace(step.operator, last_first=False)})

    queries = [q.model_copy(update={"steps": tuple(map(older, q.steps))}) for q in now.queries]
    before = now.model_copy(update={"queries": tuple(queries)})
    plan = diff(now, deployed(before))
    assert not plan.refusals
    found = {step.query.name: step.reason for step in plan.steps if isinstance(step, RestartQuery)}
    assert found == {
        "pairs": "its joins keep rows for as long as their conditions can hold",
        "latest": "of rows with equal times, the last to arrive is now the latest",
    }
