"""Jinja in SQL: what it can do, where its mistakes are shown, and what it cannot have."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.project.templates.budget import MAX_LENGTH, MAX_STEPS
from penstock.project.templates.jinja import parse_config_call
from penstock.project.templates.template import RenderedSql, Templates
from penstock.project.yaml.documents import TextFile
from penstock.sql.parse.query import Problem
from tests.support import errors, only, spot
from tests.unit.conftest import MAIN, Check, Findings

MACROS = (
    TextFile("macros/a.sql", "{% macro cents(column) %}({{ column }} / 100){% endmacro %}\n", "a"),
    TextFile("macros/b.sql", "{% macro euros(column) %}{{ cents(column) }} || ' EUR'{% endmacro %}\n", "b"),
)
ENVIRON = {"REGION": "eu", "API_TOKEN": "do-not-show", "EMPTY": ""}
VARIABLES = {"days": 7, "countries": ["de", "fr"], "flags": {"on": True}, "nothing": None}


def render(text: str, environment: str | None = None) -> RenderedSql:
    return Templates(MACROS, VARIABLES, ENVIRON, environment).render(text)


def sql(text: str) -> str:
    rendered = render(text)
    assert rendered.problems == ()
    return rendered.sql


def problem(text: str) -> Problem:
    rendered = render(text)
    assert len(rendered.problems) == 1, rendered
    return rendered.problems[0]


# What it can do


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if var('days') > 5 %}a{% else %}b{% endif %}", "a"),
        ("{% if flags is defined %}a{% else %}b{% endif %}", "b"),
        ("{% for c in var('countries') %}{{ c }}{% if not loop.last %}, {% endif %}{% endfor %}", "de, fr"),
        ("{% for i in range(3) %}{{ i }}{% endfor %}", "012"),
        ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% set x = 1 %}{{ x + 1 }}", "2"),
        ("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}", "<1>"),
        ("{{ cents('amount') }}", "(amount / 100)"),
        ("{{ euros('amount') }}", "(amount / 100) || ' EUR'"),
        ("{{ var('days') }} {{ var('gone', 3) }} {{ var('gone', none) }}", "7 3 None"),
        ("{{ env_var('REGION') }} {{ env('REGION') }} {{ env_var('GONE', 'x') }}", "eu eu x"),
        ("{{ env_var('EMPTY') }}.", "."),
        ("{{ var('countries') | join('|') | upper }}", "DE|FR"),
        ("{{ 'x' ~ 1 ~ none }}", "x1None"),
        ("{% raw %}{{ not this }}{% endraw %}", "{{ not this }}"),
        ("{{ config(materialized='topic') }}x", "x"),
        ("{{ target.name }}", "default"),
        ("{{ '{{' }}", "{{"),
        ("a '${REGION}' {% if 1 %}b '${REGION}' '$${REGION}'{% endif %}", "a 'eu' b 'eu' '${REGION}'"),
        ("{% do [].append(1) %}x", "x"),
        ("{{ dict(a=1).a }}", "1"),
    ],
)
def test_a_template_is_rendered(text: str, expected: str) -> None:
    assert sql(text) == expected


def test_the_environment_is_known_by_name() -> None:
    assert render("{{ target.name }}", "prod").sql == "prod"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n{%- if 1 %} b{% endif %}", "a b"),
        ("a {% if 1 -%}  \n b{% endif %}", "a b"),
        ("a {%- for i in [1, 2] -%} {{ i }} {%- endfor -%} b", "a12b"),
        ("a\n{% if 1 %}\nb\n{% endif %}\nc", "a\n\nb\n\nc"),
        ("x {{- 'y' -}} z", "xyz"),
        ("'x {#- note -#} z'", "'xz'"),
    ],
)
def test_white_space_is_kept_unless_a_dash_takes_it(text: str, expected: str) -> None:
    assert sql(text) == expected


def test_sources_and_models_are_referred_to_from_anywhere() -> None:
    rendered = render("{% for n in ['a', 'b', 'a'] %}SELECT * FROM {{ ref(n) }}\n{% endfor %}{{ source('s') }}")
    assert [r.id for r in rendered.references] == ["model.a", "model.b", "source.s"]


def test_what_is_not_rendered_is_not_referred_to() -> None:
    assert render("{% if 0 %}{{ ref('x') }}{% endif %}y").references == ()


def test_a_name_in_a_reference_cannot_leave_its_quotes() -> None:
    assert render("{% if 1 %}{{ ref('a` JOIN `b') }}{% endif %}").sql == "`model.a`` JOIN ``b`"


def test_a_template_is_rendered_the_same_way_every_time() -> None:
    text = "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ ['x', 'y'] | unique | list }}"
    assert sql(text) == sql(text)


def test_what_has_no_text_is_a_mistake_and_not_an_address() -> None:
    rendered = render("{{ [1] | map('string') }}")
    assert rendered.problems or " at 0x" not in rendered.sql


def test_a_variable_is_filled_in_also_between_raw_marks() -> None:
    assert sql("{% raw %}${REGION}{% endraw %}") == "eu"


@pytest.mark.parametrize("call", ["var", "env_var"])
def test_a_default_may_be_given_by_name(call: str) -> None:
    assert sql(f"{{{{ {call}('GONE', default='x') }}}}") == "x"
    assert problem(f"{{{{ {call}('GONE', defalt='x') }}}}").message == f"`{call}()` takes a name and a default"


# Mistakes


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("SELECT 1\n{% if 1 %}", "template-syntax", "{% if"),
        ("SELECT 1\n{% endif %}", "template-syntax", "{% endif"),
        ("SELECT 1\n  {% nonsense %}", "template-syntax", "{% nonsense"),
        ("SELECT 1\n{{ gone }}", "template-syntax", "{{ gone"),
        ("SELECT 1\n{{ 1 / 0 }}", "template-syntax", "{{ 1"),
        ("SELECT 1\n{{ 1 + 'a' }}", "template-syntax", "{{ 1"),
        ("SELECT 1\n{{ 'a' | nonsense }}", "template-syntax", "{{ 'a'"),
        ("SELECT 1\n{{ var('gone') }}", "unknown-var", "{{ var"),
        ("SELECT 1\n{{ env_var('GONE') }}", "unset-variable", "{{ env_var"),
        ("{% if 1 %}\n'${GONE}'{% endif %}", "unset-variable", "${GONE"),
        ("{% for i in [1] %}\n{{ i.x.y }}\n{% endfor %}", "template-syntax", "{{ i.x"),
    ],
)
def test_a_mistake_is_reported_at_the_line_it_is_in(text: str, code: str, at: str) -> None:
    found = problem(text)
    assert (found.code, found.offset) == (code, text.index(at))


def test_a_name_nobody_knows_is_answered_with_the_nearest() -> None:
    assert problem("{% if 1 %}{{ sorce('x') }}{% endif %}").hint == "did you mean `source`?"
    assert problem("{{ var('dayz') }}").hint == "did you mean `days`?"


BLOCKS = {
    "a literal block": "    sql: |\n      {% if 1 %}\n      SELECT id, WORD FROM\n      {{ source('s') }}{% endif %}\n",
    "a folded block": "    sql: >\n      {% if 1 %}\n      SELECT id, WORD FROM {{ source('s') }}\n      {% endif %}\n",
    "a folded block of one line": "    sql: >-\n      SELECT id, {% if 1 %} WORD {% endif %} FROM {{ source('s') }}\n",
    "a plain text": "    sql: SELECT id, {% if 1 %}WORD {% endif %} FROM {{ source('s') }}\n",
    "double quotes": "    sql: \"SELECT id, {% if 1 %}WORD {% endif %}\\n FROM {{ source('s') }}\"\n",
    "after a loop": "    sql: |\n      SELECT id {% for i in [1, 2] %}, {{ i }} AS c{{ i }}\n      {% endfor %}\n"
    "      , WORD FROM {{ source('s') }}\n",
    "after a macro": "    sql: |\n      {% macro m() %}id,\n      id + 1 AS n{% endmacro %}\n"
    "      SELECT {{ m() }}\n      , WORD FROM {{ source('s') }}\n",
    "after trimmed space": "    sql: |\n      SELECT id,\n      {%- if 1 -%}\n      WORD\n      {%- endif %}\n"
    "      FROM {{ source('s') }}\n",
}
HEAD = "project: {name: p}\nsources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]\nmodels:\n  - name: m\n"


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_a_missing_column_is_reported_at_its_place_in_the_yaml_file(project: Findings, block: str) -> None:
    text = HEAD + block.replace("WORD", "wrong")
    found = only(project(text))
    assert (found.code, found.params) == ("sql-unknown-column", {"subject": "wrong"})
    assert found.origin == spot(MAIN, text, "wrong")


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_a_mistake_of_the_template_is_reported_at_its_line_in_the_yaml_file(project: Findings, block: str) -> None:
    text = HEAD + block.replace("WORD", "{{ gone }}")
    found = only(project(text))
    assert found.code == "template-syntax"
    assert found.origin is not None
    assert found.origin.line == spot(MAIN, text, "{{ gone").line


def test_a_mistake_is_reported_at_its_place_in_a_file_of_sql(check: Check) -> None:
    sql = "-- a note\n{% if true %}\nSELECT id,\n   wrong FROM {{ source('s') }}\n{% endif %}\n"
    files = {MAIN: HEAD.partition("models:")[0], "models/m.sql": sql}
    assert only(check(files)[1]).origin == spot("models/m.sql", sql, "wrong")
    sql = sql.replace("wrong", "{{ var('gone') }}")
    assert only(check({**files, "models/m.sql": sql})[1]).origin == spot("models/m.sql", sql, "{{ var")


def test_a_mistake_inside_what_a_loop_makes_is_reported_at_the_loop(project: Findings) -> None:
    text = (
        HEAD
        + "    sql: |\n      SELECT id\n      {% for c in ['wrong'] %}, {{ c }}{% endfor %}\n"
        + "      FROM {{ source('s') }}\n"
    )
    found = only(project(text))
    assert found.code == "sql-unknown-column"
    assert found.origin is not None
    assert found.origin.line == spot(MAIN, text, "{% for").line


def test_a_model_nobody_knows_is_reported_where_it_is_called(project: Findings) -> None:
    text = HEAD + "    sql: |\n      {% set x = 'gone' %}\n      SELECT id\n      FROM {{ ref(x) }}\n"
    found = only(project(text))
    assert (found.code, found.params) == ("unknown-model", {"name": "gone"})
    assert found.origin == spot(MAIN, text, "{{ ref")


# Macros


def test_macros_of_a_project_are_read_from_its_files(check: Check) -> None:
    files = {
        MAIN: HEAD + "    sql: SELECT {{ twice('id') }} AS n FROM {{ source('s') }}\n",
        "macros/deep/math.sql": "{% macro twice(c) %}{{ c }} * 2{% endmacro %}\n",
    }
    graph, found = check(files)
    assert found == ()
    assert graph is not None
    assert [c.name for c in graph["model.m"].columns or ()] == ["n"]


def test_a_macro_that_cannot_be_read_is_reported_at_its_line(check: Check) -> None:
    files = {MAIN: "project: {name: p}\n", "macros/m.sql": "{% macro a() %}x{% endmacro %}\n\n{% macro b( %}\n"}
    found = only(check(files)[1])
    assert (found.code, str(found.origin)) == ("template-syntax", "macros/m.sql:3:1")


def test_two_macros_of_one_name_are_refused(check: Check) -> None:
    files = {
        MAIN: "project: {name: p}\n",
        "macros/a.sql": "{% macro x() %}1{% endmacro %}\n",
        "macros/b.sql": "-- two\n{% macro x() %}2{% endmacro %}\n",
    }
    found = only(check(files)[1])
    assert (found.code, str(found.origin)) == ("duplicate-name", "macros/b.sql:2:1")


def test_two_macros_of_one_name_in_one_file_are_refused(check: Check) -> None:
    text = "{% macro x() %}1{% endmacro %}\n{% macro x() %}2{% endmacro %}\n"
    assert errors(check({MAIN: "project: {name: p}\n", "macros/a.sql": text})[1])


@pytest.mark.parametrize("name", ["ref", "source", "var", "env_var", "config"])
def test_a_macro_cannot_take_the_name_of_a_function_of_ours(check: Check, name: str) -> None:
    text = f"{{% macro {name}(x) %}}y{{% endmacro %}}\n"
    assert errors(check({MAIN: "project: {name: p}\n", "macros/a.sql": text})[1])


# config()


def test_config_is_read_without_rendering() -> None:
    text = "{{ config(materialized='topic', tags=['a'], advanced={'topic': {'partitions': 3}}) }}SELECT {{ gone }}"
    assert parse_config_call(text)[0] == {
        "materialized": "topic",
        "tags": ["a"],
        "advanced": {"topic": {"partitions": 3}},
    }
    assert parse_config_call("{# config(a=1) #}x") == ({}, [])
    assert parse_config_call("{% if %}config(a=1)") == ({}, [])
    assert parse_config_call("{{ config(a=1, b=var('x')) }}") == ({"a": 1}, ["b"])


def test_what_config_says_is_what_yaml_would_say(check: Check) -> None:
    text = (
        HEAD
        + "    sql: \"{{ config(materialized='topic', owner='me', tags=['a']) }}SELECT id FROM {{ source('s') }}\"\n"
    )
    graph, found = check({MAIN: text})
    assert found == ()
    assert graph is not None
    assert (graph["model.m"].owner, graph["model.m"].tags) == ("me", ("a",))


def test_what_config_and_yaml_both_say_is_refused(project: Findings) -> None:
    text = HEAD + "    owner: you\n    sql: \"{{ config(owner='me') }}SELECT id FROM {{ source('s') }}\"\n"
    found = only(project(text))
    assert (found.code, found.path, found.origin) == ("given-twice", "models.m.owner", spot(MAIN, text, "you"))


def test_config_is_held_to_the_fields_of_a_model(project: Findings) -> None:
    found = only(project(HEAD + "    sql: \"{{ config(ownr='me') }}SELECT id FROM {{ source('s') }}\"\n"))
    assert (found.code, found.hint) == ("unknown-field", "did you mean `owner`?")


def test_config_with_a_value_that_must_be_computed_is_not_dropped(check: Check) -> None:
    graph, found = check(
        {MAIN: HEAD + "    sql: \"{{ config(owner=var('o', 'me')) }}SELECT id FROM {{ source('s') }}\"\n"}
    )
    assert found or (graph is not None and graph["model.m"].owner == "me")


# What it cannot have


@contextmanager
def frugal(megabytes: int = 16) -> Iterator[None]:
    """Not much memory."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes << 20


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% endfor %}{% for i in range(99999) %}{% endfor %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro a(n) %}{% for i in range(n) %}{{ a(n) }}{% endfor %}{% endmacro %}{{ a(9) }}",
    ],
)
def test_an_endless_loop_is_refused(text: str) -> None:
    assert problem(text).code == "template-refused"


