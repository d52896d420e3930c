"""Tables that streams look rows up in."""

import pytest

from penstock.errors import QueryFailed
from penstock.runtime.run.start import start
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.dead_letters import deliver
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
  - name: turned
    sql: |
      SELECT o.id, c.name FROM {{ source("countries") }} AS c
      RIGHT JOIN {{ source("orders") }} AS o ON o.country = c.code
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
    for name in ("named", "turned"):
        assert sorted((r["id"], r["name"]) for r in running.topic(name)) == [(1, "Germany"), (2, "France"), (3, None)]
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


def _warnings(running: Running) -> list[str]:
    """What a run warns of that reads what is there."""
    checked, said = check(running.root), list[str]()
    plan = plan_project(checked, compile_project(checked))
    place, store = checked.place, checked.store
    run = start(plan, running.spark, place, store, environ=checked.environ, clusters=checked.clusters, say=said.append)
    try:
        run.run_once(lambda: None)
    finally:
        run.close()
    return said


PEOPLE = """
  - name: countries
    on_error: dead_letter
    table: {type: file, config: {path: countries, format: FORMAT}}
    columns: [{name: code, type: STRING}, {name: people, type: BIGINT}]
models:
  - name: named
    sql: |
      SELECT o.id, c.people FROM {{ source("orders") }} AS o
      LEFT JOIN {{ source("countries") }} AS c ON o.country = c.code
"""


@pytest.mark.parametrize(
    ("form", "schema"), [("csv", ""), ("csv", ", schema: {code: string, people: int64}"), ("json", "")]
)
def test_lines_of_a_table_that_are_no_rows_are_warned_of_or_stop_the_query(
    running: Running, form: str, schema: str
) -> None:
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{PEOPLE}".replace("FORMAT", form + schema)
    csv = "code,people\nDE,84\nFR,many\nNO,5,6\nXX,1,2\nYY,1,2\n"
    json = '{"code": "DE", "people": 84}\n{"code": "FR", "people": "many"}\n{"code\n[]\n7\n'
    running.write({"stream_project.yml": project, f"countries/all.{form}": csv if form == "csv" else json})
    running.drop("orders.v1", "1.json", [order(1), order(2, country="FR")])
    (said,) = _warnings(running)
    assert said.startswith("4 lines of the table `countries` cannot be read, and left out: ")
    assert f": {running.root}/countries/all.{form}:{3 if form == 'csv' else 2}: `people`: " in said
    assert said.endswith("; 1 more")
    assert sorted((r["id"], r["people"]) for r in running.topic("named")) == [(1, 84), (2, None)]

    running.write({"stream_project.yml": project.replace("on_error: dead_letter", "on_error: stop")})
    with pytest.raises(QueryFailed, match=rf"a line of the table `countries` cannot be read: .*all\.{form}:\d: "):
        running.run()
    running.write({"stream_project.yml": project.replace("on_error: dead_letter", "on_error: skip")})
    assert _warnings(running) == []


SCORED = """
  - name: countries
    table: {type: file, config: {path: countries, format: csv}}
    columns: [{name: code, type: STRING}, {name: people, type: BIGINT}]
models:
  - name: scored
    sql: |
      SELECT o.id, c.people DIVIDED FROM {{ source("orders") }} AS o
      LEFT JOIN {{ source("countries") }} AS c ON o.country = c.code WHERE o.id > 0
"""


def test_bad_files_and_rows_of_a_lookup_are_dead_letters_that_can_be_replayed(running: Running) -> None:
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{SCORED}"
    failing = project.replace("DIVIDED", "/ (o.id - 2) AS people")
    running.write({"stream_project.yml": failing, "countries/all.csv": "code,people\nDE,84\n"})
    topic = running.root / ".penstock" / "topics" / "orders.v1"
    topic.mkdir(parents=True)
    header = "id,country,amount,at\n"
    (topic / "1.csv").write_text(f"{header}1,DE,1.0,\n2,DE,1.0,\n3,XX,1.0,\n")
    (topic / "2.csv").write_text("number,country,amount,at\n9,DE,1.0,\n")
    progress = running.run()["scored"]
    assert sorted((r["id"], r["people"]) for r in running.topic("scored")) == [(1, -84), (3, None)]
    assert progress.rejected == 2
    codes = sorted(
        (dead_letter.code, dead_letter.about["topic"].rpartition("/")[2])
        for dead_letter in pending_dead_letters(check(running.root), None)
    )
    assert codes == [("file-unreadable", "2.csv"), ("row-failed", "1.csv")]

    running.write({"stream_project.yml": project.replace("DIVIDED", "/ o.id AS people")})
    assert deliver(running)["model.scored"].written == 1
    assert (2, 42) in {(r["id"], r["people"]) for r in running.topic("scored")}


