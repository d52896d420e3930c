"""Rebuilds of a project that runs: what is in its topics afterwards."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.errors import QueryFailed
from penstock.plan.deployed.state import batch_outputs
from penstock.runtime.checkpoint.repair import repair
from penstock.workflow.stages import check, compile_project
from tests.spark.running import ORDERS, Running, order

MODELS = """
models:
  - {name: paid, sql: "SELECT id, country, amount FROM {{ source('orders') }} WHERE amount > 1"}
  - name: totals
    key: country
    sql: SELECT country, SUM(amount) AS total FROM {{ ref('paid') }} GROUP BY country
"""


def test_a_rebuild_with_empty_outputs_counts_no_row_twice(tmp_path: Path, spark: SparkSession) -> None:
    """And an environment that adopts the state of runs without one goes on with it, and so does a renamed model."""
    project = Running(tmp_path, spark).write({"stream_project.yml": "project: {name: p}\n" + ORDERS + MODELS})
    project.drop("orders.v1", "a.json", [order(1), order(2)])
    project.run()
    assert [row["total"] for row in project.topic("totals")] == [20.0]
    project.drop("orders.v1", "b.json", [order(3)])
    run = project.begun(allow_rebuild=["paid"], truncate=True)
    run.run_once(lambda: None)
    run.close()
    assert sorted(row["id"] for row in project.topic("paid")) == [1, 2, 3]
    assert [row["total"] for row in project.topic("totals")] == [30.0]

    project.write({"environments/local.yml": "runtime: {}\n"})
    checked = check(tmp_path)
    assert checked.adoption is not None
    adopted = project.begun(adopts_state=True)
    adopted.run_once(lambda: None)
    adopted.close()
    assert {row.query: row.rows_in for row in adopted.board.snapshot()} == {"paid": 0, "totals": 0}
    assert check(tmp_path).adoption is None
    assert check(tmp_path).place.environment == "default"

    text = ("project: {name: p}\n" + ORDERS + MODELS).replace("ref('paid')", "ref('settled')")
    renamed = text.replace("{name: paid,", "{name: settled, advanced: {topic: paid},")
    project.write({"stream_project.yml": renamed}).drop("orders.v1", "c.json", [order(4)])
    carried = project.begun(carries=(("paid", "settled"),))
    carried.run_once(lambda: None)
    carried.close()
    assert {row.query: row.rows_in for row in carried.board.snapshot()} == {"settled": 1, "totals": 1}
    assert sorted(row["total"] for row in project.topic("totals")) == [30.0, 40.0]
    again = project.run()
    assert {name: row.rows_in for name, row in again.items()} == {"settled": 0, "totals": 0}


def test_damaged_checkpoints_fail_by_name_and_go_on_once_repaired(tmp_path: Path, spark: SparkSession) -> None:
    other = """\
  - {name: other, sql: "SELECT id FROM {{ source('orders') }}"}
"""
    project = Running(tmp_path, spark).write({"stream_project.yml": "project: {name: p}\n" + ORDERS + MODELS + other})
    for number in (1, 2):
        project.drop("orders.v1", f"{number}.json", [order(number)])
        project.run()
    place = project.place
    (place.checkpoint("paid") / "offsets" / "1").write_bytes(bytes(range(256)))
    (place.checkpoint("totals") / "metadata").write_text("")
    project.drop("orders.v1", "3.json", [order(3)])
    run = project.begun()
    with pytest.raises(QueryFailed) as failed:
        run.run_once(lambda: None)
    run.close()
    assert failed.value.code == "checkpoint-offsets-damaged"
    assert {row.query: row.state for row in run.board.snapshot()}["other"] == "finished"
    assert sorted(row["id"] for row in project.topic("other")) == [1, 2, 3]

    checked = check(tmp_path)
    for query in compile_project(checked).queries:
        assert all(d.repair for d in repair(place.checkpoint(query.name), query.name, batch_outputs(query, place)))
    project.run()
    assert sorted(row["id"] for row in project.topic("paid")) == [1, 2, 3]
    assert sorted(row["total"] for row in project.topic("totals")) == [10.0, 20.0, 30.0]
