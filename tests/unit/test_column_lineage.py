"""Lineage of columns: through every kind of SQL, up and down, and how it is drawn."""

import json

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.graph import column_lineage
from penstock.graph.graph import Graph
from penstock.manifest.compile import compile
from tests.support import plain, write
from tests.unit.conftest import MAIN, Link

HEAD = """\
project: {name: p}
sources:
  - name: o
    topic: o.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: email}
      - {name: amount, type: DOUBLE}
      - {name: at, type: TIMESTAMP(3)}
      - {name: xs, type: ARRAY<STRING>}
      - {name: who, type: 'ROW<mail STRING, age INT>'}
    event_time: {column: at}
  - {name: c, topic: c.v1, columns: [{name: id, type: BIGINT}, {name: email}, {name: Country}]}
  - {name: open, topic: open.v1}
models:
"""
ORDERS, C, OPEN = "{{ source('o') }}", "{{ source('c') }}", "{{ source('open') }}"
TUMBLE = "TUMBLE(at, INTERVAL '1' HOUR)"


def model(name: str, sql: str) -> str:
    lines = "".join(f"      {line}\n" for line in sql.splitlines())
    return f"  - name: {name}\n    sql: |\n{lines}"


def origins(graph: Graph, name: str = "m") -> dict[str, set[tuple[str, str, str]]]:
    """What each output is made from: the input's name, its column, and the way."""
    return {
        column: {(o.input.partition(".")[2], o.name, o.way) for o in found}
        for column, found in graph[f"model.{name}"].column_origins.items()
    }


def o(name: str, way: str = "same") -> set[tuple[str, str, str]]:
    return {("o", name, way)}


def c(name: str, way: str = "same") -> set[tuple[str, str, str]]:
    return {("c", name, way)}


