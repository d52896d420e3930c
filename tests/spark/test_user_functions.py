"""Functions in Python, called by the SQL of projects and pipelines, on Spark."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PlanRefused, QueryFailed
from tests.spark.running import Running

SOURCE = """
project: {name: people}
sources:
  - name: people
    topic: people.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: name, type: STRING}
      - {name: net, type: "DECIMAL(10, 2)"}
      - {name: born, type: TIMESTAMP(3)}
      - {name: tags, type: ARRAY<STRING>}
models:
"""
TEXT = '''
import datetime
import pyarrow as pa
import pyarrow.compute as pc
from penstock.functions import BIGINT, DECIMAL, DOUBLE, STRING, TIMESTAMP
from .checks import _refuse

def initials(name: STRING, count: BIGINT) -> STRING:
    """The first letters, of names that do not begin with x."""
    _refuse(name)
    letters = [None if n is None else n[:c].upper() for n, c in zip(name.to_pylist(), count.to_pylist())]
    return pa.array(letters, pa.string())

def gross(net: DECIMAL(10, 2)) -> DECIMAL(18, 4):
    return pc.multiply(net, pa.scalar(__import__("decimal").Decimal("1.19")))

def half(x: DOUBLE) -> DOUBLE:
    return pc.divide(x, 2.0)

def year_after(at: TIMESTAMP) -> TIMESTAMP:
    return pa.array([None if a is None else a.replace(year=a.year + 1) for a in at.to_pylist()], at.type)

def first_tag(tags: "ARRAY<STRING>") -> str:
    return pc.list_element(tags, 0)

def is_long(name: str) -> bool:
    return pc.greater(pc.utf8_length(name), 3)

def letters(name: str) -> "ARRAY<STRING>":
    return pa.array([None if n is None else list(n) for n in name.to_pylist()], pa.list_(pa.string()))
'''
CHECKS = """
import pyarrow.compute as pc

def _refuse(name):
    for one in name.to_pylist():
        if one is not None and one.startswith("x"):
            raise ValueError(f"{one!r} begins with x")
