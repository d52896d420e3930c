"""Event time through windows, from model to model."""

import pytest

from penstock.graph.graph import EventTimeColumn
from penstock.manifest.compile import compile
from tests.support import only, spot
from tests.unit.conftest import MAIN, Findings, Link

HEAD = """\
project: {name: p}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 2000}}
models:
"""
MINUTE, HOUR = "INTERVAL '1' MINUTE", "INTERVAL '1' HOUR"
S = '{{ source("orders") }}'
MINUTES = f"""
SELECT window_start AS began, window_end AS closed, window_time AS moment, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE {S}, DESCRIPTOR(at), {MINUTE})) GROUP BY window_start, window_end, window_time
"""


def model(name: str, sql: str, materialized: str = "") -> str:
    lines = "".join(f"      {line}\n" for line in sql.splitlines() if line)
    kind = f"    materialized: {materialized}\n" if materialized else ""
    return f"  - name: {name}\n{kind}    sql: |\n{lines}"


def hourly(of: str, column: str) -> str:
    return model("hourly", f'SELECT SUM(n) AS n FROM {{{{ ref("{of}") }}}} GROUP BY TUMBLE({column}, {HOUR})')


def input_time(project_graph: Link, text: str) -> EventTimeColumn | None:
    query = next(q for q in compile(project_graph(text)).queries if q.name == "hourly")
    time = query.inputs[0].event_time
    return time and EventTimeColumn(time.column, time.delay_ms)


@pytest.mark.parametrize("column", ["began", "closed", "moment"])
def test_a_window_may_be_over_any_end_of_the_windows_of_another_model(
    project: Findings, project_graph: Link, column: str
) -> None:
    text = HEAD + model("minutes", MINUTES) + hourly("minutes", column)
    assert project(text) == ()
    assert input_time(project_graph, text) == EventTimeColumn(column, 2000)


def test_the_time_of_a_window_comes_before_its_end_and_its_start(project_graph: Link) -> None:
    node = project_graph(HEAD + model("minutes", MINUTES))["model.minutes"]
    assert [time.column for time in node.times] == ["moment", "closed", "began"]


@pytest.mark.parametrize("call", ["TUMBLE_START", "TUMBLE_END", "TUMBLE_ROWTIME"])
def test_the_ends_of_group_windows_are_event_time_too(project: Findings, project_graph: Link, call: str) -> None:
    sql = f"SELECT {call}(at, {MINUTE}) AS x, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {MINUTE})"
    text = HEAD + model("minutes", sql) + hourly("minutes", "x")
    assert project(text) == ()
    assert input_time(project_graph, text) == EventTimeColumn("x", 2000)


def test_a_view_passes_the_chosen_time_on_to_what_it_reads(project_graph: Link) -> None:
    view = model("view", 'SELECT closed AS c, began AS b, n FROM {{ ref("minutes") }}', "virtual_topic")
    text = HEAD + model("minutes", MINUTES) + view
    assert input_time(project_graph, text + hourly("view", "b")) == EventTimeColumn("began", 2000)
    assert input_time(project_graph, text + hourly("view", "c")) == EventTimeColumn("closed", 2000)


def test_of_windows_in_a_view_only_their_time_is_event_time(project: Findings, project_graph: Link) -> None:
    text = HEAD + model("view", MINUTES, "virtual_topic")
    assert input_time(project_graph, text + hourly("view", "moment")) == EventTimeColumn("at", 2000)
    found = only(project(text + hourly("view", "closed")), "window-without-event-time")
    assert found.origin == spot(MAIN, text + hourly("view", "closed"), "closed, INTERVAL")
    assert found.hint is not None
    assert "window_time" in found.hint


def test_rows_in_windows_may_be_behind_by_the_size_of_the_window(project_graph: Link) -> None:
    node = project_graph(
        HEAD + model("rows", f"SELECT * FROM TABLE(HOP(TABLE {S}, DESCRIPTOR(at), {MINUTE}, {HOUR}))")
    )["model.rows"]
    assert node.event_time == EventTimeColumn("at", 2000)
    assert {time.column: time.delay_ms for time in node.further_times} == dict.fromkeys(
        ("window_time", "window_end", "window_start"), 3_602_000
    )


