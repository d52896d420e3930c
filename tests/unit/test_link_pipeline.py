import json

import pytest

from penstock.errors import Severity
from penstock.graph.analysis import match_spelling
from penstock.sql.types.columns import Column
from tests.support import codes, only, spot
from tests.unit.conftest import PIPELINE, Check, Compile, Findings, Link

HEAD = """\
sources:
  Orders: {type: generator, columns: {id: {kind: sequence}, name: {kind: text}, price: {kind: uniform}}}
  raw.visits: {type: generator, columns: {id: {kind: sequence}}}
transforms:
"""
BOTH = """\
  all_orders: {type: print, from: Orders}
  all_visits: {type: print, from: raw.visits}
"""


def transform(name: str, sql: str, key: str = "id") -> str:
    return f"  {name}:\n    type: sql\n    primary_key: {key}\n    sql: |\n      {sql}\n"


def sinks(*names: str) -> str:
    return f"sinks:\n{BOTH}" + "".join(f"  out_{n}: {{type: print, from: '{name}'}}\n" for n, name in enumerate(names))


def test_a_sound_pipeline_has_nothing_to_report(check: Check) -> None:
    text = HEAD + transform("clean", "SELECT id, upper(name) AS name FROM orders") + sinks("clean")
    graph, found = check({PIPELINE: text}, PIPELINE)
    assert found == ()
    assert graph is not None
    assert graph["sink.out_0"].inputs == ("transform.clean",)
    assert graph["sink.out_0"].key == ("id",)
    assert [c.name for c in graph["sink.out_0"].columns or ()] == ["id", "name", "_gs_op"]


def test_an_unknown_upstream_of_a_transform_is_reported_at_its_name(pipeline: Findings) -> None:
    text = HEAD + transform("clean", "SELECT id FROM Ordrs") + sinks("clean")
    found = only(pipeline(text))
    assert (found.code, found.path) == ("unknown-upstream", "transforms.clean.sql")
    assert found.origin == spot(PIPELINE, text, "Ordrs")
    assert found.hint == "did you mean `Orders`?"


def test_an_unknown_upstream_of_a_sink_is_reported_at_its_name(pipeline: Findings) -> None:
    text = HEAD + transform("clean", "SELECT id FROM Orders") + sinks("clean", "claen")
    found = only(pipeline(text))
    assert (found.code, found.path) == ("unknown-upstream", "sinks.out_1.from")
    assert found.origin == spot(PIPELINE, text, "'claen'")
    assert found.hint == "did you mean `clean`?"


def test_an_unknown_upstream_is_named_in_the_same_parameter_everywhere(pipeline: Findings) -> None:
    found = pipeline(HEAD + transform("clean", "SELECT id FROM gone") + sinks("clean", "lost"))
    assert [d.params.get("name") for d in found] == ["gone", "lost"]


def test_a_sink_cannot_read_from_a_sink(pipeline: Findings) -> None:
    assert codes(pipeline(HEAD.replace("transforms:\n", "") + sinks("all_orders"))) == ["unknown-upstream"]


def test_a_source_without_a_reader_is_reported(pipeline: Findings) -> None:
    text = HEAD.replace("transforms:\n", "sinks:\n  o: {type: print, from: Orders}\n")
    found = only(pipeline(text))
    assert (found.code, found.path, found.params) == ("no-consumer", "sources.raw.visits", {"name": "raw.visits"})
    assert found.origin == spot(PIPELINE, text, "raw.visits")
    assert "Remove them or connect them to a transform or sink." in found.message


def test_all_orphans_are_in_one_sentence(pipeline: Findings) -> None:
    text = HEAD + transform("lonely", "SELECT id FROM Orders") + "sinks:\n  o: {type: print, from: Orders}\n"
    found = only(pipeline(text))
    assert "have no consumers: raw.visits, lonely. Remove" in found.message
    assert found.origin == spot(PIPELINE, text, "raw.visits")
    assert f"`lonely` is at {spot(PIPELINE, text, 'lonely:')}" in (found.hint or "")


def test_a_transform_without_a_reader_is_reported(pipeline: Findings) -> None:
    text = HEAD + transform("a", "SELECT id FROM Orders") + transform("b", "SELECT id FROM a") + sinks()
    found = only(pipeline(text))
    assert (found.code, found.params) == ("no-consumer", {"name": "b"})
    assert found.origin == spot(PIPELINE, text, "b:")


