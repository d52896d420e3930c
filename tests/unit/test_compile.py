import json

import pytest

from penstock.manifest.model import Manifest, Pushdown
from penstock.manifest.queries.assembly import stream_name
from tests.unit.conftest import Compile

HEAD = """\
project: {name: p}
sources:
  - {name: s, topic: s.v1, columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}], event_time: {column: at}}
  - {name: u, topic: u.v1}
models:
"""


def test_one_model_is_one_query(project_manifest: Compile) -> None:
    manifest = project_manifest(
        HEAD
        + "  - {name: b, sql: 'SELECT id FROM {{ ref(\"a\") }}'}\n"
        + "  - {name: a, sql: 'SELECT id, at FROM {{ source(\"s\") }}', key: id, advanced: {topic: {name: a.v1}}}\n"
    )
    assert [q.name for q in manifest.queries] == ["a", "b"]
    assert [(t.name, t.node) for t in manifest.topics] == [("a.v1", "model.a"), ("b", "model.b")]
    query = manifest.query("a")
    assert query.inputs[0].event_time is not None
    assert (query.inputs[0].event_time.column, query.inputs[0].event_time.delay_ms) == ("at", 5000)
    assert query.outputs[0].sink == {"type": "topic", "from": "model.a", "topic": "a.v1", "primary_key": "id"}
    assert manifest.query("b").inputs[0].source == {"type": "topic", "topic": "a.v1", "formats": ["parquet"]}
    assert manifest.producer("model.b") == manifest.query("b")
    assert manifest.producer("source.s") is None


def test_a_node_that_is_read_twice_becomes_two_inputs(project_manifest: Compile) -> None:
    sql = 'SELECT a.id FROM {{ source("s") }} a JOIN {{ source("s") }} b ON a.id = b.id'
    (query,) = project_manifest(f"{HEAD}  - {{name: m, sql: '{sql}'}}\n").queries
    assert [i.node for i in query.inputs] == ["source.s", "source.s"]
    assert len({i.name for i in query.inputs}) == 2
    assert query.steps[0].sql.count("`source.s`") == 1
    assert query.steps[0].sql.count("`source.s#2`") == 1
    assert query.stateful


def test_inputs_are_numbered_in_the_order_of_the_text(project_manifest: Compile) -> None:
    """A checkpoint knows inputs by name: a branch added at the end must not take the name of the first."""
    branches = ['SELECT id FROM {{ source("s") }}'] * 3
    manifest = project_manifest(f"{HEAD}  - {{name: m, sql: '{' UNION ALL '.join(branches)}'}}\n")
    (query,) = manifest.queries
    assert [i.view for i in query.inputs] == ["source.s", "source.s#2", "source.s#3"]
    sql = query.steps[0].sql
    assert sql.index("`source.s`") < sql.index("`source.s#2`") < sql.index("`source.s#3`")


def test_a_view_is_inlined_once_into_each_reader(project_manifest: Compile) -> None:
    manifest = project_manifest(
        HEAD
        + "  - {name: v, materialized: virtual_topic, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n"
        + "  - {name: a, sql: 'SELECT id FROM {{ ref(\"v\") }}'}\n"
        + '  - {name: b, sql: \'SELECT id FROM {{ ref("v") }} UNION ALL SELECT id FROM {{ ref("a") }}\'}\n'
    )
    assert [q.name for q in manifest.queries] == ["a", "b"]
    assert [s.view for s in manifest.query("a").steps] == ["model.v", "model.a"]
    assert [i.view for i in manifest.query("a").inputs] == ["source.s"]
    assert "model.v" not in manifest.streams
    assert [t.node for t in manifest.topics] == ["model.a", "model.b"]


def test_state_inside_an_inlined_view_is_state_of_the_reader(project_manifest: Compile) -> None:
    join = 'SELECT a.id FROM {{ source("s") }} a JOIN {{ source("u") }} b ON a.id = b.id'
    manifest = project_manifest(
        f"{HEAD}  - {{name: v, materialized: virtual_topic, sql: '{join}'}}\n"
        + "  - {name: a, sql: 'SELECT id FROM {{ ref(\"v\") }}'}\n"
    )
    assert manifest.query("a").stateful


def test_a_connector_of_kafka_connect_reads_the_topic_with_all_its_settings(project_manifest: Compile) -> None:
    manifest = project_manifest(
        f"{HEAD}  - {{name: w, from: {{source: s}}, "
        "advanced: {connector: {type: snowflake, tasks_max: 3, config: {database: SHOP}}}}\n"
    )
    (connector,) = manifest.connectors
    assert (connector.connector_class, connector.topics) == ("snowflake", ("s.v1",))
    assert connector.config["database"] == "SHOP"
    assert connector.config["tasks.max"] == "3"
    assert (manifest.queries, manifest.topics) == ((), ())


def test_with_kafka_topics_are_read_and_written_there(project_manifest: Compile) -> None:
    text = HEAD.replace("sources:", "runtime: {kafka: {bootstrap_servers: 'a:1', sasl_password: hunter2}}\nsources:", 1)
    manifest = project_manifest(text + "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n")
    (query,) = manifest.queries
    schema = {"id": "BIGINT", "at": "TIMESTAMP"}
    read = {"type": "kafka", "topic": "s.v1", "data_format": "json", "schema": schema, "operation": False}
    assert query.inputs[0].source == read
    assert query.outputs[0].sink["type"] == "kafka"
    assert "hunter2" not in manifest.to_json()


def test_equal_input_gives_identical_bytes(project_manifest: Compile) -> None:
    text = HEAD + "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n"
    one, other = project_manifest(text), project_manifest(text)
    assert one.to_json() == other.to_json()
    assert one.revision == other.revision


