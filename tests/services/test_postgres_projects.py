"""Projects beside a real PostgreSQL: streams look rows up in it, and `jdbc-sink` writes it without Kafka Connect."""

import pytest

from penstock.dev import postgres as dev
from penstock.errors import ProjectInvalid, ServiceError
from penstock.workflow.stages import check
from tests.services.postgres import Database
from tests.spark.running import ORDERS, Running, order

LOOKUP = """
  - name: countries
    table:
      type: postgres
      config:
        host: 127.0.0.1
        port: {port}
        user: {user}
        password: ${{PG_PASSWORD}}
        database: {database}
        schema: lookup
        table: countries
    columns: [{{name: code, type: STRING}}, {{name: name, type: STRING}}]
models:
  - name: named
    sql: |
      SELECT o.id, c.name FROM {{{{ source("orders") }}}} AS o
      LEFT JOIN {{{{ source("countries") }}}} FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.country = c.code
"""
SINK = """
models:
  - name: per_country
    key: country
    sql: SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{{{ source("orders") }}}} GROUP BY country
  - name: totals
    from: per_country
    key: country
    advanced:
      connector:
        type: jdbc-sink
        tasks_max: 1
        config:
          connection.url: jdbc:postgresql://127.0.0.1:{port}/{database}
          connection.user: {user}
          connection.password: ${{PG_PASSWORD}}
          table.name.format: jdbc.totals
          insert.mode: upsert
          pk.mode: record_key
          auto.create: true
"""


@pytest.fixture
def project(running: Running, database: Database, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("PG_PASSWORD", dev.PASSWORD)
    return running


def written(project: Running, database: Database, more: str) -> None:
    about = {"port": database.port, "user": dev.USER, "database": dev.DATABASE}
    project.write({"stream_project.yml": f"project: {{name: p}}\n{ORDERS.rstrip()}{more.format(**about)}"})


def names(project: Running) -> dict[int, str | None]:
    return {row["id"]: row["name"] for row in project.topic("named")}


def test_rows_are_looked_up_in_a_table_as_it_is_at_the_time(project: Running, database: Database) -> None:
    database.rows("DROP SCHEMA IF EXISTS lookup CASCADE")
    database.rows("CREATE SCHEMA lookup")
    database.rows("CREATE TABLE lookup.countries (code text PRIMARY KEY, name text)")
    database.rows("INSERT INTO lookup.countries VALUES ('DE', 'Germany'), ('FR', 'France')")
    written(project, database, LOOKUP)
    project.drop("orders.v1", "1.json", [order(1), order(2, country="FR"), order(3, country="XX")])
    project.run()
    assert names(project) == {1: "Germany", 2: "France", 3: None}
    database.rows("UPDATE lookup.countries SET name = 'Deutschland' WHERE code = 'DE'")
    database.rows("INSERT INTO lookup.countries VALUES ('XX', 'Nowhere')")
    project.drop("orders.v1", "2.json", [order(4), order(5, country="XX")])
    project.run()
    assert names(project) == {1: "Germany", 2: "France", 3: None, 4: "Deutschland", 5: "Nowhere"}


def test_a_table_that_is_not_there(project: Running, database: Database) -> None:
    database.rows("DROP SCHEMA IF EXISTS lookup CASCADE")
    written(project, database, LOOKUP)
    project.drop("orders.v1", "1.json", [order(1)])
    with pytest.raises(ServiceError, match="has no table") as caught:
        project.run()
    assert caught.value.code == "table-mismatch"


def test_changes_reach_a_table_without_kafka_connect(project: Running, database: Database) -> None:
    database.rows("DROP SCHEMA IF EXISTS jdbc CASCADE")
    written(project, database, SINK)
    project.drop("orders.v1", "1.json", [order(1), order(2, country="FR"), order(3)])
    project.run()
    assert database.rows("SELECT country, n FROM jdbc.totals ORDER BY 1") == [("DE", "2"), ("FR", "1")]
    project.drop("orders.v1", "2.json", [order(4), order(5)])
    project.run()
    assert database.rows("SELECT country, n FROM jdbc.totals ORDER BY 1") == [("DE", "4"), ("FR", "1")]


def test_a_table_that_may_not_be_made(project: Running, database: Database) -> None:
    database.rows("DROP SCHEMA IF EXISTS jdbc CASCADE")
    written(project, database, SINK.replace("          auto.create: true\n", ""))
    project.drop("orders.v1", "1.json", [order(1)])
    with pytest.raises(ServiceError, match="there is no table"):
        project.run()


def test_other_databases_need_kafka_connect(project: Running, database: Database) -> None:
    written(project, database, SINK.replace("jdbc:postgresql:", "jdbc:mysql:"))
    with pytest.raises(ProjectInvalid, match="only PostgreSQL"):
        check(project.root)


def test_of_several_batches_of_a_topic_the_last_row_of_a_key_wins(project: Running, database: Database) -> None:
    database.rows("DROP SCHEMA IF EXISTS jdbc CASCADE")
    passed = SINK.replace(
        'SELECT country, COUNT(*) AS n, SUM(amount) AS total FROM {{{{ source("orders") }}}} GROUP BY country',
        'SELECT country, amount AS n FROM {{{{ source("orders") }}}}',
    )
    written(project, database, passed)
    for number, count in enumerate((1, 3000, 5)):
        rows = [order(n, country=f"C{n}", amount=number) for n in range(1, count)]
        project.drop("orders.v1", f"{number}.json", [*rows, order(0, country="DE", amount=number)])
        project.run(select=["per_country"])
    project.run()
    assert database.rows("SELECT n FROM jdbc.totals WHERE country = 'DE'") == [("2",)]