"""
NAMES = ["anna", "bo", "xaver", "carl", None, "xenia", "anton", "berta"]


def person(number: int, name: str | None) -> dict[str, Any]:
    return {"id": number, "name": name, "net": 10.5, "born": f"2000-01-0{number + 1}T00:00:00Z", "tags": ["t", name]}


def written(running: Running, models: str, text: str = TEXT, **others: str) -> Running:
    for name, source in {"text": text, "checks": CHECKS, **others}.items():
        path = running.root / "functions" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    running.write({"stream_project.yml": SOURCE + models})
    running.drop("people.v1", "1.json", [person(number, name) for number, name in enumerate(NAMES)])
    return running


def model(name: str, sql: str, more: str = "") -> str:
    return f"  - name: {name}\n    sql: >-\n      {sql}\n{more}"


def dead_letters(running: Running, topic: str) -> dict[int, str]:
    return {json.loads(row["value"])["id"]: row["message"] for row in running.topic(topic)}


def test_a_projects_functions_compute_columns_and_their_failures_are_dead_letters(running: Running) -> None:
    models = model(
        "named",
        "SELECT id, initials(name, 1) AS i, initials(initials(name, 2), id + 1) AS twice, gross(net) AS g, "
        "half(net) AS h, initials(name, NULL) AS nothing, "
        "year_after(born) AS y, first_tag(tags) AS t, letters(name) AS l, vat AS v "
        "FROM (SELECT *, GROSS(CAST(id AS DECIMAL(10, 2))) AS vat FROM {{ source('people') }}) AS p",
    )
    models += model(
        "chosen",
        "SELECT id, CASE WHEN id <> 2 THEN initials(name, 2) ELSE 'none' END AS i FROM {{ source('people') }} "
        "WHERE is_long(name)",
    )
    models += model(
        "counted",
        "SELECT initials(name, 1) AS letter, COUNT(*) AS n, SUM(gross(net)) AS total FROM {{ source('people') }} "
        "WHERE id < 6 OR id > 6 GROUP BY initials(name, 1)",
        "    advanced: {spark: {state_ttl_ms: 86400000}}\n",
    )
    progress = written(running, models).run()
    rows = {row["id"]: row for row in running.topic("named")}
    assert sorted(rows) == [0, 1, 3, 4, 6, 7]
    assert rows[0] == {
        "id": 0,
        "i": "A",
        "twice": "A",
        "g": Decimal("12.4950"),
        "h": 5.25,
        "nothing": "ANNA",
        "y": datetime(2001, 1, 1),
        "t": "t",
        "l": ["a", "n", "n", "a"],
        "v": Decimal("0.0000"),
    }
    assert (rows[4]["i"], rows[4]["l"], rows[3]["twice"]) == (None, None, "CA")
    assert progress["named"].rejected == 2
    messages = dead_letters(running, "named.errors")
    assert messages == {
        2: "[USER_FUNCTION.INITIALS] ValueError: 'xaver' begins with x",
        5: "[USER_FUNCTION.INITIALS] ValueError: 'xenia' begins with x",
    }
    # a branch that is not taken does not fail, although Spark computes functions for every row
    assert {row["id"]: row["i"] for row in running.topic("chosen")} == {0: "AN", 2: "none", 3: "CA", 6: "AN", 7: "BE"}
    assert dead_letters(running, "chosen.errors").keys() == {5}
    totals = {row["letter"]: (row["n"], row["total"]) for row in running.topic("counted")}
    price = Decimal("12.4950")
    assert totals == {"A": (1, price), "B": (2, 2 * price), "C": (1, price), None: (1, price)}
    assert dead_letters(running, "counted.errors") == messages
    # another source is another result, from the same checkpoint
    (running.root / "functions" / "text.py").write_text(TEXT.replace("1.19", "1.00"))
    running.drop("people.v1", "2.json", [person(8, "anna")])
    running.run()
    assert {row["id"]: row["g"] for row in running.topic("named")}[8] == Decimal("10.5000")
    assert {row["id"]: row["g"] for row in running.topic("named")}[0] == price


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_on_error_decides_about_rows_that_a_function_fails_on(running: Running, on_error: str) -> None:
    sql = "SELECT id, initials(name, 1) AS i FROM {{ source('people') }}"
    written(running, model("named", sql, f"    on_error: {on_error}\n"))
    if on_error == "stop":
        with pytest.raises(QueryFailed, match=r"\[USER_FUNCTION.INITIALS\] ValueError: '(xaver|xenia)' begins with x"):
            running.run()
    else:
        assert running.run()["named"].rejected == 2
        assert len(running.topic("named")) == 6


def test_what_a_masked_row_made_a_function_say_is_withheld(running: Running) -> None:
    masked = "    security: {masking: [{column: name, policy: redact}]}\n"
    written(running, model("named", "SELECT id, name, initials(name, 1) AS i FROM {{ source('people') }}", masked))
    running.run()
    kept = running.topic("named.errors")
    assert len(kept) == 2
    assert all(row["message"].startswith("[USER_FUNCTION.INITIALS] ") for row in kept)
    assert not any("xaver" in row["message"] or "xenia" in row["message"] for row in kept)
    assert [json.loads(row["value"])["name"] for row in kept] == ["***", "***"]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("def f(x: str) -> int: return x", "function-failed", "`f` returned string, and its hint is BIGINT"),
        (
            "import a_package_that_is_absent\ndef f(x: str) -> int: ...",
            "function-import",
            "`functions/text.py`, with the function `f`, cannot be imported: ModuleNotFoundError: "
            "No module named 'a_package_that_is_absent'",
        ),
    ],
)
def test_a_function_that_cannot_work_ends_the_query_at_once(
    running: Running, text: str, code: str, message: str
) -> None:
    written(running, model("named", "SELECT id, f(name) AS i FROM {{ source('people') }}"), text)
    with pytest.raises(QueryFailed) as caught:
        running.run()
    assert caught.value.code == code
    assert message in caught.value.message
    assert not caught.value.retriable
    assert caught.value.hint


def test_types_that_validate_does_not_know_are_compared_at_the_start(running: Running) -> None:
    written(
        running,
        model("named", "SELECT id, initials(r, 1) AS i FROM (SELECT id, id / 2 AS r FROM {{ source('s') }}) AS p"),
    )
    main = running.root / "stream_project.yml"
    main.write_text(main.read_text().replace("models:\n", "  - {name: s, topic: s.v1}\nmodels:\n", 1))
    running.drop("s.v1", "1.json", [{"id": 1}])
    with pytest.raises(PlanRefused, match="`name` of initials is STRING, and is given "):
        running.run()


PIPELINE = """
sources:
  people: {type: file, path: PATH, format: json, mode: {type: bounded}}
transforms:
  named: {type: sql, primary_key: id, sql: "SELECT id, initials(name, CAST(1 AS BIGINT)) AS i FROM people"}
sinks:
  out: {type: file, from: named, path: OUT, format: json}
  again: {type: file, from: named, path: AGAIN, format: json}
"""


def test_a_pipeline_calls_functions_for_one_sink_and_for_several(running: Running, tmp_path: Path) -> None:
    source, out, again = (tmp_path / name for name in ("in", "out", "again"))
    source.mkdir()
    rows = [{"id": number, "name": name} for number, name in enumerate(NAMES)]
    (source / "a.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    written(running, "")
    text = PIPELINE.replace("PATH", str(source)).replace("OUT", str(out)).replace("AGAIN", str(again))
    pipeline = Running(running.root, running.spark, "feed.yml").write({"feed.yml": text})
    pipeline.run()
    for folder in (out, again):
        found = [json.loads(line) for file in folder.rglob("part-*.json") for line in file.read_text().splitlines()]
        assert {row["id"]: row.get("i") for row in found} == {0: "A", 1: "B", 3: "C", 4: None, 6: "A", 7: "B"}