ALL = {name: o(name) for name in ("id", "email", "amount", "at", "xs", "who")}
SHAPES: dict[str, tuple[str, dict[str, set[tuple[str, str, str]]]]] = {
    "a column": (f"SELECT id FROM {ORDERS}", {"id": o("id")}),
    "another name": (f"SELECT id AS n FROM {ORDERS}", {"n": o("id")}),
    "another case": (f"SELECT ID AS n, EMAIL FROM {ORDERS}", {"n": o("id"), "EMAIL": o("email")}),
    "a constant": (f"SELECT 1 AS one FROM {ORDERS}", {"one": set()}),
    "an expression": (f"SELECT UPPER(email) AS e FROM {ORDERS}", {"e": o("email", "made")}),
    "an expression of two": (f"SELECT id + amount AS n FROM {ORDERS}", {"n": o("id", "made") | o("amount", "made")}),
    "a case": (
        f"SELECT CASE WHEN id > 1 THEN email END AS e FROM {ORDERS}",
        {"e": o("id", "made") | o("email", "made")},
    ),
    "a cast": (f"SELECT CAST(id AS STRING) AS t FROM {ORDERS}", {"t": o("id", "made")}),
    "a field of a struct": (f"SELECT o.who.mail AS e FROM {ORDERS} AS o", {"e": o("who", "made")}),
    "a star": (f"SELECT * FROM {ORDERS}", ALL),
    "a star and more": (f"SELECT *, id + 1 AS n FROM {ORDERS}", ALL | {"n": o("id", "made")}),
    "a star of an alias": (
        f"SELECT a.*, b.Country FROM {ORDERS} a JOIN {C} b ON a.id = b.id",
        ALL | {"Country": c("country")},
    ),
    "equal names in a join": (
        f"SELECT a.email AS one, b.email AS two FROM {ORDERS} a JOIN {C} b ON a.id = b.id",
        {"one": o("email"), "two": c("email")},
    ),
    "a join without aliases": (
        f"SELECT amount, Country FROM {ORDERS} JOIN {C} ON o.id = c.id",
        {"amount": o("amount"), "Country": c("country")},
    ),
    "a shared column": (f"SELECT id, amount FROM {ORDERS} JOIN {C} USING (id)", {"amount": o("amount")}),
    "a comma join": (f"SELECT a.id, b.Country FROM {ORDERS} a, {C} b", {"id": o("id"), "Country": c("country")}),
    "a self join": (
        f"SELECT a.email AS x, b.id AS y FROM {ORDERS} a JOIN {ORDERS} b ON a.id = b.id",
        {"x": o("email"), "y": o("id")},
    ),
    "a CTE": (f"WITH q AS (SELECT id AS n FROM {ORDERS}) SELECT n AS m FROM q", {"m": o("id")}),
    "a CTE with a star": (f"WITH q AS (SELECT * FROM {ORDERS}) SELECT email FROM q", {"email": o("email")}),
    "a CTE of a CTE": (
        f"WITH q AS (SELECT email AS a FROM {ORDERS}), r AS (SELECT LOWER(a) AS b FROM q) SELECT b FROM r",
        {"b": o("email", "made")},
    ),
    "a CTE with named columns": (
        f"WITH q(a, b) AS (SELECT id, email FROM {ORDERS}) SELECT b FROM q",
        {"b": o("email")},
    ),
    "a CTE that is read twice": (
        f"WITH q AS (SELECT id, email FROM {ORDERS}) SELECT a.id, b.email FROM q a JOIN q b ON a.id = b.id",
        {"id": o("id"), "email": o("email")},
    ),
    "a CTE called like an input": (f"WITH o AS (SELECT Country AS id FROM {C}) SELECT id FROM o", {"id": c("country")}),
    "a subquery": (f"SELECT q.n FROM (SELECT amount AS n FROM {ORDERS}) AS q", {"n": o("amount")}),
    "a subquery with named columns": (f"SELECT q.a FROM (SELECT amount FROM {ORDERS}) AS q(a)", {"a": o("amount")}),
    "a subquery in a subquery": (
        f"SELECT n + 1 AS n FROM (SELECT n FROM (SELECT amount AS n FROM {ORDERS}) AS q) AS r",
        {"n": o("amount", "made")},
    ),
    "a union": (
        f"SELECT id, email FROM {ORDERS} UNION ALL SELECT id, Country FROM {C}",
        {"id": o("id") | c("id"), "email": o("email") | c("country")},
    ),
    "a union of three": (
        f"SELECT id FROM {ORDERS} UNION ALL SELECT id FROM {C} UNION ALL SELECT amount FROM {ORDERS}",
        {"id": o("id") | c("id") | o("amount")},
    ),
    "a union in a CTE": (
        f"WITH q AS (SELECT email FROM {ORDERS} UNION ALL SELECT email FROM {C}) SELECT email AS e FROM q",
        {"e": o("email") | c("email")},
    ),
    "a union in which one side shows more": (
        f"SELECT COUNT(email) AS e FROM {ORDERS} GROUP BY {TUMBLE} UNION ALL SELECT LENGTH(email) AS e FROM {ORDERS}",
        {"e": o("email", "made")},
    ),
    "a count": (f"SELECT COUNT(email) AS n FROM {ORDERS} GROUP BY {TUMBLE}", {"n": o("email", "counted")}),
    "a count of everything": (f"SELECT COUNT(*) AS n FROM {ORDERS} GROUP BY {TUMBLE}", {"n": set()}),
    "a count of different values": (
        f"SELECT COUNT(DISTINCT LOWER(email)) AS n FROM {ORDERS} GROUP BY {TUMBLE}",
        {"n": o("email", "counted")},
    ),
    "a count of a count": (
        f"SELECT n + 1 AS m FROM (SELECT COUNT(email) AS n FROM {ORDERS} GROUP BY {TUMBLE}) AS q",
        {"m": o("email", "counted")},
    ),
    "an aggregate": (f"SELECT MAX(email) AS e FROM {ORDERS} GROUP BY {TUMBLE}", {"e": o("email", "made")}),
    "a count beside the value": (
        f"SELECT CONCAT(email, COUNT(email)) AS e FROM {ORDERS} GROUP BY email, {TUMBLE}",
        {"e": o("email", "made")},
    ),
    "the start of a window": (
        f"SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS w, COUNT(*) AS n FROM {ORDERS} GROUP BY {TUMBLE}",
        {"w": o("at", "made"), "n": set()},
    ),
    "OVER": (
        f"SELECT SUM(amount) OVER (PARTITION BY id ORDER BY at) AS s FROM {ORDERS}",
        {"s": o("amount", "made") | o("id", "made") | o("at", "made")},
    ),
    "an input whose columns are not known": (
        f"SELECT Thing AS t, UPPER(other) AS u FROM {OPEN}",
        {"t": {("open", "thing", "same")}, "u": {("open", "other", "made")}},
    ),
}


