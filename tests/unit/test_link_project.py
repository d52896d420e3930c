import pytest

from penstock.errors import Severity
from penstock.graph.graph import EventTimeColumn
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Findings, Link

HEAD = """\
project: {name: p}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: name, type: STRING}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 2000}}
  - {name: visits, topic: visits.v1}
models:
"""


def model(name: str, sql: str) -> str:
    return f"  - name: {name}\n    sql: |\n      {sql}\n"


# Names


def test_an_unknown_source_is_reported_with_the_nearest_name(project: Findings) -> None:
    text = HEAD + model("m", 'SELECT id FROM {{ source("order") }}')
    found = only(project(text))
    assert (found.code, found.path, found.params) == ("unknown-source", "models.m.sql", {"name": "order"})
    assert found.origin == spot(MAIN, text, "{{ source")
    assert found.hint == "did you mean `orders`?"


def test_an_unknown_model_is_reported_with_the_nearest_name(project: Findings) -> None:
    text = (
        HEAD + model("clean", 'SELECT id FROM {{ source("orders") }}') + model("m", 'SELECT id FROM {{ ref("claen") }}')
    )
    found = only(project(text))
    assert (found.code, found.params) == ("unknown-model", {"name": "claen"})
    assert found.origin == spot(MAIN, text, "{{ ref")
    assert found.hint == "did you mean `clean`?"


def test_a_name_that_is_like_no_other_is_answered_with_the_list(project: Findings) -> None:
    found = only(project(HEAD + model("m", 'SELECT id FROM {{ source("xyz") }}')))
    assert found.hint == "available: orders, visits"


@pytest.mark.parametrize(("call", "hint"), [('ref("orders")', 'source("orders")'), ('source("m")', 'ref("m")')])
def test_ref_and_source_mixed_up_are_told_apart(project: Findings, call: str, hint: str) -> None:
    text = HEAD + model("m", 'SELECT id FROM {{ source("orders") }}') + model("n", f"SELECT id FROM {{{{ {call} }}}}")
    found = only(project(text))
    assert found.hint is not None
    assert hint in found.hint


def test_unknown_names_in_from_and_in_exposures_are_reported_at_each_name(project: Findings) -> None:
    text = (
        HEAD
        + """\
  - name: m
    from: [{source: ordrs}, nobody]
    advanced: {connector: {type: print}}
exposures:
  - {name: e, type: api, consumes: [mm], depends_on: [{source: visit}], produces: [{ref: none}]}
"""
    )
    found = project(text)
    assert [(d.code, d.path, d.params["name"]) for d in found] == [
        ("unknown-source", "models.m.from", "ordrs"),
        ("unknown-model", "models.m.from", "nobody"),
        ("unknown-model", "exposures.e.consumes", "mm"),
        ("unknown-source", "exposures.e.depends_on", "visit"),
        ("unknown-model", "exposures.e.produces", "none"),
    ]
    places = ["{source: ordrs", "nobody", "mm", "{source: visit}", "{ref: none}"]
    assert [d.origin for d in found] == [spot(MAIN, text, word) for word in places]


def test_a_name_with_a_dot_is_a_name(check: Check) -> None:
    text = HEAD + model("clean.orders", 'SELECT id FROM {{ source("orders") }}')
    text += model("m", 'SELECT id FROM {{ ref("clean.orders") }}')
    graph, found = check({MAIN: text})
    assert found == ()
    assert graph is not None
    assert graph["model.m"].inputs == ("model.clean.orders",)


def test_sources_whose_names_differ_in_case_only_are_refused(project: Findings) -> None:
    found = only(project("project: {name: p}\nsources: [{name: s, topic: one}, {name: S, topic: two}]\n"))
    assert (found.code, found.params) == ("duplicate-name", {"name": "S"})


