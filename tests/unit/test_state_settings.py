"""How long state is kept, and where: `state_ttl_ms`, `state_backend`, `parallelism`."""

import pytest

from penstock.errors import Severity
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.plan.steps import RebuildQuery, RestartQuery
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Compile

FILTER = "SELECT id FROM {{ source('s') }}"
WINDOW = "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id, TUMBLE(at, INTERVAL '1' HOUR)"
GROUP = "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id"
JOIN = "SELECT s.id, t.x FROM {{ source('s') }} AS s JOIN {{ source('t') }} AS t ON s.id = t.id"
WITHIN = JOIN + " AND t.at BETWEEN s.at AND s.at + INTERVAL '1' HOUR"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def text(sql: str, settings: str, more: str = "") -> str:
    return (
        "project: {name: p}\nsources:\n"
        "  - {name: s, topic: s.v1, columns: [{name: id}, {name: at, type: TIMESTAMP}], event_time: {column: at}}\n"
        "  - {name: t, topic: t.v1, columns: [{name: id}, {name: x}, {name: at, type: TIMESTAMP}],"
        " event_time: {column: at}}\n"
        f'models:\n  - name: m\n    sql: "{sql}"\n    advanced: {{spark: {settings}}}\n{more}'
    )


@pytest.mark.parametrize("sql", [GROUP, JOIN, "SELECT DISTINCT id FROM {{ source('s') }}"])
def test_a_ttl_bounds_what_would_grow_for_ever(check: Check, sql: str) -> None:
    assert codes(check({MAIN: text(sql, "{}")})[1]) == ["state-unbounded"]
    assert check({MAIN: text(sql, "{state_ttl_ms: 60000}")})[1] == ()


@pytest.mark.parametrize(
    ("sql", "why"), [(FILTER, "keeps no state"), (WINDOW, "joins within a time"), (WITHIN, "joins within a time")]
)
def test_a_ttl_without_effect_says_so(check: Check, sql: str, why: str) -> None:
    written = text(sql, "{state_ttl_ms: 60000}")
    note = only(check({MAIN: written})[1])
    assert (note.code, note.severity, note.origin) == ("no-effect", Severity.INFO, spot(MAIN, written, "60000"))
    assert note.message.endswith(why)


def test_a_ttl_of_less_than_a_second_is_a_warning(check: Check) -> None:
    written = text(GROUP, "{state_ttl_ms: 999}")
    note = only(check({MAIN: written})[1])
    assert (note.code, note.severity, note.origin) == ("state-ttl-short", Severity.WARNING, spot(MAIN, written, "999"))
    assert check({MAIN: text(GROUP, "{state_ttl_ms: 1000}")})[1] == ()


@pytest.mark.parametrize("ttl", ["0", "-1", "soon", "1.5"])
def test_a_ttl_that_is_none_is_an_error(check: Check, ttl: str) -> None:
    found = only(errors(check({MAIN: text(GROUP, f"{{state_ttl_ms: {ttl}}}")})[1]))
    assert found.path == "models.m.advanced.spark.state_ttl_ms"


# Where state is kept


def test_hashmap_is_taken_where_it_can_be(check: Check, project_manifest: Compile) -> None:
    written = text(WINDOW, "{state_backend: hashmap}")
    assert check({MAIN: written})[1] == ()
    assert project_manifest(written).query("m").conf[PROVIDER].endswith("HDFSBackedStateStoreProvider")


def test_operators_of_ours_stay_on_rocksdb_and_it_is_said(check: Check, project_manifest: Compile) -> None:
    written = text(GROUP, "{state_backend: hashmap, state_ttl_ms: 60000}")
    note = only(check({MAIN: written})[1])
    assert (note.code, note.severity, note.origin) == ("no-effect", Severity.WARNING, spot(MAIN, written, "hashmap"))
    assert note.hint
    assert project_manifest(written).query("m").conf[PROVIDER].endswith("RocksDBStateStoreProvider")


def test_an_operator_inside_a_view_counts(check: Check, project_manifest: Compile) -> None:
    view = (
        f'  - {{name: v, sql: "{GROUP}", materialized: virtual_topic, advanced: {{spark: {{state_ttl_ms: 60000}}}}}}\n'
    )
    written = text("SELECT id, n FROM {{ ref('v') }}", "{state_backend: hashmap}", view)
    found = check({MAIN: written})[1]
    assert [d.path for d in found if d.code == "no-effect"] == ["models.m.advanced.spark.state_backend"]
    assert project_manifest(written).query("m").conf[PROVIDER].endswith("RocksDBStateStoreProvider")


