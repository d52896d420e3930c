"""`penstock state`: what can be told without Spark. What it reads from checkpoints is in tests/spark/test_state.py."""

import json
from pathlib import Path

import pytest

from penstock.cli import state
from penstock.cli.options import OutputFormat
from penstock.config import describe_duration
from penstock.errors import ProjectInvalid
from penstock.manifest.operator_words import describe_operators, window_by
from penstock.runtime.checkpoint.state_stats import NOTE, OperatorCounts, StateNotes, query_state
from tests.support import write
from tests.unit.conftest import MAIN, Compile

PROJECT = """
project: {name: p}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: customer, type: STRING}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at}
  - name: payments
    topic: payments.v1
    columns: [{name: order_id, type: BIGINT}, {name: paid, type: BIGINT}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at}
models:
  - {name: plain, sql: 'SELECT id FROM {{ source("orders") }}'}
  - {name: seen, sql: 'SELECT DISTINCT customer FROM {{ source("orders") }}', materialized: virtual_topic}
  - {name: m, sql: "SQL"}
"""
GROUP = "SELECT UPPER(customer) AS c, COUNT(*) AS n FROM {{ source('orders') }} GROUP BY UPPER(customer)"

RANKED = (
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY {}) AS rn"
    " FROM {{{{ source('orders') }}}}) AS t WHERE rn {}"
)


def words(manifest: Compile, sql: str) -> list[str]:
    return [entry.what for entry in describe_operators(manifest(PROJECT.replace("SQL", sql)).query("m"), {"at"})]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (GROUP, ["GROUP BY UPPER(customer)"]),
        ("SELECT customer FROM {{ ref('seen') }}", ["DISTINCT customer"]),
        (
            "SELECT o.id, p.paid FROM {{ source('orders') }} AS o LEFT JOIN {{ source('payments') }} AS p"
            " ON o.id = p.order_id",
            ["LEFT JOIN payments ON id = order_id"],
        ),
        (
            "SELECT o.id, p.paid FROM {{ source('orders') }} AS o JOIN {{ source('payments') }}"
            " FOR SYSTEM_TIME AS OF o.at AS p ON o.id = p.order_id",
            ["JOIN payments AS OF ON id = order_id"],
        ),
        (
            "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id) AS rn"
            " FROM {{ source('orders') }}) AS t WHERE rn <= 3",
            ["first 3 rows by customer ordered by id"],
        ),
        (RANKED.format("id", "at DESC", "= 1"), ["latest row by id"]),
        (RANKED.format("id", "PROCTIME() DESC", "= 1"), ["latest row by id"]),
        (RANKED.format("id", "at", "= 1"), ["first row by id"]),
        (RANKED.format("customer", "id DESC", "= 1"), ["first row by customer ordered by id DESC"]),
        (
            "SELECT COUNT(*) AS n FROM {{ source('orders') }} GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)",
            [],
        ),
        (
            "SELECT id, LAG(id) OVER (PARTITION BY customer ORDER BY at) AS before FROM {{ source('orders') }}",
            ["OVER (PARTITION BY customer)"],
        ),
        (
            "SELECT n, COUNT(*) AS c FROM (SELECT customer, COUNT(*) AS n FROM {{ source('orders') }}"
            " GROUP BY customer) AS t GROUP BY n",
            ["GROUP BY n", "latest row by customer", "GROUP BY customer"],
        ),
        ("SELECT id FROM {{ source('orders') }}", []),
    ],
)
def test_operators_are_told_in_the_words_of_the_project_from_the_output_back(
    project_manifest: Compile, sql: str, said: list[str]
) -> None:
    assert words(project_manifest, sql) == said


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "SELECT customer, COUNT(*) AS n, TUMBLE_END(at, INTERVAL '1' DAY) AS d FROM {{ source('orders') }}"
            " GROUP BY customer, TUMBLE(at, INTERVAL '1' DAY)",
            "window by customer",
        ),
        (
            "SELECT COUNT(*) AS n, TUMBLE_END(at, INTERVAL '1' DAY) AS d FROM {{ source('orders') }}"
            " GROUP BY TUMBLE(at, INTERVAL '1' DAY)",
            "window",
        ),
        (
            "SELECT window_start, UPPER(customer) AS c, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE {{ source('orders') }},"
            " DESCRIPTOR(at), INTERVAL '1' DAY)) GROUP BY window_start, window_end, UPPER(customer)",
            "window by UPPER(customer)",
        ),
    ],
)
def test_windows_of_ours_are_told_by_their_other_keys(project_manifest: Compile, sql: str, said: str) -> None:
    text = PROJECT.replace("event_time: {column: at}", "event_time: {column: at, allowed_lateness_ms: 60000}", 1)
    assert [entry.what for entry in describe_operators(project_manifest(text.replace("SQL", sql)).query("m"))] == [said]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("customer", "window"), "window by customer"),
        (("customer", "`_window`"), "window by customer"),
        (("session_window",), "window"),
        (("customer", "sessionStartTime"), "window by customer"),
        (("_groupingexpression", "window"), "window by an expression"),
        (("windows", "window"), "window by windows"),
    ],
)
def test_windows_of_spark_are_told_without_their_own_columns(keys: tuple[str, ...], said: str) -> None:
    assert window_by(keys) == said


