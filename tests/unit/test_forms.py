"""Other places and spellings of fields, fields without effect, and every key that can be written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from penstock.errors import Diagnostic, Severity
from penstock.manifest.compile import compile
from penstock.project import stream_project as written
from penstock.project.load import load
from penstock.project.parse import parse
from penstock.project.project import StreamProject
from penstock.project.runtime import Runtime
from penstock.project.validation.forms import FORMS, INERT, Form
from tests.support import codes, errors, only, spot, write
from tests.unit.conftest import MAIN, Check, Findings, Link

PLACES = [(section, form) for section, forms in FORMS.items() for form in forms]
PLACE_IDS = [f"{section}.{'.'.join(form.old)}" for section, form in PLACES]
EXAMPLES: dict[tuple[str, ...], Any] = {
    ("event_time",): {"column": "at"},
    ("event_time", "allowed_lateness_ms"): 5,
    ("event_time", "watermark"): {"max_out_of_orderness_ms": 7},
    ("advanced", "topic"): {"name": "other", "partitions": 3},
    ("advanced", "spark"): {"parallelism": 4, "checkpoint_interval_ms": 5},
    ("advanced", "connector"): {"type": "print", "config": {}},
    ("advanced", "connector", "type"): "print",
    ("materialized",): "spark",
    ("gateway",): {"virtual_topic": {"name": "v"}},
    ("gateway", "virtual_topic"): {"name": "v"},
    ("security",): {"classification": {"id": "internal"}},
    ("access",): {"level": "protected", "allowed_groups": ["a"]},
    ("advanced", "flink_cluster"): "big",
    ("advanced", "spark", "checkpoint_interval_ms"): 60000,
    ("advanced", "spark", "checkpoint_timeout_ms"): 60000,
}
"""A value for every place that a form leads to."""

BASES: dict[str, dict[str, Any]] = {
    "sources": {"name": "e", "topic": "t"},
    "models": {"name": "e", "sql": "SELECT id FROM {{ source('s') }}"},
}


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    head, *rest = path
    return {head: nested(tuple(rest), value) if rest else value}


def joined(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return other
    both = {key: joined(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **both}


def base_of(section: str, path: tuple[str, ...]) -> dict[str, Any]:
    """An element that has everything which the place needs, and nothing else."""
    base = BASES[section]
    if path[:1] == ("event_time",) and len(path) > 1:
        base = {**base, "event_time": {"column": "at"}}
    return base


def text_of(section: str, element: dict[str, Any]) -> str:
    return json.dumps({"project": {"name": "p"}, section: [element]})


def parsed(root: Path, text: str) -> tuple[Any, list[Diagnostic]]:
    write(root, {MAIN: text})
    documents, _ = load(root)
    assert documents is not None
    project, diagnostics = parse(documents)
    assert isinstance(project, StreamProject)
    element = next(iter((*project.sources, *project.models)), None)
    return element and element.value, diagnostics


# Forms


def test_every_place_that_a_form_leads_to_has_an_example_here() -> None:
    assert {form.new for _, form in PLACES} == EXAMPLES.keys()


DOCUMENTED = {
    "models": {
        *("topic", "flink", "connector", "sink", "advanced.flink", "advanced.sink", "advanced.materialized"),
        *("advanced.gateway", "advanced.virtual_topic", "advanced.security", "advanced.access", "advanced.event_time"),
    },
    "sources": {"advanced.watermark", "advanced.event_time"},
}
"""Where documents of projects that exist put things: this list is theirs, not ours."""


def test_every_place_that_documents_use_is_a_form() -> None:
    for section, places in DOCUMENTED.items():
        assert places <= {".".join(form.old) for form in FORMS[section]}


WITHOUT_MEANING = {
    *("checkpoint_interval_ms", "checkpoint_timeout_ms", "restart_strategy", "flink_cluster"),
    *("cluster", "version", "deprecation"),
}


def test_every_documented_field_that_means_nothing_on_spark_is_known_as_such() -> None:
    assert {path[-1] for paths in INERT.values() for path in paths} >= WITHOUT_MEANING


@pytest.mark.parametrize(("section", "form"), PLACES, ids=PLACE_IDS)
def test_a_value_in_another_place_means_the_same(tmp_path: Path, section: str, form: Form) -> None:
    value, base = EXAMPLES[form.new], base_of(section, form.new)
    moved, found = parsed(tmp_path, text_of(section, joined(base, nested(form.old, value))))
    settled, _ = parsed(tmp_path, text_of(section, joined(base, nested(form.new, value))))
    assert errors(found) == []
    assert moved is not None
    assert moved == settled
    assert moved != parsed(tmp_path, text_of(section, base))[0]


@pytest.mark.parametrize(("section", "form"), PLACES, ids=PLACE_IDS)
def test_only_a_deprecated_place_is_pointed_out_with_the_new_one(tmp_path: Path, section: str, form: Form) -> None:
    text = text_of(section, joined(base_of(section, form.new), nested(form.old, EXAMPLES[form.new])))
    found = [d for d in parsed(tmp_path, text)[1] if d.code == "deprecated-form"]
    if not form.deprecated:
        assert found == []
        return
    note = only(found)
    assert (note.severity, note.path) == (Severity.WARNING, f"{section}.e.{'.'.join(form.old)}")
    assert note.origin == spot(MAIN, text, f'"{form.old[-1]}": ')
    assert note.hint == f"write it as `{form.shown}`"


@pytest.mark.parametrize(("section", "form"), PLACES, ids=PLACE_IDS)
def test_the_same_thing_in_two_places_is_refused_at_the_other_place(tmp_path: Path, section: str, form: Form) -> None:
    value = EXAMPLES[form.new]
    text = text_of(
        section, joined(joined(base_of(section, form.new), nested(form.old, value)), nested(form.new, value))
    )
    found = only(errors(parsed(tmp_path, text)[1]))
    assert (found.code, found.path) == ("given-twice", f"{section}.e.{'.'.join(form.old)}")
    assert found.hint == "keep one of the two"
    assert ".".join(form.new) in found.message


@pytest.mark.parametrize(("section", "form"), PLACES, ids=PLACE_IDS)
def test_a_mistake_in_another_place_is_reported_there(tmp_path: Path, section: str, form: Form) -> None:
    text = text_of(section, joined(base_of(section, form.new), nested(form.old, {"nonsense": 1})))
    places = [spot(MAIN, text, '{"nonsense"'), spot(MAIN, text, '"nonsense"')]
    found = [d for d in errors(parsed(tmp_path, text)[1]) if d.origin in places]
    assert found
    assert all(d.path.startswith(f"{section}.e.{'.'.join(form.old)}") for d in found)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"topic": {"partitions": 3}}, {"advanced": {"topic": {"name": "x"}}}, ("x", 3)),
        ({"topic": {"name": "x"}}, {"advanced": {"topic": {"partitions": 3}}}, ("x", 3)),
    ],
)
def test_two_places_that_say_different_things_are_one(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], expected: tuple[str, int]
) -> None:
    model, found = parsed(tmp_path, text_of("models", BASES["models"] | one | other))
    assert codes(found) == ["deprecated-form"]
    assert (model.advanced.topic.name, model.advanced.topic.partitions) == expected


def test_a_mistake_in_either_of_two_merged_places_is_reported_where_it_stands(tmp_path: Path) -> None:
    element = BASES["models"] | {"topic": {"partitions": 0}, "advanced": {"topic": {"replication_factor": -1}}}
    text = text_of("models", element)
    found = errors(parsed(tmp_path, text)[1])
    assert [(d.path, d.origin) for d in found] == [
        ("models.e.topic.partitions", spot(MAIN, text, "0}")),
        ("models.e.advanced.topic.replication_factor", spot(MAIN, text, "-1")),
    ]


def test_forms_can_follow_each_other(tmp_path: Path) -> None:
    """`sink.connector` is first `advanced.connector.connector`, then `advanced.connector.type`."""
    model, found = parsed(tmp_path, text_of("models", {"name": "e", "from": "x", "sink": {"connector": "print"}}))
    assert found == []
    assert model.advanced.connector.type == "print"
    text = text_of("models", {"name": "e", "from": "x", "sink": {"connector": ["print"]}})
    mistake = only(errors(parsed(tmp_path, text)[1]))
    assert (mistake.path, mistake.origin) == ("models.e.sink.connector", spot(MAIN, text, '["print"'))


def test_a_place_below_something_that_is_no_mapping_is_a_mistake_of_its_own(tmp_path: Path) -> None:
    text = text_of("models", BASES["models"] | {"advanced": "lots", "topic": {"name": "x"}})
    found = errors(parsed(tmp_path, text)[1])
    assert ("wrong-type", "models.e.advanced") in [(d.code, d.path) for d in found]


# Short forms of one field


@pytest.mark.parametrize(
    ("element", "same"),
    [
        ({"from": "x"}, {"from": [{"ref": "x"}]}),
        ({"from": ["x", {"source": "y"}]}, {"from": [{"ref": "x"}, {"source": "y"}]}),
        ({"from": {"source": "y"}}, {"from": [{"source": "y"}]}),
        ({"access": "protected"}, {"access": {"level": "protected"}}),
        (
            {"ml_outputs": {"F": {"score": "DOUBLE"}}},
            {"ml_outputs": {"F": {"columns": [{"name": "score", "type": "DOUBLE"}]}}},
        ),
        ({"gateway": {"virtual_topic": "v"}}, {"gateway": {"virtual_topic": {"name": "v"}}}),
        ({"gateway": {"virtual_topic": True}}, {"gateway": {"virtual_topic": {}}}),
        ({"materialized": "flink"}, {"materialized": "spark"}),
        ({"key": "a, b"}, {"key": ["a", "b"]}),
        ({"advanced": {"topic": "x"}}, {"advanced": {"topic": {"name": "x"}}}),
        ({"connector": "print"}, {"connector": {"type": "print"}}),
        (
            {"columns": [{"name": "a", "tests": ["not_null"]}]},
            {"columns": [{"name": "a", "tests": [{"not_null": {}}]}]},
        ),
        (
            {"security": {"policies": [{"mask": {"column": "a", "method": None}}]}},
            {"security": {"policies": [{"mask": {"column": "a", "policy": "null"}}]}},
        ),
    ],
    ids=lambda element: json.dumps(element)[:40],
)
def test_a_short_form_means_the_same_as_the_long_one(
    tmp_path: Path, element: dict[str, Any], same: dict[str, Any]
) -> None:
    short, found = parsed(tmp_path, text_of("models", {"name": "e", **element}))
    assert errors(found) == []
    assert short is not None
    assert short == parsed(tmp_path, text_of("models", {"name": "e", **same}))[0]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{max_lag_seconds: 300}", "{error_after: 5m}"),
        ("{warn_after_seconds: 60, error_after: 5m}", "{warn_after: 1m, error_after: 5m}"),
    ],
)
def test_freshness_in_seconds_means_the_same_as_a_duration(tmp_path: Path, short: str, long: str) -> None:
    head = "project: {name: p}\nsources: [{name: s, topic: t, freshness: "
    source, found = parsed(tmp_path, f"{head}{short}}}]\n")
    assert found == []
    other = parsed(tmp_path, f"{head}{long}}}]\n")[0]
    assert (source.freshness.warn_ms, source.freshness.error_ms) == (other.freshness.warn_ms, other.freshness.error_ms)
    assert source.freshness.error_ms == 300_000


def test_freshness_of_a_number_with_a_fraction_is_in_seconds_as_well(tmp_path: Path) -> None:
    source, found = parsed(
        tmp_path, "project: {name: p}\nsources: [{name: s, topic: t, freshness: {max_lag_seconds: 300.0}}]"
    )
    assert found == []
    assert source.freshness.error_ms == 300_000


def test_a_mistake_in_seconds_of_freshness_is_reported_under_the_name_that_was_written(project: Findings) -> None:
    text = "project: {name: p}\nsources: [{name: s, topic: t, freshness: {max_lag_seconds: soon}}]\n"
    found = only(project(text))
    assert found.path == "sources.s.freshness.max_lag_seconds"
    assert found.origin == spot(MAIN, text, "soon")


@pytest.mark.parametrize(("given", "percent"), [("99.9", 99.9), ("'99.9%'", 99.9), ("'99.95 %'", 99.95)])
def test_availability_is_a_number_or_a_percentage(tmp_path: Path, given: str, percent: float) -> None:
    write(tmp_path, {MAIN: f"project: {{name: p}}\nexposures: [{{name: e, sla: {{availability: {given}}}}}]\n"})
    documents, _ = load(tmp_path)
    assert documents is not None
    project, found = parse(documents)
    assert isinstance(project, StreamProject)
    assert found == []
    sla = project.exposures[0].value.sla
    assert sla is not None
    assert sla.availability == percent


def test_on_failure_is_a_list_of_actions_or_a_mapping(tmp_path: Path) -> None:
    tests = "tests: [{{name: t, model: m, type: sample, on_failure: {}}}]"
    found = []
    for form in ("[{alert: {channel: slack}}]", "{actions: [{alert: {channel: slack}}]}"):
        write(tmp_path, {MAIN: "project: {name: p}\n" + tests.format(form)})
        documents, _ = load(tmp_path)
        assert documents is not None
        project, diagnostics = parse(documents)
        assert isinstance(project, StreamProject)
        assert diagnostics == []
        found.append(project.tests[0].value.on_failure)
    assert found[0] == found[1]


# Fields without effect

INERT_VALUES: dict[str, Any] = {
    "checkpoint_interval_ms": 5,
    "checkpoint_timeout_ms": 5,
    "checkpoint_min_pause_ms": 5,
    "max_concurrent_checkpoints": 1,
    "version": 2,
    "deprecation": {"v1": {"sunset_date": "soon"}},
    "checkpoint": {"mode": "x"},
    "restart": {"a": 1},
    "state": {"a": 1},
    "resources": {"a": 1},
    "savepoint": {"a": 1},
    "flink": {"default": "a", "clusters": {"a": {"type": "rest"}}},
    "console": {"url": "http://c"},
}
INERT_PLACES = [(section, path) for section, paths in INERT.items() for path in paths]


@pytest.mark.parametrize(
    ("section", "path"), INERT_PLACES, ids=[f"{section}.{'.'.join(path)}" for section, path in INERT_PLACES]
)
def test_a_field_without_effect_is_understood_and_said_to_have_none(
    project: Findings, section: str, path: tuple[str, ...]
) -> None:
    value = nested(path, INERT_VALUES.get(path[-1], "word"))
    is_list = section in ("sources", "models", "tests")
    bases = {
        "sources": {"name": "e", "topic": "t", "columns": [{"name": "at", "type": "TIMESTAMP"}]},
        "models": {"name": "e", "sql": "SELECT * FROM {{ source('s') }}"},
        "tests": {"name": "e", "model": "s", "type": "schema"},
    }
    element = joined(bases.get(section, {}), value)
    if path[0] == "event_time" and section == "sources":
        element = joined(element, {"event_time": {"column": "at"}})
    document: dict[str, Any] = {"project": {"name": "p"}, "sources": [{"name": "s", "topic": "s"}]}
    document[section] = [*document.get(section, []), element] if is_list else element
    text = json.dumps(document)
    note = only(d for d in project(text) if d.severity is not Severity.WARNING)
    label = f"{section}.e" if is_list else section
    assert (note.code, note.severity) == ("no-effect", Severity.INFO)
    assert note.path == ".".join([label, *path])
    assert note.message == f"this has no effect: {INERT[section][path]}"
    assert note.origin == spot(MAIN, text, f'"{path[-1]}": ')


def test_a_field_without_effect_in_another_place_is_pointed_at_there(project: Findings) -> None:
    text = text_of("models", {"name": "e", "flink": {"checkpoint_interval": 5, "cluster": "x"}})
    notes = [d for d in project(text) if d.code == "no-effect"]
    assert [(d.path, d.origin) for d in notes] == [
        ("models.e.flink.checkpoint_interval", spot(MAIN, text, '"checkpoint_interval"')),
        ("models.e.flink.cluster", spot(MAIN, text, '"cluster"')),
    ]


def test_a_field_without_effect_in_an_environment_is_pointed_at_there(check: Check) -> None:
    files = {MAIN: "project: {name: p}\n", "environments/dev.yml": "runtime:\n  flink: {clusters: {}}\n"}
    note = only(check(files)[1])
    assert (note.code, note.path) == ("no-effect", "runtime.flink")
    assert note.origin is not None
    assert str(note.origin) == "environments/dev.yml:2:3"


@pytest.mark.parametrize(
    "element",
    [
        {"event_time": {"column": "at", "watermark": {"allowed_lateness_ms": 5}}},
        {"event_time": {"column": "at"}, "advanced": {"watermark": {"allowed_lateness_ms": 5}}},
    ],
)
def test_lateness_that_no_window_waits_for_is_said_to_have_no_effect(
    project: Findings, element: dict[str, Any]
) -> None:
    text = text_of("sources", {"name": "e", "topic": "t", **element})
    note = only(project(text))
    assert note.code == "no-effect"
    assert note.origin == spot(MAIN, text, "5}")


def test_the_compression_of_a_virtual_topic_is_handed_on_or_said_to_have_no_effect(check: Check) -> None:
    text = """
        project: {name: p}
        runtime: {conduktor: {gateway: {admin_url: x}}}
        sources: [{name: s, topic: t}]
        models:
          - {name: m, sql: "SELECT * FROM {{ source('s') }}", gateway: {virtual_topic: {name: v, compression: zstd}}}
    """
    graph, found = check({MAIN: text})
    assert graph is not None
    assert "no-effect" in codes(found) or "zstd" in compile(graph).gateway_rules[0].model_dump_json()


# Everything that can be written

EVERYTHING = """
    project: {name: shop, version: "1.0", description: All of it.}
    vars: {limit: 5}
    runtime:
      kafka:
        bootstrap_servers: [a:9092, "b:9092"]
        bootstrap_servers_internal: c:9092
        security_protocol: SASL_SSL
        sasl_mechanism: PLAIN
        sasl_username: u
        sasl_password: p
        ssl_ca_location: /ca
        ssl_certificate_location: /cert
        ssl_key_location: /key
        config: {client.id: x}
      schema_registry: {url: "http://r", username: u, password: p, compatibility: FULL, ssl: {ca_location: /ca}}
      flink:
        default: main
        default_parallelism: 4
        clusters:
          main: {type: confluent, rest_url: r, sql_gateway_url: s, version: "1", environment: e, api_key: k,
            api_secret: s, compute_pool_id: c, organization_id: o, namespace: n, service_account: s, image: i,
            image_pull_policy: Always, image_pull_secrets: [x], pod_template: {a: 1},
            environment_id: e, cloud: c, region: r, network: n}
      connect: {default: main, clusters: {main: {rest_url: r, username: u, password: p}}}
      conduktor:
        gateway: {admin_url: a, proxy_bootstrap: b, username: u, password: p, virtual_cluster: v}
        console: {url: c, api_key: k}
      spark: {master: "local[2]", config: {spark.x: 1}}
      ml: {models: {F: {path: f.onnx}}}
    defaults:
      on_error: dead_letter
      dead_letters: clear
      topic: {partitions: 1, replication_factor: 1, config: {a: 1}}
      models: {cluster: c, flink_cluster: c, topic: {partitions: 2, replication_factor: 1, config: {b: 2}}}
      tests: {flink_cluster: c, sample_size: 5}
    rules:
      topics: {min_partitions: 1, max_partitions: 9, min_replication_factor: 1, max_replication_factor: 3,
        naming_pattern: ".*", forbidden_prefixes: [x_], forbidden_suffixes: [_x], required_config: [a]}
      models: {require_description: true, require_owner: true, min_description_length: 2, require_tests: true,
        min_tests: 1, max_dependencies: 5, max_sql_length: 1000, allowed_materializations: [flink, topic, sink],
        required_tags: [a], allowed_tags: [a]}
      sources: {require_description: true, require_owner: true, require_schema: true, require_columns: true,
        require_freshness: true, max_freshness_warn: 1h, max_freshness_error: 1h, required_tags: [a]}
      exposures: {require_description: true, require_owner: true, require_sla: true, require_contacts: true,
        max_latency_p99_ms: 500, min_availability: 99, required_tags: [a]}
      tests: {require_schema_tests: false, min_assertions_per_test: 1, require_continuous_for_critical: true,
        require_description: true}
      security: {require_classification: true, allowed_classifications: [internal, public],
        sensitive_columns_require_masking: true, highly_sensitive_columns_require_encryption: true,
        pii_column_patterns: [ssn], require_access_level: true}
    sources:
      - name: orders
        topic: orders.v1
        description: Orders.
        owner: team
        tags: [a]
        cluster: c
        schema: {registry: confluent, subject: s, version: latest, format: AVRO, compatibility: BACKWARD,
          definition: '{"type": "record", "name": "r", "fields": []}'}
        columns:
          - {name: id, type: BIGINT, description: d, classification: internal, proctime: false, tests: [
              {not_null: {}}, {unique: {}}, {accepted_values: {values: [1]}}, {range: {min: 0, max: 9}}]}
          - {name: at, type: TIMESTAMP(3), classification: public}
        key: id
        event_time: {column: at, watermark: {strategy: monotonous, max_out_of_orderness_ms: 5, idle_ms: 9},
          allowed_lateness_ms: 1, late: drop, max_future_ms: 0}
        on_error: skip
        freshness: {warn_after: 5m, error_after: 15m}
        waivers: [{rule: sources.require_owner, reason: r, until: 2999-01-01}]
      - {name: rates, table: {type: file, config: {path: x, format: csv}}}
      - {name: slow, topic: slow.v1, freshness: {warn_after_seconds: 60, max_lag_seconds: 300}}
    models:
      - name: clean
        description: Clean.
        owner: team
        group: g
        tags: [a]
        access: {level: protected, allowed_groups: [g]}
        version: 1
        deprecation: {v0: {sunset_date: soon, message: m}}
        sql: SELECT id, at FROM {{ source("orders") }}
        from: [{source: orders}]
        key: id
        columns: [{name: id, type: BIGINT, classification: internal}]
        schema: {format: AVRO, compatibility: BACKWARD}
        event_time: {column: at, watermark: {strategy: bounded_out_of_orderness, idle_ms: 9},
          allowed_lateness_ms: 1, late: drop, max_future_ms: 5}
        on_error: stop
        materialized: topic
        gateway: {virtual_topic: {name: v, compression: zstd}}
        security:
          classification: {id: internal}
          masking: [{column: id, policy: hash, config: {visible_chars: 1, algorithm: sha256, salt: s, key: K},
            for_roles: [r]}]
          policies:
            - {allow: {roles: [r], groups: [g], columns: [id], purpose: p}}
            - {deny: {roles: [r]}}
            - {mask: {column: at, method: null}}
        ml_outputs: {F: {columns: [{name: score, type: DOUBLE}], description: d}}
        waivers: [{rule: models.require_owner, reason: r, until: 2999-01-01}]
        advanced:
          topic: {name: clean.v1, partitions: 3, replication_factor: 1, config: {retention.ms: 5}}
          spark: {trigger: {interval_ms: 5}, async_progress: true, parallelism: 2, state_backend: rocksdb,
            state_ttl_ms: 5, checkpoint_interval_ms: 5,
            checkpoint_timeout_ms: 5, checkpoint_min_pause_ms: 0, max_concurrent_checkpoints: 1,
            restart_strategy: r, checkpoint: {a: 1}, state: {a: 1}, restart: {a: 1}, resources: {a: 1},
            savepoint: {a: 1}}
          flink_cluster: c
          connect_cluster: c
      - name: out
        from: [{ref: clean}]
        advanced: {connector: {type: snowflake-sink, tasks_max: 2, config: {a: 1}}}
    tests:
      - name: t
        model: clean
        type: sample
        description: d
        owner: team
        group: g
        tags: [a]
        sample_size: 5
        timeout: 5s
        flink_cluster: c
        assertions:
          - {not_null: {columns: [id]}}
          - {accepted_values: {column: id, values: [1]}}
          - {accepted_types: {types: {id: bigint}}}
          - {range: {column: id, min: 0, max: 9}}
          - {unique_key: {key: id, window: 1h, tolerance: 0.1}}
          - {foreign_key: {column: id, ref_model: orders, ref_key: id, window: 1h, match_rate: 0.5}}
          - {max_lag: {column: at, max_seconds: 5}}
          - {throughput: {min_per_second: 1, max_per_second: 5, min_per_minute: 60, max_per_minute: 300}}
          - {distribution: {column: id, buckets: [{min: 0, max: 1, expected_ratio: 0.5, tolerance: 0.1}]}}
          - {custom_sql: {name: n, sql: "SELECT 1", expect: 0, max_failures: 0, detail_column: id}}
          - {custom_sql: {where: id > 1}}
          - {positive: {columns: id, allow_zero: true}}
          - {freshness: {max_seconds: 5, column: at}}
          - {freshness: {max_age_minutes: 5}}
        on_failure:
          severity: warning
          actions:
            - {alert: {type: slack, channel: c, url: u, webhook: w, routing_key: r, severity: s, message: m}}
            - {pause: {model: clean}}
            - {dlq: {model: clean, topic: t, include_error: true, include_metadata: true}}
            - {block_deploy: true}
        waivers: [{rule: tests.require_description, reason: r, until: 2999-01-01}]
    exposures:
      - name: dash
        type: dashboard
        role: consumer
        description: d
        owner: team
        group: g
        tags: [a]
        url: u
        repo: r
        language: l
        tool: t
        consumes: [{ref: clean}]
        depends_on: [{source: orders}]
        produces: [{source: orders}]
        consumer_group: c
        sla: {availability: 99.9, latency_p50_ms: 1, latency_p99_ms: 1, throughput_per_second: 1, freshness_seconds: 1,
          max_lag_seconds: 1, max_lag_minutes: 1, max_lag_messages: 1, max_produce_latency_ms: 1,
          max_end_to_end_latency_ms: 1, max_error_rate: 0.1}
        contracts: {schema: s, compatibility: BACKWARD}
        access: {roles: [r], purpose: p}
        freshness: {max_lag_seconds: 1, max_lag_minutes: 1, warn_after_seconds: 1}
        schedule: "0 * * * *"
        data_requirements: {a: 1}
        contacts: [{name: n, email: e, slack: s, pagerduty: p}]
        waivers: [{rule: exposures.require_owner, reason: r, until: 2999-01-01}]
