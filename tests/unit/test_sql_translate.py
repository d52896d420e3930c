import pytest

from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.propagate_op import add_op_output
from penstock.sql.rewrite.translate import to_spark


def project(text: str) -> str:
    parsed = parse(text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return to_spark(parsed)


def pipeline(text: str) -> str:
    parsed = parse(text, PIPELINE)
    assert isinstance(parsed, Query), parsed
    return to_spark(parsed)


def carried(text: str) -> str:
    parsed = parse(text, PIPELINE)
    assert isinstance(parsed, Query), parsed
    return to_spark(add_op_output(parsed))


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        ("SELECT a FROM t", "SELECT `a` FROM `t`"),
        ("SELECT a + 1, b FROM t", "SELECT `a` + 1 AS `_col_0`, `b` FROM `t`"),
        ("SELECT CAST(a AS BYTES) AS b FROM t", "SELECT CAST(`a` AS BINARY) AS `b` FROM `t`"),
        ("SELECT `select` FROM t", "SELECT `select` FROM `t`"),
    ],
)
def test_flink_sql_becomes_spark_sql(flink: str, expected: str) -> None:
    assert project(flink) == expected


@pytest.mark.parametrize(
    ("flink", "expected"),
    [
        ("TUMBLE(at, INTERVAL '1' HOUR)", "WINDOW(`at`, '1 hour')"),
        ("TUMBLE_START(at, INTERVAL '15' MINUTE)", "WINDOW(`at`, '15 minute').`start`"),
        ("tumble_end(at, INTERVAL '15' MINUTE)", "WINDOW(`at`, '15 minute').`end`"),
        ("TUMBLE_ROWTIME(at, INTERVAL '1' DAY)", "WINDOW(`at`, '1 day').`end` - INTERVAL '1' MILLISECOND"),
        ("TUMBLE_START(at, INTERVAL '15' MINUTES)", "WINDOW(`at`, '15 minute').`start`"),
        ("HOP_START(at, INTERVAL '5' MINUTE, INTERVAL '1' HOUR)", "WINDOW(`at`, '1 hour', '5 minute').`start`"),
        ("SESSION(at, INTERVAL '10' MINUTE)", "SESSION_WINDOW(`at`, '10 minute')"),
        ("SESSION_END(at, INTERVAL '10' MINUTE)", "SESSION_WINDOW(`at`, '10 minute').`end`"),
    ],
)
def test_group_windows_become_windows_of_spark(flink: str, expected: str) -> None:
    """Spark takes the length of a window as text, and as nothing else."""
    assert project(f"SELECT {flink} AS w FROM t") == f"SELECT {expected} AS `w` FROM `t`"


@pytest.mark.parametrize(
    ("postgres", "expected"),
    [
        ("a::int", "CAST(`a` AS INT)"),
        ("a::double precision", "CAST(`a` AS DOUBLE)"),
        ("a ~ 'x'", "`a` RLIKE 'x'"),
        ("a->>'b'", "GET_JSON_OBJECT(`a`, '$.b')"),
        ('"Mixed"', "`Mixed`"),
        ("date_trunc('hour', a)", "DATE_TRUNC('HOUR', `a`)"),
    ],
)
def test_postgres_sql_becomes_spark_sql(postgres: str, expected: str) -> None:
    assert pipeline(f"SELECT {postgres} AS x FROM t") == f"SELECT {expected} AS `x` FROM `t`"


@pytest.mark.parametrize(
    "text", ["SELECT v FROM t, UNNEST(items) AS u(v)", "SELECT v FROM t CROSS JOIN UNNEST(items) AS u(v)"]
)
def test_unnesting_becomes_a_lateral_view(text: str) -> None:
    assert pipeline(text) == "SELECT `v` FROM `t` LATERAL VIEW EXPLODE(`items`) u AS `v`"


