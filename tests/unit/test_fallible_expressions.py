"""Which expressions of a query may fail over a row, said of what it reads."""

import pytest
from sqlglot import exp

from penstock.sql.analyze.fallible import fallible_expressions
from penstock.sql.analyze.operand_types import set_kind
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query

COLUMNS = ("id", "amount", "at", "info")
CASES = {
    "SELECT k, COUNT(*) FROM t GROUP BY k": (),
    "SELECT SUM(amount) FROM t": (),
    "SELECT SUM(amount / id) FROM t x": ("`amount` / `id`",),
    "SELECT SUM(x.amount / x.id) FROM t x": ("`amount` / `id`",),
    "SELECT SUM(info.a / id) FROM t": ("`info`.`a` / `id`",),
    "SELECT SUM(amount / id) FILTER (WHERE id > 0) FROM t": ("CASE WHEN `id` > 0 THEN `amount` / `id` END",),
    "SELECT SUM(amount / id) FROM t WHERE id > 0": ("CASE WHEN `id` > 0 THEN `amount` / `id` END",),
    "SELECT COLLECT(amount / id) FROM t": ("`amount` / `id`",),
    "SELECT id FROM t GROUP BY id HAVING JSON_ARRAYAGG(amount / id) = 'x'": ("`amount` / `id`",),
    "SELECT COUNT(*) FROM t WHERE amount / id > 1": ("`amount` / `id` > 1",),
    "SELECT COUNT(*) FROM t GROUP BY amount / id": ("`amount` / `id`",),
    "SELECT SUM(q) FROM (SELECT amount / id AS q FROM t)": ("`amount` / `id`",),
    "SELECT SUM(id / q) FROM (SELECT *, amount + 1 AS q FROM t) s": ("`id` / (`amount` + 1)",),
    "WITH s AS (SELECT amount AS q FROM t) SELECT SUM(100 / s.q) FROM s": ("100 / `amount`",),
    "SELECT SUM(100 / id) FROM (SELECT amount AS q FROM t)": (),
    "SELECT SUM(a) / COUNT(*) AS mean FROM t HAVING SUM(amount / id) / COUNT(*) > 1": ("`amount` / `id`",),
    "SELECT SUM(amount / unknown) FROM t": (),
    "SELECT SUM(100 / n) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id)": (),
    "SELECT SUM(a.amount / b.id) FROM t a JOIN t b ON a.id = b.id": (),
    "SELECT SUM(amount * RAND()) FROM t": (),
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_start": (),
    "SELECT SUM(amount / id) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY window_start": (
        "`amount` / `id`",
    ),
    "SELECT SUM(amount / id) OVER (PARTITION BY id ORDER BY at) FROM t": ("`amount` / `id`",),
    "SELECT ROW_NUMBER() OVER (PARTITION BY 100 / id ORDER BY at) AS n FROM t": ("100 / `id`",),
    "SELECT SUM(ask(amount) + 1) FROM t": (),
    "SELECT id, COUNT(*) FROM (SELECT id, 10 / amount AS q FROM t) GROUP BY id": (),
    "WITH s AS (SELECT id, 10 / amount AS q FROM t) SELECT id, COUNT(*) FROM s GROUP BY id": (),
    "SELECT id, SUM(q) FROM (SELECT id, amount, 10 / amount AS q FROM t) WHERE amount <> 0 GROUP BY id": (
        "CASE WHEN `amount` <> 0 THEN 10 / `amount` END",
    ),
    "SELECT id, SUM(q) FROM (SELECT id, q FROM (SELECT *, 10 / amount AS q FROM t) WHERE amount > 0) WHERE id > 1 "
    "GROUP BY id": ("CASE WHEN `amount` > 0 AND `id` > 1 THEN 10 / `amount` END",),
    "SELECT id, COUNT(*) FROM (SELECT id FROM t WHERE 10 / amount > 1) WHERE 10 / id > 1 GROUP BY id": (
        "10 / `amount` > 1",
        "CASE WHEN 10 / `amount` > 1 THEN 10 / `id` > 1 END",
    ),
    "SELECT DISTINCT q FROM (SELECT id, 10 / amount AS q FROM t)": ("10 / `amount`",),
    "SELECT DISTINCT * FROM (SELECT id, 10 / amount AS q FROM t)": ("10 / `amount`",),
    "SELECT a.id FROM (SELECT id, 10 / amount AS q FROM t) a JOIN t b ON a.q = b.id": ("10 / `amount`",),
    "WITH s AS (SELECT id, 10 / amount AS q FROM t) SELECT a.q FROM s a JOIN (SELECT id FROM s) b ON a.id = b.id": (
        "10 / `amount`",
    ),
    "SELECT id FROM (SELECT *, LAG(10 / amount) OVER (PARTITION BY id ORDER BY at) AS q FROM t) WHERE id > 1": (
        "10 / `amount`",
    ),
    "SELECT 10 / id FROM (SELECT *, LAG(amount) OVER (PARTITION BY id ORDER BY at) AS q FROM t) WHERE id > 1": (
        "CASE WHEN `id` > 1 THEN 10 / `id` END",
    ),
}


@pytest.mark.parametrize("sql", CASES)
def test_risks(sql: str) -> None:
    tree = Query(sql, PROJECT).take_tree()
    for division in tree.find_all(exp.Div):
        set_kind(division, "DOUBLE")
    found = fallible_expressions(tree, {"t": COLUMNS}, frozenset({"ask"}))
    assert found.get("t", ()) == CASES[sql]
