"""Late rows in a project: which windows wait for them, what is kept, and what is refused with its reason."""

import pytest

from penstock.errors import Severity
from penstock.keyed.operators import Aggregate, OverWindow, VersionJoin
from penstock.manifest.compile import compile
from penstock.manifest.model import KeyedStep, QuerySpec
from penstock.plan.deployed.state import DeployedState
from penstock.plan.diff import diff
from tests.support import errors, only, spot
from tests.unit.conftest import MAIN, Findings, Link

LATENESS, KEPT = "allowed_lateness_ms: 60000", "late: dead_letter"
HOUR, QUARTER = "INTERVAL '1' HOUR", "INTERVAL '15' MINUTE"
S = '{{ source("orders") }}'
TUMBLE = f"SELECT TUMBLE_START(at, {HOUR}) AS s, country, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {HOUR}), country"
HOP = f"SELECT HOP_ROWTIME(at, {QUARTER}, {HOUR}) AS t, COUNT(*) AS n FROM {S} GROUP BY HOP(at, {QUARTER}, {HOUR})"
STEPS = f"{QUARTER}, {HOUR}"
COLUMNS = "columns: [{name: id, type: BIGINT}, {name: country, type: STRING}, {name: at, type: TIMESTAMP(3)}]"


def text(event_time: str, *models: str) -> str:
    """A project; a model is its SQL, and one whose SQL begins with `view:` is a view. They are called m1, m2, …"""
    lines = [
        "project: {name: p}",
        "sources:",
        f"  - {{name: orders, topic: orders.v1, {COLUMNS}, event_time: {{column: at, {event_time}}}}}",
        f"  - {{name: others, topic: others.v1, {COLUMNS}, event_time: {{column: at}}}}",
        "models:",
    ]
    for number, sql in enumerate(models, start=1):
        _, is_view, body = sql.rpartition("view:")
        lines += [f"  - name: m{number}", *(["    materialized: virtual_topic"] if is_view else []), "    sql: |"]
        lines += [f"      {line}" for line in body.splitlines() if line.strip()]
    return "\n".join(lines) + "\n"


def query(project_graph: Link, event_time: str, *models: str) -> QuerySpec:
    """The query of the last model."""
    return compile(project_graph(text(event_time, *models))).queries[-1]


def keyed(spec: QuerySpec) -> list[KeyedStep]:
    return [step for step in spec.steps if isinstance(step, KeyedStep)]


def table(kind: str, spans: str, of: str = S) -> str:
    return f"FROM TABLE({kind}(TABLE {of}, DESCRIPTOR(at), {spans})) GROUP BY window_start, window_end"


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        (TUMBLE, ("country", "s")),
        (f"SELECT TUMBLE_END(at, {HOUR}) AS e, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {HOUR})", ("e",)),
        (HOP, ("t",)),
        (f"SELECT window_start AS s, window_end AS e, COUNT(*) AS n {table('TUMBLE', HOUR)}", ("e",)),
        (f"SELECT window_time, COUNT(*) AS n {table('HOP', STEPS)}", ("window_time",)),
        (f"SELECT country, window_end AS e, COUNT(*) AS n {table('CUMULATE', STEPS)}, country", ("country", "e")),
        (f"WITH c AS (SELECT at FROM {S}) SELECT window_end AS e, COUNT(*) AS n {table('TUMBLE', HOUR, 'c')}", ("e",)),
    ],
)
def test_windows_that_wait_for_late_rows_are_changes_by_their_key(
    project: Findings, project_graph: Link, sql: str, key: tuple[str, ...]
) -> None:
    assert project(text(LATENESS, sql)) == ()
    node = project_graph(text(LATENESS, sql))["model.m1"]
    assert (node.flow, node.change_key, node.corrects) == ("changes", key, True)
    spec = query(project_graph, LATENESS, sql)
    (step,) = keyed(spec)
    assert isinstance(step.operator, Aggregate)
    assert step.operator.closes in step.operator.keys
    assert (step.operator.lateness_ms, step.operator.ttl_ms, step.late, spec.timed) == (60000, None, None, True)


def test_a_window_without_lateness_stays_with_spark(project_graph: Link) -> None:
    assert keyed(query(project_graph, "allowed_lateness_ms: 0", TUMBLE)) == []
    assert project_graph(text(LATENESS, TUMBLE.replace("orders", "others")))["model.m1"].flow == "rows"


