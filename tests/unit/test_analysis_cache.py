"""Studies that are kept: what they save, and that they never change an answer."""

import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from penstock.graph.analysis_cache import FILE, AnalysisCache
from penstock.manifest.compile import compile
from penstock.sql.analyze.analysis import QueryAnalysis, analyze_query
from penstock.sql.analyze.analysis_json import from_json, to_json
from penstock.sql.stateful.stages import Flow
from penstock.sql.types.columns import Column, Columns
from penstock.workflow.stages import Target
from penstock.workflow.stages import check as checked_by
from tests.support import write
from tests.unit.conftest import MAIN

INPUTS: dict[str, Columns | None] = {
    "source.s": (Column("id", "BIGINT"), Column("at", "TIMESTAMP"), Column("email", "STRING")),
    "source.open": None,
}
QUERIES = [
    "SELECT id, UPPER(email) AS e FROM `source.s`",
    "SELECT * FROM `source.s` UNION ALL SELECT * FROM `source.s`",
    "SELECT id, COUNT(*) AS n FROM `source.s` GROUP BY id, TUMBLE(at, INTERVAL '1' HOUR)",
    "SELECT DISTINCT id FROM `source.s` ORDER BY id LIMIT 5",
    "SELECT wrong FROM `source.s`",
    "SELECT (id FROM `source.s`",
    "SELECT id FROM elsewhere",
    "SELECT * FROM `source.open`",
    "SELECT a AS b, COUNT(c) AS d FROM `source.open` GROUP BY a",
    "SELECT s.id, ML_PREDICT(fraud, email) AS p FROM `source.s` AS s",
]
ANSWERS = {"fraud": "STRUCT<`score`: DOUBLE>"}


def recalled(root: Path, sql: str = QUERIES[0], inputs: dict[str, Columns | None] | None = None) -> QueryAnalysis:
    return AnalysisCache(root).analyze(sql, INPUTS if inputs is None else inputs, ANSWERS)


def remember(root: Path, *queries: str) -> dict[str, Any]:
    memory = AnalysisCache(root)
    for sql in queries or QUERIES[:1]:
        memory.analyze(sql, INPUTS, ANSWERS)
    memory.save()
    kept: dict[str, Any] = json.loads((root / FILE).read_text())
    return kept


def plant(root: Path, kept: Any) -> None:
    (root / FILE).parent.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_text(kept if isinstance(kept, str) else json.dumps(kept))


LIE = QueryAnalysis(True, columns=(Column("planted", "BIGINT"),))


def lying(root: Path) -> dict[str, Any]:
    """What was kept, with a study in it that nobody would make."""
    kept = remember(root)
    (key,) = kept["studies"]
    return {**kept, "studies": {key: to_json(LIE)}}


# What it saves


@pytest.mark.parametrize("sql", QUERIES)
def test_a_study_that_is_kept_is_equal_to_the_one_that_was_made(tmp_path: Path, sql: str) -> None:
    made = analyze_query(sql, INPUTS, ANSWERS)
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
    remember(tmp_path, sql)
    assert recalled(tmp_path, sql) == made


def test_a_kept_study_is_used_and_nothing_is_parsed(tmp_path: Path) -> None:
    """Planted, and therefore seen: whoever parsed would have found out."""
    plant(tmp_path, lying(tmp_path))
    assert recalled(tmp_path) == LIE


@pytest.mark.parametrize(
    ("sql", "inputs", "answers"),
    [
        (QUERIES[0] + " ", INPUTS, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.s": (Column("id", "INT"), *(INPUTS["source.s"] or ())[1:])}, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.s": (Column("ID", "BIGINT"), *(INPUTS["source.s"] or ())[1:])}, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.s": (INPUTS["source.s"] or ())[::-1]}, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.s": None}, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.open": ()}, ANSWERS),
        (QUERIES[0], {**INPUTS, "source.more": None}, ANSWERS),
        (QUERIES[0], INPUTS, {}),
        (QUERIES[0], INPUTS, {"fraud": "DOUBLE"}),
    ],
)
def test_anything_else_that_is_studied_is_studied_anew(
    tmp_path: Path, sql: str, inputs: dict[str, Columns | None], answers: dict[str, str]
) -> None:
    plant(tmp_path, lying(tmp_path))
    assert AnalysisCache(tmp_path).analyze(sql, inputs, answers) != LIE


OTHER_WAYS = [
    Flow(kind="changes"),
    Flow(key=("id",)),
    Flow(columns=("id",)),
    Flow(times=frozenset({"at"})),
    Flow(clocks=frozenset({"at"})),
    Flow(watermarked=False),
    Flow(hidden=frozenset({"id"})),
    Flow(static=True),
    Flow(lateness_ms=1),
    Flow(keeps_late=True),
    Flow(mixed=True),
    Flow(repeated=True),
    Flow(joined=True),
    Flow(stale=frozenset({"at"})),
]