def test_the_start_of_a_session_is_no_event_time(project_graph: Link) -> None:
    """A long session ends after shorter ones that began later."""
    sql = f"""
    SELECT SESSION_START(at, {HOUR}) AS began, SESSION_END(at, {HOUR}) AS closed, COUNT(*) AS n
    FROM {S} GROUP BY id, SESSION(at, {HOUR})
    """
    node = project_graph(HEAD + model("sessions", sql))["model.sessions"]
    assert node.times == (EventTimeColumn("closed", 2000),)


def test_a_time_that_was_assumed_is_that_of_the_windows_over_it(project_graph: Link) -> None:
    head = HEAD.replace("    event_time: {column: at, watermark: {max_out_of_orderness_ms: 2000}}\n", "")
    node = project_graph(head + model("minutes", MINUTES))["model.minutes"]
    assert node.event_time == EventTimeColumn("moment", 5000)


def test_two_windows_over_two_times_of_one_input_are_refused(project: Findings) -> None:
    read = '{{ ref("minutes") }}'
    sql = f"""
    SELECT SUM(n) AS n FROM {read} GROUP BY TUMBLE(began, {HOUR})
    UNION ALL
    SELECT SUM(n) AS n FROM {read} GROUP BY TUMBLE(closed, {HOUR})
    """
    text = HEAD + model("minutes", MINUTES) + model("both", sql)
    found = only(project(text), "window-without-event-time")
    assert found.params == {"subject": "closed"}


def test_windows_over_windows_hand_their_times_on(project_graph: Link) -> None:
    sql = f"""
    SELECT TUMBLE_END(moment, {HOUR}) AS hour, SUM(n) AS n FROM (
      SELECT TUMBLE_ROWTIME(at, {MINUTE}) AS moment, COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {MINUTE})
    ) AS minutes GROUP BY TUMBLE(moment, {HOUR})
    """
    assert project_graph(HEAD + model("hours", sql))["model.hours"].event_time == EventTimeColumn("hour", 2000)


NESTED = """\
project: {name: p}
sources:
  - name: events
    topic: events.v1
    columns: [{name: kind, type: STRING}, {name: bid, type: 'ROW<t TIMESTAMP(3), n BIGINT>'}]
models:
"""


def view(name: str, sql: str) -> str:
    time = "    event_time: {column: t, watermark: {max_out_of_orderness_ms: 3000}}\n"
    return model(name, sql, "virtual_topic") + time


def test_a_view_may_compute_its_event_time_from_the_rows_of_a_topic(project_graph: Link) -> None:
    bids = view(
        "bids", """SELECT *, e.bid.t AS t, e.bid.n AS n FROM {{ source("events") }} AS e WHERE e.kind = 'bid'"""
    )
    query = only(compile(project_graph(NESTED + bids + hourly("bids", "t"))).queries)
    time = query.inputs[0].event_time
    assert time is not None
    assert (time.delay_ms, time.made_of, time.where) == (3000, "`bid`.`t`", "`kind` = 'bid'")
    assert query.timed
    first = query.steps[0].model_dump()["sql"]
    assert first.startswith(f"SELECT * EXCEPT (`{time.column}`), `{time.column}` AS `t`, ")


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ('SELECT t FROM (SELECT bid.t AS t FROM {{ source("events") }})', "materialize `late` as a topic"),
        ('SELECT MAX(bid.t) AS t FROM {{ source("events") }} GROUP BY kind', "materialize `late` as a topic"),
        ('SELECT u.t FROM {{ ref("fields") }}', "materialize `late` as a topic, or compute it in `fields`"),
    ],
)
def test_an_event_time_that_a_view_computes_from_more_is_refused(project: Findings, sql: str, hint: str) -> None:
    fields = model("fields", 'SELECT bid AS u FROM {{ source("events") }}', "virtual_topic")
    found = [d for d in project(NESTED + fields + view("late", sql)) if d.severity == "error"]
    assert [(d.code, d.hint) for d in found] == [("window-without-event-time", hint)]


