import pytest

from penstock.project.templates.template import Reference, RenderedSql, Templates


def render(text: str) -> RenderedSql:
    return Templates().render(text)


def test_calls_become_quoted_node_ids() -> None:
    rendered = render('SELECT * FROM {{ source("a") }} JOIN {{ ref("b") }} ON true')
    assert rendered.sql == "SELECT * FROM `source.a` JOIN `model.b` ON true"
    assert [r.id for r in rendered.references] == ["source.a", "model.b"]
    assert rendered.problems == ()


@pytest.mark.parametrize(
    "call",
    ["{{source('a')}}", '{{  source( "a" )  }}', "{{- source('a') -}}", "{{\n  source('a')\n}}"],
)
def test_white_space_quotes_and_dashes_do_not_matter(call: str) -> None:
    assert render(call).references == (Reference("source", "a", 0),)


def test_a_name_may_have_dots_spaces_and_backticks() -> None:
    rendered = render("{{ ref('a.b c`d') }}")
    assert rendered.sql == "`model.a.b c``d`"
    assert rendered.references[0].name == "a.b c`d"


def test_a_template_comment_disappears() -> None:
    assert render("SELECT 1 {# ref('x') #}FROM t").sql == "SELECT 1 FROM t"
    assert render("{# ref('x') #}").references == ()


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("SELECT {{ sauce('a') }}", 7),
        ("SELECT {{ source(a) }}", 7),
        ("SELECT {{ source('a', 'b') }}", 7),
        ("SELECT {{ source() }}", 7),
        ("SELECT {{ var('x') }}", 7),
        ("{% if x %}SELECT 1", 0),
        ("SELECT {{ source('a')", 7),
        ("SELECT {{", 7),
        ("SELECT {{}}", 7),
    ],
)
def test_anything_else_in_braces_is_a_problem_at_its_place(text: str, offset: int) -> None:
    rendered = render(text)
    assert [p.offset for p in rendered.problems] == [offset]
    assert rendered.references == ()


def test_a_tag_that_is_none_is_a_problem_at_its_place() -> None:
    rendered = render("SELECT 1\nFROM {% " + "x" * 500 + " %}")
    assert [p.offset for p in rendered.problems] == [14]


def test_every_place_is_found_again_in_the_text_as_written() -> None:
    text = "SELECT a\nFROM {{ source('orders') }} AS o, {{ ref('x') }} WHERE b = 1\n"
    rendered = render(text)
    for word in ("SELECT", "a", "AS o", "WHERE", "b = 1", "1"):
        assert rendered.written(rendered.sql.index(word)) == text.index(word)


def test_a_place_inside_a_name_is_where_the_call_begins() -> None:
    text = "SELECT a FROM {{ source('orders') }} WHERE b"
    rendered = render(text)
    for inside in ("`source", "orders", "ers`"):
        assert rendered.written(rendered.sql.index(inside)) == text.index("{{")


@pytest.mark.parametrize("text", ["", "{{ ref('a') }}", "no calls"])
def test_the_first_and_the_last_place_exist_for_any_text(text: str) -> None:
    rendered = render(text)
    assert rendered.written(0) == 0
    assert 0 <= rendered.written(len(rendered.sql)) <= len(text)
