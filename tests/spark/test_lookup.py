"""Tables that streams look rows up in."""

from tests.spark.running import ORDERS, Running, order

TABLES = """
  - name: countries
    table: {type: file, config: {path: countries, format: csv}}
    columns: [{name: code, type: STRING}, {name: name, type: STRING}]
models:
  - name: named
    sql: |
      SELECT o.id, c.name FROM {{ source("orders") }} AS o
      LEFT JOIN {{ source("countries") }} FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.country = c.code
  - name: per_country
    sql: |
      SELECT c.name, COUNT(*) AS n FROM {{ source("orders") }} AS o
      JOIN {{ source("countries") }} AS c ON o.country = c.code GROUP BY c.name
"""


def test_rows_are_looked_up_in_a_table(running: Running) -> None:
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{TABLES}"
    running.write({"stream_project.yml": project, "countries/all.csv": "code,name\nDE,Germany\nFR,France\n"})
    running.drop("orders.v1", "1.json", [order(1), order(2, country="FR"), order(3, country="XX")])
    running.run()
    assert sorted((r["id"], r["name"]) for r in running.topic("named")) == [(1, "Germany"), (2, "France"), (3, None)]
    running.drop("orders.v1", "2.json", [order(4)])
    running.run()
    assert (4, "Germany") in {(r["id"], r["name"]) for r in running.topic("named")}
    counted = sorted((r["name"], r["n"], r["_gs_op"]) for r in running.topic("per_country"))
    assert counted == [("France", 1, "i"), ("Germany", 1, "i"), ("Germany", 2, "u")]


def test_columns_of_a_table_that_are_declared_as_texts_are_texts(running: Running) -> None:
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{TABLES}"
    running.write({"stream_project.yml": project, "countries/all.csv": "code,name\n007,1\n08,2\n"})
    running.drop("orders.v1", "1.json", [order(1, country="007"), order(2, country="08"), order(3, country="7")])
    running.run(select=["named"])
    assert sorted((r["id"], r["name"]) for r in running.topic("named")) == [(1, "1"), (2, "2"), (3, None)]