def test_a_lookup_table_that_changes_during_a_run_is_read_and_looked_through_again(running: Running) -> None:
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{PEOPLE}".replace("FORMAT", "csv")
    running.write({"stream_project.yml": project, "countries/all.csv": "code,people\nDE,84\n"})
    running.drop("orders.v1", "1.json", [order(1)])
    checked, said = check(running.root), list[str]()
    about = (running.spark, checked.place, checked.store)
    plan = plan_project(checked, compile_project(checked))
    run = start(plan, *about, environ=checked.environ, clusters=checked.clusters, say=said.append)
    steps = [
        ({"countries/all.csv": "code,people\nDE,85\nFR,many\n"}, order(2)),
        ({"countries/more.csv": "code,people\nFR,68\n"}, order(3, country="FR")),
    ]

    def idle() -> None:
        (progress,) = run.board.snapshot()
        if progress.rows_out == 3:
            run.stop()
        elif steps and progress.rows_out == 3 - len(steps):
            files, row = steps.pop(0)
            running.write(files)
            running.drop("orders.v1", f"{row['id']}.json", [row])

    try:
        run.run_until_stopped(idle)
    finally:
        run.close()
    assert sorted((r["id"], r["people"]) for r in running.topic("named")) == [(1, 84), (2, 85), (3, 68)]
    (warned,) = said
    assert warned.startswith("1 line of the table `countries` cannot be read, and left out: ")
    assert f"{running.root}/countries/all.csv:3: `people`: " in warned


CHANGES = """
  - name: countries
    table: {type: file, config: {path: countries, format: csv}}
    columns: [{name: code, type: STRING}, {name: name, type: STRING}]
models:
  - name: latest
    sql: SELECT id, MAX(country) AS country FROM {{ source("orders") }} GROUP BY id
  - name: named
    sql: |
      SELECT l.id, c.name FROM {{ ref("latest") }} AS l
      JOIN {{ source("countries") }} AS c ON l.country = c.code WHERE l.id < 9
  - name: counted
    sql: |
      SELECT c.name, COUNT(*) AS n FROM {{ ref("latest") }} AS l
      LEFT JOIN {{ source("countries") }} AS c ON l.country = c.code GROUP BY c.name
"""


def test_changes_stay_changes_behind_a_lookup(running: Running) -> None:
    """`DE` has two names, so that each change becomes two."""
    table = "code,name\nDE,Germany\nDE,Deutschland\nFR,France\n"
    project = f"project: {{name: p}}\n{ORDERS.rstrip()}{CHANGES}"
    running.write({"stream_project.yml": project, "countries/all.csv": table})
    batches = [[order(1), order(2), order(9)], [order(1, country="FR")], [order(1, country="XX")]]
    for number, orders in enumerate(batches):
        running.drop("orders.v1", f"{number}.json", orders)
        running.run()
    de = ["Deutschland", "Germany"]
    named = [(row["id"], row["name"], row["_gs_op"]) for row in running.topic("named")]
    come = [(1, name, "i") for name in (*de, "France")] + [(2, name, "i") for name in de]
    gone = [(1, name, "d") for name in (*de, "France")]
    assert sorted(named) == sorted(come + gone)
    counted = sorted((row["name"] or "", row["n"], row["_gs_op"]) for row in running.topic("counted"))
    last = [("", 1, "i"), ("France", 1, "d"), ("France", 1, "i")]
    assert counted == sorted([*last, *((name, n, op) for name in de for n, op in ((3, "i"), (2, "u")))])