def test_the_lateness_goes_along_with_the_event_time_and_a_model_can_end_it(project_graph: Link) -> None:
    copied, window = f"SELECT * FROM {S}", TUMBLE.replace(S, '{{ ref("m1") }}')
    (step,) = keyed(query(project_graph, LATENESS, copied, window))
    assert isinstance(step.operator, Aggregate)
    assert step.operator.lateness_ms == 60000
    (step,) = keyed(query(project_graph, LATENESS, f"view:{copied}", window))
    assert isinstance(step.operator, Aggregate)
    assert step.operator.lateness_ms == 60000
    ended = text(LATENESS, copied, window).replace("  - name: m1\n", "  - name: m1\n    event_time: {column: at}\n")
    assert keyed(compile(project_graph(ended)).queries[-1]) == []


def test_changes_of_windows_without_an_end_among_the_outputs_have_no_key(project: Findings) -> None:
    sql = f"SELECT country, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {HOUR}), country"
    assert only(project(text(LATENESS, sql)), "sql-unsupported").severity == Severity.WARNING
    cumulated = f"SELECT window_start, COUNT(*) AS n {table('CUMULATE', STEPS)}"
    assert "no key" in only(project(text(LATENESS, cumulated)), "sql-unsupported").message


SESSION = f"SELECT SESSION_START(at, {QUARTER}) AS s, COUNT(*) AS n FROM {S} GROUP BY SESSION(at, {QUARTER})"
NESTED = f"""SELECT TUMBLE_START(t, {HOUR}) AS s, SUM(n) AS n FROM (
SELECT TUMBLE_ROWTIME(at, {QUARTER}) AS t, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {QUARTER})) AS q
GROUP BY TUMBLE(t, {HOUR})"""
SPREAD = f"SELECT TUMBLE_START(at, {HOUR}) AS s, STDDEV(id) AS n FROM {S} GROUP BY TUMBLE(at, {HOUR})"
OTHERS = '{{ source("others") }}'
WITHIN = f"SELECT a.id FROM {S} AS a JOIN {OTHERS} AS b ON a.id = b.id AND b.at BETWEEN a.at AND a.at + {HOUR}"
BOTH = f"""SELECT TUMBLE_START(at, {HOUR}) AS s, COUNT(*) AS n
FROM (SELECT * FROM {S} UNION ALL SELECT * FROM {OTHERS}) AS u GROUP BY TUMBLE(at, {HOUR})"""
JOINED = f"SELECT TUMBLE_START(a.at, {HOUR}) AS s, COUNT(*) AS n FROM {S} AS a JOIN {OTHERS} AS b ON a.id = b.id GROUP BY TUMBLE(a.at, {HOUR})"  # noqa: E501


@pytest.mark.parametrize(
    ("event_time", "sql", "said", "place"),
    [
        (LATENESS, SESSION, "SESSION with `allowed_lateness_ms`", f"SESSION(at, {QUARTER})\n"),
        (KEPT, SESSION, "SESSION with `late: dead_letter`", f"SESSION(at, {QUARTER})\n"),
        (LATENESS, NESTED, "a window over changes", None),
        (KEPT, NESTED, "a window behind another operator", None),
        (LATENESS, SPREAD, "STDDEV in a window with `allowed_lateness_ms`", "STDDEV(id) AS n"),
        (KEPT, WITHIN, "JOIN with `late: dead_letter`", None),
        (KEPT, JOINED, "`late: dead_letter` behind a join", None),
        (KEPT, BOTH, "`late: dead_letter` over UNION ALL", None),
    ],
)
def test_what_cannot_be_done_with_late_rows_is_refused_with_its_reason(
    project: Findings, project_graph: Link, event_time: str, sql: str, said: str, place: str | None
) -> None:
    found = project(text(event_time, sql))
    assert errors(found) == []
    refused = next(note for note in found if note.code == "sql-unsupported")
    assert refused.message.startswith(said)
    assert refused.hint
    if place is not None:
        assert refused.origin == spot(MAIN, text(event_time, sql), place)
    spec = query(project_graph, event_time, sql)
    assert said in spec.hindrances
    refusals = diff(compile(project_graph(text(event_time, sql))), DeployedState()).refusals
    assert [refusal.code for refusal in refusals] == ["sql-unsupported"]