def test_an_orphan_is_reported_beside_a_mistake_that_has_nothing_to_do_with_it(pipeline: Findings) -> None:
    text = HEAD + transform("lonely", "SELECT id FROM Orders")
    text += transform("wrong", "SELECT id FROM raw.visits WHERE nothing = 1") + sinks("wrong")
    assert codes(pipeline(text)) == ["no-consumer", "sql-unknown-column"]


def test_a_cycle_is_refused_with_its_path(pipeline: Findings) -> None:
    text = HEAD + transform("a", "SELECT id FROM b") + transform("b", "SELECT id FROM a") + sinks("b")
    found = only(pipeline(text))
    assert (found.code, found.params) == ("cycle", {"path": "a -> b -> a"})
    assert found.origin == spot(PIPELINE, text, "a:\n")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT raw.visits.id FROM raw.visits",
        "SELECT visits.id FROM raw.visits",
        "SELECT v.id FROM Raw.Visits AS v",
        'SELECT id FROM "raw"."visits"',
        'SELECT id FROM "raw.visits"',
    ],
)
def test_a_name_with_a_dot_is_read_as_schema_and_table(check: Check, sql: str) -> None:
    graph, found = check({PIPELINE: HEAD + transform("clean.visits", sql) + sinks("clean.visits")}, PIPELINE)
    assert found == ()
    assert graph is not None
    assert graph["transform.clean.visits"].inputs == ("source.raw.visits",)
    assert graph["sink.out_0"].inputs == ("transform.clean.visits",)


def test_transforms_may_stand_in_any_order(pipeline_graph: Link) -> None:
    text = HEAD + transform("last", "SELECT id FROM middle") + transform("middle", "SELECT id FROM first")
    graph = pipeline_graph(text + transform("first", "SELECT id FROM Orders") + sinks("last"))
    transforms = [n for n in graph.nodes if n.startswith("transform.")]
    assert transforms == ["transform.first", "transform.middle", "transform.last"]


def test_a_cte_hides_a_node_of_its_name(pipeline_graph: Link) -> None:
    sql = "WITH orders AS (SELECT id FROM raw.visits) SELECT id FROM orders"
    assert pipeline_graph(HEAD + transform("t", sql) + sinks("t"))["transform.t"].inputs == ("source.raw.visits",)


def test_a_missing_column_is_reported_with_its_place(pipeline: Findings) -> None:
    text = HEAD + transform("t", "SELECT id, nme FROM Orders WHERE pric > 1") + sinks("t")
    found = pipeline(text)
    assert [(d.code, d.params["subject"], d.hint) for d in found] == [
        ("sql-unknown-column", "nme", "did you mean `name`?"),
        ("sql-unknown-column", "pric", "did you mean `price`?"),
    ]
    assert [d.origin for d in found] == [spot(PIPELINE, text, "nme"), spot(PIPELINE, text, "pric >")]


def test_sql_that_does_not_parse_is_reported_with_its_place(pipeline: Findings) -> None:
    text = HEAD + transform("t", "SELECT id FROM Orders WHERE (price > 1 AND") + sinks("t")
    found = only(pipeline(text))
    assert (found.code, found.path) == ("sql-syntax", "transforms.t.sql")
    assert found.origin == spot(PIPELINE, text, "AND")


@pytest.mark.parametrize(
    ("sql", "subject"),
    [
        ("SELECT name FROM Orders GROUP BY name", "GROUP BY without a window"),
        ("SELECT o.id FROM Orders o JOIN raw.visits v ON o.id = v.id", "JOIN"),
        ("SELECT DISTINCT id FROM Orders", "SELECT DISTINCT"),
        ("SELECT id FROM Orders ORDER BY id", "ORDER BY"),
        ("SELECT id FROM Orders LIMIT 1", "LIMIT"),
        ("SELECT id FROM Orders UNION SELECT id FROM raw.visits", "UNION"),
        (
            "WITH RECURSIVE r AS (SELECT id FROM Orders UNION ALL SELECT id FROM r) SELECT id FROM r",
            "WITH RECURSIVE",
        ),
        ("SELECT * REPLACE (id AS id) FROM Orders", "REPLACE"),
    ],
)
def test_a_transform_only_projects_filters_and_unites(pipeline: Findings, sql: str, subject: str) -> None:
    found = only(pipeline(HEAD + transform("t", sql, key="''") + sinks("t")), "sql-unsupported")
    assert (found.code, found.params) == ("sql-unsupported", {"subject": subject})
    assert found.hint


