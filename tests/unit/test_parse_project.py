import pytest
from pydantic import ValidationError

from penstock.errors import Origin
from penstock.project import stream_project as written
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Findings, Link

UNKNOWN = """
    project: {name: p, verson: x}
    runtime:
      sparc: {}
      spark: {mastr: x}
      kafka: {bootstrap_servers: a, bootstrap: b}
      schema_registry: {url: x, user: y}
      flink: {clusters: {a: {typ: x}}}
      connect: {clusterz: {}}
      conduktor: {gateway: {adminurl: x}}
    surces: []
    sources:
      - name: s
        topic: t
        topics: u
        columns: [{name: a, tpye: INT}]
        event_time: {column: a, watermrk: {}, watermark: {max_out_of_ordernes_ms: 1}}
    models:
      - name: m
        owner_team: x
        sql: SELECT a FROM {{ source("s") }}
        advanced: {topic: {nam: x}, conector: {}, connector: {type: print, confg: {}}}
      - name: n
        from: [{ref: m, reff: x}]
    exposures:
      - {name: e, type: dashboard, consume: []}
"""

NEAREST = {
    "verson": "version",
    "sparc": "spark",
    "mastr": "master",
    "bootstrap": "bootstrap_servers",
    "user": "username",
    "typ": "type",
    "clusterz": "clusters",
    "adminurl": "admin_url",
    "surces": "sources",
    "topics": "topic",
    "tpye": "type",
    "watermrk": "watermark",
    "max_out_of_ordernes_ms": "max_out_of_orderness_ms",
    "owner_team": "owner",
    "nam": "name",
    "conector": "connector",
    "confg": "config",
    "reff": "ref",
    "consume": "consumes",
}


def test_unknown_keys_are_reported_at_every_level_and_all_at_once(project: Findings) -> None:
    found = project(UNKNOWN)
    assert {d.params["field"]: d.hint for d in found if d.code == "unknown-field"} == {
        field: f"did you mean `{near}`?" for field, near in NEAREST.items()
    }


@pytest.mark.parametrize(
    ("field", "occurrence", "path"),
    [
        ("verson", 1, "project.verson"),
        ("mastr", 1, "runtime.spark.mastr"),
        ("surces", 1, "surces"),
        ("topics", 1, "sources.s.topics"),
        ("tpye", 1, "sources.s.columns.0.tpye"),
        ("watermrk", 1, "sources.s.event_time.watermrk"),
        ("owner_team", 1, "models.m.owner_team"),
        ("confg", 1, "models.m.advanced.connector.confg"),
        ("reff", 1, "models.n.from.0.reff"),
        ("consume", 1, "exposures.e.consume"),
    ],
)
def test_an_unknown_key_is_shown_where_it_stands(project: Findings, field: str, occurrence: int, path: str) -> None:
    (found,) = (d for d in project(UNKNOWN) if d.params.get("field") == field)
    assert found.origin == spot(MAIN, UNKNOWN, field, occurrence)
    assert found.path == path


def test_messages_do_not_show_the_names_of_our_classes(project: Findings) -> None:
    texts = [d.message for d in project(UNKNOWN)]
    texts += [d.message for d in project("project: x\nruntime: []\nmodels: [hello]\nsources: [3]\n")]
    leaked = ["SourceColumn", "EventTime", "ModelConnector", "NodeReference", "SchemaRegistry", "ProjectHeader"]
    shown = [word for text in texts for word in leaked if word.casefold() in text.casefold()]
    assert shown == []
    assert [text for text in texts if "instance of" in text] == []


def test_missing_fields_are_reported_at_the_element(project: Findings) -> None:
    text = """
        project: {version: "1"}
        sources:
          - {name: s}
          - {topic: t}
    """
    found = project(text)
    assert [(d.code, d.path, d.params["field"]) for d in found] == [
        ("missing-field", "project.name", "name"),
        ("missing-field", "sources.s.topic", "topic"),
        ("missing-field", "sources.1.name", "name"),
    ]
    assert [d.origin.line for d in found if d.origin] == [1, 3, 4]


def test_a_project_without_its_section_is_reported_with_what_to_write(project: Findings) -> None:
    found = only(project("sources: []\n"))
    assert (found.code, found.path, found.params) == ("missing-field", "project", {"field": "project"})
    assert found.origin == Origin(MAIN, 1, 1)
    assert found.hint is not None
    assert "project:" in found.hint


@pytest.mark.parametrize(("text", "what"), [("- a\n- b\n", "a list"), ("hello\n", "a single value")])
def test_a_list_or_a_word_at_top_level_is_the_wrong_shape(project: Findings, text: str, what: str) -> None:
    found = only(project(text))
    assert found.code == "wrong-shape"
    assert found.origin == Origin(MAIN, 1, 1)
    assert what in found.message


