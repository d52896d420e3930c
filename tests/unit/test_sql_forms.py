"""Only forms of SQL that are on the list reach Spark, and the text that Spark gets is checked once more."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import QueryFailed
from penstock.sql.analyze.analysis import analyze_query, bind_query
from penstock.sql.lint.gate import check_expression, check_statement
from penstock.sql.parse.dialects import PIPELINE, PROJECT
from penstock.sql.parse.query import Problem, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.stateful.stages import ORDERED
from penstock.sql.types.columns import Column
from tests import flink, pipelines

COLUMNS = (Column("id", "BIGINT"), Column("s", "STRING"), Column("a", "ARRAY<INT>"))
CASES = Path(__file__).parents[1] / "golden" / "cases"

REFUSED = [
    ("SELECT TRANSFORM(id) USING 'touch x; cat' FROM t", "TRANSFORM"),
    ("SELECT * FROM (SELECT TRANSFORM(id) USING 'cat' AS (x) FROM t) AS q", "TRANSFORM"),
    ("WITH q AS (SELECT TRANSFORM(id, s) USING 'cat' AS (x INT) FROM t) SELECT x FROM q", "TRANSFORM"),
    ("SELECT id FROM t WHERE id IN (SELECT TRANSFORM(id) USING 'cat' FROM t)", "TRANSFORM"),
    ("SELECT id, :x AS x FROM t", "parameter"),
    ("SELECT id, ? AS x FROM t", "parameter"),
    ("SELECT id, @x AS x FROM t", "parameter"),
    ("SELECT id, `java_method`('a', 'b') AS x FROM t", "Java"),
    ("SELECT id, system.builtin.java_method('a', 'b') AS x FROM t", "java_method"),
    ("SELECT id, system.builtin.upper(s) AS x FROM t", "upper"),
    ("SELECT id, x FROM t LATERAL VIEW reflect('a', 'b') q AS x", "Java"),
    ("SELECT id FROM t, LATERAL try_reflect('a', 'b') AS q", "Java"),
    ("SELECT id, from_protobuf(CAST(s AS BINARY), 'M', '/etc/x.desc') AS x FROM t", "file"),
    ("SELECT id, from_xml(s, 'x INT', MAP('rowValidationXSDPath', '/etc/passwd')) AS x FROM t", "options"),
    ("SELECT input_file_name() AS x FROM t", "files"),
    ("SELECT id FROM t UNION ALL SELECT id FROM read_files('/etc')", "read_files"),
    ("SELECT id FROM t UNION ALL SELECT id FROM range(10)", "range"),
    ("SELECT id FROM t UNION ALL SELECT id FROM python_worker_logs()", "python_worker_logs"),
    ("SELECT id FROM IDENTIFIER('t')", "IDENTIFIER"),
    ("SELECT id INTO t FROM t", "INTO"),
    ("SELECT id FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT id FROM t FOR UPDATE", "FOR UPDATE"),
    ("SELECT id FROM t CLUSTER BY id", "CLUSTER BY"),
    ("SELECT id FROM t VERSION AS OF 1", "VERSION"),
    ("SELECT id FROM t JOIN LATERAL text.x ON TRUE", "LATERAL"),
    ("SELECT id FROM t WITH (NOLOCK)", "WITH"),
    ("EXECUTE IMMEDIATE 'SELECT 1'", "COMMAND"),
    ("SET x = 1", "SET"),
]


@pytest.mark.parametrize("dialect", [PROJECT, PIPELINE])
@pytest.mark.parametrize(("text", "word"), REFUSED)
def test_what_is_not_on_the_list_is_refused_where_it_is_parsed(text: str, word: str, dialect: Any) -> None:
    quoted = text.replace("`", '"') if dialect is PIPELINE else text
    found = parse(quoted, dialect)
    assert isinstance(found, Problem)
    if not (dialect is PIPELINE and "USING" in text):  # not a word of that dialect
        assert found.code in ("sql-unsupported", "sql-statement")
        assert word in found.message


def test_a_script_is_reported_at_its_own_word() -> None:
    text = "SELECT id FROM (SELECT TRANSFORM(id) USING 'cat' AS (x) FROM t) AS q"
    found = parse(text, PROJECT)
    assert isinstance(found, Problem)
    assert found.offset == text.index("TRANSFORM")


@pytest.mark.parametrize(
    "hint", ["REPARTITION(9)", "STATE_TTL('t' = '1d')", "COALESCE(1)", "REBALANCE", "BROADCAST(t), REPARTITION(1)"]
)
def test_of_hints_only_those_of_joins_reach_spark(hint: str) -> None:
    assert isinstance(parse(f"SELECT /*+ {hint} */ id FROM t", PROJECT), Problem)
    assert not isinstance(parse("SELECT /*+ BROADCAST(u) */ t.id FROM t JOIN u ON t.id = u.id", PROJECT), Problem)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT transform(a, x -> x + 1) AS x, aggregate(a, 0, (x, y) -> x + y) AS y FROM t",
        "SELECT id, x FROM t LATERAL VIEW explode(a) q AS x",
        "SELECT id, x FROM t, LATERAL explode(a) AS q(x)",
        "SELECT * FROM t UNPIVOT (v FOR n IN (id))",
        "FROM t |> WHERE id > 1 |> SELECT id",
        "SELECT id, s COLLATE UTF8_BINARY AS x FROM t",
        "WITH q AS (SELECT id FROM t) SELECT id FROM q UNION ALL SELECT id FROM t",
    ],
)
def test_what_is_on_the_list_passes_both_checks(text: str) -> None:
    found = analyze_query(text, {"t": COLUMNS}, {})
    assert found.problems == ()
    check_statement(to_spark(bind_query(text, ("t",))), ["t"])


@pytest.mark.parametrize("path", ["text.`/etc/passwd`", "`/etc/passwd`", "a.b.c"])
def test_tables_outside_of_the_project_are_found_wherever_they_stand(path: str) -> None:
    for text in (
        f"SELECT id FROM t UNION ALL SELECT value FROM {path}",
        f"WITH text AS (SELECT 1 AS x) SELECT id FROM t WHERE id IN (SELECT 1 FROM {path})",
        f"WITH q AS (SELECT * FROM {path}) SELECT id FROM q, t",
        f"SELECT id FROM t, LATERAL (SELECT 1 FROM {path}) AS q",
    ):
        assert "sql-unknown-table" in {p.code for p in analyze_query(text, {"t": COLUMNS}, {}).problems}, text
        with pytest.raises(QueryFailed, match=r"no view of its query|cannot be read|not supported"):
            check_statement(text, ["t"])


@pytest.mark.parametrize(
    "sql",
    [
        *(text for text, _ in REFUSED),
        "SELECT id FROM t LATERAL VIEW EXPLODE(a) q AS x LATERAL VIEW java_method('a', 'b') r AS y",
        "SELECT made_up(id) FROM t",
        "SELECT id FROM T2",
        "SELECT 1; SELECT 2",
        "DROP TABLE t",
        "SELECT 'a",
    ],
)
def test_the_text_for_spark_is_refused_on_its_own(sql: str) -> None:
    with pytest.raises(QueryFailed) as caught:
        check_statement(sql, ["t"])
    assert caught.value.code == "sql-unsupported"


def test_a_name_that_breaks_out_of_its_place_does_not_reach_spark() -> None:
    text = "SELECT id, x FROM t LATERAL VIEW explode(a) `q AS x LATERAL VIEW java_method('a', 'b') r` AS x"
    with pytest.raises(QueryFailed):
        check_statement(to_spark(bind_query(text, ("t",))), ["t"])


@pytest.mark.parametrize(
    "text", ["java_method('a', 'b')", "1 FROM text.`/etc`", "(SELECT 1 FROM x)", "id; DROP TABLE x", "f(id)", "id >"]
)
def test_expressions_are_checked_too(text: str) -> None:
    check_expression("coalesce(id > 1, false) AND `s` IN ('a', 'b')")
    with pytest.raises(QueryFailed):
        check_expression(text)


def test_functions_of_models_and_parameters_of_masks_must_be_known() -> None:
    sql = "SELECT ML_F_1(id), MD5(CONCAT(:salt, s)) FROM t"
    check_statement(sql, ["t"], ["ml_f_1"], ["salt"])
    for functions, parameters in (([], ["salt"]), (["ml_f_1"], [])):
        with pytest.raises(QueryFailed):
            check_statement(sql, ["t"], functions, parameters)


def _queries() -> list[dict[str, Any]]:
    manifests = [json.loads(file.read_text(encoding="utf-8")) for file in CASES.glob("*/expected/manifest.json")]
    return [query for manifest in manifests for query in manifest["queries"]]


def test_every_text_of_the_golden_manifests_passes() -> None:
    checked = 0
    for query in _queries():
        steps = query.get("steps", [])
        views = [part["view"] for part in (*query["inputs"], *steps)]
        views += [entry["view"] + ORDERED for entry in query["inputs"] if entry.get("ordered")]
        functions = ["ML_PREDICT", "ML_EVALUATE", *(model["function"] for model in query.get("asks", []))]
        for step in steps:
            texts = [step["sql"]] if "sql" in step else [step["late"]["sql"]] if step.get("late") else []
            for text in texts:
                check_statement(text, views, functions, step.get("parameters", {}))
                checked += 1
        for check in query.get("checks", []):
            for expression in check["expressions"]:
                check_expression(expression)
        for entry in query["inputs"]:
            if entry.get("condition"):
                check_expression(entry["condition"])
    assert checked > 100


def test_every_function_that_is_translated_passes() -> None:
    for fixture in flink.fixtures():
        check_statement(f"SELECT {flink.translated(fixture)} AS x FROM t", ["t"])
    for group in pipelines.groups().values():
        for fixture in group:
            check_statement(f"SELECT {pipelines.translated(fixture.sql)} AS x FROM t", ["t"])


def test_a_function_that_is_refused_is_not_offered() -> None:
    found = analyze_query("SELECT java_metod(id) AS x FROM t", {"t": (Column("id", "BIGINT"),)}, {}).problems
    assert [(p.code, "JAVA" in (p.hint or "")) for p in found] == [("sql-unknown-function", False)]


def test_a_pivot_cannot_run_as_a_stream() -> None:
    found = analyze_query("SELECT * FROM t PIVOT (SUM(id) FOR id IN (1, 2))", {"t": (Column("id", "BIGINT"),)}, {})
    assert any(c.name == "PIVOT" and c.never for c in found.constructs)


def test_a_hint_is_named_as_it_is_written() -> None:
    found = analyze_query("SELECT /*+ COALESCE(1) */ id FROM t", {"t": (Column("id", "BIGINT"),)}, {}).problems
    assert [p.message for p in found] == ["the hint COALESCE is not supported"]
