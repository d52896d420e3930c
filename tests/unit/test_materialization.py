"""How SQL and fields decide on the materialization, and which rule decided."""

import pytest

from penstock.errors import Severity
from tests.support import errors, only, spot
from tests.unit.conftest import MAIN, Check, Link

SOURCES = """\
project: {name: p}
sources:
  - name: s
    topic: s.v1
    columns: [{name: id, type: BIGINT}, {name: note}, {name: at, type: TIMESTAMP(3)}, {name: xs, type: ARRAY<STRING>}]
    event_time: {column: at}
  - {name: t, topic: t.v1, columns: [{name: id, type: BIGINT}, {name: note}]}
"""
GATEWAY = "runtime: {conduktor: {gateway: {admin_url: 'http://g'}}}\n"
S, T = "{{ source('s') }}", "{{ source('t') }}"

STATELESS = [
    f"SELECT * FROM {S}",
    f"SELECT * FROM {S} WHERE id = 1",
    f"SELECT id, UPPER(note) AS note FROM {S}",
    f"-- a note\nSELECT * FROM {S}",
    f"SELECT id FROM {S} -- GROUP BY id ORDER BY id",
    f"SELECT id /* JOIN t ON true */ FROM {S}",
    f"SELECT id FROM {S} WHERE note = 'please GROUP BY x'",
    f"SELECT id, 'SELECT DISTINCT COUNT(x) OVER ()' AS note FROM {S}",
    f"SELECT id AS `group by`, note AS `count` FROM {S}",
    f"WITH c AS (SELECT * FROM {S}) SELECT id FROM c WHERE id > 1",
    f"SELECT q.id FROM (SELECT id FROM {S} WHERE id > 1) AS q",
    f"SELECT id FROM {S} WHERE id IN (1, 2, 3)",
    f"SELECT id FROM {S} WHERE id BETWEEN 1 AND 2 AND note LIKE 'JOIN%'",
    f"SELECT CASE WHEN id > 1 THEN 'LIMIT' ELSE 'TOP' END AS c FROM {S}",
    f"SELECT s.id, x.v FROM {S} AS s CROSS JOIN UNNEST(s.xs) AS x(v)",
    f"SELECT GREATEST(id, 1) AS g, COALESCE(note, '') AS n FROM {S}",
    f"SELECT id FROM {S} WHERE NOT (id IN (1))",
]
UNION_ALL = f"SELECT id FROM {S} UNION ALL SELECT id FROM {T}"
HOUR = "INTERVAL '1' HOUR"
STATEFUL = [
    (f"SELECT COUNT(*) AS n FROM {S} GROUP BY TUMBLE(at, {HOUR})", "GROUP BY"),
    (f"SELECT COUNT(*) AS n FROM {S} GROUP BY HOP(at, {HOUR}, {HOUR})", "GROUP BY"),
    (f"SELECT id, COUNT(*) AS n FROM {S} GROUP BY id, SESSION(at, {HOUR})", "GROUP BY"),
    (f"SELECT COUNT(*) AS n FROM {S} GROUP BY SESSION(at, {HOUR})", "GROUP BY"),
    (
        f"SELECT COUNT(*) AS n FROM TABLE(CUMULATE(TABLE {S}, DESCRIPTOR(at), {HOUR}, {HOUR})) "
        "GROUP BY window_start, window_end",
        "GROUP BY",
    ),
    (f"SELECT id, COUNT(*) AS n FROM {S} GROUP BY id", "GROUP BY without a window"),
    (f"select id, count(*) as n from {S} group\nby id", "GROUP BY without a window"),
    (f"SELECT a.id FROM {S} a JOIN {T} b ON a.id = b.id", "JOIN"),
    (f"SELECT a.id FROM {S} a\nINNER\nJOIN {T} b ON a.id = b.id", "JOIN"),
    (f"SELECT a.id FROM {S} a LEFT JOIN {T} b ON a.id = b.id", "LEFT JOIN"),
    (f"SELECT a.id FROM {S} a, {T} b WHERE a.id = b.id", "JOIN"),
    (f"SELECT a.id FROM {S} a, {S} b WHERE a.id = b.id", "JOIN"),
    (f"SELECT DISTINCT id FROM {S}", "SELECT DISTINCT"),
    (f"SELECT id FROM {S} ORDER BY id", "ORDER BY"),
    (f"SELECT id FROM {S} LIMIT 5", "LIMIT"),
    (f"SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY at) AS n FROM {S}", "OVER"),
    (f"SELECT id, NTILE(4) OVER (ORDER BY at) AS n FROM {S}", "OVER"),
    (f"SELECT id, LAG(id) OVER (ORDER BY at) AS n FROM {S}", "OVER"),
    (f"SELECT MAX(id) AS m FROM {S}", "an aggregate without GROUP BY"),
    (f"SELECT STDDEV_POP(id) AS m FROM {S}", "an aggregate without GROUP BY"),
    (f"SELECT ARRAY_AGG(id) AS m FROM {S}", "an aggregate without GROUP BY"),
    (f"SELECT LISTAGG(note) AS m FROM {S}", "an aggregate without GROUP BY"),
    (f"SELECT COUNT(DISTINCT id) AS m FROM {S}", "an aggregate without GROUP BY"),
    (f"SELECT id FROM {S} UNION SELECT id FROM {T}", "UNION"),
    (f"SELECT id FROM {S} INTERSECT SELECT id FROM {T}", "INTERSECT"),
    (f"SELECT id FROM {S} EXCEPT SELECT id FROM {T}", "EXCEPT"),
    (f"SELECT id FROM {S} WHERE id IN (SELECT id FROM {T})", "IN (SELECT …)"),
    (f"SELECT a.id FROM {S} a WHERE EXISTS (SELECT 1 FROM {T} b WHERE b.id = a.id)", "EXISTS (SELECT …)"),
    (f"SELECT q.n FROM (SELECT id, COUNT(*) AS n FROM {S} GROUP BY id) q", "GROUP BY without a window"),
    (f"WITH c AS (SELECT DISTINCT id FROM {S}) SELECT id FROM c", "SELECT DISTINCT"),
    (f"SELECT id FROM {S} UNION ALL SELECT MAX(id) AS id FROM {T}", "an aggregate without GROUP BY"),
]


