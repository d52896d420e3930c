"""What is covered before it is written, in which SQL, and how delicacy follows a column."""

import pytest
from sqlglot import exp, parse_one

from penstock.errors import Severity
from penstock.graph.graph import Graph
from penstock.manifest.compile import compile
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Findings, Link

HEAD = """\
project: {name: p}
sources:
  - name: s
    topic: s.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: email, classification: sensitive}
      - {name: ssn, type: BIGINT, classification: highly_sensitive}
      - {name: city, classification: internal}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at}
  - {name: t, topic: t.v1, columns: [{name: id, type: BIGINT}, {name: email, classification: confidential}]}
  - {name: open, topic: open.v1}
models:
"""
S, T, OPEN = "{{ source('s') }}", "{{ source('t') }}", "{{ source('open') }}"


def model(name: str, sql: str, masking: str = "", more: str = "") -> str:
    lines = "".join(f"      {line}\n" for line in sql.splitlines())
    security = f"    security: {{masking: [{masking}]}}\n" if masking else ""
    return f"  - name: {name}\n    sql: |\n{lines}{security}{more}"


def step(graph: Graph, name: str = "m") -> str:
    """The SQL that Spark gets for a model."""
    query = compile(graph).query(name)
    return next(s.sql for s in query.steps if s.node == f"model.{name}")


def outputs(sql: str) -> dict[str, str]:
    """The outer SELECT of a masked query, by output."""
    tree = parse_one(sql, read="spark")
    assert isinstance(tree, exp.Select)
    return {e.alias_or_name: e.unalias().sql("spark") for e in tree.selects}


def masked(graph: Graph, name: str = "m") -> set[str]:
    return {mask.column for mask in graph[f"model.{name}"].masks}


EMAIL = "CAST(`_unmasked`.`email` AS STRING)"
POLICIES = {
    "{column: email, policy: hash}": f"MD5({EMAIL})",
    "{column: email, policy: hash, config: {algorithm: sha256}}": f"SHA2({EMAIL}, 256)",
    "{column: email, policy: redact}": "IF(`_unmasked`.`email` IS NULL, NULL, '***')",
    "{column: email, policy: null}": "CAST(NULL AS STRING)",
    "{column: email, policy: 'null'}": "CAST(NULL AS STRING)",
    "{column: EMAIL, method: hash}": f"MD5({EMAIL})",
    "{column: email, policy: partial, config: {visible_chars: 2}}": (
        f"IF(CHAR_LENGTH({EMAIL}) > 2, CONCAT(REPEAT('*', CHAR_LENGTH({EMAIL}) - 2), RIGHT({EMAIL}, 2)), "
        f"REPEAT('*', CHAR_LENGTH({EMAIL})))"
    ),
}


def flat(sql: str) -> str:
    return parse_one(f"SELECT {sql}", read="spark").sql("spark", normalize_functions="upper")


@pytest.mark.parametrize(("masking", "expected"), POLICIES.items())
def test_a_mask_is_put_around_the_query(project_graph: Link, masking: str, expected: str) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT id, email FROM {S}", masking))
    found = outputs(step(graph))
    assert flat(found["email"]) == flat(expected)
    assert found["id"] == "`_unmasked`.`id`"
    assert "FROM (SELECT `id`, `email` FROM `source.s` AS `s`) AS `_unmasked`" in step(graph)