def test_without_a_node_every_query_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {MAIN: PROJECT.replace("SQL", "SELECT customer FROM {{ ref('seen') }}")})
    state.command()
    assert capsys.readouterr().out.splitlines() == ["plain: no state", "m: no finished batch yet"]
    state.command(form=OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out)["queries"] == [
        {"query": "plain", "stateful": False, "operators": []},
        {"query": "m", "stateful": True, "operators": []},
    ]


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (86_400_000, "1 day"),
        (172_800_000, "2 days"),
        (5_400_000, "90 minutes"),
        (3_600_000, "1 hour"),
        (1000, "1 second"),
        (1_500, "1,500 ms"),
    ],
)
def test_times_are_told_in_the_largest_unit_that_fits(milliseconds: int, said: str) -> None:
    assert describe_duration(milliseconds) == said


@pytest.mark.parametrize(
    ("node", "message", "hint"),
    [
        ("orders", "`orders` has no query of its own", "name a model"),
        ("seen", "`seen` has no query of its own", "it is part of `m`"),
        ("plain", "the query of `plain` keeps no state", "it processes each row independently"),
        ("model.m", "the query of `m` has no state yet: it has not finished a batch", "start it with `penstock run`"),
    ],
)
def test_a_node_without_state_is_told_so(tmp_path: Path, node: str, message: str, hint: str) -> None:
    write(tmp_path, {MAIN: PROJECT.replace("SQL", "SELECT customer FROM {{ ref('seen') }}")})
    with pytest.raises(ProjectInvalid) as caught:
        state.command(node)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.hint) == ("no-state", message, hint)


# The note beside the checkpoint


def test_rows_of_cells_that_a_batch_does_not_touch_are_remembered_also_after_a_restart(tmp_path: Path) -> None:
    StateNotes(tmp_path).add(0, [OperatorCounts(2, 100)], {"v": {"1": {"keys": 3}, "7": {"keys": 5}}})
    StateNotes(tmp_path).add(1, [OperatorCounts(2, 200)], {"v": {"7": {"keys": 4}}})
    assert json.loads((tmp_path / NOTE).read_text()) == {
        "batch": 1,
        "operators": [{"rows": 2, "memory_bytes": 200}],
        "cells": {"v": {"1": {"keys": 3}, "7": {"keys": 4}}},
    }
    assert [path.name for path in tmp_path.iterdir()] == [NOTE]


def test_a_query_without_state_has_no_note(tmp_path: Path) -> None:
    StateNotes(tmp_path).add(0, [], {})
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_is_damaged_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("{")
    StateNotes(tmp_path).add(4, [OperatorCounts(1, 1)], {})
    assert json.loads((tmp_path / NOTE).read_text())["batch"] == 4


def test_a_checkpoint_that_has_not_begun_says_nothing(tmp_path: Path) -> None:
    assert query_state(tmp_path / "nowhere") is None
    write(tmp_path, {"offsets/0": "v2\n{}\n"})
    assert query_state(tmp_path) is None
