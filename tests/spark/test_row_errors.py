"""Rows that the SQL of a model fails over."""

import json

import pytest

from penstock.errors import QueryFailed
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.replay.replay import replay_dead_letters
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project
from tests.services.dead_letters import deliver
from tests.spark.running import ORDERS, Running, order

MODEL = """
models:
  - name: shares
    on_error: {on_error}
    sql: SELECT id, 100 / (id - 2) AS share, CAST(country AS INT) AS number FROM {{{{ source("orders") }}}}
"""


def given(running: Running, on_error: str, models: str = MODEL) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{models.format(on_error=on_error)}"})
    rows = [order(n, country="7") for n in range(200)]
    rows[5]["country"] = "seven"
    running.drop("orders.v1", "1.json", rows)


def test_rows_that_fail_are_kept_and_the_others_go_through(running: Running) -> None:
    given(running, "dead_letter")
    progress = running.run()["shares"]
    assert sorted(r["id"] for r in running.topic("shares")) == [n for n in range(200) if n not in (2, 5)]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (200, 198, 2)
    assert progress.kept_in == ("shares.errors",)
    dead_letters = {json.loads(r["value"])["id"]: r for r in running.topic("shares.errors")}
    assert sorted(dead_letters) == [2, 5]
    assert "DIVIDE_BY_ZERO" in dead_letters[2]["message"]
    assert "CAST_INVALID_INPUT" in dead_letters[5]["message"]
    assert {(r["code"], r["node"], r["topic"]) for r in dead_letters.values()} == {
        ("row-failed", "model.shares", "orders.v1/1.json")
    }
    running.drop("orders.v1", "2.json", [order(300, country="1")])
    assert running.run()["shares"].rows_in == 1
    assert len(running.topic("shares")) == 199


MANY = """
models:
  - name: read
    advanced: {materialized: virtual_topic}
    sql: SELECT id, country, 100 / (id - 2) AS unread FROM {{ source("orders") }} WHERE id <> 5
  - name: shares
    sql: |
      WITH numbered AS (SELECT id, CAST(country AS INT) AS number FROM {{ ref("read") }})
      SELECT id, 100 / number AS share FROM numbered
"""