def test_a_token_needs_a_key_that_is_never_in_the_manifest(
    project_graph: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN_KEY", "key-of-the-test")
    graph = project_graph(HEAD + model("m", f"SELECT email FROM {S}", "{column: email, policy: tokenize}"))
    manifest = compile(graph)
    found = outputs(step(graph))["email"].upper()
    assert "'TOK_'" in found
    assert found.count("SHA2") == 2
    assert "key-of-the-test" not in manifest.to_json()
    assert "PENSTOCK_TOKEN_KEY" in manifest.to_json()


def test_the_key_of_a_token_may_have_a_name_of_its_own(project_graph: Link) -> None:
    masking = "{column: email, policy: tokenize, config: {key: MY_OWN_KEY}}"
    text = compile(project_graph(HEAD + model("m", f"SELECT email FROM {S}", masking))).to_json()
    assert "MY_OWN_KEY" in text
    assert "PENSTOCK_TOKEN_KEY" not in text


def test_a_salt_goes_before_the_value_and_is_never_in_the_manifest(
    project_graph: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALT_OF_THE_TEST", "salt-of-the-test")
    masking = "{column: email, policy: hash, config: {algorithm: sha256, salt: '${SALT_OF_THE_TEST}'}}"
    graph = project_graph(HEAD + model("m", f"SELECT email FROM {S}", masking))
    assert outputs(step(graph))["email"].upper().startswith("SHA2(CONCAT(")
    assert "salt-of-the-test" not in compile(graph).to_json()
    assert "SALT_OF_THE_TEST" in compile(graph).to_json()


def test_a_covered_column_is_text_unless_it_is_nothing(project_graph: Link) -> None:
    for policy, kind in (("hash", "STRING"), ("redact", "STRING"), ("'null'", "BIGINT")):
        graph = project_graph(HEAD + model("m", f"SELECT id, ssn FROM {S}", f"{{column: ssn, policy: {policy}}}"))
        assert [(c.name, c.type) for c in graph["model.m"].columns or ()] == [("id", "BIGINT"), ("ssn", kind)]
    assert outputs(step(graph))["ssn"] == "CAST(NULL AS BIGINT)"


@pytest.mark.parametrize(
    ("column", "policy"), [("a`b", "hash"), ("a'b", "redact"), ("a b", "partial"), ("sélect", "hash"), ("from", "hash")]
)
def test_no_name_leaves_its_quotes(project_graph: Link, column: str, policy: str) -> None:
    text = f"""
        project: {{name: p}}
        sources: [{{name: s, topic: t, columns: [{{name: "{column}"}}, {{name: id, type: INT}}]}}]
        models:
          - name: m
            sql: SELECT * FROM {{{{ source('s') }}}}
            security: {{masking: [{{column: "{column}", policy: {policy}}}]}}
    """
    found = outputs(step(project_graph(text)))
    assert list(found) == [column, "id"]


# Which outputs are covered

SHAPES: dict[str, tuple[str, set[str]]] = {
    "the column": (f"SELECT id, email FROM {S}", {"email"}),
    "under an alias": (f"SELECT id, email AS contact FROM {S}", {"contact"}),
    "under two names": (f"SELECT email, email AS contact FROM {S}", {"email", "contact"}),
    "of a star": (f"SELECT * FROM {S}", {"email"}),
    "of a star of an alias": (f"SELECT a.* FROM {S} a JOIN {T} b ON a.id = b.id", {"email"}),
    "of both sides of a join": (
        f"SELECT a.email AS x, b.email AS y FROM {S} a JOIN {T} b ON a.id = b.id",
        {"x", "y"},
    ),
    "in an expression": (f"SELECT id, LOWER(email) AS e FROM {S}", {"e"}),
    "in an aggregate": (f"SELECT MAX(email) AS e, id FROM {S} GROUP BY id, TUMBLE(at, INTERVAL '1' HOUR)", {"e"}),
    "but not where it is only counted": (
        f"SELECT COUNT(email) AS n, MAX(email) AS e FROM {S} GROUP BY id, TUMBLE(at, INTERVAL '1' HOUR)",
        {"e"},
    ),
    "through a CTE": (f"WITH q AS (SELECT email AS a FROM {S}) SELECT a AS b FROM q", {"b"}),
    "through a subquery": (f"SELECT CONCAT(q.a, 'x') AS b FROM (SELECT email AS a FROM {S}) AS q", {"b"}),
    "through a union": (f"SELECT city AS x FROM {S} UNION ALL SELECT email FROM {T}", {"x"}),
    "of columns that are not known": (f"SELECT * FROM {OPEN}", {"email"}),
}


@pytest.mark.parametrize(("sql", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_every_output_that_shows_a_masked_column_is_covered(project_graph: Link, sql: str, expected: set[str]) -> None:
    graph = project_graph(HEAD + model("m", sql, "{column: email, policy: redact}"))
    assert masked(graph) == expected
    found = outputs(step(graph))
    assert {name for name, value in found.items() if "'***'" in value} == expected


def test_the_order_of_outputs_stays(project_graph: Link) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT email, id, city FROM {S}", "{column: email, policy: hash}"))
    assert list(outputs(step(graph))) == ["email", "id", "city"]


def test_columns_that_are_not_known_are_left_out_and_put_back_covered(project_graph: Link) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT * FROM {OPEN}", "{column: email, policy: hash}"))
    assert step(graph).startswith("SELECT * EXCEPT (`email`), MD5(")


def test_a_model_without_sql_is_covered_as_well(project_graph: Link) -> None:
    text = (
        HEAD
        + "  - {name: m, from: {source: s}, connector: print, security: {masking: [{column: email, policy: hash}]}}\n"
    )
    assert "MD5(" in step(project_graph(text))


def test_a_view_is_covered_where_it_is_read(project_graph: Link) -> None:
    text = HEAD + model(
        "v", f"SELECT id, email FROM {S}", "{column: email, policy: hash}", "    materialized: virtual_topic\n"
    )
    graph = project_graph(text + model("m", "SELECT email FROM {{ ref('v') }}"))
    assert "MD5(" in step(graph, "m") or any("MD5(" in s.sql for s in compile(graph).query("m").steps)


def test_a_sink_of_kafka_connect_gets_a_topic_of_its_own_with_what_is_covered(project_graph: Link) -> None:
    sink = "sink: {connector: snowflake-sink, config: {}}"
    plain = project_graph(HEAD + f"  - {{name: m, from: {{source: s}}, {sink}}}\n")
    assert compile(plain).connectors[0].topics == ("s.v1",)
    text = (
        HEAD
        + f"  - {{name: m, from: {{source: s}}, {sink}, security: {{masking: [{{column: email, policy: hash}}]}}}}\n"
    )
    manifest = compile(project_graph(text))
    assert manifest.connectors[0].topics == ("m",)
    assert "MD5(" in manifest.query("m").steps[0].sql


def test_the_first_mask_of_a_column_is_taken(project_graph: Link) -> None:
    masking = "{column: email, policy: redact}, {column: EMAIL, policy: hash}"
    graph = project_graph(HEAD + model("m", f"SELECT email FROM {S}", masking))
    assert [mask.policy for mask in graph["model.m"].masks] == ["redact"]


def test_the_older_form_covers_as_well(project_graph: Link) -> None:
    more = "    security: {policies: [{mask: {column: email, method: hash, for_roles: [support]}}]}\n"
    assert masked(project_graph(HEAD + model("m", f"SELECT email FROM {S}", "", more))) == {"email"}


def test_a_gateway_gets_masks_as_interceptors(project_graph: Link) -> None:
    text = "runtime: {conduktor: {gateway: {admin_url: x}}}\n" + HEAD
    more = "    security: {policies: [{mask: {column: email, method: redact, for_roles: [support]}}]}\n"
    (rule,) = compile(project_graph(text + model("m", f"SELECT * FROM {S} WHERE id > 1", "", more))).gateway_rules
    assert [i.type for i in rule.interceptors] == ["filter", "mask"]
    assert rule.interceptors[0].config == {"where": "id > 1"}
    assert (
        rule.interceptors[1].config.items() >= {"field": "email", "method": "redact", "forRoles": ["support"]}.items()
    )


# Mistakes


def test_a_mask_of_a_column_that_is_not_there_is_refused_with_the_nearest(project: Findings) -> None:
    text = HEAD + model("m", f"SELECT id, email FROM {S}", "{column: emial, policy: hash}")
    found = only(project(text))
    assert (found.code, found.params) == ("mask-column-missing", {"column": "emial"})
    assert found.hint == "did you mean `email`?"
    assert found.origin is not None
    assert found.origin.line == spot(MAIN, text, "emial").line


@pytest.mark.parametrize("policy", ["encrypt", "", "5"])
def test_an_unknown_policy_is_refused(project: Findings, policy: str) -> None:
    found = only(project(HEAD + model("m", f"SELECT email FROM {S}", f"{{column: email, policy: '{policy}'}}")))
    assert found.code == "unknown-value"


@pytest.mark.parametrize(
    "config", ["{visible_chars: -1}", "{algorithm: sha1}", "{key: 'a b'}", "{key: 1a}", "{sal: x}"]
)
def test_a_setting_that_cannot_be_is_refused(project: Findings, config: str) -> None:
    masking = f"{{column: email, policy: hash, config: {config}}}"
    assert len(errors(project(HEAD + model("m", f"SELECT email FROM {S}", masking)))) == 1


def test_an_output_made_from_what_another_covers_is_pointed_out(project: Findings) -> None:
    text = HEAD + model("m", f"SELECT email, UPPER(email) AS loud FROM {S}", "{column: email, policy: hash}")
    found = only(project(text))
    assert (found.code, found.severity, found.params) == ("mask-incomplete", Severity.WARNING, {"column": "loud"})


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT UPPER(email) AS email, email AS raw FROM {S}",
        f"SELECT UPPER(email) AS email, LOWER(email) AS raw FROM {S}",
    ],
)
def test_an_output_made_from_what_a_masked_expression_hides_is_covered_or_pointed_out(check: Check, sql: str) -> None:
    graph, found = check({MAIN: HEAD + model("m", sql, "{column: email, policy: hash}")})
    assert "mask-incomplete" in codes(found) or (graph is not None and "raw" in masked(graph))


def test_roles_of_a_mask_are_said_to_have_no_effect(project: Findings) -> None:
    text = HEAD + model("m", f"SELECT email FROM {S}", "{column: email, policy: hash, for_roles: [support]}")
    found = only(project(text))
    assert (found.code, found.severity) == ("no-effect", Severity.INFO)
    assert found.origin == spot(MAIN, text, "[support]")


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_lists_of_readers_are_said_to_have_no_effect(project: Findings, word: str) -> None:
    text = HEAD + model(
        "m", f"SELECT email FROM {S}", "", f"    security: {{policies: [{{{word}: {{roles: [r]}}}}]}}\n"
    )
    found = only(project(text))
    assert (found.code, found.severity, found.path) == (
        "no-effect",
        Severity.INFO,
        f"models.m.security.policies.0.{word}",
    )


# Classification


def levels(graph: Graph, name: str = "m") -> dict[str, str]:
    return dict(graph[f"model.{name}"].classification)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT email AS e, id FROM {S}", {"e": "sensitive"}),
        (f"SELECT CONCAT(email, city) AS e FROM {S}", {"e": "sensitive"}),
        (f"SELECT city, ssn + id AS n FROM {S}", {"city": "internal", "n": "highly_sensitive"}),
        (f"SELECT COUNT(ssn) AS n FROM {S} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)", {}),
        (f"SELECT email FROM {T} UNION ALL SELECT email FROM {S}", {"email": "sensitive"}),
        (f"SELECT * FROM {T}", {"email": "confidential"}),
        (f"WITH q AS (SELECT ssn AS a FROM {S}) SELECT CAST(a AS STRING) AS Z FROM q", {"z": "highly_sensitive"}),
    ],
)
def test_an_output_is_as_delicate_as_what_it_shows(project_graph: Link, sql: str, expected: dict[str, str]) -> None:
    assert levels(project_graph(HEAD + model("m", sql))) == expected


