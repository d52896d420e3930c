"""Models whose SQL stands in a file of its own."""

import pytest

from penstock.errors import Origin
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check

HEAD = "project: {name: p}\nsources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}, {name: name}]}]\n"
SQL = "SELECT id FROM {{ source('s') }}\n"


def test_a_file_of_sql_is_a_model_of_its_name(check: Check) -> None:
    graph, found = check({MAIN: HEAD, "models/deep/er/orders.sql": SQL})
    assert found == ()
    assert graph is not None
    node = graph["model.orders"]
    assert (node.inputs, node.materialized, node.origin) == (
        ("source.s",),
        "topic",
        Origin("models/deep/er/orders.sql", 1, 1),
    )


def test_yaml_says_what_the_file_does_not(check: Check) -> None:
    files = {
        MAIN: HEAD,
        "models/orders.sql": SQL,
        "models/orders.yml": "models: [{name: orders, owner: me, columns: [{name: id}]}]\n",
    }
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert graph["model.orders"].owner == "me"
    assert graph["model.orders"].query is not None
    assert [n for n in graph.nodes if n.startswith("model.")] == ["model.orders"]


def test_yaml_in_the_main_file_speaks_of_it_as_well(check: Check) -> None:
    graph, found = check({MAIN: HEAD + "models: [{name: orders, tags: [a]}]\n", "models/orders.sql": SQL})
    assert found == ()
    assert graph is not None
    assert graph["model.orders"].tags == ("a",)


def test_files_read_each_other(check: Check) -> None:
    files = {MAIN: HEAD, "models/b.sql": "SELECT id FROM {{ ref('a') }}", "models/a.sql": SQL}
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert list(graph.nodes) == ["source.s", "model.a", "model.b"]


def test_sql_in_yaml_and_in_a_file_is_refused(check: Check) -> None:
    text = "models: [{name: orders, sql: SELECT 1}]\n"
    found = only(errors(check({MAIN: HEAD, "models/orders.sql": SQL, "models/m.yml": text})[1]), "given-twice")
    assert (found.path, found.origin) == ("models.orders.sql", spot("models/m.yml", text, "SELECT 1"))
    assert "models/orders.sql" in found.message


def test_two_files_of_one_name_are_refused(check: Check) -> None:
    found = only(check({MAIN: HEAD, "models/a/orders.sql": SQL, "models/b/orders.sql": SQL})[1])
    assert (found.code, found.params) == ("duplicate-name", {"name": "orders"})
    assert found.origin == Origin("models/b/orders.sql", 1, 1)
    assert "models/a/orders.sql" in found.message


@pytest.mark.parametrize(
    "files",
    [
        {
            "models/Orders.sql": SQL,
            "models/m.yml": "models: [{name: orders, sql: \"SELECT id FROM {{ source('s') }}\"}]\n",
        },
        {"models/Orders.sql": SQL, "models/x/orders.sql": SQL},
    ],
)
def test_names_that_differ_in_case_only_are_refused(check: Check, files: dict[str, str]) -> None:
    assert codes(check({MAIN: HEAD, **files})[1]) == ["duplicate-name"]


def test_a_mistake_in_the_sql_is_reported_in_its_file(check: Check) -> None:
    sql = "-- note\nSELECT id,\n  nme\nFROM {{ source('s') }}\n"
    found = only(check({MAIN: HEAD, "models/orders.sql": sql, "models/m.yml": "models: [{name: orders}]\n"})[1])
    assert (found.code, found.path) == ("sql-unknown-column", "models.orders.sql")
    assert found.origin == spot("models/orders.sql", sql, "nme")


def test_a_mistake_in_the_yaml_is_reported_there(check: Check) -> None:
    text = "models:\n  - name: orders\n    key: nothing\n"
    found = only(check({MAIN: HEAD, "models/orders.sql": SQL, "models/m.yml": text})[1])
    assert (found.code, found.origin) == ("primary-key-missing", spot("models/m.yml", text, "nothing"))


def test_a_model_whose_yaml_is_refused_is_not_made_from_its_file_alone(check: Check) -> None:
    files = {
        MAIN: HEAD,
        "models/orders.sql": "{{ gone }}",
        "models/m.yml": "models: [{name: orders, owner: [me]}]\n",
        "models/reader.sql": "SELECT id FROM {{ ref('orders') }}\n",
    }
    assert codes(check(files)[1]) == ["wrong-type"]


