"""Joins with lookup tables: they keep no state."""

from pathlib import Path

import pytest

from penstock.connectors.contract import ReadRequest
from penstock.connectors.file import FileSource
from penstock.manifest.model import Manifest, QuerySpec
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.table_watch import TableWatch
from penstock.runtime.run.backoff import MOST_IN_DRAIN, Retries
from tests.unit.conftest import Compile, Link

HEAD = """
project: {name: p}
sources:
  - name: s
    topic: s.v1
    columns: [{name: id, type: BIGINT}, {name: k, type: STRING}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at}
  - name: u
    topic: u.v1
    columns: [{name: id, type: BIGINT}, {name: k, type: STRING}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at}
  - name: c
    table: {type: file, config: {path: c, format: csv}}
    columns: [{name: k, type: STRING}, {name: name, type: STRING}]
  - name: d
    table: {type: file, config: {path: d, format: csv}}
    columns: [{name: name, type: STRING}, {name: more, type: STRING}]
models:
"""
S, U, C, D = ("{{ source('" + name + "') }}" for name in "sucd")
LOOKUP = f"SELECT s.id, c.name FROM {S} AS s JOIN {C} AS c ON s.k = c.k"


def model(name: str, sql: str, more: str = "") -> str:
    return f'  - {{name: {name}, sql: "{sql}"{more}}}\n'


@pytest.mark.parametrize(
    "sql",
    [
        LOOKUP,
        f"SELECT s.id, c.name FROM {S} AS s LEFT JOIN {C} FOR SYSTEM_TIME AS OF PROCTIME() AS c ON s.k = c.k",
        f"SELECT s.id, c.name FROM {S} AS s, {C} AS c WHERE s.k = c.k",
        f"SELECT s.id, d.more FROM {S} AS s JOIN {C} AS c ON s.k = c.k LEFT JOIN {D} AS d ON c.name = d.name",
        f"SELECT id FROM ({LOOKUP} WHERE s.id > 1) AS t WHERE id < 9",
        f"WITH t AS ({LOOKUP}) SELECT t.id, d.more FROM t LEFT JOIN {D} AS d ON t.name = d.name WHERE t.id > 1",
        f"{LOOKUP} UNION ALL SELECT id, k FROM {S}",
        f"SELECT s.id, c.name FROM {C} AS c JOIN {S} AS s ON s.k = c.k",
        f"SELECT s.id, c.name FROM {C} AS c RIGHT JOIN {S} AS s ON s.k = c.k",
    ],
)
def test_a_join_with_a_lookup_table_keeps_no_state(project_graph: Link, project_manifest: Compile, sql: str) -> None:
    node = project_graph(HEAD + model("m", sql))["model.m"]
    assert (node.stateful, node.operators, node.hindrances, node.materialized) == (False, (), (), "topic")
    assert not project_manifest(HEAD + model("m", sql)).query("m").stateful
    through = model("v", sql, ", materialized: virtual_topic") + model("m", "SELECT id FROM {{ ref('v') }}")
    assert not project_manifest(HEAD + through).query("m").stateful


@pytest.mark.parametrize(
    ("sql", "operators"),
    [
        (
            f"SELECT c.name, COUNT(*) AS n FROM {S} AS s JOIN {C} AS c ON s.k = c.k GROUP BY c.name",
            ("GROUP BY without a window",),
        ),
        (
            f"SELECT c.name, COUNT(*) AS n FROM {S} AS s JOIN {C} AS c ON s.k = c.k "
            "GROUP BY c.name, TUMBLE(s.at, INTERVAL '1' HOUR)",
            ("GROUP BY",),
        ),
        (f"SELECT DISTINCT c.name FROM {S} AS s JOIN {C} AS c ON s.k = c.k", ("SELECT DISTINCT",)),
        (
            f"SELECT s.id, c.name FROM {S} AS s JOIN {U} AS u ON s.id = u.id AND u.at BETWEEN s.at AND s.at + "
            f"INTERVAL '1' HOUR LEFT JOIN {C} AS c ON s.k = c.k",
            ("JOIN",),
        ),
        (
            f"SELECT id, name FROM (SELECT s.id, c.name, ROW_NUMBER() OVER (PARTITION BY s.id ORDER BY s.at) AS rn "
            f"FROM {S} AS s JOIN {C} AS c ON s.k = c.k) AS t WHERE rn = 1",
            ("OVER",),
        ),
    ],
)
def test_what_stands_on_a_lookup_keeps_its_state(project_graph: Link, sql: str, operators: tuple[str, ...]) -> None:
    node = project_graph(HEAD + model("m", sql))["model.m"]
    assert (node.stateful, node.operators, node.materialized) == (True, operators, "spark")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT s.id FROM {S} AS s RIGHT JOIN {C} AS c ON s.k = c.k",
        f"SELECT s.id FROM {C} AS c LEFT JOIN {S} AS s ON s.k = c.k",
    ],
)
def test_rows_of_a_lookup_table_do_not_come_by_themselves(project_graph: Link, sql: str) -> None:
    (hindrance,) = project_graph(HEAD + model("m", sql))["model.m"].hindrances
    assert hindrance.endswith("JOIN with a table")