"""
ENVIRONMENT = """
    environment: {name: dev, description: d, protected: true}
    runtime: {}
    safety: {confirm_apply: true, allow_destructive: false}
    vars: {limit: 6}
"""
KINDS: dict[str, tuple[type[BaseModel], bool]] = {
    "project": (written.ProjectHeader, False),
    "runtime": (Runtime, False),
    "defaults": (written.Defaults, False),
    "rules": (written.Rules, False),
    "sources": (written.Source, True),
    "models": (written.Model, True),
    "tests": (written.DataTest, True),
    "exposures": (written.Exposure, True),
}


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    arguments = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return [model for argument in arguments for model in models_in(argument)]


def parts(
    model: type[BaseModel], raw: Any, path: tuple[Any, ...]
) -> Iterator[tuple[type[BaseModel], Any, tuple[Any, ...]]]:
    """Every mapping in a value that is one of our models, with its path."""
    if isinstance(raw, list):
        for position, item in enumerate(raw):
            yield from parts(model, item, (*path, position))
    elif isinstance(raw, dict):
        yield model, raw, path
        for name, field in model.model_fields.items():
            key = field.alias or name
            for inner in models_in(field.annotation)[:1]:
                is_free = get_origin(field.annotation) is dict
                for below, steps in (
                    [(v, (key, k)) for k, v in raw.get(key, {}).items()] if is_free else [(raw.get(key), (key,))]
                ):
                    yield from parts(inner, below, (*path, *steps))


def everything() -> Iterator[tuple[type[BaseModel], Any, tuple[Any, ...]]]:
    document = yaml.safe_load(EVERYTHING)
    for section, (model, _) in KINDS.items():
        yield from parts(model, document[section], (section,))


def test_the_example_of_everything_has_every_field_that_can_be_written() -> None:
    seen: dict[type[BaseModel], set[str]] = {}
    for model, raw, _ in everything():
        known = {field.alias or name for name, field in model.model_fields.items()}
        seen.setdefault(model, set()).update(raw.keys() & known)
    missing = {
        (model.__name__, field.alias or name)
        for model, keys in seen.items()
        for name, field in model.model_fields.items()
        if (field.alias or name) not in keys
    }
    assert missing == set()
    assert {"Bucket", "Waiver", "Sunset", "MlOutput", "RegistrySsl", "Bounds", "Rule"} <= {m.__name__ for m in seen}


def test_every_key_that_is_documented_is_accepted(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: EVERYTHING})
    documents, notes = load(tmp_path)
    assert documents is not None
    project, found = parse(documents)
    assert errors([*notes, *found]) == []
    assert isinstance(project, StreamProject)
    assert [len(kind) for kind in (project.sources, project.models, project.tests, project.exposures)] == [3, 2, 1, 1]


def test_every_key_of_an_environment_is_accepted(check: Check) -> None:
    graph, found = check({MAIN: "project: {name: p}\n", "environments/dev.yml": ENVIRONMENT})
    assert found == ()
    assert graph is not None


def test_a_misspelt_key_is_refused_with_the_nearest_name_at_every_level(tmp_path: Path) -> None:
    """One key too many in every mapping of the example, all of them reported at once."""
    document = yaml.safe_load(EVERYTHING)
    expected: dict[str, str] = {}
    for section, (model, is_list) in KINDS.items():
        for inner, raw, path in list(parts(model, document[section], (section,))):
            named = [field.alias or name for name, field in inner.model_fields.items()]
            if not named:
                continue
            longest = max(named, key=len)
            raw[f"{longest}q"] = 1
            steps = [section, document[section][path[1]]["name"], *path[2:]] if is_list else list(path)
            expected[".".join([*map(str, steps), f"{longest}q"])] = f"did you mean `{longest}`?"
    write(tmp_path, {MAIN: yaml.safe_dump(document, sort_keys=False)})
    documents, _ = load(tmp_path)
    assert documents is not None
    found = {d.path: d for d in parse(documents)[1] if d.code == "unknown-field"}
    assert len(expected) > 60
    assert {path: d.hint for path, d in found.items()} == expected
    lines = documents.files[0].text.splitlines()
    for path, diagnostic in found.items():
        assert diagnostic.origin is not None
        assert diagnostic.origin.line is not None
        assert diagnostic.origin.column is not None
        key = path.rpartition(".")[2]
        assert lines[diagnostic.origin.line - 1][diagnostic.origin.column - 1 :].startswith(key)


@pytest.mark.parametrize(
    ("key", "hint"),
    [("model", "did you mean `models`?"), ("default", "did you mean `defaults`?"), ("var", "did you mean `vars`?")],
)
def test_a_misspelt_section_is_refused_with_the_nearest_name(project: Findings, key: str, hint: str) -> None:
    found = only(project(f"project: {{name: p}}\n{key}: []\n"))
    assert (found.code, found.hint, str(found.origin)) == ("unknown-field", hint, f"{MAIN}:2:1")


@pytest.mark.parametrize("key", ["environmnt", "safty", "run_time"])
def test_a_misspelt_key_of_an_environment_is_refused(check: Check, key: str) -> None:
    found = only(check({MAIN: "project: {name: p}\n", "environments/dev.yml": f"runtime: {{}}\n{key}: {{}}\n"})[1])
    assert found.code == "unknown-field"
    assert found.hint is not None
    assert found.hint.startswith("did you mean")
    assert str(found.origin) == "environments/dev.yml:2:1"


@pytest.mark.parametrize("section", ["sources", "models", "tests", "exposures"])
def test_a_section_may_be_empty(project: Findings, section: str) -> None:
    assert project(f"project: {{name: p}}\n{section}:\n") == ()


@pytest.mark.parametrize("section", ["sources", "models", "tests", "exposures"])
@pytest.mark.parametrize("value", ["{a: 1}", "word", "[word]", "[[]]", "[null]", "7"])
def test_a_section_of_another_shape_is_refused_at_its_place(project: Findings, section: str, value: str) -> None:
    found = only(project(f"project: {{name: p}}\n{section}: {value}\n"))
    assert found.code in ("wrong-shape", "wrong-type")
    assert found.origin is not None
    assert found.origin.line == 2


CLUSTERS = """
    project: {{name: p}}
    runtime:
      kafka: {{bootstrap_servers: "k:9092"}}
      schema_registry: {{url: "http://r"{registry}}}
      conduktor: {{gateway: {{url: "http://g:8888"}}}}
    sources: [{{name: s, topic: t, columns: [{{name: id, type: INT}}]}}]
    models: [{{name: m, materialized: topic, schema: {schema}, sql: 'SELECT id FROM {{{{ source("s") }}}}'}}]