def test_delicacy_follows_a_column_through_every_model_and_name(project_graph: Link) -> None:
    text = HEAD + model("a", f"SELECT email AS b FROM {S}") + model("b", "SELECT UPPER(b) AS c FROM {{ ref('a') }}")
    text += model("m", "SELECT * FROM {{ ref('b') }}")
    assert levels(project_graph(text)) == {"c": "sensitive"}


@pytest.mark.parametrize(
    "more",
    ["    security: {classification: {E: LEVEL}}\n", "    columns: [{name: e, classification: LEVEL}]\n"],
)
@pytest.mark.parametrize(("said", "expected"), [("highly_sensitive", "highly_sensitive"), ("public", "sensitive")])
def test_what_is_said_can_only_make_it_more_delicate(project_graph: Link, more: str, said: str, expected: str) -> None:
    text = HEAD + model("m", f"SELECT email AS e FROM {S}", "", more.replace("LEVEL", said))
    assert levels(project_graph(text)) == {"e": expected}


def test_what_was_covered_once_stays_covered_under_any_name(project_graph: Link) -> None:
    text = HEAD + model("a", f"SELECT email FROM {S}", "{column: email, policy: hash}")
    text += model("m", "SELECT UPPER(email) AS x FROM {{ ref('a') }}")
    node = project_graph(text)["model.m"]
    assert (dict(node.classification), node.covered) == ({"x": "sensitive"}, frozenset({"x"}))