@pytest.mark.parametrize(("sql", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_every_output_is_traced_to_the_columns_it_is_made_from(
    project_graph: Link, sql: str, expected: dict[str, set[tuple[str, str, str]]]
) -> None:
    found = origins(project_graph(HEAD + model("m", sql)))
    assert {name: found.get(name) for name in expected} == expected
    if "USING" not in sql:
        assert found.keys() == expected.keys()


def test_a_shared_column_comes_from_both_sides(project_graph: Link) -> None:
    found = origins(project_graph(HEAD + model("m", f"SELECT id, amount FROM {ORDERS} JOIN {C} USING (id)")))
    assert {(node, name) for node, name, _ in found["id"]} == {("o", "id"), ("c", "id")}


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT x.v FROM {ORDERS} AS o CROSS JOIN UNNEST(o.xs) AS x(v)",
        f"SELECT v FROM {ORDERS} AS o LATERAL VIEW EXPLODE(o.xs) x AS v",
    ],
)
def test_what_is_taken_out_of_a_list_comes_from_the_list(project_graph: Link, sql: str) -> None:
    assert origins(project_graph(HEAD + model("m", sql))) == {"v": o("xs", "made")}


def test_an_expression_without_a_name_is_traced_under_the_name_it_gets(project_graph: Link) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT id, UPPER(email) FROM {ORDERS}"))
    names = [column.name for column in graph["model.m"].columns or ()]
    found = origins(graph)
    assert len(names) == 2
    assert names[0] == "id"
    assert list(found) == names
    assert found[names[1]] == o("email", "made")


def test_a_star_of_an_input_whose_columns_are_not_known_tells_nothing(project_graph: Link) -> None:
    node = project_graph(HEAD + model("m", f"SELECT * FROM {OPEN}"))["model.m"]
    assert (node.columns, node.column_origins) == (None, {})


def test_a_model_without_sql_hands_everything_on(project_graph: Link) -> None:
    graph = project_graph(HEAD + "  - {name: m, from: {source: c}, connector: print}\n")
    assert origins(graph) == {"id": c("id"), "email": c("email"), "Country": c("country")}


def test_the_manifest_has_the_lineage_of_every_column_as_it_is_spelled(project_graph: Link) -> None:
    text = HEAD + model("m", f"SELECT country AS land, COUNT(email) AS n FROM {C} GROUP BY country")
    node = next(n for n in compile(project_graph(text)).dag.nodes if n.id == "model.m")
    assert node.columns is not None
    assert [(column.name, [(f.node, f.column, f.way) for f in column.from_]) for column in node.columns] == [
        ("land", [("source.c", "Country", "same")]),
        ("n", [("source.c", "email", "counted")]),
    ]


# Up and down

CHAIN = (
    HEAD
    + model("a", f"SELECT id, email AS mail, amount FROM {ORDERS}")
    + model("b", "SELECT id, UPPER(mail) AS Big FROM {{ ref('a') }}")
    + model("d", "SELECT big AS final, COUNT(id) AS n FROM {{ ref('b') }} GROUP BY big")
    + model("e", "SELECT x.mail, y.final FROM {{ ref('a') }} x JOIN {{ ref('d') }} y ON x.mail = y.final")
)


def edges(found: list[column_lineage.ColumnEdge]) -> list[tuple[str, str, str]]:
    return [(str(edge.origin), str(edge.target), edge.way) for edge in found]


def test_everything_above_a_column_is_found_nearest_first(project_graph: Link) -> None:
    assert edges(column_lineage.upstream_edges(project_graph(CHAIN), "model.d", "final")) == [
        ("b.Big", "d.final", "same"),
        ("a.mail", "b.Big", "made"),
        ("o.email", "a.mail", "same"),
    ]