def test_a_manifest_can_be_read_back(project_manifest: Compile) -> None:
    manifest = project_manifest(HEAD + "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}\n")
    assert Manifest.model_validate_json(manifest.to_json()) == manifest
    edges = json.loads(manifest.to_json())["dag"]["edges"]
    assert edges == [{"from": "source.s", "to": "model.m"}]


@pytest.mark.parametrize("other", ["SELECT id -- why not\n      FROM", "SELECT   id\n\n      FROM"])
def test_comments_and_layout_do_not_change_a_fingerprint(project_manifest: Compile, other: str) -> None:
    def fingerprint(select: str) -> str:
        text = f'{HEAD}  - name: m\n    sql: |\n      {select} {{{{ source("s") }}}}\n'
        return project_manifest(text).queries[0].fingerprint

    assert fingerprint(other) == fingerprint("SELECT id FROM")


def test_what_is_found_in_the_sql_is_no_part_of_a_fingerprint(project_manifest: Compile) -> None:
    """A version that finds more in it would otherwise ask for restarts of what an older one has begun."""
    query = project_manifest(HEAD + "  - {name: m, sql: 'SELECT id FROM {{ source(\"s\") }} WHERE id > 1'}\n").query(
        "m"
    )
    assert query.pushdown.columns == ("at", "id", "s", "source.s")
    assert "pushdown" not in query.to_document()
    assert query.model_copy(update={"pushdown": Pushdown()}).fingerprint == query.fingerprint


def test_a_fan_out_reads_the_rows_that_some_step_uses(pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest("""
sources: {rows: {type: generator, columns: {id: {kind: sequence}, name: {kind: sequence}}}}
transforms:
  few: {type: sql, primary_key: id, sql: "SELECT id FROM rows WHERE id < 3"}
  many: {type: sql, primary_key: id, sql: "SELECT id FROM rows WHERE id > 7"}
sinks: {a: {type: print, from: few}, b: {type: print, from: many}}
""")
    assert manifest.queries[0].pushdown.conditions == {"source.rows": "`id` < 3 OR `id` > 7"}


def test_an_operator_keeps_the_columns_that_are_used(project_manifest: Compile) -> None:
    sql = 'SELECT id, COUNT(*) AS n FROM {{ source("s") }} GROUP BY id'
    query = project_manifest(f"{HEAD}  - {{name: m, key: id, sql: '{sql}'}}\n").query("m")
    assert query.pushdown.columns is None
    assert query.pushdown.views["source.s"] is not None
    assert "id" in query.pushdown.views["source.s"]


def test_sinks_that_share_a_source_are_one_query(pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest("""
        sources:
          a: {type: generator, columns: {id: {kind: sequence}}}
          b: {type: generator, columns: {id: {kind: sequence}}}
          c: {type: generator, columns: {id: {kind: sequence}}}
        transforms:
          both: {type: sql, primary_key: id, sql: SELECT id FROM a UNION ALL SELECT id FROM b}
        sinks:
          one: {type: print, from: both}
          two: {type: blackhole, from: b}
          three: {type: blackhole, from: c}
    """)
    assert [(q.name, [o.node for o in q.outputs], q.fan_out) for q in manifest.queries] == [
        ("a", ["sink.one", "sink.two"], True),
        ("c", ["sink.three"], False),
    ]
    assert [i.node for i in manifest.queries[0].inputs] == ["source.a", "source.b"]
    assert all(i.with_operation for q in manifest.queries for i in q.inputs)


@pytest.mark.parametrize(
    ("condition", "sql", "left_out"),
    [
        ("id > 1", "SELECT id FROM a", True),
        ("id > 1", "SELECT id FROM a WHERE _GS_OP = 'd'", False),
        ("_gs_op = 'd'", "SELECT id FROM a", False),
    ],
)
def test_operations_are_left_out_where_nobody_asks_for_them(
    pipeline_manifest: Compile, condition: str, sql: str, left_out: bool
) -> None:
    manifest = pipeline_manifest(f"""
        sources:
          a: {{type: kafka, topic: t, data_format: json, schema: {{id: int64}}, primary_key: id, filter: "{condition}"}}
        transforms:
          some: {{type: sql, primary_key: id, sql: "{sql}"}}
        sinks:
          nowhere: {{type: blackhole, from: some}}
    """)
    ((read,),) = (query.inputs for query in manifest.queries)
    assert (read.source.get("operation") is False) == left_out


def test_a_sink_that_reads_for_itself_is_a_query_of_its_own(pipeline_manifest: Compile) -> None:
    manifest = pipeline_manifest("""
        sources:
          a: {type: generator, columns: {id: {kind: sequence}}}
        transforms:
          some: {type: sql, primary_key: id, sql: SELECT id FROM a}
        sinks:
          one: {type: print, from: some}
          slow: {type: blackhole, from: some, isolate: true}
          two: {type: blackhole, from: a}
    """)
    assert {q.name: ([o.node for o in q.outputs], q.isolated) for q in manifest.queries} == {
        "a": (["sink.one", "sink.two"], False),
        "slow": (["sink.slow"], True),
    }


def test_names_for_spark_are_plain_and_stay_apart() -> None:
    names = [
        stream_name(view) for view in ("source.a", "source.a.b", "source.a_b", "source.a-b", "source.ä", "source.a#2")
    ]
    assert names[0] == "source_a"
    assert len(set(names)) == len(names)
    assert all(name.isascii() and name.replace("_", "").isalnum() for name in names)