def test_many_rows_that_fail_are_kept_and_the_others_are_written_once(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{MANY}"})
    rows = [order(n, country=("zero", "0")[n % 2] if n % 5 == 0 else "7") for n in range(5_000)]
    running.drop("orders.v1", "1.json", rows)
    progress = running.run()["shares"]
    assert (progress.rows_out, progress.rejected) == (4_000, 999)
    assert sorted(r["id"] for r in running.topic("shares")) == [n for n in range(5_000) if n % 5]
    dead_letters = {json.loads(r["value"])["id"]: r["message"] for r in running.topic("shares.errors")}
    assert sorted(dead_letters) == [n for n in range(5_000) if n % 5 == 0 and n != 5]
    assert dead_letters[10].startswith("it cannot be computed: CASE WHEN `id` <> 5 THEN")

    waiting = pending_dead_letters(check(running.root), None)
    assert deliver(running) == {"model.shares": ReplayResult(0, 999)}
    assert [dead_letter.about["value"] for dead_letter in pending_dead_letters(check(running.root), None)] == [
        dead_letter.about["value"] for dead_letter in waiting
    ]


def test_rows_that_fail_may_be_skipped(running: Running) -> None:
    given(running, "skip")
    progress = running.run()["shares"]
    assert (progress.rejected, progress.kept_in) == (2, ())
    assert len(running.topic("shares")) == 198
    assert not (running.place.topics / "shares.errors").exists()


def test_a_row_that_fails_may_stop_the_query(running: Running) -> None:
    given(running, "stop")
    with pytest.raises(QueryFailed, match=r"DIVIDE_BY_ZERO|CAST_INVALID_INPUT"):
        running.run()


COUNTED = """
models:
  - name: checked
    advanced: {{materialized: virtual_topic}}
    sql: SELECT id, country, 100 / (id - 2) AS share FROM {{{{ source("orders") }}}} WHERE id <> 3
  - name: by_country
    on_error: {on_error}
    sql: |
      SELECT share > 0 AS positive, COUNT(*) AS n, SUM(CAST(country AS INT)) AS total,
        SUM(60 / (id - 3)) FILTER (WHERE id > 3) AS filtered
      FROM {{{{ ref("checked") }}}} GROUP BY share > 0
"""


def test_rows_that_would_fail_do_not_reach_a_query_with_state(running: Running) -> None:
    given(running, "dead_letter", COUNTED)
    progress = running.run()["by_country"]
    assert (progress.rejected, progress.kept_in) == (2, ("by_country.errors",))
    rows = {r["positive"]: r for r in running.topic("by_country")}
    assert {key: (row["n"], row["total"]) for key, row in rows.items()} == {True: (98, 98 * 7), False: (99, 99 * 7)}
    dead_letters = {json.loads(r["value"])["id"]: r for r in running.topic("by_country.errors")}
    assert sorted(dead_letters) == [2, 5]
    assert "100" in dead_letters[2]["message"]
    assert "CAST" in dead_letters[5]["message"]
    assert {(r["code"], r["node"]) for r in dead_letters.values()} == {("row-failed", "model.by_country")}


def test_a_query_with_state_may_stop(running: Running) -> None:
    given(running, "stop", COUNTED)
    with pytest.raises(QueryFailed, match=r"DIVIDE_BY_ZERO|CAST_INVALID_INPUT"):
        running.run()


BOTH = """
models:
  - name: both
    sql: |
      SELECT id, 100 / (id - 2) AS share FROM {{ source("orders") }}
      UNION ALL SELECT id, 100 / (id - 3) FROM {{ source("orders") }} WHERE id <> 0
"""


def test_rows_that_fail_in_one_of_several_inputs_are_kept(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{BOTH}"})
    running.drop("orders.v1", "1.json", [order(n) for n in range(5)])
    running.run()
    assert sorted(r["id"] for r in running.topic("both")) == [0, 1, 1, 2, 3, 4, 4]
    assert sorted(json.loads(r["value"])["id"] for r in running.topic("both.errors")) == [2, 3]


THREE = """
models:
  - name: broken
    on_error: stop
    sql: SELECT id, 100 / (id - 2) AS share FROM {{ source("orders") }}
  - name: behind
    sql: SELECT id, share FROM {{ ref("broken") }}
  - name: beside
    sql: SELECT id FROM {{ source("orders") }}
"""


def test_a_query_that_fails_keeps_back_only_those_that_read_from_it(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{THREE}"})
    running.drop("orders.v1", "1.json", [order(n) for n in range(5)])
    with pytest.raises(QueryFailed, match=r"DIVIDE_BY_ZERO"):
        running.run()
    assert len(running.topic("beside")) == 5
    assert not list((running.place.topics / "behind").glob("*/_batch.json"))


UNREAD = """
models:
  - name: by_country
    sql: |
      SELECT country, COUNT(*) AS n FROM (SELECT country, id, 100 / (id - 2) AS share FROM {{ source("orders") }})
      GROUP BY country
  - name: shares
    sql: |
      SELECT country, SUM(share) AS total
      FROM (SELECT country, id, 100 / (id - 2) AS share FROM {{ source("orders") }}) WHERE id <> 2
      GROUP BY country
"""


def test_what_a_query_with_state_does_not_compute_keeps_no_row_out(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{UNREAD}"})
    running.drop("orders.v1", "1.json", [order(n, country="DE") for n in (1, 2, 3)])
    progress = running.run()
    assert [row["n"] for row in running.topic("by_country")] == [3]
    assert [row["total"] for row in running.topic("shares")] == [0]
    assert [progress[name].rejected for name in ("by_country", "shares")] == [0, 0]


def mended(running: Running, tests: str = "") -> ReplayResult:
    """What becomes of dead letters when the SQL is mended, beside these tests."""
    given(running, "dead_letter")
    running.run()
    waiting = pending_dead_letters(check(running.root), None)
    assert [dead_letter.about["code"] for dead_letter in waiting] == ["row-failed", "row-failed"]
    model = MODEL.replace("(id - 2)", "NULLIF(id - 2, 0)").replace("CAST(", "TRY_CAST(").format(on_error="dead_letter")
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{model}{tests}"})
    checked = check(running.root)
    manifest, store = compile_project(checked), checked.store
    return replay_dead_letters(
        manifest, "model.shares", waiting, running.spark, checked.place, store, checked.environ, checked.clusters
    )


def test_rows_are_delivered_again_when_the_sql_is_mended(running: Running) -> None:
    assert mended(running) == ReplayResult(2, 0)
    assert len(running.topic("shares")) == 200
    assert pending_dead_letters(check(running.root), None) == []


def test_rows_that_are_delivered_again_meet_the_tests_of_their_model(running: Running) -> None:
    test = """
tests:
  - name: numbered
    model: shares
    type: continuous
    assertions: [{not_null: {columns: [number]}}]
    on_failure: [{dlq: {}}]
"""
    assert mended(running, test) == ReplayResult(1, 1)
    assert len(running.topic("shares")) == 199
    (dead_letter,) = pending_dead_letters(check(running.root), None)
    assert json.loads(dead_letter.about["value"])["id"] == 5