def test_comments_and_layout_leave_no_trace() -> None:
    """A query is known by its Spark SQL: a comment must not make it another query."""
    assert project("SELECT a -- the key\nFROM t /* all of it */\n\nWHERE b > 1") == project(
        "SELECT a FROM t WHERE b > 1"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM s", "SELECT `id`, `s`.`_gs_op` FROM `s`"),
        (
            "SELECT id, _gs_op, x FROM s UNION ALL SELECT id, x FROM u",
            "SELECT `id`, `_gs_op`, `x` FROM `s` UNION ALL SELECT `id`, `u`.`_gs_op`, `x` FROM `u`",
        ),
        ("SELECT id FROM s AS x", "SELECT `id`, `x`.`_gs_op` FROM `s` AS `x`"),
        ("SELECT * FROM s", "SELECT * FROM `s`"),
        ("SELECT s.* FROM s", "SELECT `s`.* FROM `s`"),
        ("SELECT * EXCEPT (_gs_op) FROM s", "SELECT * EXCEPT (`_gs_op`), `s`.`_gs_op` FROM `s`"),
        ("SELECT s.* EXCEPT (_GS_OP) FROM s", "SELECT `s`.* EXCEPT (`_GS_OP`), `s`.`_gs_op` FROM `s`"),
        ("SELECT * EXCEPT (x) FROM s", "SELECT * EXCEPT (`x`) FROM `s`"),
        ("SELECT id, _gs_op FROM s", "SELECT `id`, `_gs_op` FROM `s`"),
        ("SELECT id, 'd' AS _gs_op FROM s", "SELECT `id`, 'd' AS `_gs_op` FROM `s`"),
        (
            "SELECT id FROM a UNION ALL SELECT id FROM b",
            "SELECT `id`, `a`.`_gs_op` FROM `a` UNION ALL SELECT `id`, `b`.`_gs_op` FROM `b`",
        ),
        (
            "SELECT id FROM (SELECT id FROM s) AS x",
            "SELECT `id`, `x`.`_gs_op` FROM (SELECT `id`, `s`.`_gs_op` FROM `s`) AS `x`",
        ),
        (
            "WITH x AS (SELECT id FROM s) SELECT id FROM x",
            "WITH `x` AS (SELECT `id`, `s`.`_gs_op` FROM `s`) SELECT `id`, `x`.`_gs_op` FROM `x`",
        ),
        (
            "(SELECT id, _gs_op, x FROM s) UNION ALL (SELECT id, x FROM u)",
            "(SELECT `id`, `_gs_op`, `x` FROM `s`) UNION ALL (SELECT `id`, `u`.`_gs_op`, `x` FROM `u`)",
        ),
        (
            "SELECT id, x FROM s UNION ALL (SELECT _gs_op, id, x FROM u)",
            "SELECT `s`.`_gs_op`, `id`, `x` FROM `s` UNION ALL (SELECT `_gs_op`, `id`, `x` FROM `u`)",
        ),
        (
            "SELECT *, 's' AS k FROM a UNION ALL SELECT id, 't' FROM b",
            "SELECT * EXCEPT (`_gs_op`), 's' AS `k`, `a`.`_gs_op` FROM `a` UNION ALL "
            "SELECT `id`, 't', `b`.`_gs_op` FROM `b`",
        ),
        (
            "SELECT a.* EXCEPT (x) FROM a UNION ALL SELECT id, _gs_op, k FROM b",
            "SELECT `a`.* EXCEPT (`x`, `_gs_op`), `a`.`_gs_op` FROM `a` UNION ALL SELECT `id`, `k`, `_gs_op` FROM `b`",
        ),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", "SELECT * FROM `a` UNION ALL SELECT * FROM `b`"),
        (
            "SELECT id, 'd' AS _gs_op FROM a UNION ALL SELECT id, 'i' FROM b",
            "SELECT `id`, 'd' AS `_gs_op` FROM `a` UNION ALL SELECT `id`, 'i' FROM `b`",
        ),
        (
            "SELECT id FROM a UNION ALL SELECT id FROM b UNION ALL SELECT _gs_op, id FROM c",
            "SELECT `a`.`_gs_op`, `id` FROM `a` UNION ALL SELECT `b`.`_gs_op`, `id` FROM `b` UNION ALL "
            "SELECT `_gs_op`, `id` FROM `c`",
        ),
        (
            "WITH x(k) AS (SELECT id FROM a) SELECT k FROM x",
            "WITH `x`(`k`, `_gs_op`) AS (SELECT `id`, `a`.`_gs_op` FROM `a`) SELECT `k`, `x`.`_gs_op` FROM `x`",
        ),
        (
            "SELECT k FROM (SELECT * FROM a) AS q(k)",
            "SELECT `k`, `q`.`_gs_op` FROM (SELECT * EXCEPT (`_gs_op`), `a`.`_gs_op` FROM `a`) AS `q`(`k`, `_gs_op`)",
        ),
        (
            "SELECT k FROM (SELECT id, _gs_op FROM a) AS q(k, op)",
            "SELECT `k`, `q`.`_gs_op` FROM (SELECT `id`, `_gs_op`, `a`.`_gs_op` FROM `a`) AS `q`(`k`, `op`, `_gs_op`)",
        ),
    ],
)
def test_the_operation_is_carried_along_once(text: str, expected: str) -> None:
    assert carried(text) == expected
