"""Macros that cannot be read say so at their place, and nothing else fails for it."""

import pytest

from tests.support import only
from tests.unit.conftest import MAIN, Check

PROJECT = """
project: {name: p}
sources: [{name: s, topic: s}]
models: [{name: m, sql: 'SELECT * FROM {{ source("s") }}'}]
"""
FINE = "{% macro fine() %}1{% endmacro %}"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("{% include 'x' %}", "template-refused", 1),
        ("{% macro a() %}{% endmacro %}\n\n{% set x = 1/0 %}", "template-syntax", 3),
        ("{{ 1 | urlize }}", "template-refused", 1),
        ("{% for a in [1] recursive %}{% endfor %}", "template-refused", 1),
        ("{% macro a() %}\n{{ var('x') }}\n{% endmacro %}\n{{ nope }}", "template-syntax", 4),
        ("{% macro a() %}", "template-syntax", 1),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "template-refused", 1),
    ],
)
def test_a_macro_file_that_fails_is_reported_at_its_line(check: Check, text: str, code: str, line: int) -> None:
    _, found = check({MAIN: PROJECT, "macros/a.sql": FINE, "macros/b.sql": text})
    problem = only(found)
    assert problem.code == code
    assert problem.origin is not None
    assert (problem.origin.file, problem.origin.line) == ("macros/b.sql", line)