JOINED = HEAD.replace(
    "models:\n",
    """\
  - name: payments
    topic: payments.v1
    columns: [{name: order_id, type: BIGINT}, {name: paid_at, type: TIMESTAMP(3)}, {name: due, type: TIMESTAMP(3)}]
    event_time: {column: paid_at, watermark: {max_out_of_orderness_ms: 5000}}
models:
""",
)


def pairs(condition: str, side: str = "") -> str:
    read = f'FROM {S} AS o {side} JOIN {{{{ source("payments") }}}} AS p ON o.id = p.order_id AND {condition}'
    return f"SELECT o.at AS ordered, p.paid_at, o.id AS n {read}"


@pytest.mark.parametrize(
    ("condition", "behind_ms"),
    [
        ("p.paid_at BETWEEN o.at AND o.at + INTERVAL '1' HOUR", 3_600_000),
        ("p.paid_at >= o.at - INTERVAL '5' MINUTE AND o.at + INTERVAL '1' HOUR > p.paid_at", 3_900_000),
        ("p.paid_at - INTERVAL '1' MINUTE BETWEEN o.at AND INTERVAL '2' MINUTE + o.at", 180_000),
        ("p.paid_at = o.at", 0),
    ],
)
@pytest.mark.parametrize("column", ["ordered", "paid_at"])
def test_rows_of_a_join_are_behind_by_its_bounds(
    project: Findings, project_graph: Link, condition: str, behind_ms: int, column: str
) -> None:
    text = JOINED + model("joined", pairs(condition)) + hourly("joined", column)
    assert project(text) == ()
    assert input_time(project_graph, text) == EventTimeColumn(column, 5000 + behind_ms)


def test_rows_of_a_join_in_a_view_are_behind_for_readers_of_the_next_topic(project_graph: Link) -> None:
    view = model("view", pairs("p.paid_at BETWEEN o.at AND o.at + INTERVAL '1' HOUR"), "virtual_topic")
    text = JOINED + view + model("joined", 'SELECT ordered, n FROM {{ ref("view") }}')
    assert input_time(project_graph, text + hourly("joined", "ordered")) == EventTimeColumn("ordered", 3_605_000)
    assert input_time(project_graph, JOINED + view + hourly("view", "ordered")) == EventTimeColumn("at", 2000)


@pytest.mark.parametrize(
    ("condition", "side"),
    [
        ("p.paid_at >= o.at", ""),
        ("p.paid_at BETWEEN o.at AND p.due", ""),
        ("TRUE", ""),
        ("p.paid_at BETWEEN o.at AND o.at + INTERVAL '1' HOUR", "LEFT"),
    ],
)
def test_readers_of_rows_that_a_join_hands_on_at_any_time_are_noted(
    project: Findings, condition: str, side: str
) -> None:
    joined = model("joined", pairs(condition, side))
    read = '{{ ref("joined") }}'
    readers = {
        "the window": hourly("joined", "ordered"),
        "OVER": model("o", f"SELECT n, COUNT(*) OVER (PARTITION BY n ORDER BY ordered) AS c FROM {read}"),
        "the join": model(
            "j", f"SELECT x.n FROM {S} AS o JOIN {read} AS x ON o.id = x.n AND x.ordered BETWEEN o.at AND o.at + {HOUR}"
        ),
    }
    for name, reader in readers.items():
        found = only(
            [d for d in project(JOINED + joined + reader) if d.code != "state-unbounded"], "window-over-late-rows"
        )
        assert f"are late for {name}, and dropped" in found.message
    declared = "    event_time: {column: ordered, watermark: {max_out_of_orderness_ms: 9000}}\n"
    assert {d.code for d in project(JOINED + joined + declared + readers["the window"])} <= {"state-unbounded"}