def test_everything_below_a_column_is_found_nearest_first(project_graph: Link) -> None:
    assert edges(column_lineage.downstream_edges(project_graph(CHAIN), "source.o", "email")) == [
        ("o.email", "a.mail", "same"),
        ("a.mail", "b.Big", "made"),
        ("a.mail", "e.mail", "same"),
        ("a.mail", "e", "join"),
        ("b.Big", "d.final", "same"),
        ("b.Big", "d", "group"),
        ("d.final", "e.final", "same"),
        ("d.final", "e", "join"),
    ]


def test_a_column_that_leads_nowhere_has_nothing_around_it(project_graph: Link) -> None:
    graph = project_graph(CHAIN)
    assert column_lineage.upstream_edges(graph, "source.o", "amount") == []
    assert column_lineage.downstream_edges(graph, "model.d", "n") == []
    assert column_lineage.render_tree("model.d", "n", [], []).endswith(
        "made from nothing here, and read by nothing here"
    )


def test_a_diamond_is_gone_through_once(project_graph: Link) -> None:
    text = HEAD + model("a", f"SELECT id FROM {ORDERS}") + model("b", "SELECT id AS x FROM {{ ref('a') }}")
    text += model("d", "SELECT id AS y FROM {{ ref('a') }}")
    text += model("m", "SELECT b.x + d.y AS z FROM {{ ref('b') }} b JOIN {{ ref('d') }} d ON b.x = d.y")
    up = column_lineage.upstream_edges(project_graph(text), "model.m", "z")
    assert edges(up) == [
        ("b.x", "m.z", "made"),
        ("d.y", "m.z", "made"),
        ("a.id", "b.x", "same"),
        ("a.id", "d.y", "same"),
        ("o.id", "a.id", "same"),
    ]
    assert column_lineage.render_tree("model.m", "z", up, []) + "\n" == plain("""
        m.z
          made from
          ├── b.x (in an expression)
          │   └── a.id
          │       └── o.id
          └── d.y (in an expression)
              └── a.id ...
    """)


def test_a_deep_chain_needs_no_deep_stack(project_graph: Link) -> None:
    text = HEAD + model("m0", f"SELECT id AS c0 FROM {ORDERS}")
    for step in range(1, 300):
        text += model(f"m{step}", f"SELECT c{step - 1} AS c{step} FROM {{{{ ref('m{step - 1}') }}}}")
    graph = project_graph(text)
    up = column_lineage.upstream_edges(graph, "model.m299", "c299")
    down = column_lineage.downstream_edges(graph, "source.o", "id")
    assert (len(up), len(down)) == (300, 300)
    assert column_lineage.render_tree("model.m299", "c299", up, []).count("\n") == 301


# Drawn


@pytest.fixture
def around(project_graph: Link) -> tuple[list[column_lineage.ColumnEdge], list[column_lineage.ColumnEdge]]:
    graph = project_graph(CHAIN)
    return column_lineage.upstream_edges(graph, "model.b", "Big"), column_lineage.downstream_edges(
        graph, "model.b", "Big"
    )


Around = tuple[list[column_lineage.ColumnEdge], list[column_lineage.ColumnEdge]]


def test_the_tree_has_both_directions(around: Around) -> None:
    assert column_lineage.render_tree("model.b", "Big", *around) + "\n" == plain("""
        b.Big
          made from
          └── a.mail (in an expression)
              └── o.email
          goes into
          ├── d.final
          │   ├── e.final
          │   └── e (joins by it)
          └── d (groups by it)
    """)


def test_json_has_every_edge_with_its_way(around: Around) -> None:
    found = column_lineage.as_json("model.b", "Big", *around)
    assert found["column"] == {"node": "model.b", "column": "Big"}
    assert found["upstream"][0] == {
        "from": {"node": "model.a", "column": "mail"},
        "to": {"node": "model.b", "column": "Big"},
        "way": "made",
    }
    assert [len(found[side]) for side in ("upstream", "downstream")] == [2, 4]