def model(sql: str, more: str = "") -> str:
    lines = "".join(f"      {line}\n" for line in sql.splitlines())
    return f"models:\n  - name: m\n    sql: |\n{lines}{more}"


def decision(link: Link, text: str) -> tuple[str | None, str | None]:
    node = link(text)["model.m"]
    return node.materialized, node.decided_by


@pytest.mark.parametrize("sql", [*STATELESS, UNION_ALL])
def test_sql_that_keeps_no_state_is_a_topic(project_graph: Link, sql: str) -> None:
    assert decision(project_graph, SOURCES + model(sql)) == ("topic", "the SQL keeps no state")


@pytest.mark.parametrize("sql", STATELESS)
def test_sql_that_keeps_no_state_is_a_virtual_topic_with_a_gateway(project_graph: Link, sql: str) -> None:
    found = decision(project_graph, GATEWAY + SOURCES + model(sql))
    assert found == ("virtual_topic", "the SQL keeps no state, and there is a gateway")


def test_a_gateway_cannot_put_two_topics_together(project_graph: Link) -> None:
    found = decision(project_graph, GATEWAY + SOURCES + model(UNION_ALL))
    assert found == ("topic", "the SQL keeps no state, and reads more than a gateway can")


def test_a_gateway_cannot_pass_every_row_twice(project_graph: Link) -> None:
    sql = f"SELECT id FROM {S} UNION ALL SELECT id + 1 AS id FROM {S}"
    assert decision(project_graph, GATEWAY + SOURCES + model(sql))[0] == "topic"


@pytest.mark.parametrize(("sql", "construct"), STATEFUL)
@pytest.mark.parametrize("gateway", ["", GATEWAY], ids=["without a gateway", "with a gateway"])
def test_sql_that_keeps_state_runs_on_spark_and_the_construct_is_named(
    project_graph: Link, sql: str, construct: str, gateway: str
) -> None:
    materialized, decided_by = decision(project_graph, gateway + SOURCES + model(sql))
    assert materialized == "spark"
    assert decided_by is not None
    assert decided_by.startswith("the SQL keeps state: ")
    assert construct in decided_by.removeprefix("the SQL keeps state: ").split(", ")


@pytest.mark.parametrize("function", ["ML_PREDICT", "ml_evaluate"])
def test_sql_that_asks_a_model_runs_on_spark_and_keeps_no_state(project_graph: Link, function: str) -> None:
    text = GATEWAY + SOURCES + model(f"SELECT id, {function}(fraud, note) AS p FROM {S}")
    assert decision(project_graph, text) == ("spark", f"the SQL asks a model: {function.upper()}")
    assert not project_graph(text)["model.m"].stateful