LIST = "{% set l = range(9999) | list %}"
LONG = "{% set s = 'x' * 900000 %}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ range(9999)" + " | map('int')" * 50 + " | list | length }}",
        LIST + "{{ [" + "l | sort, " * 50 + "] | length }}",
        LIST + "{% for i in range(9999) %}{% set y = l | reverse | list %}{% endfor %}",
        LIST + "{% for i in range(60000) %}{% if -1 in l %}{% endif %}{% endfor %}",
        LIST + "{% for i in range(60000) %}{% if -1 is in l %}{% endif %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% set y = s | upper %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% set y = s.upper() %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% set y = s[1:] %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% set y = s ~ '' %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% set y = s + '' %}{% endfor %}",
        LONG + "{% for i in range(9999) %}{% if s is upper %}{% endif %}{% endfor %}",
    ],
)
def test_filters_tests_and_copies_are_steps_of_the_budget(text: str) -> None:
    found = problem(text)
    assert found.code == "template-refused"
    assert f"{MAX_STEPS:,} steps" in found.message


def test_an_ordinary_template_is_far_from_the_end_of_the_budget() -> None:
    each = "{{ i | string | upper }}{{ ',' if loop.index < c | length }}"
    assert sql(f"{{% set c = range(500) | list %}}{{% for i in c %}}{each}{{% endfor %}}").count(",") == 499