"""


def test_systems_are_known_by_the_names_that_others_have_for_their_settings(project_graph: Link) -> None:
    runtime = project_graph(CLUSTERS.format(registry=", api_key: k, api_secret: s", schema="{}")).runtime
    assert runtime.conduktor is not None
    assert runtime.conduktor.gateway is not None
    assert runtime.conduktor.gateway.admin_url == "http://g:8888"
    assert runtime.schema_registry is not None
    found = runtime.schema_registry.registry(Path())
    assert (found.username, found.password) == ("k", "s")


def test_schemas_are_as_compatible_as_the_registry_is_to_be_unless_they_say_it(project_graph: Link) -> None:
    registry = ", compatibility: full"
    (schema,) = compile(project_graph(CLUSTERS.format(registry=registry, schema="{format: avro}"))).schemas
    assert schema.compatibility == "FULL"
    said = "{format: avro, compatibility: backward}"
    (schema,) = compile(project_graph(CLUSTERS.format(registry=registry, schema=said))).schemas
    assert schema.compatibility == "BACKWARD"


def test_a_compatibility_alone_makes_no_avro(project: Findings, project_graph: Link) -> None:
    text = CLUSTERS.format(registry="", schema="{compatibility: BACKWARD}")
    found = only(project(text))
    assert (found.code, found.path, found.severity) == ("no-effect", "models.m.schema.compatibility", Severity.WARNING)
    manifest = compile(project_graph(text))
    assert manifest.schemas == ()
    assert manifest.query("m").outputs[0].sink["data_format"] == "json"
