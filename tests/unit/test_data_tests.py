"""Tests of a project: what they look at, and what can be told without any rows."""

import pytest

from penstock.errors import Severity
from penstock.manifest.compile import compile
from tests.support import codes, errors, only, spot
from tests.unit.conftest import MAIN, Check, Findings

HEAD = """\
project: {name: p}
sources:
  - name: s
    topic: t
    columns:
      - {name: id, type: BIGINT}
      - {name: Name}
      - {name: price, type: 'DECIMAL(10, 2)'}
      - {name: at, type: TIMESTAMP(3)}
      - {name: day, type: DATE}
      - {name: ok, type: BOOLEAN}
      - {name: xs, type: ARRAY<STRING>}
  - {name: open, topic: u}
models: [{name: m, sql: 'SELECT id, Name FROM {{ source("s") }}'}]
tests:
"""


def with_test(*assertions: str, kind: str = "sample", model: str = "s", more: str = "") -> str:
    return f"{HEAD}  - {{name: t, model: {model}, type: {kind}, assertions: [{', '.join(assertions)}]{more}}}\n"


# What it looks at


@pytest.mark.parametrize(("name", "node"), [("m", "model.m"), ("s", "source.s")])
def test_a_test_looks_at_a_model_or_a_source(check: Check, name: str, node: str) -> None:
    graph, found = check({MAIN: with_test("{not_null: {columns: id}}", model=name)})
    assert found == ()
    assert graph is not None
    assert [(t.name, t.node) for t in graph.tests] == [("t", node)]


def test_a_model_comes_before_a_source_of_the_same_name(check: Check) -> None:
    graph, found = check({MAIN: with_test("{not_null: {columns: id}}", model="m").replace("name: open", "name: m")})
    assert found == ()
    assert graph is not None
    assert graph.tests[0].node == "model.m"


def test_a_test_of_nothing_is_refused_with_the_nearest(project: Findings) -> None:
    text = with_test(model="opn")
    found = only(project(text))
    assert (found.code, found.path, found.params) == ("unknown-model", "tests.t.model", {"name": "opn"})
    assert (found.origin, found.hint) == (spot(MAIN, text, "opn"), "did you mean `open`?")


def test_a_test_of_a_model_that_could_not_be_read_is_no_second_mistake(project: Findings) -> None:
    text = with_test("{not_null: {columns: id}}", model="m").replace("{name: m,", "{name: m, ownr: x,")
    assert codes(project(text)) == ["unknown-field"]


def test_two_tests_of_one_name_are_refused(project: Findings) -> None:
    assert codes(project(with_test() + "  - {name: T, model: s, type: schema}\n")) == ["duplicate-name"]


# Columns

NAMED = [
    "{not_null: {columns: [id, WORD]}}",
    "{not_null: {columns: 'id, WORD'}}",
    "{accepted_values: {column: WORD, values: [1]}}",
    "{accepted_types: {types: {id: bigint, WORD: string}}}",
    "{unique_key: {key: WORD}}",
    "{unique_key: {key: [id, WORD]}}",
    "{foreign_key: {column: WORD, ref_model: m, ref_key: id}}",
    "{max_lag: {column: WORD, max_seconds: 5}}",
    "{freshness: {max_seconds: 5, column: WORD}}",
    "{custom_sql: {where: id > 1, detail_column: WORD}}",
]


OF_NUMBERS = [
    "{range: {column: WORD, min: 0}}",
    "{distribution: {column: WORD, buckets: [{expected_ratio: 1}]}}",
    "{positive: {columns: WORD}}",
    "{positive: {column: WORD}}",
]


@pytest.mark.parametrize(
    ("assertion", "name", "typo"),
    [*((a, "Name", "nmae") for a in NAMED), *((a, "price", "prcie") for a in OF_NUMBERS)],
)
def test_a_column_that_an_assertion_names_must_be_there(
    project: Findings, assertion: str, name: str, typo: str
) -> None:
    assert project(with_test(assertion.replace("WORD", name.upper()))) == ()
    text = with_test("{not_null: {columns: id}}", assertion.replace("WORD", typo))
    found = only(project(text))
    assert (found.code, found.params, found.hint) == ("contract-broken", {"column": typo}, f"did you mean `{name}`?")
    assert found.path.startswith("tests.t.assertions.1.")
    assert found.origin is not None
    assert found.origin.line == spot(MAIN, text, typo).line


@pytest.mark.parametrize("assertion", [*NAMED, *OF_NUMBERS])
def test_where_columns_are_not_known_nothing_is_claimed(project: Findings, assertion: str) -> None:
    assert project(with_test(assertion, model="open")) == ()