@pytest.mark.parametrize("section", ["sources", "models", "exposures"])
def test_a_mapping_where_a_list_is_needed_is_the_wrong_shape(project: Findings, section: str) -> None:
    found = only(project(f"project: {{name: p}}\n{section}:\n  orders: {{topic: t}}\n"))
    assert (found.code, found.path) == ("wrong-shape", section)
    assert found.origin == Origin(MAIN, 3, 3)
    assert found.hint is not None
    assert "- name:" in found.hint


def test_empty_sections_are_no_mistake(project: Findings) -> None:
    assert project("project: {name: p}\nruntime:\nsources:\nmodels:\nexposures:\n") == ()


@pytest.mark.parametrize(
    ("line", "code", "path"),
    [
        ("project: {name: 3}", "wrong-type", "project.name"),
        ("project: {name: ''}", "invalid-value", "project.name"),
        ("project: [a]", "wrong-type", "project"),
        (
            "sources: [{name: s, topic: t, event_time: {column: a, "
            "watermark: {max_out_of_orderness_ms: 99999999999999999999}}}]",
            "invalid-value",
            "sources.s.event_time.watermark.max_out_of_orderness_ms",
        ),
        ("project:", "wrong-type", "project"),
        ("runtime: {spark: {config: []}}", "wrong-type", "runtime.spark.config"),
        ("models: [hello]", "wrong-type", "models.0"),
        ("models: [{name: m, tags: x}]", "wrong-type", "models.m.tags"),
        ("models: [{name: m, sql: [a]}]", "wrong-type", "models.m.sql"),
        ("models: [{name: m, materialized: tabel}]", "unknown-value", "models.m.materialized"),
        ("runtime: {kafka: {bootstrap_servers: []}, flink: x}", "wrong-type", "runtime.flink"),
        ("models: [{name: m, from: [{}]}]", "invalid-value", "models.m.from.0"),
        ("models: [{name: m, from: [{ref: a, source: b}]}]", "invalid-value", "models.m.from.0"),
        ("exposures: [{name: e, type: dashbord}]", "unknown-value", "exposures.e.type"),
        ("exposures: [{name: e, type: api, role: reader}]", "unknown-value", "exposures.e.role"),
    ],
)
def test_a_value_of_the_wrong_kind_is_reported_at_the_value(project: Findings, line: str, code: str, path: str) -> None:
    head = "" if line.startswith("project") else "project: {name: p}\n"
    found = errors(project(f"{head}{line}\n"))
    assert [(d.code, d.path) for d in found] == [(code, path)]
    assert found[0].origin is not None
    assert found[0].origin.line == (2 if head else 1)


def test_a_word_that_is_nearly_right_is_offered(project: Findings) -> None:
    text = """
        project: {name: p}
        exposures:
          - {name: e, type: dashbord}
    """
    found = only(project(text))
    assert found.origin == spot(MAIN, text, "dashbord")
    assert found.hint == "did you mean `dashboard`?"


def test_a_value_that_yaml_reads_as_true_says_so(project: Findings) -> None:
    found = only(project("project: {name: on}\n"))
    assert found.code == "wrong-type"
    assert found.hint is not None
    assert "quote" in found.hint


def test_the_on_trap_is_reported_beside_other_mistakes(project: Findings) -> None:
    text = """
        project: {name: p}
        on: true
        models:
          - {name: m, sql: 'SELECT a FROM {{ source("s") }}', ownr: me}
    """
    assert codes(project(text)) == ["yaml-boolean-key", "unknown-source", "unknown-field"]


def test_flink_is_read_as_spark(project_graph: Link) -> None:
    graph = project_graph("""
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - {name: m, materialized: flink, sql: 'SELECT a FROM {{ source("s") }}'}
    """)
    assert graph["model.m"].materialized == "spark"


@pytest.mark.parametrize(
    ("from_", "inputs"),
    [
        ("a", ("model.a",)),
        ("[a, b]", ("model.a", "model.b")),
        ("[{ref: b}, {source: s}]", ("model.b", "source.s")),
        ("{source: s}", ("source.s",)),
        ("[a, {source: s}]", ("model.a", "source.s")),
    ],
)
def test_every_way_to_write_from_is_read(project_graph: Link, from_: str, inputs: tuple[str, ...]) -> None:
    graph = project_graph(f"""
        project: {{name: p}}
        sources: [{{name: s, topic: t}}]
        models:
          - {{name: a, sql: 'SELECT x FROM {{{{ source("s") }}}}'}}
          - {{name: b, sql: 'SELECT x FROM {{{{ source("s") }}}}'}}
          - {{name: m, from: {from_}, advanced: {{connector: {{type: print}}}}}}
    """)
    assert graph["model.m"].inputs == inputs