@pytest.mark.parametrize("name", ["a b", "", "..", "ä", "x" * 250, "a/b"])
def test_a_topic_that_cannot_exist_is_refused_where_it_is_named(project: Findings, name: str) -> None:
    text = f"""
        project: {{name: p}}
        sources: [{{name: s, topic: t}}]
        models:
          - name: m
            sql: SELECT id FROM {{{{ source("s") }}}}
            advanced:
              topic: {{name: "{name}"}}
    """
    found = only(project(text))
    assert (found.code, found.path) == ("invalid-value", "models.m.advanced.topic.name")
    assert found.origin is not None
    assert found.origin.line == 7


def test_two_models_cannot_write_one_topic(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - {name: a, sql: 'SELECT id FROM {{ source("s") }}', advanced: {topic: {name: b}}}
          - {name: b, sql: 'SELECT id FROM {{ source("s") }}'}
    """
    found = only(errors(project(text)))
    assert found.code == "duplicate-name"


def test_a_model_cannot_write_the_topic_it_reads(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - {name: a, sql: 'SELECT id FROM {{ source("s") }}', advanced: {topic: {name: t}}}
    """
    assert len(errors(project(text))) == 1


# Cycles


def test_a_cycle_is_refused_with_its_path(project: Findings) -> None:
    text = HEAD + model("a", 'SELECT id FROM {{ ref("b") }}') + model("b", 'SELECT id FROM {{ ref("c") }}')
    text += model("c", 'SELECT id FROM {{ ref("a") }}')
    found = only(project(text))
    assert (found.code, found.path) == ("cycle", "models.a")
    assert found.params == {"path": "a -> b -> c -> a"}
    assert found.origin == spot(MAIN, text, "name: a\n")
    assert found.hint


def test_a_model_that_reads_itself_is_a_cycle(project: Findings) -> None:
    found = only(project(HEAD + model("a", 'SELECT id FROM {{ ref("a") }}')))
    assert (found.code, found.params) == ("cycle", {"path": "a -> a"})


def test_every_cycle_is_reported_and_readers_of_one_are_not(project: Findings) -> None:
    text = HEAD + "".join(
        model(name, f'SELECT id FROM {{{{ ref("{read}") }}}}')
        for name, read in [("a", "b"), ("b", "a"), ("x", "y"), ("y", "x"), ("reader", "a")]
    )
    assert [d.params["path"] for d in project(text)] == ["a -> b -> a", "x -> y -> x"]


# SQL and its place in the file

BLOCKS = {
    "a literal block": '    sql: |\n      SELECT id\n      FROM {{ source("orders") }}\n      WHERE wrong > 1\n',
    "a folded block": '    sql: >\n      SELECT id\n      FROM {{ source("orders") }}\n      WHERE wrong > 1\n',
    "a literal block, after a call": '    sql: |\n      SELECT id FROM {{ source("orders") }} WHERE wrong > 1\n',
    "a folded block, after a call": '    sql: >-\n      SELECT id\n      FROM {{ source("orders") }} WHERE wrong > 1\n',
    "a plain text": '    sql: SELECT id FROM {{ source("orders") }} WHERE wrong > 1\n',
    "a plain text of two lines": '    sql: SELECT id\n      FROM {{ source("orders") }} WHERE wrong > 1\n',
    "double quotes": "    sql: \"SELECT id FROM {{ source('orders') }} WHERE wrong > 1\"\n",
    "double quotes with escapes": '    sql: "SELECT id FROM {{ source(\\"orders\\") }} WHERE wrong > 1"\n',
    "single quotes": "    sql: 'SELECT id FROM {{ source(\"orders\") }} WHERE wrong > 1'\n",
    "single quotes with escapes": "    sql: 'SELECT id FROM {{ source(''orders'') }} WHERE wrong > 1'\n",
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_a_missing_column_is_reported_with_its_place_in_the_yaml_file(project: Findings, block: str) -> None:
    text = f"{HEAD}  - name: m\n{block}"
    found = only(project(text))
    assert (found.code, found.path, found.params) == ("sql-unknown-column", "models.m.sql", {"subject": "wrong"})
    assert found.origin == spot(MAIN, text, "wrong")


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_sql_that_does_not_parse_is_reported_with_its_place_in_the_yaml_file(project: Findings, block: str) -> None:
    text = f"{HEAD}  - name: m\n{block.replace('wrong > 1', 'AND wrong')}"
    found = only(project(text))
    assert (found.code, found.path) == ("sql-syntax", "models.m.sql")
    assert found.origin == spot(MAIN, text, "wrong")


def test_a_missing_output_column_is_reported(project: Findings) -> None:
    text = HEAD + model("m", 'SELECT id, nme FROM {{ source("orders") }}')
    found = only(project(text))
    assert (found.code, found.params) == ("sql-unknown-column", {"subject": "nme"})
    assert found.origin == spot(MAIN, text, "nme")
    assert found.hint == "did you mean `name`?"


def test_a_column_that_a_model_does_not_hand_on_is_missing_in_its_reader(project: Findings) -> None:
    text = HEAD + model("a", 'SELECT id FROM {{ source("orders") }}')
    text += model("b", 'SELECT id FROM {{ ref("a") }} WHERE name = 1')
    found = only(project(text))
    assert (found.path, found.params) == ("models.b.sql", {"subject": "name"})


def test_a_template_that_is_none_of_ours_is_reported_at_its_place(project: Findings) -> None:
    text = HEAD + model("m", 'SELECT id FROM {{ sauce("orders") }}')
    found = only(project(text))
    assert (found.code, found.params) == ("template-syntax", {"subject": "sauce"})
    assert found.origin == spot(MAIN, text, "{{ sauce")
    assert found.hint is not None
    assert "source" in found.hint


def test_a_table_read_directly_is_refused_with_what_to_write(project: Findings) -> None:
    text = HEAD + model("m", 'SELECT o.id FROM {{ source("orders") }} o JOIN visits v ON o.id = v.id')
    found = only(project(text))
    assert (found.code, found.params) == ("sql-unknown-table", {"subject": "visits"})
    assert found.origin == spot(MAIN, text, "visits v")
    assert found.hint is not None
    assert '{{ source("visits") }}' in found.hint


@pytest.mark.parametrize("sql", ["SELECT 1 AS one", "INSERT INTO x SELECT 1", '""'])
def test_a_model_is_a_select_that_reads_something(project: Findings, sql: str) -> None:
    found = only(project(f"{HEAD}  - name: m\n    sql: {sql}\n"))
    assert found.code == "sql-statement"
    assert found.origin is not None
    assert found.origin.line == 10


def test_what_cannot_run_as_a_stream_is_reported_with_the_way_out(project: Findings) -> None:
    sql = 'SELECT id FROM {{ source("orders") }} WHERE id IN (SELECT id FROM {{ source("visits") }}) ORDER BY name'
    text = HEAD + model("m", sql)
    found = project(text)
    assert [d.params["subject"] for d in found] == ["IN (SELECT …)", "ORDER BY"]
    assert found[1].origin == spot(MAIN, text, "ORDER BY")
    assert all(d.hint for d in found)


def test_a_pattern_of_rows_is_refused_by_name_and_nothing_else_is_said_about_it(project: Findings) -> None:
    pattern = "MATCH_RECOGNIZE (PARTITION BY id ORDER BY name MEASURES A.id AS i PATTERN (A B) DEFINE B AS B.id > 1)"
    text = HEAD + model("m", f'SELECT * FROM {{{{ source("orders") }}}} {pattern} AS p')
    found = only(project(text))
    assert (found.code, found.params["subject"]) == ("sql-unsupported", "MATCH_RECOGNIZE")
    assert found.severity == Severity.ERROR
    assert found.hint


def test_a_window_needs_a_time(project: Findings) -> None:
    window = "TUMBLE(LOWER(at), INTERVAL '1' HOUR)"
    text = HEAD + model("m", f'SELECT COUNT(*) AS n FROM {{{{ source("visits") }}}} GROUP BY {window}')
    found = only(project(text))
    assert found.code == "window-without-event-time"
    assert found.origin is not None
    assert found.origin.line == 11
    assert found.hint


def test_a_window_says_nothing_of_an_event_time_that_the_source_does_not_have(project: Findings) -> None:
    text = """
    project: {name: p}
    sources:
      - {name: s, topic: s, columns: [{name: at, type: TIMESTAMP(3)}], event_time: {column: nope}}
    models:
      - name: m
        sql: SELECT COUNT(*) AS n FROM {{ source("s") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
    """
    assert only(project(text)).code == "event-time-missing"


def test_several_mistakes_of_several_stages_are_reported_together(check: Check) -> None:
    files = {
        MAIN: "project: {name: p, name: q}\non: x\n",
        "sources/s.yml": (
            "sources:\n  - {name: s, topic: t, colour: red}\n"
            "  - {name: u, topic: u, columns: [{name: id, type: INT}]}\n"
        ),
        "models/m.yml": (
            "models:\n"
            "  - {name: a, sql: 'SELECT id FROM {{ ref(\"gone\") }}'}\n"
            "  - {name: b, sql: 'SELECT id FROM {{ source(\"u\") }} WHERE nope = 1'}\n"
            "  - {name: c, sql: 'SELECT (id FROM {{ source(\"u\") }}'}\n"
            "  - {name: d, sql: 'SELECT id FROM {{ ref(\"d\") }}'}\n"
            "  - {name: d, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n"
        ),
    }
    found = check(files)[1]
    assert [(d.origin.file, d.origin.line, d.code) for d in found if d.origin] == [
        (MAIN, 1, "yaml-duplicate-key"),
        (MAIN, 2, "yaml-boolean-key"),
        ("sources/s.yml", 2, "unknown-field"),
        ("models/m.yml", 5, "cycle"),
        ("models/m.yml", 6, "duplicate-name"),
        ("models/m.yml", 2, "unknown-model"),
        ("models/m.yml", 3, "sql-unknown-column"),
        ("models/m.yml", 4, "sql-syntax"),
    ]


def test_a_reference_to_an_element_that_could_not_be_read_is_no_second_mistake(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s}]
        models:
          - {name: a, ownr: me, sql: 'SELECT id FROM {{ source("s") }}'}
          - {name: b, sql: 'SELECT id FROM {{ ref("a") }}'}
        exposures: [{name: e, type: api, consumes: [a]}]
    """
    assert codes(project(text)) == ["missing-field", "unknown-field"]


# Columns, event time and keys of sources


def test_a_column_of_an_unknown_type_is_reported(project: Findings) -> None:
    text = """
        project: {name: p}
        sources:
          - {name: s, topic: t, columns: [{name: a, type: BIGNT}, {name: b, type: 'ARRAY<STRNG>'}]}
    """
    found = project(text)
    assert codes(found) == ["unknown-column-type"] * 2
    assert [d.origin for d in found] == [spot(MAIN, text, "BIGNT"), spot(MAIN, text, "'ARRAY")]


def test_an_event_time_that_is_no_column_is_reported(project: Findings) -> None:
    text = """
        project: {name: p}
        sources:
          - {name: s, topic: t, columns: [{name: happened_at, type: STRING}], event_time: {column: hapened_at}}
    """
    found = only(project(text))
    assert (found.code, found.path) == ("event-time-missing", "sources.s.event_time.column")
    assert found.origin == spot(MAIN, text, "hapened_at")
    assert found.hint == "did you mean `happened_at`?"


def test_an_event_time_of_text_is_read_as_a_timestamp(project_graph: Link) -> None:
    graph = project_graph("""
        project: {name: p}
        sources: [{name: s, topic: t, columns: [{name: at, type: STRING}, {name: b}], event_time: {column: at}}]
    """)
    assert [(c.name, c.type) for c in graph["source.s"].columns or ()] == [("at", "TIMESTAMP"), ("b", "STRING")]


def test_event_time_survives_a_model_under_its_new_name(project_graph: Link) -> None:
    text = HEAD + model("a", 'SELECT id, at AS happened FROM {{ source("orders") }}')
    text += model("b", 'SELECT * FROM {{ ref("a") }}') + model("c", 'SELECT id FROM {{ ref("b") }}')
    graph = project_graph(text)
    assert graph["model.b"].event_time == EventTimeColumn("happened", 2000)
    assert graph["model.c"].event_time is None


def test_a_key_that_is_no_output_is_reported(project: Findings) -> None:
    text = HEAD + '  - {name: m, key: "id, nme", sql: \'SELECT id, name FROM {{ source("orders") }}\'}\n'
    found = only(project(text))
    assert (found.code, found.path, found.params) == ("primary-key-missing", "models.m.key", {"column": "nme"})


def test_a_key_has_the_spelling_of_its_columns(project_graph: Link) -> None:
    text = HEAD + "  - {name: m, key: ID, sql: 'SELECT id, name FROM {{ source(\"orders\") }}'}\n"
    assert project_graph(text)["model.m"].key == ("id",)


# Materialization


@pytest.mark.parametrize(
    ("sql", "materialized"),
    [
        ('SELECT id FROM {{ source("orders") }}', "topic"),
        ('SELECT id FROM {{ source("orders") }} UNION ALL SELECT id FROM {{ source("visits") }}', "topic"),
        (
            "SELECT o.id FROM {{ source('orders') }} o JOIN {{ source('orders') }} v ON o.id = v.id AND o.at = v.at",
            "spark",
        ),
        ("SELECT COUNT(*) AS n FROM {{ source('orders') }} GROUP BY TUMBLE(at, INTERVAL '1' DAY)", "spark"),
        ("SELECT COUNT(*) AS n FROM {{ source('orders') }} GROUP BY id, SESSION(at, INTERVAL '1' DAY)", "spark"),
        ("SELECT 'GROUP BY' AS text FROM {{ source('orders') }} -- JOIN", "topic"),
    ],
)
def test_materialization_follows_from_the_sql(check: Check, sql: str, materialized: str) -> None:
    graph, found = check({MAIN: HEAD + model("m", sql)})
    assert found == ()
    assert graph is not None
    assert graph["model.m"].materialized == materialized


def test_stateless_sql_with_a_gateway_is_a_virtual_topic(check: Check) -> None:
    text = HEAD.replace("sources:", "runtime: {conduktor: {gateway: {admin_url: x}}}\nsources:", 1)
    graph, found = check({MAIN: text + model("m", 'SELECT id FROM {{ source("orders") }}')})
    assert found == ()
    assert graph is not None
    assert graph["model.m"].materialized == "virtual_topic"


def test_a_virtual_topic_without_a_gateway_is_told_to_be_a_view(check: Check) -> None:
    text = HEAD + "  - {name: m, materialized: virtual_topic, sql: 'SELECT id FROM {{ source(\"orders\") }}'}\n"
    graph, found = check({MAIN: text})
    assert graph is not None
    note = only(found)
    assert (note.code, note.severity, note.path) == ("gateway-absent", Severity.INFO, "models.m.materialized")
    assert note.origin == spot(MAIN, text, "virtual_topic")


def test_from_without_sql_is_a_sink_and_needs_a_connector(check: Check) -> None:
    found = only(check({MAIN: f"{HEAD}  - {{name: m, from: {{source: orders}}}}\n"})[1])
    assert (found.code, found.params) == ("missing-field", {"field": "connector"})
    assert found.hint is not None
    assert "advanced" in found.hint


def test_a_connector_is_never_dropped_in_silence(check: Check) -> None:
    """SQL and a connector together: a sink, or a word about it."""
    connector = "    advanced: {connector: {type: print}}\n"
    text = HEAD + model("m", 'SELECT id FROM {{ source("orders") }}') + connector
    graph, found = check({MAIN: text})
    assert found or (graph is not None and graph["model.m"].materialized == "sink")


# Columns that files tell


def test_the_columns_of_a_source_are_found_in_its_files(check: Check) -> None:
    files = {
        MAIN: "project: {name: p}\nsources: [{name: s, topic: t}]\n"
        + "models:\n"
        + model("m", 'SELECT UPPER(nam) AS n FROM {{ source("s") }}'),
        ".penstock/topics/t/a.csv": "id,name\n1,x\n",
    }
    found = only(check(files)[1])
    assert (found.code, found.params, found.hint) == (
        "sql-unknown-column",
        {"subject": "nam"},
        "did you mean `name`?",
    )