def test_the_key_of_the_other_model_must_be_there(project: Findings) -> None:
    text = with_test("{foreign_key: {column: id, ref_model: m, ref_key: nope}}")
    assert codes(project(text)) == ["contract-broken"]


# Values


def rules_of(check: Check, *assertions: str, model: str = "m", columns: str = "id, Name") -> list[str]:
    """The conditions that rows of a model must meet."""
    text = with_test(*assertions, kind="continuous", model=model, more=", on_failure: [{dlq: {}}]")
    graph, found = check({MAIN: text.replace("SELECT id, Name", f"SELECT {columns}")})
    assert graph is not None, found
    (query,) = compile(graph).queries
    return [rule.condition for output in query.outputs for rule in output.rules]


@pytest.mark.parametrize(
    ("column", "values", "condition"),
    [
        ("Name", "[DE, NO, on, 1.10, 0x10, 2026-01-01]", "`Name` IN ('DE', 'NO', 'on', '1.10', '0x10', '2026-01-01')"),
        ("Name", '["NO", \'y\']', "`Name` IN ('NO', 'y')"),
        ("id", "[1, 0x10, '7', 1_000]", "`id` IN (1, 16, 7, 1000)"),
        ("price", "[1.50, 2]", "`price` IN (1.50, 2)"),
        ("ok", "[yes, 'false']", "`ok` IN (TRUE, FALSE)"),
        ("day", "[2026-01-31, '2026-02-01']", "`day` IN (CAST('2026-01-31' AS DATE), CAST('2026-02-01' AS DATE))"),
        ("at", "[2026-01-31 10:00:00]", "`at` IN (CAST('2026-01-31 10:00:00' AS TIMESTAMP))"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_column_s_type(check: Check, column: str, values: str, condition: str) -> None:
    rule = f"{{accepted_values: {{column: {column}, values: {values}}}}}"
    assert rules_of(check, rule, columns="id, Name, price, ok, day, `at`") == [condition]


def test_values_for_a_column_of_an_unknown_type_are_compared_as_texts(check: Check) -> None:
    lists = ("{accepted_values: {column: x, values: [DE, NO]}}", "{accepted_values: {column: x, values: [1, 2]}}")
    text = with_test(*lists, kind="continuous", model="m", more=", on_failure: [{dlq: {}}]")
    graph, _ = check(
        {MAIN: text.replace('SELECT id, Name FROM {{ source("s") }}', 'SELECT x FROM {{ source("open") }}')}
    )
    assert graph is not None
    (query,) = compile(graph).queries
    found = [rule.condition for output in query.outputs for rule in output.rules]
    assert found == ["CAST(`x` AS STRING) IN ('DE', 'NO')", "`x` IN (1, 2)"]


@pytest.mark.parametrize(
    ("column", "values", "word"),
    [
        ("id", "[1, a, 2]", "a"),
        ("id", "[1, NO]", "NO"),
        ("price", "[.inf]", ".inf"),
        ("ok", "[true, maybe]", "maybe"),
        ("day", "[2026-02-30]", "2026-02-30"),
        ("at", "[2026-01-01, garbage]", "garbage"),
        ("Name", "[a, null]", "null"),
        ("Name", "[a, ~]", "~"),
    ],
)
def test_a_value_that_the_column_cannot_have_is_found_where_it_stands(
    project: Findings, column: str, values: str, word: str
) -> None:
    text = with_test(f"{{accepted_values: {{column: {column}, values: {values}}}}}")
    found = only(project(text))
    assert (found.code, found.params) == ("contract-broken", {"column": column})
    at = text.index(f"values: {values}")
    assert found.origin is not None
    assert found.origin.column == at + len("values: ") + values.index(word) - text.rindex("\n", 0, at)
    types = {"id": "BIGINT", "price": "DOUBLE", "ok": "BOOLEAN", "day": "DATE", "at": "TIMESTAMP", "Name": "STRING"}
    beside = f"{{name: {column}, type: {types[column]}, tests: [{{accepted_values: {{values: {values}}}}}]}}"
    source = f"project: {{name: p}}\nsources: [{{name: s, topic: t, columns: [{beside}]}}]\n"
    assert codes(project(source)) == ["contract-broken"]


@pytest.mark.parametrize(
    ("assertion", "column"),
    [
        *((a, column) for a in OF_NUMBERS for column in ("Name", "at", "ok", "xs")),
        ("{accepted_values: {column: WORD, values: [a]}}", "xs"),
    ],
)
def test_a_test_of_numbers_needs_a_column_of_numbers(project: Findings, assertion: str, column: str) -> None:
    found = only(project(with_test(assertion.replace("WORD", column))))
    assert (found.code, found.params) == ("contract-broken", {"column": column})


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("idd = 1", "sql-unknown-column"),
        ("id = 'a'", "sql-argument"),
        ("uper(Name) = 'x'", "sql-unknown-function"),
        ("java_method('a', 'b') = 'x'", "sql-unsupported"),
        ("id > 1 GROUP BY id", "sql-statement"),
        ("id IN (SELECT 1 FROM x)", "sql-statement"),
        ("id >", "sql-syntax"),
    ],
)
def test_the_condition_of_a_test_is_checked_like_any_sql(project: Findings, where: str, code: str) -> None:
    text = with_test(f'{{custom_sql: {{where: "{where}"}}}}', kind="continuous")
    assert codes(errors(project(text))) == [code]


# Types


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("id", "bigint"),
        ("id", "BIGINT"),
        ("id", "number"),
        ("id", "long"),
        ("id", "numeric"),
        ("name", "string"),
        ("name", "str"),
        ("name", "VARCHAR(20)"),
        ("price", "number"),
        ("price", "DECIMAL(10, 2)"),
        ("price", "double"),
        ("at", "timestamp"),
        ("at", "datetime"),
        ("at", "TIMESTAMP(3)"),
        ("day", "date"),
        ("ok", "boolean"),
        ("ok", "bool"),
        ("xs", "ARRAY<STRING>"),
        ("name", "time"),
    ],
)
def test_a_type_that_fits_is_accepted(project: Findings, column: str, wanted: str) -> None:
    assert project(with_test(f"{{accepted_types: {{types: {{{column}: '{wanted}'}}}}}}", kind="schema")) == ()


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("id", "string"),
        ("id", "int"),
        ("id", "boolean"),
        ("price", "bigint"),
        ("price", "DECIMAL(9, 2)"),
        ("at", "date"),
        ("day", "timestamp"),
        ("ok", "number"),
        ("xs", "ARRAY<BIGINT>"),
        ("xs", "string"),
    ],
)
def test_a_type_that_does_not_fit_is_refused(project: Findings, column: str, wanted: str) -> None:
    found = only(project(with_test(f"{{accepted_types: {{types: {{{column}: '{wanted}'}}}}}}", kind="schema")))
    assert (found.code, found.params) == ("contract-broken", {"column": column})
    assert f"`{wanted}`" in found.message