def test_a_duplicate_name_is_reported_with_the_place_of_the_first(check: Check) -> None:
    first = "models: [{name: m, sql: \"SELECT a FROM {{ source('s') }}\"}]\n"
    files = {
        MAIN: "project: {name: p}\nsources: [{name: s, topic: t}, {name: s, topic: u}]\n",
        "models/a.yml": first,
        "models/b.yml": first,
    }
    found = check(files)[1]
    assert [(d.code, d.path, dict(d.params)) for d in found] == [
        ("duplicate-name", "sources.s", {"name": "s"}),
        ("duplicate-name", "models.m", {"name": "m"}),
    ]
    assert found[0].origin == Origin(MAIN, 2, 39)
    assert found[1].origin == spot("models/b.yml", first, "m,")
    assert "models/a.yml:1:10" in found[1].message


def test_a_source_a_model_and_an_exposure_may_share_a_name(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: orders, topic: t}]
        models: [{name: orders, sql: 'SELECT a FROM {{ source("orders") }}'}]
        exposures: [{name: orders, type: api, consumes: [orders]}]
    """
    assert project(text) == ()


def test_a_column_declared_twice_is_reported(project: Findings) -> None:
    text = """
        project: {name: p}
        sources:
          - {name: s, topic: t, columns: [{name: id}, {name: other}, {name: ID}]}
    """
    found = only(errors(project(text)))
    assert found.code == "duplicate-name"
    assert found.origin is not None
    assert found.origin.line == 3


def test_keys_that_belong_only_into_the_project_file_are_refused_elsewhere(check: Check) -> None:
    found = only(check({MAIN: "project: {name: p}\n", "models/m.yml": "runtime: {}\n"})[1])
    assert (found.code, found.params) == ("unknown-field", {"field": "runtime"})
    assert found.origin == Origin("models/m.yml", 1, 1)


def test_any_section_may_stand_in_any_file(check: Check) -> None:
    model = "models: [{name: m, sql: \"SELECT a FROM {{ source('s') }}\"}]\n"
    files = {MAIN: "project: {name: p}\n", "exposures/x.yml": f"{model}sources: [{{name: s, topic: t}}]\n"}
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert list(graph.nodes) == ["source.s", "model.m"]


def test_the_settings_of_a_connector_of_ours_are_checked_in_a_model(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - name: m
            from: {source: s}
            advanced: {connector: {type: print, config: {sample_evry: 1, primary_key: id}}}
    """
    found = only(project(text))
    assert (found.code, found.path) == ("unknown-field", "models.m.advanced.connector.config.sample_evry")
    assert found.origin == spot(MAIN, text, "sample_evry")
    assert found.hint == "did you mean `sample_every`?"


def test_the_settings_of_other_connectors_are_left_alone(project: Findings) -> None:
    text = """
        project: {name: p}
        sources: [{name: s, topic: t}]
        models:
          - {name: m, from: {source: s}, advanced: {connector: {type: snowflake, config: {any.thing: 1}}}}
    """
    assert project(text) == ()


def test_passwords_never_show(check: Check) -> None:
    text = """
        project: {name: p}
        runtime:
          kafka: {bootstrap_servers: 'a:1, b:2', sasl_password: hunter2}
          schema_registry: {url: x, password: hunter2}
    """
    graph, found = check({MAIN: text})
    assert found == ()
    assert graph is not None
    assert graph.runtime.kafka is not None
    assert graph.runtime.kafka.bootstrap_servers == ("a:1", "b:2")
    assert "hunter2" not in repr(graph.runtime)
    assert "hunter2" not in graph.runtime.model_dump_json()


@pytest.mark.parametrize(
    ("strategy", "delay_ms"),
    [("bounded_out_of_orderness", 700), ("monotonously_increasing", 0), ("monotonous", 0)],
)
def test_a_watermark_waits_only_for_rows_that_can_be_late(strategy: str, delay_ms: int) -> None:
    watermark = written.Watermark.model_validate({"strategy": strategy, "max_out_of_orderness_ms": 700})
    assert watermark.delay_ms == delay_ms


def test_a_watermark_by_an_expression_is_refused_with_the_reason() -> None:
    with pytest.raises(ValidationError, match="Spark's watermark is the latest event time minus a delay"):
        written.Watermark.model_validate({"strategy": "custom"})