def test_a_select_from_nothing_is_refused(pipeline: Findings) -> None:
    assert codes(pipeline(HEAD + transform("t", "SELECT 1 AS id") + sinks("t"))) == ["sql-statement"]


def test_a_primary_key_that_is_no_output_is_reported_everywhere(pipeline: Findings) -> None:
    text = """
        sources:
          a: {type: generator, primary_key: uid, columns: {id: {kind: sequence}}}
        transforms:
          t: {type: sql, primary_key: "id, nam", sql: SELECT id FROM a}
        sinks:
          o: {type: print, from: t, primary_key: name}
    """
    found = pipeline(text)
    assert [(d.code, d.path, d.params["column"]) for d in found] == [
        ("primary-key-missing", "sources.a.primary_key", "uid"),
        ("primary-key-missing", "transforms.t.primary_key", "nam"),
        ("primary-key-missing", "sinks.o.primary_key", "name"),
    ]
    assert found[0].origin == spot(PIPELINE, text, "uid")


KEYED = """
    sources:
      a: {type: generator, primary_key: ID, columns: {id: {kind: sequence}, Region: {kind: text}}}
    transforms:
      t: {type: sql, primary_key: "iD, region", sql: "SELECT id AS Id, Region FROM a"}
    sinks:
      pg: {type: postgres, from: t, table: t, primary_key: "REGION,ID"}
      agg:
        type: postgres_aggregate
        aggregate: {n: {fn: count}}
        from: a
        landing_table: l
        agg_table: g
        primary_key: Id
      ch: {type: clickhouse, from: t, table: t, primary_key: ID}
      topic: {type: kafka, from: a, topic: t, data_format: json, primary_key: "${KEY:-ID}"}
      hook: {type: webhook, from: a, url: "http://${HOST:-h}/", primary_key: REGION}
      shown: {type: print, from: t}
"""


def test_a_key_has_the_spelling_of_its_columns_everywhere(pipeline_graph: Link, pipeline_manifest: Compile) -> None:
    graph = pipeline_graph(KEYED)
    assert {node.name: node.key for node in graph.nodes.values()} == {
        "a": ("id",),
        "t": ("Id", "Region"),
        "pg": ("Region", "Id"),
        "agg": ("id",),
        "ch": ("Id",),
        "topic": ("id",),
        "hook": ("Region",),
        "shown": ("Id", "Region"),
    }
    (query,) = pipeline_manifest(KEYED).queries
    assert query.inputs[0].source["primary_key"] == "id"
    assert {output.node: output.sink["primary_key"] for output in query.outputs} == {
        "sink.pg": "Region,Id",
        "sink.agg": "id",
        "sink.ch": "Id",
        "sink.topic": "${KEY:-ID}",
        "sink.hook": "Region",
        "sink.shown": "Id,Region",
    }


def test_a_column_that_is_spelt_as_the_key_goes_before_others() -> None:
    columns = (Column("Id", "INT"), Column("ID", "INT"))
    assert match_spelling(("ID", "id", "gone"), columns) == ("ID", "Id", "gone")
    assert match_spelling(("ID",), None) == ("ID",)


def test_the_columns_of_files_are_read_before_anything_runs(check: Check) -> None:
    files = {
        PIPELINE: """
            sources:
              people: {type: file, path: data, format: csv}
            transforms:
              t: {type: sql, primary_key: id, sql: SELECT id FROM people WHERE agee > 3}
            sinks:
              o: {type: blackhole, from: t}
        """,
        "data/a.csv": "id,age\n1,2\n",
    }
    found = only(check(files, PIPELINE)[1])
    assert (found.code, found.hint) == ("sql-unknown-column", "did you mean `age`?")