def test_types_may_be_asked_for_in_the_short_form(project: Findings) -> None:
    assert project(with_test("{accepted_types: {id: bigint, Name: string}}", kind="schema")) == ()
    found = only(project(with_test("{accepted_types: {id: boolean}}", kind="schema")))
    assert (found.code, found.params) == ("contract-broken", {"column": "id"})


def test_a_column_without_a_type_may_be_asked_for_any(project: Findings) -> None:
    assert project(with_test("{accepted_types: {Name: number}}", kind="schema")) == ()


@pytest.mark.parametrize("lag", ["{seconds: 300}", "{max_seconds: 300}", "{column: at, seconds: 300}"])
def test_a_lag_is_that_of_the_event_time_if_no_column_is_named(project: Findings, lag: str) -> None:
    assert project(with_test(f"{{max_lag: {lag}}}", kind="sample")) == ()


@pytest.mark.parametrize("wanted", ["strng", "nonsense", "BIGNT"])
def test_a_type_that_is_none_is_refused(project: Findings, wanted: str) -> None:
    assert errors(project(with_test(f"{{accepted_types: {{types: {{id: {wanted}}}}}}}", kind="schema")))


# Assertions


@pytest.mark.parametrize(
    "assertion",
    [
        "{}",
        "{not_null: {columns: id}, range: {column: id}}",
        "{not_null: {columns: []}}",
        "{not_null: {}}",
        "{accepted_values: {column: id, values: []}}",
        "{unique_key: {key: id, tolerance: 2}}",
        "{max_lag: {column: at, max_seconds: 0}}",
        "{custom_sql: {}}",
        "{custom_sql: {sql: SELECT 1, where: x}}",
        "{distribution: {column: id, buckets: []}}",
        "{not_nul: {columns: id}}",
        "not_null",
    ],
)
def test_an_assertion_that_makes_no_sense_is_refused(project: Findings, assertion: str) -> None:
    found = errors(project(with_test(assertion)))
    assert found
    assert all(d.path.startswith("tests.t.assertions") for d in found)