def test_what_is_made_of_covered_and_open_columns_is_open(project_graph: Link) -> None:
    text = HEAD + model("a", f"SELECT id, email, ssn FROM {S}", "{column: email, policy: hash}")
    text += model("m", "SELECT CONCAT(email, ssn) AS x FROM {{ ref('a') }}")
    assert project_graph(text)["model.m"].covered == frozenset()


def test_delicacy_follows_also_through_a_star_over_columns_that_are_not_known(project_graph: Link) -> None:
    text = HEAD + model("a", f"SELECT * FROM {OPEN}", "", "    security: {classification: {email: sensitive}}\n")
    assert levels(project_graph(text + model("m", "SELECT * FROM {{ ref('a') }}"))) == {"email": "sensitive"}


def test_the_manifest_tells_of_every_column_how_delicate_it_is_and_how_it_is_covered(project_graph: Link) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT id, email FROM {S}", "{column: email, policy: hash}"))
    node = next(n for n in compile(graph).dag.nodes if n.id == "model.m")
    assert node.columns is not None
    assert [(c.name, c.classification, c.masking) for c in node.columns] == [
        ("id", None, None),
        ("email", "sensitive", "hash (md5)"),
    ]


def test_a_mask_of_an_input_that_is_not_selected_covers_nothing(project_graph: Link) -> None:
    graph = project_graph(HEAD + model("m", f"SELECT id FROM {S}", "{column: ssn, policy: hash}"))
    assert masked(graph) == set()
    graph = project_graph(HEAD + model("m", f"SELECT id FROM {OPEN}", "{column: ssn, policy: hash}"))
    assert masked(graph) == set()


def test_a_mask_of_a_name_that_is_like_an_output_is_refused_also_if_the_input_is_not_known(project: Findings) -> None:
    found = only(project(HEAD + model("m", f"SELECT id, email FROM {OPEN}", "{column: emial, policy: hash}")))
    assert (found.code, found.hint) == ("mask-column-missing", "did you mean `email`?")