@pytest.mark.parametrize("setting", ["parallelism: 3", "state_backend: hashmap"])
def test_a_view_has_no_query_that_could_be_set(check: Check, setting: str) -> None:
    written = text(FILTER, f"{{{setting}}}").replace("    advanced:", "    materialized: virtual_topic\n    advanced:")
    found = check({MAIN: written})[1]
    assert codes(found) == ["gateway-absent", "no-effect"]
    assert found[1].path == f"models.m.advanced.spark.{setting.partition(':')[0]}"


@pytest.mark.parametrize(
    ("sql", "refused"), [(FILTER, []), (WINDOW, ["rebuild-refused"]), (GROUP, ["rebuild-refused"])]
)
def test_another_parallelism_needs_consent_where_there_is_state(
    project_manifest: Compile, sql: str, refused: list[str]
) -> None:
    before, after = (project_manifest(text(sql, f"{{parallelism: {n}}}")) for n in (2, 3))
    committed = {"m": Checkpoint(begun=True, unfinished=False)}
    deployed = DeployedState({"m": before.query("m")}, frozenset({"m"}), frozenset({"m"}), committed)
    assert [r.code for r in diff(after, deployed).refusals] == refused


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        ("{state_ttl_ms: 60000}", "{state_ttl_ms: 90000}", "restart"),
        ("{state_ttl_ms: 60000}", "{}", "rebuild"),
        ("{}", "{state_ttl_ms: 60000}", "rebuild"),
    ],
)
def test_another_ttl_is_a_restart_and_none_at_all_a_rebuild(
    project_manifest: Compile, before: str, after: str, action: str
) -> None:
    committed = {"m": Checkpoint(begun=True, unfinished=False)}
    ran = project_manifest(text(GROUP, before)).query("m")
    deployed = DeployedState({"m": ran}, frozenset({"m"}), frozenset({"m"}), committed)
    (line,) = map(explain, diff(project_manifest(text(GROUP, after)), deployed).steps)
    assert line.action == action


# What a plan says of it

TOLD = WINDOW.replace(" FROM", ", TUMBLE_END(at, INTERVAL '1' HOUR) AS t FROM")
LATE = ("event_time: {column: at}", "event_time: {column: at, allowed_lateness_ms: 60000}")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (
            text(GROUP, "{}"),
            text(GROUP, "{state_ttl_ms: 86400000}"),
            "`state_ttl_ms` is new (1 day), and state has another layout with it",
        ),
        (
            text(GROUP, "{state_ttl_ms: 86400000}"),
            text(GROUP, "{}"),
            "`state_ttl_ms` was removed, and state has another layout without it",
        ),
        (
            text(GROUP, "{state_ttl_ms: 3600000}"),
            text(GROUP, "{state_ttl_ms: 86400000}"),
            "its state has another TTL: 1 day, before 1 hour",
        ),
        (text(GROUP, "{parallelism: 2}"), text(GROUP, "{parallelism: 3}"), "its parallelism changed"),
        (text(WINDOW, "{}"), text(WINDOW, "{state_backend: hashmap}"), "its state backend changed"),
        (
            text(GROUP, "{}"),
            text(GROUP.replace("BY id", "BY at").replace("SELECT id", "SELECT at"), "{}"),
            "its SQL changed from GROUP BY id to GROUP BY at, and its state belongs to the old SQL",
        ),
        (
            text(GROUP, "{}"),
            text(GROUP.replace("COUNT(*)", "MAX(at)"), "{}"),
            "its SQL changed, and its state belongs to the old SQL",
        ),
        (
            text(TOLD, "{}"),
            text(TOLD, "{}").replace(*LATE),
            "late rows correct its windows now, and their state has another layout",
        ),
        (
            text(TOLD, "{}").replace(*LATE),
            text(TOLD, "{}").replace(*LATE).replace("60000", "90000"),
            "`allowed_lateness_ms` changed, which decides how long its windows stay in state",
        ),
        (
            text(WINDOW, "{}"),
            text(WINDOW, "{}").replace("{column: at}", "{column: at, watermark: {max_out_of_orderness_ms: 9}}"),
            "the event time of `s` changed",
        ),
        (
            text(GROUP, "{}"),
            text(GROUP, "{}").replace("{name: id}, {name: at", "{name: id}, {name: y, type: INT}, {name: at"),
            "the columns of `s` changed",
        ),
    ],
)
def test_a_plan_says_what_changed(project_manifest: Compile, before: str, after: str, reason: str) -> None:
    committed = {"m": Checkpoint(begun=True, unfinished=False)}
    deployed = DeployedState({"m": project_manifest(before).query("m")}, frozenset({"m"}), frozenset({"m"}), committed)
    (step,) = diff(project_manifest(after), deployed).steps
    assert isinstance(step, RestartQuery | RebuildQuery)
    assert step.reason == reason