@pytest.mark.parametrize(
    "text",
    [
        "{{ var(1) }}", "{{ var(source) }}", "{{ var([1]) }}", "{{ var() }}", "{{ var(none) }}", "{{ var('a', 1, 2) }}",
        "{{ env_var(1) }}", "{{ env_var(source) }}", "{{ env({}) }}", "{{ ref(1) }}", "{{ source(ref) }}",
        "{{ source }}", "{{ range }}", "{{ 'x'.upper }}",
    ],
)  # fmt: skip
def test_what_is_no_name_is_said_to_be_none(text: str) -> None:
    found = problem(text)
    assert found.code == "template-syntax"
    assert "sandbox" not in found.message.lower()
    assert found.hint is not None


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'x' * 10000000000 }}",
        "{{ 10000000000 * 'x' }}",
        "{{ [1] * 10000000000 }}",
        "{{ 'x'.ljust(10000000000) }}",
        "{{ 'x'.zfill(10000000000) }}",
        "{{ 'x' | center(10000000000) }}",
        "{{ 'x' | indent(10000000000) }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ '%*d' % (10000000000, 1) }}",
        "{{ 9 ** 99999999 }}",
        "{{ ('a' * 999999) | replace('a', 'b' * 1000) }}",
        "{{ ('a' * 999999).replace('a', 'b' * 1000) }}",
        "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
        "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}{% set ns = namespace(a='x') %}"
        "{% for i in range(99) %}{% set ns.a = d(ns.a) %}{% endfor %}",
        "{% for i in range(2000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ range(10000000000) }}",
    ],
)
def test_a_text_without_bounds_is_refused(text: str) -> None:
    with frugal():
        assert problem(text).code in ("template-refused", "template-syntax")


