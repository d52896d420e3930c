"""Streams of changes: groups without a window, and models that read them."""

from tests.spark.running import ORDERS, Running, order

COUNTS = """
models:
  - name: by_country
    sql: |
      SELECT country, COUNT(*) AS n, SUM(amount) AS total
      FROM {{ source("orders") }} GROUP BY country
  - name: by_count
    sql: SELECT n, COUNT(*) AS countries FROM {{ ref("by_country") }} GROUP BY n
  - name: busy
    sql: SELECT country, n FROM {{ ref("by_country") }} WHERE n = 1
"""


def test_a_group_without_a_window_is_a_stream_of_changes(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{COUNTS}"})
    running.drop("orders.v1", "1.json", [order(1), order(2, country="FR", amount=4.0)])
    running.run()
    running.drop("orders.v1", "2.json", [order(3, amount=5.0)])
    running.run()
    changes = sorted((r["country"], r["n"], r["total"], r["_gs_op"]) for r in running.topic("by_country"))
    assert changes == [("DE", 1, 10.0, "i"), ("DE", 2, 15.0, "u"), ("FR", 1, 4.0, "i")]
    counted = sorted((r["n"], r["countries"], r["_gs_op"]) for r in running.topic("by_count"))
    assert counted == [(1, 1, "u"), (1, 2, "i"), (2, 1, "i")]
    busy = sorted((r["country"], r["n"], r["_gs_op"]) for r in running.topic("busy"))
    assert busy == [("DE", 1, "i"), ("DE", 2, "d"), ("FR", 1, "i")]


CATCHING_UP = """
models:
  - name: counts
    sql: SELECT country, COUNT(*) AS n FROM {{ source("orders") }} GROUP BY country
  - name: many
    sql: SELECT country, n FROM {{ ref("counts") }} WHERE n > 2
  - name: by_count
    sql: SELECT n, COUNT(*) AS countries FROM {{ ref("many") }} GROUP BY n
  - name: copied
    sql: SELECT * FROM {{ ref("counts") }}
"""


def test_a_reader_that_catches_up_sees_the_last_change_of_each_key(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{CATCHING_UP}"})
    for batch in range(3):
        running.drop("orders.v1", f"{batch}.json", [order(n, country=f"c{n}") for n in range(10)])
        running.run(select=["counts"])
    running.run()
    assert sorted((r["country"], r["n"], r["_gs_op"]) for r in running.topic("many")) == [
        (f"c{n}", 3, "u") for n in range(10)
    ]
    assert sorted((r["country"], r["n"], r["_gs_op"]) for r in running.topic("copied")) == [
        (f"c{n}", 3, "i") for n in range(10)
    ]
    assert [(r["n"], r["countries"]) for r in running.topic("by_count")] == [(3, 10)]


def test_a_batch_that_was_written_but_not_committed_leaves_state_as_it_was(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{COUNTS}"})
    running.drop("orders.v1", "1.json", [order(1), order(2)])
    running.run()
    running.uncommit("by_country", 0)
    running.drop("orders.v1", "2.json", [order(3)])
    running.run()
    changes = sorted((r["country"], r["n"], r["_gs_op"]) for r in running.topic("by_country"))
    assert changes == [("DE", 2, "i"), ("DE", 3, "u")]


MEANS = """
models:
  - name: groups
    sql: |
      SELECT country, AVG(id) AS mean, AVG(DISTINCT id) FILTER (WHERE id > 99) AS none, AVG(amount) AS exact
      FROM {{ source("orders") }} GROUP BY country HAVING AVG(id) < 5
  - name: rows_so_far
    sql: |
      SELECT id, AVG(id) OVER w AS mean, AVG(amount) OVER w AS exact
      FROM {{ source("orders") }} WINDOW w AS (PARTITION BY country ORDER BY PROCTIME())
"""


def test_the_mean_of_whole_numbers_is_whole_and_cut_off(running: Running) -> None:
    running.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS}{MEANS}"})
    numbers = (1, "DE"), (2, "DE"), (-1, "FR"), (-2, "FR")
    running.drop("orders.v1", "1.json", [order(n, country=country, amount=n) for n, country in numbers])
    running.run()
    groups = sorted((r["country"], r["mean"], r["none"], r["exact"]) for r in running.topic("groups"))
    assert groups == [("DE", 1, None, 1.5), ("FR", -1, None, -1.5)]
    assert {type(mean) for _, mean, _, _ in groups} == {int}
    rows = sorted((r["id"], r["mean"], r["exact"]) for r in running.topic("rows_so_far"))
    assert rows == [(-2, -1, -1.5), (-1, -1, -1.0), (1, 1, 1.0), (2, 1, 1.5)]
