"""Continuous tests that send rows away: what breaks one is kept apart, and everything else goes on."""

import pytest

from penstock.errors import QueryFailed
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project, plan_project
from tests.spark.running import ORDERS, Running, order

PROJECT = """
models:
  - name: clean
    {on_error}
    sql: SELECT id, country, amount FROM {{{{ source("orders") }}}}
  - name: per_country
    sql: SELECT country, COUNT(*) AS n FROM {{{{ source("orders") }}}} GROUP BY country
tests:
  - name: clean_rows
    model: clean
    type: continuous
    assertions:
      - not_null: {{columns: [id]}}
      - accepted_values: {{column: country, values: [DE, NO, "it's"]}}
      - range: {{column: amount, min: 0, max: 100}}
      - positive: {{column: id}}
      - custom_sql: {{name: no_thirteen, where: "id = 13 AND UPPER(country) = 'DE'"}}
    on_failure: {{actions: [{{dlq: {{}}}}]}}
  - name: small_countries
    model: per_country
    type: continuous
    assertions: [{{range: {{column: n, max: 2}}}}]
    on_failure: [{{dlq: {{}}}}]
  - name: only_told
    model: clean
    type: continuous
    assertions: [{{range: {{column: id, max: 1}}}}]
"""


def given(running: Running, on_error: str = "") -> Running:
    text = f"project: {{name: p}}\n{ORDERS.rstrip()}{PROJECT.format(on_error=on_error)}"
    running.write({"stream_project.yml": text})
    running.drop(
        "orders.v1",
        "1.json",
        [
            order(1, amount=5.0),
            order(2, country="XX"),
            order(3, country="it's", amount=100.5),
            order(4, country=None, amount=None),
            order(-5),
            order(13, amount=1.0),
            order(14, country="NO", amount=1.0),
        ],
    )
    return running


def reasons(running: Running) -> dict[str, str]:
    dead_letters = pending_dead_letters(check(running.root), "clean")
    assert {dead_letter.about["code"] for dead_letter in dead_letters} == {"rule-failed"}
    return {
        dead_letter.value.decode(): dead_letter.about["message"]
        for dead_letter in dead_letters
        if dead_letter.value is not None
    }


def test_rows_that_break_a_test_are_kept_apart(running: Running) -> None:
    progress = given(running).run(select=["clean"])
    assert sorted(row["id"] for row in running.topic("clean")) == [1, 4, 14]
    assert progress["clean"].rejected == 4
    found = sorted(reasons(running).values())
    assert found == [
        "clean_rows: `amount` is above 100",
        "clean_rows: `country` is not one of 'DE', 'NO', 'it\\'s'",
        "clean_rows: `id` is not positive",
        "clean_rows: no_thirteen",
    ]
    assert any('"id": 13' in value for value in reasons(running))


def test_a_batch_that_is_done_again_keeps_them_once(running: Running) -> None:
    given(running).run(select=["clean"])
    running.uncommit("clean", 0)
    running.run(select=["clean"])
    assert len(running.topic("clean")) == 3
    assert len(pending_dead_letters(check(running.root), "clean")) == 4


def test_rows_of_a_query_with_memory_are_held_to_rules_too(running: Running) -> None:
    given(running).run(select=["per_country"])
    running.drop("orders.v1", "2.json", [order(20), order(21)])
    running.run(select=["per_country"])
    counted = [(row["country"], row["n"]) for row in running.topic("per_country")]
    assert ("NO", 1) in counted
    assert all(n <= 2 for _, n in counted)
    assert len(pending_dead_letters(check(running.root), "per_country")) >= 1


def test_a_query_that_must_not_break_rules_stops(running: Running) -> None:
    with pytest.raises(QueryFailed, match="breaks a test: clean_rows: ") as caught:
        given(running, "on_error: stop").run(select=["clean"])
    assert caught.value.code == "rule-failed"


def test_rows_can_be_left_out_without_a_trace(running: Running) -> None:
    progress = given(running, "on_error: skip").run(select=["clean"])
    assert progress["clean"].rejected == 4
    assert pending_dead_letters(check(running.root), "clean") == []


def test_rows_that_nobody_sees_cannot_be_held_to_rules(running: Running) -> None:
    given(running, "advanced: {spark: {trigger: realtime}}")
    checked = check(running.root)
    plan = plan_project(checked, compile_project(checked), select=["clean"])
    assert any("tests with `dlq`" in refusal.message for refusal in plan.refusals)