def test_a_refused_source_of_the_same_name_does_not_take_the_model_with_it(check: Check) -> None:
    files = {
        MAIN: HEAD + "",
        "sources/x.yml": "sources: [{name: orders, topc: t, topic: u}]\n",
        "models/orders.sql": SQL,
        "models/reader.sql": "SELECT id FROM {{ ref('orders') }}\n",
    }
    assert codes(check(files)[1]) == ["unknown-field"]


@pytest.mark.parametrize("sql", ["", "  \n", "-- only a note\n", "{# nothing #}\n", "{% if 0 %}SELECT 1{% endif %}"])
def test_a_file_without_a_statement_is_refused_at_its_place(check: Check, sql: str) -> None:
    found = only(check({MAIN: HEAD, "models/orders.sql": sql.encode()})[1])
    assert (found.code, found.path) == ("sql-statement", "models.orders.sql")
    assert found.origin is not None
    assert found.origin.file == "models/orders.sql"


def test_a_file_that_is_no_text_is_reported(check: Check) -> None:
    found = only(check({MAIN: HEAD, "models/orders.sql": b"SELECT \xff"})[1])
    assert (found.code, found.origin) == ("file-unreadable", Origin("models/orders.sql"))


def test_a_byte_order_mark_does_not_matter(check: Check) -> None:
    assert check({MAIN: HEAD, "models/orders.sql": b"\xef\xbb\xbf" + SQL.encode()})[1] == ()


def test_hidden_files_are_not_read(check: Check) -> None:
    files = {MAIN: HEAD, "models/.orders.sql": "nonsense", "models/.git/x.sql": "nonsense", "models/x.sql~": "nonsense"}
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert list(graph.nodes) == ["source.s"]


# config()


def test_config_says_what_yaml_would(check: Check) -> None:
    sql = (
        "{{ config(\n  materialized='spark', owner='me', key='id',\n"
        "  advanced={'topic': {'name': 'orders.v1', 'partitions': 3}}) }}\n" + SQL
    )
    graph, found = check({MAIN: HEAD, "models/orders.sql": sql})
    assert found == ()
    assert graph is not None
    node = graph["model.orders"]
    assert (node.materialized, node.owner, node.key) == ("spark", "me", ("id",))
    assert node.topic is not None
    assert (node.topic.name, node.topic.partitions) == ("orders.v1", 3)


def test_config_and_yaml_add_up(check: Check) -> None:
    files = {
        MAIN: HEAD,
        "models/orders.sql": "{{ config(owner='me') }}" + SQL,
        "models/m.yml": "models: [{name: orders, tags: [a]}]\n",
    }
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert (graph["model.orders"].owner, graph["model.orders"].tags) == ("me", ("a",))


def test_config_may_use_older_forms(check: Check) -> None:
    graph, found = check({MAIN: HEAD, "models/orders.sql": "{{ config(topic={'name': 'x.v1'}) }}" + SQL})
    assert codes(found) == ["deprecated-form"]
    assert graph is not None
    assert graph["model.orders"].topic is not None
    assert graph["model.orders"].topic.name == "x.v1"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("config(ownr='me')", "unknown-field"),
        ("config(materialized='tpic')", "unknown-value"),
        ("config(tags=5)", "wrong-type"),
        ("config(name='other')", "given-twice"),
        ("config('materialized')", "template-syntax"),
    ],
)
def test_a_mistake_in_config_is_reported_in_the_file(check: Check, call: str, code: str) -> None:
    found = errors(check({MAIN: HEAD, "models/orders.sql": f"{{{{ {call} }}}}\n{SQL}"})[1])
    assert codes(found) == [code]
    assert found[0].origin is not None
    assert found[0].origin.file == "models/orders.sql"


def test_a_place_after_config_is_right(check: Check) -> None:
    sql = "{{ config(owner='me') }}\nSELECT nme FROM {{ source('s') }}\n"
    assert only(check({MAIN: HEAD, "models/orders.sql": sql})[1]).origin == spot("models/orders.sql", sql, "nme")