def test_the_ways_differ_in_every_field() -> None:
    plain = Flow()
    other = {f.name for flow in OTHER_WAYS for f in fields(Flow) if getattr(flow, f.name) != getattr(plain, f.name)}
    assert other == {f.name for f in fields(Flow)}


@pytest.mark.parametrize("flow", OTHER_WAYS, ids=str)
def test_rows_that_come_another_way_are_studied_anew(tmp_path: Path, flow: Flow) -> None:
    memory = AnalysisCache(tmp_path)
    memory.analyze(QUERIES[0], INPUTS, ANSWERS, {"source.s": Flow()})
    memory.analyze(QUERIES[0], INPUTS, ANSWERS, {"source.s": flow})
    memory.save()
    assert len(json.loads((tmp_path / FILE).read_text())["studies"]) == 2


def test_names_and_types_cannot_be_mixed_up_in_what_it_is_known_by(tmp_path: Path) -> None:
    one: dict[str, Columns | None] = {"source.s": (Column("a', 'INT", None),)}
    other: dict[str, Columns | None] = {"source.s": (Column("a", "INT"),)}
    memory = AnalysisCache(tmp_path)
    memory.analyze("SELECT * FROM `source.s`", one, {})
    assert memory.analyze("SELECT * FROM `source.s`", other, {}).columns == (Column("a", "INT"),)


def test_only_what_was_used_is_kept(tmp_path: Path) -> None:
    assert len(remember(tmp_path, *QUERIES[:3])["studies"]) == 3
    assert len(remember(tmp_path, QUERIES[1])["studies"]) == 1


def test_nothing_is_written_when_nothing_is_new(tmp_path: Path) -> None:
    remember(tmp_path)
    os.utime(tmp_path / FILE, (1, 1))
    remember(tmp_path)
    assert (tmp_path / FILE).stat().st_mtime == 1


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    memory = AnalysisCache()
    assert memory.analyze(QUERIES[0], INPUTS, ANSWERS) == analyze_query(QUERIES[0], INPUTS, ANSWERS)
    memory.save()
    assert list(tmp_path.iterdir()) == []


def test_no_half_written_file_is_left(tmp_path: Path) -> None:
    remember(tmp_path)
    assert [file.name for file in (tmp_path / FILE).parent.iterdir()] == [FILE.name]


# What it must not change

WRONG_FILES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "empty": lambda _: "",
    "cut off": lambda kept: json.dumps(kept)[:-20],
    "no JSON": lambda _: "\x00\x01nonsense",
    "a list": lambda _: [],
    "a text": lambda _: '"studies"',
    "a number": lambda _: 5,
    "null": lambda _: None,
    "nested too deeply": lambda _: "[" * 100_000,
    "of another version": lambda kept: {**kept, "made_by": "penstock 0.0.0"},
    "of no version": lambda kept: {"studies": kept["studies"]},
    "of a version that is no text": lambda kept: {**kept, "made_by": [kept["made_by"]]},
    "without studies": lambda kept: {"made_by": kept["made_by"]},
    "with a list of studies": lambda kept: {**kept, "studies": [1, 2]},
    "with null for studies": lambda kept: {**kept, "studies": None},
    "with a text for studies": lambda kept: {**kept, "studies": "abc"},
}


@pytest.mark.parametrize("change", WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_a_damaged_or_foreign_file_is_as_good_as_none(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    plant(tmp_path, change(lying(tmp_path)))
    expected = analyze_query(QUERIES[0], INPUTS, ANSWERS)
    assert recalled(tmp_path) == expected
    remember(tmp_path)
    assert recalled(tmp_path) == expected


def test_a_file_that_is_no_text_is_as_good_as_none(tmp_path: Path) -> None:
    remember(tmp_path)
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    assert recalled(tmp_path) == analyze_query(QUERIES[0], INPUTS, ANSWERS)


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, [[]], {"sound": True}])
def test_a_study_that_is_none_is_made_anew(tmp_path: Path, value: Any) -> None:
    kept = remember(tmp_path)
    plant(tmp_path, {**kept, "studies": dict.fromkeys(kept["studies"], value)})
    assert recalled(tmp_path) == analyze_query(QUERIES[0], INPUTS, ANSWERS)