UNBOUNDED = {
    "a width in format": "{{ '{:>40000000}'.format(1) | length }}",
    "a long text between few": "{{ ('x' * 1000000).join(['a'] * 40) | length }}",
    "join": "{{ range(10000) | join('x' * 1000) | length }}",
    "join of long texts": "{{ (['a' * 1000] * 20000) | join | length }}",
    "batch": "{{ [1] | batch(3000000, 'x') | list | length }}",
    "a block that doubles": "{% set ns = namespace(a='x') %}{% for i in range(23) %}"
    "{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}{% endfor %}{{ ns.a | length }}",
    "a list that doubles": "{% set l = [1] %}{% for i in range(22) %}{% do l.extend(l) %}{% endfor %}{{ l | length }}",
    "translate": "{{ ('a' * 20000).translate({97: 'b' * 1000}) | length }}",
    "many widths": "{{ (('%(a)9999d' * 2000) % {'a': 1}) | length }}",
    "tojson": "{{ (['x' * 900000] * 20) | tojson | length }}",
    "bytes": "{{ (1).to_bytes(20000000, 'big') | length }}",
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            text,
            id=name,
        )
        for name, text in UNBOUNDED.items()
    ],
)
def test_a_text_without_bounds_is_refused_by_every_way_to_make_one(text: str) -> None:
    with frugal(megabytes=8):
        assert problem(text).code == "template-refused"