def test_every_construct_is_named_once(project_graph: Link) -> None:
    sql = f"SELECT DISTINCT a.id FROM {S} a JOIN {T} b ON a.id = b.id JOIN {T} c ON a.id = c.id"
    assert decision(project_graph, SOURCES + model(sql))[1] == "the SQL keeps state: SELECT DISTINCT, JOIN"


def test_rows_in_windows_need_no_state_but_a_gateway_cannot_put_them_there(project_graph: Link) -> None:
    sql = f"SELECT id, window_start FROM TABLE(TUMBLE(TABLE {S}, DESCRIPTOR(at), {HOUR}))"
    found = decision(project_graph, GATEWAY + SOURCES + model(sql))
    assert found == ("topic", "the SQL keeps no state, and reads more than a gateway can")


# What fields decide


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("{name: m, materialized: spark, sql: SQL}", ("spark", "`materialized` is given")),
        ("{name: m, materialized: flink, sql: SQL}", ("spark", "`materialized` is given")),
        ("{name: m, advanced: {materialized: topic}, sql: SQL}", ("topic", "`materialized` is given")),
        ("{name: m, materialized: topic, gateway: {virtual_topic: v}, sql: SQL}", ("topic", "`materialized` is given")),
        ("{name: m, sql: SQL, sink: {connector: print}}", ("sink", "it has a connector")),
        ("{name: m, from: {source: s}, connector: print}", ("sink", "it has a connector")),
        ("{name: m, from: {source: s}}", ("sink", "`from` without SQL")),
        (
            "{name: m, from: {source: s}, gateway: {virtual_topic: v}}",
            ("virtual_topic", "`gateway.virtual_topic` is given"),
        ),
        ("{name: m, sql: SQL, gateway: {virtual_topic: true}}", ("virtual_topic", "`gateway.virtual_topic` is given")),
        ("{name: m, sql: SQL, advanced: {virtual_topic: v}}", ("virtual_topic", "`gateway.virtual_topic` is given")),
        ("{name: m, sql: SQL, gateway: {}}", ("topic", "the SQL keeps no state")),
        ("{name: m}", ("topic", "neither SQL nor `from`: a topic that others write")),
    ],
)
def test_fields_decide_before_the_sql_does(project_graph: Link, model: str, expected: tuple[str, str]) -> None:
    sql = """'SELECT id FROM {{ source("s") }}'"""
    text = f"{SOURCES}models:\n  - {model.replace('sql: SQL', f'sql: {sql}')}\n"
    assert decision(project_graph, text) == expected


def test_a_virtual_topic_without_a_gateway_is_said_to_be_a_view(check: Check) -> None:
    text = SOURCES + model(f"SELECT id FROM {S}", "    advanced: {virtual_topic: shown}\n")
    graph, found = check({MAIN: text})
    note = only(found)
    assert (note.code, note.severity) == ("gateway-absent", Severity.INFO)
    assert note.origin == spot(MAIN, text, "shown")
    assert graph is not None
    assert graph["model.m"].topic is None


def test_a_sink_without_a_connector_is_refused(check: Check) -> None:
    found = only(errors(check({MAIN: SOURCES + model(f"SELECT id FROM {S}", "    materialized: sink\n")})[1]))
    assert (found.code, found.params) == ("missing-field", {"field": "connector"})


def test_a_connector_of_what_is_no_sink_is_refused(check: Check) -> None:
    text = SOURCES + model(f"SELECT id FROM {S}", "    materialized: topic\n    connector: print\n")
    found = only(errors(check({MAIN: text})[1]))
    assert (found.code, found.path) == ("invalid-value", "models.m.connector")
    assert found.origin == spot(MAIN, text, "print")


def test_the_manifest_tells_what_decided(project_graph: Link) -> None:
    from penstock.manifest.compile import compile

    manifest = compile(project_graph(SOURCES + model(f"SELECT DISTINCT id FROM {S}")))
    node = next(n for n in manifest.dag.nodes if n.id == "model.m")
    assert (node.materialized, node.decided_by) == ("spark", "the SQL keeps state: SELECT DISTINCT")
    assert manifest.models[0]["materialized"] == "spark"