PROJECT = """
    project: {name: p}
    sources:
      - {name: s, topic: t, columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP}], event_time: {column: at}}
    models:
      - {name: m, sql: "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id, TUMBLE(at, INTERVAL '1' HOUR)"}
      - {name: r, sql: "SELECT id, n + 1 AS more FROM {{ ref('m') }}"}
"""
PROBLEM = {"code": "sql-argument", "message": "text", "offset": 0, "hint": None, "subject": ""}
CONSTRUCT = {"name": "x", "offset": 0, "hint": "", "word": "", "never": False}
END = {"over": {"input": "source.s", "name": "id"}, "part": "end", "behind_ms": 0}
WRONG_TYPES: list[Any] = [
    *(("problems", [{**PROBLEM, part: value}]) for part, value in (("code", 1), ("offset", "three"), ("hint", 4))),
    *(("constructs", [{**CONSTRUCT, part: value}]) for part, value in (("name", 5), ("offset", "x"), ("never", 9))),
    ("windows", [{"column": 5, "offset": "x"}]),
    ("times", [{"input": 5, "name": 6}]),
    ("columns", [{"name": 5, "type": "BIGINT"}]),
    ("columns", [{"name": "id", "type": 5}]),
    ("columns", ["id"]),
    ("origins", {"id": [{"input": 1, "name": 2, "way": 3}]}),
    ("window_times", {"id": {**END, "over": {"input": 1, "name": 2}}}),
]
WRONG_VALUES: list[Any] = [
    ("problems", [{**PROBLEM, "code": "no-such-code"}]),
    ("hindrance", {**PROBLEM, "code": "no-such-code"}),
    ("windows", []),
    ("times", []),
    ("columns", [{"name": "id", "type": "NO SUCH TYPE <"}]),
    ("origins", {"id": [{"input": "source.s", "name": "id", "way": "nonsense"}]}),
    ("window_times", {"id": {**END, "part": "nonsense"}}),
]
WRONG_SHAPES: list[tuple[str, Any]] = [
    ("sound", "yes"),
    ("problems", [[]]),
    ("constructs", [5]),
    ("windows", None),
    ("times", [["source.s", "id"]]),
    ("times", [{"input": "source.s"}]),
    ("columns", 5),
    ("columns", [["id", "BIGINT"]]),
    ("origins", {"id": "abc"}),
    ("origins", []),
    ("window_times", {"id": "abc"}),
    ("window_times", []),
]


def manifest(root: Path) -> str:
    return compile(checked_by(Target(root)).graph).to_json()


def with_part(root: Path, part: str, value: Any) -> str:
    """The manifest of a second run that finds something else in this part of every study."""
    kept = json.loads((root / FILE).read_text())
    plant(root, {**kept, "studies": {key: {**one, part: value} for key, one in kept["studies"].items()}})
    return manifest(root)


@pytest.mark.parametrize(("part", "value"), WRONG_SHAPES)
def test_a_part_of_another_shape_makes_it_as_good_as_none(tmp_path: Path, part: str, value: Any) -> None:
    write(tmp_path, {MAIN: PROJECT})
    expected = manifest(tmp_path)
    assert with_part(tmp_path, part, value) == expected


@pytest.mark.parametrize(("part", "value"), WRONG_TYPES)
def test_a_part_of_another_type_makes_it_as_good_as_none(tmp_path: Path, part: str, value: Any) -> None:
    write(tmp_path, {MAIN: PROJECT})
    expected = manifest(tmp_path)
    assert with_part(tmp_path, part, value) == expected


@pytest.mark.parametrize(("part", "value"), WRONG_VALUES)
def test_a_value_that_no_study_has_makes_it_as_good_as_none(tmp_path: Path, part: str, value: Any) -> None:
    write(tmp_path, {MAIN: PROJECT})
    expected = manifest(tmp_path)
    assert with_part(tmp_path, part, value) == expected


def test_a_warm_run_gives_the_same_manifest_as_a_cold_one(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    cold = manifest(tmp_path)
    assert (tmp_path / FILE).is_file()
    assert manifest(tmp_path) == cold


def test_a_changed_column_of_a_source_is_seen_by_every_model_below(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    manifest(tmp_path)
    write(tmp_path, {MAIN: PROJECT.replace("{name: id, type: BIGINT}", "{name: id, type: STRING}")})
    graph = checked_by(Target(tmp_path)).graph
    assert [c.type for c in graph["model.r"].columns or () if c.name == "id"] == ["STRING"]


def test_a_place_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT, ".penstock": "a file, where a directory should be"})
    assert "model.r" in manifest(tmp_path)


def test_a_directory_in_place_of_the_file_does_not_matter(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    (tmp_path / FILE).mkdir(parents=True)
    assert "model.r" in manifest(tmp_path)


def test_a_run_that_is_to_leave_nothing_behind_does_not(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    checked_by(Target(tmp_path, remember=False))
    assert not (tmp_path / ".penstock").exists()
