"""What a whole query may fail over, said of what it reads."""

import pytest

from penstock.sql.analyze.fallible_query import find_fallible

INPUTS = {"source.a": ("id", "n", "text"), "source.b": ("id",)}
CASES: dict[str, dict[str, tuple[str, ...]]] = {
    "SELECT id, 10 / n AS q FROM `source.a`": {"source.a": ("10 / `n`",)},
    "SELECT id FROM `model.shares` WHERE n > 0": {"source.a": ()},
    "SELECT q, CAST(t AS INT) AS i FROM `model.shares` WHERE n > 0": {
        "source.a": ("CASE WHEN `n` > 0 THEN 10 / `n` END", "CASE WHEN `n` > 0 THEN CAST((UPPER(`text`)) AS INT) END")
    },
    "WITH s AS (SELECT q FROM `model.shares`) SELECT s.q + 1 AS q FROM s": {"source.a": ("((10 / `n`)) + 1",)},
    "SELECT q FROM `model.shares` UNION ALL SELECT 1 / id FROM `source.b`": {
        "source.a": ("10 / `n`",),
        "source.b": ("1 / `id`",),
    },
    "SELECT 1 / n AS q FROM `source.a` JOIN `source.b` USING (id)": {},
    "SELECT (": {},
}


@pytest.mark.parametrize("sql", CASES)
def test_failing(sql: str) -> None:
    shares = "WITH s AS (SELECT id, n, text FROM `source.a`) SELECT id, n, 10 / n AS q, UPPER(s.text) AS t FROM s"
    beside = "SELECT 5 / id AS other FROM `source.a`"
    steps = {"model.shares": shares, "model.beside": beside, "model.out": sql}
    found = find_fallible("model.out", steps, INPUTS)
    assert {view: texts for view, texts in found.items() if texts} == {v: t for v, t in CASES[sql].items() if t}
    assert find_fallible("source.a", steps, INPUTS) == {}