@pytest.mark.parametrize(
    "text",
    [
        "{% for x in [1, 2] recursive %}{% if loop.depth0 == 0 %}{{ loop(range(60000)) }}{% endif %}{% endfor %}",
        "{{ [1] | slice(120000) | list | length }}",
    ],
)
def test_every_kind_of_loop_is_counted(text: str) -> None:
    assert problem(text).code == "template-refused"


@pytest.mark.parametrize(
    "text",
    [
        "{% include 'stream_project.yml' %}",
        "{% include var('countries')[0] ignore missing %}",
        "{% import '/etc/passwd' as x %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% if 0 %}{% include 'x' %}{% endif %}",
        "{{ open('/etc/passwd') }}",
    ],
)
def test_no_file_can_be_read(text: str) -> None:
    assert problem(text).code in ("template-refused", "template-syntax")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ source.__globals__ }}",
        "{{ var.__self__._environ }}",
        "{{ var.__func__ }}",
        "{{ config.__code__ }}",
        "{{ namespace.__init__.__globals__ }}",
        "{{ cents.__globals__ }}",
        "{{ '' | attr('__class__') }}",
        "{{ [''] | map(attribute='__class__') | list }}",
        "{{ [''] | selectattr('__class__') | first }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{x.__class__}'.format_map({'x': ''}) }}",
        "{{ self._TemplateReference__context }}",
        "{{ self.__init__ }}",
        "{{ (1).__class__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler }}",
        "{{ environment }}",
        "{{ _environ }}",
        "{{ [].append.__self__ }}",
        "{% for x in [] %}{% endfor %}{{ loop.__class__ }}",
    ],
)
def test_no_attribute_leads_out(text: str) -> None:
    rendered = render(text)
    assert rendered.problems or rendered.sql in ("", "[]", "[Undefined]")
    assert "class" not in rendered.sql
    assert "do-not-show" not in rendered.sql


@pytest.mark.parametrize(
    "text",
    [
        "{{ env_var('API_TOKEN') }}",
        "{{ env('API_TOKEN') }}",
        "{{ env_var('API_TOKEN', 'x') }}",
        "{{ env_var('NO_PASSWORD') }}",
    ],
)
def test_no_secret_gets_into_sql(text: str) -> None:
    found = problem(text)
    assert found.code == "secret-exposed"
    assert "do-not-show" not in found.message
    assert found.hint is not None


def test_every_template_begins_with_all_that_it_may_spend() -> None:
    templates = Templates()
    text = "{% for i in range(60000) %}{% endfor %}x"
    assert [templates.render(text).sql for _ in range(3)] == ["x"] * 3


def test_a_template_may_be_as_long_as_is_said() -> None:
    assert len(sql(f"{{{{ 'x' * {MAX_LENGTH - 1} }}}}")) == MAX_LENGTH - 1
    assert sql(f"{{% for i in range({MAX_STEPS - 2}) %}}{{% endfor %}}x") == "x"
