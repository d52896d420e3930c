"""SQL over columns that only a run knows: what is wrong with it is said in our words, and nothing is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import QueryFailed
from tests.spark.running import Running

ROW = {"id": 1, "x": 2, "s": "text", "a.b": 3, "o": {"p": 1}}


@pytest.fixture
def pipeline(running: Running) -> Running:
    return Running(running.root, running.spark, "pipeline.yml")


def written(pipeline: Running, *queries: str, **sink: Any) -> Running:
    """Transforms one behind the other, the last into a sink; what they read is written beside."""
    names = ["rows", *(f"t{number}" for number in range(len(queries)))]
    source = {"type": "file", "path": "in", "format": "json", "mode": {"type": "bounded"}}
    document = {
        "sources": {"rows": source},
        "transforms": {
            name: {"type": "sql", "primary_key": "id", "sql": sql} for name, sql in zip(names[1:], queries, strict=True)
        },
        "sinks": {
            "beside": {"type": "file", "from": "rows", "path": "beside", "format": "json"},
            "kept": {"type": "file", "path": "out", "format": "json", **sink, "from": names[-1]},
        },
    }
    return pipeline.write({"pipeline.yml": json.dumps(document), "in/a.json": json.dumps(ROW) + "\n"})


def files(root: Path, name: str) -> list[Path]:
    return sorted((root / name).glob("*/part-*"))


@pytest.mark.parametrize(
    ("sql", "code", "said", "hint"),
    [
        ("SELECT id, s2 FROM rows", "sql-unknown-column", "there is no column `s2`", "did you mean `s`?"),
        ("SELECT id, a.b FROM rows", "sql-unknown-column", "no column `a.b`", 'with a dot in quotes: "a.b"'),
        ("SELECT id, o.q FROM rows", "sql-unknown-column", "there is no field `q`", "there are: p"),
        ("SELECT *, x AS s FROM rows", "sql-duplicate-column", "two outputs are called `s`", "with AS"),
        ("SELECT *, x AS S FROM rows", "sql-duplicate-column", "outputs are called `s` and `S`", "with AS"),
        ("SELECT id, o + 1 AS y FROM rows", "sql-argument", "`(o + 1)` cannot be computed: ", "with CAST"),
        ("SELECT id FROM rows WHERE s", "sql-argument", "`s` cannot be computed: ", "with CAST"),
        ("SELECT id, x.y AS z FROM rows", "sql-argument", "`x` is `BIGINT`, which has no fields", None),
        ("SELECT * FROM rows UNION ALL SELECT id FROM rows", "sql-statement", "have 6 and 2 columns", "same columns"),
        (
            "SELECT id, o FROM rows UNION ALL SELECT id, x FROM rows",
            "sql-argument",
            "the second column is STRUCT<p: BIGINT> on one side of a UNION and BIGINT on the other",
            "with CAST",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_sql_is_said_of_its_transform_before_anything_is_written(
    pipeline: Running, sql: str, code: str, said: str, hint: str | None
) -> None:
    with pytest.raises(QueryFailed) as failed:
        written(pipeline, sql).run()
    error = failed.value
    assert (error.code, error.node) == (code, "t0")
    assert said in error.message
    assert (hint or "") in (error.hint or "")
    assert "transform `t0` cannot be computed" in error.context
    assert not any(mark in str(error) for mark in ("SQLSTATE", "[", "Exception"))
    assert files(pipeline.root, "beside") == files(pipeline.root, "out") == []


def test_outputs_of_one_name_are_refused_where_they_are_made_and_not_where_they_are_read(pipeline: Running) -> None:
    with pytest.raises(QueryFailed, match="two outputs are called `s`") as failed:
        written(pipeline, "SELECT *, x AS s FROM rows", "SELECT id, s FROM t0").run()
    assert failed.value.node == "t0"


def test_names_with_dots_are_read_and_written_in_quotes(pipeline: Running) -> None:
    written(pipeline, 'SELECT id, "a.b", "a.b" + 1 AS "c.d" FROM rows').run()
    (file,) = files(pipeline.root, "out")
    assert json.loads(file.read_text()) == {"id": 1, "a.b": 3, "c.d": 4, "_gs_op": "i"}


def test_a_column_that_csv_cannot_have_is_named(pipeline: Running) -> None:
    with pytest.raises(QueryFailed) as failed:
        written(pipeline, "SELECT id, o FROM rows", format="csv").run()
    assert failed.value.code == "column-type"
    assert failed.value.message == "CSV cannot have the column `o`: it is struct<p:bigint>"
    assert files(pipeline.root, "out") == []


def test_a_column_that_is_always_null_is_written_to_csv(pipeline: Running) -> None:
    written(pipeline, 'SELECT id, NULL AS "n.n" FROM rows', format="csv").run()
    (file,) = files(pipeline.root, "out")
    assert file.read_text() == "id,n.n,_gs_op\n1,,i\n"