def _as_recorded(query: QuerySpec) -> QuerySpec:
    """The query as it is recorded where joins with tables counted as state."""
    return QuerySpec.model_validate(query.model_copy(update={"stateful": True}).to_document())


def _planned(before: Manifest, after: Manifest) -> list[tuple[str, str]]:
    topics = frozenset(topic.name for topic in before.topics)
    queries = {query.name: _as_recorded(query) for query in before.queries}
    deployed = DeployedState(queries, topics, topics, dict.fromkeys(queries, Checkpoint(begun=True, unfinished=True)))
    lines = [explain(step) for step in diff(after, deployed).steps]
    return [(line.action, line.reason or "") for line in lines if line.subject == "query"]


def test_a_checkpoint_of_a_lookup_that_counted_as_stateful_goes_on(project_manifest: Compile) -> None:
    windowed = f"SELECT c.name, COUNT(*) AS n FROM {S} AS s JOIN {C} AS c ON s.k = c.k GROUP BY c.name"
    before = project_manifest(HEAD + model("m", LOOKUP))
    reason = "a join with a lookup table keeps no state"
    assert _planned(before, before) == [("restart", f"{reason}; resumes where it stopped")]
    ((action, said),) = _planned(before, project_manifest(HEAD + model("m", LOOKUP + " WHERE s.id > 1")))
    assert (action, said) == ("restart", f"{reason}; its SQL changed; resumes where it stopped")
    ((action, said),) = _planned(before, project_manifest(HEAD + model("m", windowed)))
    assert (action, said.partition(";")[0]) == ("rebuild", "it keeps state now")
    ((action, said),) = _planned(project_manifest(HEAD + model("m", windowed)), before)
    assert (action, said.partition(";")[0]) == ("rebuild", "it no longer keeps state")


def test_a_query_begins_again_when_files_of_its_lookup_table_change(project_manifest: Compile, tmp_path: Path) -> None:
    query = project_manifest(HEAD + model("m", LOOKUP)).query("m")
    inputs = [
        QueryInput(entry, FileSource(path=str(tmp_path / entry.view), format="csv"), ReadRequest())
        for entry in query.inputs
    ]
    stream, table = (tmp_path / entry.view for entry in query.inputs)
    for folder in (stream, table):
        folder.mkdir()
        (folder / "a.csv").write_text("k,name\n1,one\n")
    watch = TableWatch(inputs)
    (stream / "b.csv").write_text("k,name\n2,two\n")
    (table / "_SUCCESS").write_text("")
    assert watch.find_change() is None
    (table / "b.csv").write_text("k,name\n2,two\n")
    changed = watch.find_change()
    assert changed is not None
    assert (changed.code, changed.retriable) == ("table-changed", True)
    assert changed.message == "files of the table `c` changed: it is read again"
    assert watch.poll() is changed
    watch = TableWatch(inputs)
    (table / "a.csv").unlink()
    assert watch.find_change() is not None

    retries = Retries()
    for _ in range(MOST_IN_DRAIN):
        assert retries.can_add(query, 0, changed, drain=True)
        retries.add(query, 0, changed, drain=True)
    assert not retries.can_add(query, 0, changed, drain=True)


TOTALS = model("totals", f"SELECT k, COUNT(*) AS n FROM {S} GROUP BY k")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT t.n, c.name FROM {{{{ ref('totals') }}}} AS t JOIN {C} AS c ON t.k = c.k",
        f"SELECT name, SUM(n) AS n FROM (SELECT t.n, c.name FROM {{{{ ref('totals') }}}} AS t "
        f"LEFT JOIN {C} AS c ON t.k = c.k) AS x GROUP BY name",
        f"SELECT t.n, c.name, u.id FROM {{{{ ref('totals') }}}} AS t JOIN {C} AS c ON t.k = c.k "
        f"JOIN {U} AS u ON u.k = t.k",
    ],
)
def test_changes_are_looked_up_as_changes_and_keep_state(project_manifest: Compile, sql: str) -> None:
    manifest = project_manifest(HEAD + TOTALS + model("m", sql))
    (query,) = (q for q in manifest.queries if q.name == "m")
    assert query.stateful
    assert any("_sign" in str(step) for step in query.steps)


def test_changes_behind_a_table_are_refused(project_graph: Link) -> None:
    sql = f"SELECT t.n, c.name FROM {C} AS c JOIN {{{{ ref('totals') }}}} AS t ON t.k = c.k"
    assert project_graph(HEAD + TOTALS + model("m", sql))["model.m"].hindrances == ("changes behind a table",)