def test_a_union_inside_a_view_is_refused_where_late_rows_would_be_kept(project_graph: Link) -> None:
    union = f"view:SELECT * FROM {S} UNION ALL SELECT * FROM {OTHERS}"
    passed = 'view:SELECT * FROM {{ ref("m1") }}'
    whole = text("late: drop", union, passed, TUMBLE.replace(S, '{{ ref("m2") }}'))
    said = whole.replace("  - name: m1\n", f"  - name: m1\n    event_time: {{column: at, {KEPT}}}\n")
    assert "`late: dead_letter` over UNION ALL" in compile(project_graph(said)).queries[-1].hindrances


def test_late_rows_are_found_again_in_the_input_behind_the_where_of_the_query(project_graph: Link) -> None:
    sql = TUMBLE.replace("GROUP BY", "WHERE id > 5 GROUP BY")
    spec = query(project_graph, f"{LATENESS}, {KEPT}", sql)
    (step,) = keyed(spec)
    assert step.late is not None
    assert (step.late.input, step.late.steps, step.late.lateness_ms) == ("source.orders", (), 60000)
    assert step.late.sql.endswith("FROM `source.orders` AS `orders` WHERE `orders`.`id` > 5")


def test_a_window_whose_late_rows_are_kept_still_gives_rows_only(project_graph: Link) -> None:
    spec = query(project_graph, KEPT, TUMBLE + " HAVING COUNT(*) > 1")
    (step,) = keyed(spec)
    assert isinstance(step.operator, Aggregate)
    assert (step.operator.lateness_ms, step.operator.with_before) == (0, False)
    assert "_gs_op" not in spec.steps[-1].sql  # type: ignore[union-attr]
    assert project_graph(text(KEPT, TUMBLE))["model.m1"].flow == "rows"


def test_late_rows_of_over_and_of_temporal_joins_are_kept_too(project_graph: Link) -> None:
    over = f"SELECT id, COUNT(*) OVER (PARTITION BY country ORDER BY at) AS n FROM {S}"
    (step,) = keyed(query(project_graph, KEPT, over))
    assert isinstance(step.operator, OverWindow)
    assert step.late is not None
    assert step.late.sql.startswith("SELECT STRUCT(`orders`.*) AS `row`, `orders`.`at` AS `at`")
    versions = f"SELECT o.id, v.id AS v FROM {S} AS o JOIN {OTHERS} FOR SYSTEM_TIME AS OF o.at AS v ON o.country = v.country WHERE v.id > 0"  # noqa: E501
    (step,) = keyed(query(project_graph, KEPT, versions))
    assert isinstance(step.operator, VersionJoin)
    assert step.late is not None
    assert "WHERE" not in step.late.sql


def test_late_rows_are_found_through_views(project_graph: Link) -> None:
    first, second = f"view:SELECT id, at FROM {S} WHERE id > 1", 'view:SELECT id, at FROM {{ ref("m1") }}'
    last = "SELECT window_end, COUNT(*) AS n " + table("TUMBLE", HOUR, '{{ ref("m2") }}')
    (step,) = keyed(query(project_graph, KEPT, first, second, last))
    assert step.late is not None
    assert (step.late.input, step.late.steps) == ("source.orders", ("model.m1", "model.m2"))


def test_to_keep_late_rows_or_not_does_not_touch_the_state_of_an_operator(project_graph: Link) -> None:
    over = f"SELECT id, COUNT(*) OVER (PARTITION BY country ORDER BY at) AS n FROM {S}"
    one, other = (keyed(query(project_graph, said, over))[0] for said in (KEPT, "late: drop"))
    assert one != other
    assert one.model_copy(update={"late": None}) == other


def test_lateness_that_nothing_waits_for_is_pointed_out(project: Findings) -> None:
    for sql in (f"SELECT * FROM {S}", WITHIN):
        note = next(n for n in project(text(LATENESS, sql)) if n.code == "no-effect")
        assert note.severity == Severity.INFO
        assert note.origin == spot(MAIN, text(LATENESS, sql), "60000")
    assert project(text(LATENESS, f"SELECT * FROM {S}", TUMBLE)) == ()


def test_only_a_join_that_is_bounded_in_time_goes_by_event_time(project_graph: Link) -> None:
    """Spark would drop late rows of any join whose inputs have a watermark."""
    assert query(project_graph, "late: drop", WITHIN).timed
    assert not query(project_graph, "late: drop", f"SELECT a.at FROM {S} AS a JOIN {OTHERS} AS b ON a.id = b.id").timed