def test_mermaid_draws_every_edge_and_a_dotted_one_for_an_expression(around: Around) -> None:
    assert column_lineage.render_mermaid("model.b", "Big", *around).splitlines() == [
        "graph LR",
        '    c0["o.email"]',
        '    c1["a.mail"]',
        '    c2["b.Big"]',
        '    c3["d.final"]',
        '    c4["d"]',
        '    c5["e.final"]',
        '    c6["e"]',
        "    c0 --> c1",
        "    c1 -.-> c2",
        "    c2 --> c3",
        "    c2 -.-> c4",
        "    c3 --> c5",
        "    c3 -.-> c6",
    ]


def test_mermaid_of_a_column_alone_is_that_column_with_its_quotes_covered() -> None:
    assert column_lineage.render_mermaid("model.m", 'a"b', [], []) == 'graph LR\n    c0["m.a#quot;b"]'


# The command


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["lineage", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture
def _chain(tmp_path_factory: pytest.TempPathFactory, tmp_path: object) -> None:
    from pathlib import Path

    write(Path(str(tmp_path)), {MAIN: CHAIN})


@pytest.mark.usefixtures("_chain")
@pytest.mark.parametrize(
    ("flags", "sides"),
    [([], [2, 4]), (["--upstream"], [2, 0]), (["--downstream"], [0, 4]), (["--upstream", "--downstream"], [2, 4])],
)
def test_the_command_shows_the_directions_that_are_asked_for(flags: list[str], sides: list[int]) -> None:
    found = json.loads(call("--model", "b", "--column", "BIG", "--format", "json", *flags))
    assert found["column"] == {"node": "model.b", "column": "Big"}
    assert [len(found[side]) for side in ("upstream", "downstream")] == sides


@pytest.mark.usefixtures("_chain")
def test_the_command_draws_a_column_as_text_or_as_mermaid() -> None:
    assert call("--model", "b", "--column", "Big").startswith("b.Big\n  made from\n")
    assert call("--model", "b", "--column", "Big", "--format", "mermaid").startswith("graph LR\n")


@pytest.mark.usefixtures("_chain")
def test_a_column_that_is_not_there_is_refused_with_the_nearest() -> None:
    from penstock.errors import ProjectInvalid

    with pytest.raises(ProjectInvalid) as caught:
        call("--model", "b", "--column", "Bigg")
    assert (caught.value.code, caught.value.hint) == ("sql-unknown-column", "did you mean `Big`?")


def test_filters_joins_and_groupings_are_readers_of_a_column(project_graph: Link) -> None:
    text = """\
project: {name: p}
sources:
  - {name: s, topic: t, columns: [{name: id, type: BIGINT}, {name: k, type: STRING}, {name: v, type: INT}]}
  - {name: u, topic: v, columns: [{name: id, type: BIGINT}, {name: x, type: INT}]}
models:
  - {name: f, sql: 'SELECT id FROM (SELECT id, v AS w FROM {{ source("s") }}) WHERE w > 1'}
  - {name: j, sql: 'SELECT u.x FROM {{ source("s") }} s JOIN {{ source("u") }} u ON s.id = u.id'}
  - {name: g, sql: 'SELECT COUNT(*) AS n FROM {{ source("s") }} GROUP BY k'}
"""
    graph = project_graph(text)

    def readers(column: str) -> set[tuple[str, str, str]]:
        return {
            (e.target.node, e.target.column, e.way) for e in column_lineage.downstream_edges(graph, "source.s", column)
        }

    assert readers("v") == {("model.f", "", "filter")}
    assert readers("k") == {("model.g", "", "group")}
    assert readers("id") == {("model.f", "id", "same"), ("model.j", "", "join")}
    drawn = column_lineage.render_tree("source.s", "v", [], column_lineage.downstream_edges(graph, "source.s", "v"))
    assert "f (filters by it)" in drawn
    found = column_lineage.as_json("source.s", "v", [], column_lineage.downstream_edges(graph, "source.s", "v"))[
        "downstream"
    ][0]
    assert (found["to"], found["way"]) == ({"node": "model.f", "column": None}, "filter")
