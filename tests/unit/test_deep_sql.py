"""SQL that is nested deep is refused, or studied in a time that does not grow with the square of its length."""

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from penstock.sql.dialects import PIPELINE, PROJECT
from penstock.sql.query import MAX_DEPTH, Problem, parse
from penstock.sql.study import study
from penstock.sql.types import Column

COLUMNS = (Column("id", "BIGINT"),)


@pytest.mark.parametrize("dialect", [PROJECT, PIPELINE])
@pytest.mark.parametrize("operator", [" + ", " || ", " AND id > "])
def test_an_expression_that_is_too_deep_is_refused_as_such(dialect: Any, operator: str) -> None:
    found = parse(f"SELECT id FROM t WHERE id > {operator.join(['id'] * (MAX_DEPTH + 500))}", dialect)
    assert isinstance(found, Problem)
    assert (found.code, "deep" in found.message) == ("sql-syntax", True)


@pytest.mark.parametrize("made", [", ".join(map(str, range(5000))), "id, " * 3000 + "id"])
def test_a_long_list_is_not_deep(made: str) -> None:
    assert study(f"SELECT id FROM t WHERE id IN ({made})", {"t": COLUMNS}, {}).problems == ()


def _calls(terms: int) -> int:
    """How many functions of ours are called for a sum of so many terms."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "penstock" in frame.f_code.co_filename:
            calls["all"] += 1

    sys.setprofile(count)
    try:
        assert study(f"SELECT {' + '.join(['id'] * terms)} AS x FROM t", {"t": COLUMNS}, {}).problems == ()
    finally:
        sys.setprofile(None)
    return calls["all"]


def test_twice_as_many_terms_take_about_twice_the_work() -> None:
    _calls(10)
    assert _calls(800) < 2.5 * _calls(400)