def test_assertions_may_be_a_single_mapping(check: Check) -> None:
    text = with_test("{not_null: {columns: id}}").replace("[{not_null: {columns: id}}]", "{not_null: {columns: id}}")
    graph, found = check({MAIN: text})
    assert found == ()
    assert graph is not None
    assert len(graph.tests[0].element.assertions) == 1


@pytest.mark.parametrize("kind", ["schema", "continuous"])
@pytest.mark.parametrize("field", ["sample_size: 5", "timeout: 5s"])
def test_what_only_a_sample_has_is_pointed_out_elsewhere(project: Findings, kind: str, field: str) -> None:
    assert project(with_test(more=f", {field}")) == ()
    found = only(project(with_test(kind=kind, more=f", {field}")))
    assert (found.code, found.severity) == ("no-effect", Severity.WARNING)


# Models that are named elsewhere


@pytest.mark.parametrize(
    ("more", "path"),
    [
        (", on_failure: [{dlq: {model: mm}}]", "tests.t.on_failure.0.dlq"),
        (", on_failure: {actions: [{alert: {channel: x}}, {pause: mm}]}", "tests.t.on_failure.1.pause"),
        (", on_failure: [{pause_model: {model: mm}}]", "tests.t.on_failure.0.pause"),
    ],
)
def test_a_model_that_an_action_names_must_be_there(project: Findings, more: str, path: str) -> None:
    assert project(with_test(more=more.replace("mm", "m"))) == ()
    found = only(project(with_test(more=more)))
    assert (found.code, found.path, found.params) == ("unknown-model", path, {"name": "mm"})


def test_a_model_that_a_foreign_key_names_must_be_there(project: Findings) -> None:
    text = with_test("{foreign_key: {column: id, ref_model: mm, ref_key: id}}")
    found = only(project(text))
    assert (found.code, found.origin) == ("unknown-model", spot(MAIN, text, "mm"))
    assert project(text.replace("mm", "open")) == ()


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ('SELECT COUNT(*) FROM {{ ref("mm") }}', "unknown-model"),
        ('SELECT COUNT(*) FROM {{ source("mm") }}', "unknown-source"),
        ("SELECT COUNT(*) FROM {{ nothing }}", "template-syntax"),
    ],
)
def test_a_query_of_its_own_is_rendered_and_its_models_looked_up(project: Findings, sql: str, code: str) -> None:
    text = with_test(f"{{custom_sql: {{sql: '{sql}', expect: 0}}}}")
    found = only(project(text))
    assert (found.code, found.path) == (code, "tests.t.assertions.0.custom_sql")
    assert found.origin is not None
    assert found.origin.line == spot(MAIN, text, "custom_sql").line


# Checks beside a column

CHECKS = """
    project: {name: p}
    sources:
      - name: s
        topic: t
        columns:
          - {name: id, type: BIGINT, tests: [not_null, unique, {range: {min: 0}}]}
          - {name: kind, tests: [{accepted_values: {values: [a, b]}}]}
    models:
      - {name: m, sql: 'SELECT id FROM {{ source("s") }}', columns: [{name: id, tests: [not_null]}]}
"""


def test_every_check_beside_a_column_is_a_test(check: Check) -> None:
    graph, found = check({MAIN: CHECKS})
    assert found == ()
    assert graph is not None
    assert [(t.name, t.node, t.element.assertions[0].kind) for t in graph.tests] == [
        ("s.id.not_null", "source.s", "not_null"),
        ("s.id.unique", "source.s", "unique_key"),
        ("s.id.range", "source.s", "range"),
        ("s.kind.accepted_values", "source.s", "accepted_values"),
        ("m.id.not_null", "model.m", "not_null"),
    ]
    assert [t["id"] for t in compile(graph).tests][:2] == ["test.s.id.not_null", "test.s.id.unique"]


@pytest.mark.parametrize("tests", ["[not_nul]", "[{not_null: {a: 1}}]", "[{}]", "[{unique: {}, not_null: {}}]", "[5]"])
def test_a_check_that_makes_no_sense_is_refused(project: Findings, tests: str) -> None:
    assert errors(
        project(f"project: {{name: p}}\nsources: [{{name: s, topic: t, columns: [{{name: id, tests: {tests}}}]}}]\n")
    )


def test_a_test_called_like_a_check_beside_a_column_is_told_apart(check: Check) -> None:
    text = CHECKS + "    tests: [{name: s.id.not_null, model: m, type: schema}]\n"
    graph, found = check({MAIN: text})
    assert errors(found) or (graph is not None and len({t.name for t in graph.tests}) == 6)
