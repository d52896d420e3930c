"""When batches begin: `advanced.spark.trigger`, and what Spark's real-time mode takes."""

import pytest

from penstock.clients.kafka.admin import TopicState
from penstock.errors import Severity
from penstock.graph.model.realtime_mode import realtime_obstacles
from penstock.manifest.model import Every, RealTime
from penstock.plan.deployed.state import NOTHING, Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.plan.systems.realtime_cores import cores_of
from penstock.plan.systems.topics import Brokers
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Compile, Link

KAFKA = "{kafka: {bootstrap_servers: 'localhost:9092'}}"
FILTER = "SELECT id FROM {{ source('s') }} WHERE id > 1"
WINDOW = "SELECT COUNT(*) AS n FROM {{ source('s') }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)"


def text(sql: str, trigger: str = "realtime", runtime: str = KAFKA, more: str = "") -> str:
    return (
        f"project: {{name: p}}\nruntime: {runtime}\nsources:\n"
        "  - {name: s, topic: s.v1, event_time: {column: at}, "
        "columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}]}\n"
        "  - {name: t, topic: t.v1, columns: [{name: id, type: BIGINT}]}\n"
        f'models:\n  - name: m\n    sql: "{sql}"\n    advanced: {{spark: {{trigger: {trigger}}}}}\n{more}'
    )


def reasons(link: Link, written: str) -> list[str]:
    graph = link(written)
    return list(realtime_obstacles(graph["model.m"], graph.nodes, kafka=graph.runtime.kafka is not None))


@pytest.mark.parametrize(
    "sql",
    [
        FILTER,
        "SELECT id FROM {{ source('s') }} UNION ALL SELECT id FROM {{ source('t') }}",
        "SELECT e.x FROM {{ source('s') }} CROSS JOIN UNNEST(ARRAY[id, id]) AS e(x)",
    ],
)
def test_what_keeps_no_state_qualifies_from_kafka_to_kafka(project_graph: Link, sql: str) -> None:
    assert reasons(project_graph, text(sql)) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (WINDOW, "GROUP BY keeps state"),
        ("SELECT s.id FROM {{ source('s') }} s JOIN {{ source('t') }} t ON s.id = t.id", "JOIN keeps state"),
        ("SELECT DISTINCT id FROM {{ source('s') }}", "SELECT DISTINCT keeps state"),
        ("SELECT ML_PREDICT('F', id) AS p FROM {{ source('s') }}", "which runs in Python"),
        (
            "SELECT id FROM {{ source('s') }} UNION ALL SELECT id FROM {{ source('s') }}",
            "it reads `s` more than once",
        ),
    ],
)
def test_what_does_not_qualify_has_its_reason(project_graph: Link, sql: str, said: str) -> None:
    (reason,) = reasons(project_graph, text(sql))
    assert reason.endswith(said)


def test_directories_do_not_qualify(project_graph: Link) -> None:
    (reason,) = reasons(project_graph, text(FILTER, runtime="{}"))
    assert "directories" in reason


def test_another_sink_does_not_qualify(project_graph: Link) -> None:
    written = text(FILTER).replace("{spark: {trigger: realtime}}", "{connector: print, spark: {trigger: realtime}}")
    assert reasons(project_graph, written) == ["it writes with `print`, not to a topic"]


def test_a_view_is_part_of_the_queries_that_read_it(project_graph: Link) -> None:
    sql = "SELECT n FROM {{ ref('v') }} UNION ALL SELECT n FROM {{ ref('v') }}"
    view = f'  - name: v\n    sql: "{WINDOW}"\n    materialized: virtual_topic\n'
    assert reasons(project_graph, text(sql, more=view)) == ["GROUP BY keeps state", "it reads `s` more than once"]


def test_every_reason_is_in_one_warning_at_the_trigger_and_plan_refuses(
    check: Check, project_manifest: Compile
) -> None:
    written = text(WINDOW, runtime="{}")
    found = only(check({MAIN: written})[1])
    assert (found.code, found.severity, found.origin) == (
        "realtime-unsupported",
        Severity.WARNING,
        spot(MAIN, written, "realtime"),
    )
    assert "directories" in found.message
    assert "GROUP BY keeps state" in found.message
    (refusal,) = diff(project_manifest(written), NOTHING).refusals
    assert (refusal.code, refusal.params["subject"]) == ("sql-unsupported", "real-time mode")


def test_what_qualifies_needs_a_core_for_every_partition(check: Check, project_manifest: Compile) -> None:
    assert check({MAIN: text(FILTER)})[1] == ()
    manifest = project_manifest(text(FILTER))
    assert manifest.query("m").trigger == RealTime(checkpoint_ms=60_000)
    brokers = Brokers(source={"s.v1": TopicState(3, 1)})
    assert diff(manifest, NOTHING, brokers=brokers, cores=3).refusals == ()
    (refusal,) = diff(manifest, NOTHING, brokers=brokers, cores=2).refusals
    assert refusal.code == "cores-missing"
    assert "3 partitions need a core each, and there are 2" in refusal.message


def test_queries_in_batches_need_another_core(project_manifest: Compile) -> None:
    other = "  - {name: n, sql: \"SELECT id FROM {{ ref('m') }}\"}\n"
    manifest = project_manifest(text(FILTER, more=other))
    brokers = Brokers(source={"s.v1": TopicState(2, 1)})
    (refusal,) = diff(manifest, NOTHING, brokers=brokers, cores=2).refusals
    assert "2 partitions need a core each, queries in batches another one, and there are 2" in refusal.message
    assert diff(manifest, NOTHING, brokers=brokers, cores=2, select=["m"]).refusals == ()