def test_columns_that_nobody_knows_are_nothing_to_complain_about(pipeline: Findings) -> None:
    text = """
        sources:
          people: {type: file, path: nowhere, format: json}
        transforms:
          t: {type: sql, primary_key: whatever, sql: SELECT whatever FROM people WHERE more > 3}
        sinks:
          o: {type: blackhole, from: t}
    """
    assert pipeline(text) == ()


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELECT id FROM a WHERE id = (SELECT id FROM b)", "SELECT id FROM b"),
        ("SELECT id, (SELECT id FROM b) AS x FROM a UNION ALL SELECT id, id FROM b", "SELECT id FROM b)"),
        ("SELECT id FROM a UNION ALL SELECT id FROM b HAVING id > 1", "HAVING"),
    ],
)
def test_a_transform_takes_no_value_from_a_query_and_has_no_groups(pipeline: Findings, sql: str, word: str) -> None:
    node = "{type: generator, columns: {id: {kind: sequence}}}"
    text = (
        f"sources:\n  a: {node}\n  b: {node}\ntransforms:\n  t:\n    type: sql\n    primary_key: id\n    sql: {sql}\n"
    )
    text += "sinks: {o: {type: print, from: t}}\n"
    found = only(pipeline(text))
    assert (found.code, found.origin) == ("sql-unsupported", spot(PIPELINE, text, word))


@pytest.mark.parametrize(
    "condition", ["id = (SELECT id FROM b)", "id IN (SELECT id FROM b)", "EXISTS (SELECT 1 FROM b)"]
)
def test_a_filter_of_a_source_reads_nothing_else(pipeline: Findings, condition: str) -> None:
    topic = f"{{type: kafka, topic: t, data_format: json, schema: {{id: int64}}, filter: {json.dumps(condition)}}}"
    found = only(pipeline(f"sources: {{a: {topic}}}\nsinks: {{o: {{type: print, from: a}}}}\n"))
    assert (found.code, found.path) == ("sql-statement", "sources.a.filter")


@pytest.mark.parametrize("node", ["sources.a", "transforms.t", "sinks.o"])
def test_the_time_of_metrics_is_a_column_of_the_node(pipeline: Findings, node: str) -> None:
    def text(column: str) -> str:
        said = f", telemetry: {{event_time: {{column: {column}}}}}"
        more = {key: said if key == node else "" for key in ("sources.a", "transforms.t", "sinks.o")}
        source = (
            f"{{type: generator, columns: {{id: {{kind: sequence}}, made: {{kind: sequence}}}}{more['sources.a']}}}"
        )
        transform = f"{{type: sql, primary_key: id, sql: 'SELECT id, made FROM a'{more['transforms.t']}}}"
        sink = f"{{type: print, from: t{more['sinks.o']}}}"
        return f"sources: {{a: {source}}}\ntransforms: {{t: {transform}}}\nsinks: {{o: {sink}}}\n"

    assert codes(pipeline(text("MADE"))) == ["no-effect"]
    found = only(pipeline(text("mad")), "event-time-missing")
    assert (found.severity, found.hint) == (Severity.WARNING, "did you mean `made`?")
    assert found.path == f"{node}.telemetry.event_time.column"
    assert found.message == f"the {node.partition('.')[0].removesuffix('s')} has no column `mad`"
    assert found.origin == spot(PIPELINE, text("mad"), "mad}")


def test_the_time_of_metrics_is_not_asked_for_where_columns_are_not_known(pipeline: Findings) -> None:
    source = "{type: kafka, topic: t, telemetry: {event_time: {column: at}}}"
    found = pipeline(f"sources: {{a: {source}}}\nsinks: {{o: {{type: print, from: a}}}}\n")
    assert codes(found) == ["no-effect"]


@pytest.mark.parametrize(
    ("path", "file_format", "is_fed"),
    [("in", "json", True), ("./in/out/", "json", True), ("in", "csv", False), ("inner", "json", False)],
)
def test_a_sink_does_not_write_where_its_source_reads(
    pipeline: Findings, path: str, file_format: str, is_fed: bool
) -> None:
    found = pipeline(f"""
        sources:
          rows: {{type: file, path: in/, format: json, primary_key: id}}
        sinks:
          kept: {{type: file, from: rows, path: {path}, format: {file_format}}}
    """)
    assert [(d.code, d.path) for d in found] == ([("cycle", "sinks.kept.path")] if is_fed else [])