def test_a_topic_that_will_be_made_has_the_partitions_that_it_gets(project_manifest: Compile) -> None:
    made = "  - {name: n, sql: \"SELECT id FROM {{ source('s') }}\", advanced: {topic: {partitions: 7}}}\n"
    manifest = project_manifest(text(FILTER.replace("source('s')", "ref('n')"), more=made))
    (refusal,) = diff(manifest, NOTHING, brokers=Brokers(source={"s.v1": TopicState(1, 1)}), cores=6).refusals
    assert "7 partitions need a core each" in refusal.message


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("spark://h:7077", None)]
)
def test_how_many_cores_a_master_has(master: str, cores: int | None) -> None:
    assert cores_of(master) == cores


def test_progress_is_kept_as_often_as_it_says(check: Check, project_manifest: Compile) -> None:
    written = text(FILTER).replace("trigger: realtime", "trigger: realtime, checkpoint_interval_ms: 5000")
    assert check({MAIN: written})[1] == ()
    assert project_manifest(written).query("m").trigger == RealTime(checkpoint_ms=5000)
    found = only(check({MAIN: written.replace("5000", "4999")})[1])
    assert "`checkpoint_interval_ms` is 4999, and must be at least 5000" in found.message
    (note,) = check({MAIN: written.replace("trigger: realtime, ", "")})[1]
    assert (note.code, note.severity) == ("no-effect", Severity.INFO)


def test_a_trigger_on_a_view_has_no_effect(check: Check) -> None:
    written = text(FILTER, "{interval_ms: 5}").replace(
        "    advanced:", "    materialized: virtual_topic\n    advanced:"
    )
    found = check({MAIN: written.replace(KAFKA, "{}")})[1]
    assert codes(found) == ["gateway-absent", "no-effect"]
    assert found[1].path == "models.m.advanced.spark.trigger"


@pytest.mark.parametrize("trigger", ["fast", "5", "{interval_ms: 0}", "{interval_ms: yes}", "{interval: 5}", "{}"])
def test_anything_else_is_refused(check: Check, trigger: str) -> None:
    found = errors(check({MAIN: text(FILTER, trigger, "{}")})[1])
    assert found
    assert all(d.path.startswith("models.m.advanced.spark.trigger") for d in found)


# The manifest and the plan


@pytest.mark.parametrize("sql", [FILTER, WINDOW])
def test_another_trigger_is_a_restart_and_never_a_rebuild(project_manifest: Compile, sql: str) -> None:
    before, after = (project_manifest(text(sql, f"{{interval_ms: {ms}}}", "{}")) for ms in (5, 10))
    assert before.query("m").trigger == Every(interval_ms=5)
    committed = {"m": Checkpoint(begun=True, unfinished=False)}
    deployed = DeployedState({"m": before.query("m")}, frozenset({"m"}), frozenset({"m"}), committed)
    (line,) = map(explain, diff(after, deployed).steps)
    assert (line.action, line.sign) == ("restart", "~")
    assert "its trigger changed" in line.reason


ASYNC = "{spark: {async_progress: true}}"


def asynchronous(sql: str, runtime: str = KAFKA, spark: str = ASYNC) -> str:
    return text(sql, runtime=runtime).replace("{spark: {trigger: realtime}}", spark)


def test_progress_is_kept_while_a_query_without_state_goes_on(check: Check, project_manifest: Compile) -> None:
    written = asynchronous("SELECT id FROM {{ source('s') }} UNION ALL SELECT id FROM {{ source('s') }}")
    assert check({MAIN: written})[1] == ()
    manifest = project_manifest(written)
    assert manifest.query("m").trigger == Every(interval_ms=0, ahead=True)
    assert diff(manifest, NOTHING).refusals == ()
    slower = asynchronous(FILTER, spark="{spark: {trigger: {interval_ms: 5}, async_progress: true}}")
    assert project_manifest(slower).query("m").trigger == Every(interval_ms=5, ahead=True)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (asynchronous(WINDOW), "GROUP BY keeps state"),
        (asynchronous(FILTER, runtime="{}"), "its topics are directories"),
        (asynchronous(FILTER, spark="{connector: print, spark: {async_progress: true}}"), "it writes with `print`"),
        (asynchronous(FILTER, spark="{spark: {trigger: realtime, async_progress: true}}"), "in its own way"),
    ],
)
def test_progress_that_cannot_be_kept_so_is_a_warning_and_plan_refuses(
    check: Check, project_manifest: Compile, written: str, said: str
) -> None:
    found = only(check({MAIN: written})[1])
    assert (found.code, found.severity) == ("async-progress-unsupported", Severity.WARNING)
    assert said in found.message
    assert found.origin == spot(MAIN, written, "true")
    (refusal,) = diff(project_manifest(written), NOTHING).refusals
    assert (refusal.code, refusal.params["subject"]) == ("sql-unsupported", "asynchronous progress")


def test_a_view_has_no_progress(check: Check) -> None:
    view = asynchronous(FILTER).replace("    advanced:", "    materialized: virtual_topic\n    advanced:")
    found = [note for note in check({MAIN: view})[1] if note.path.endswith("async_progress")]
    assert [(note.code, note.params["field"]) for note in found] == [("no-effect", "async_progress")]
