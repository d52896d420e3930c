"""Dead letters of rows with masked and classified columns."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.clients.dead_letters.model import DeadLetter
from penstock.errors import QueryFailed
from penstock.runtime.dead_letters import masking
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.workflow.dead_letters import mask_dead_letters, pending_dead_letters
from penstock.workflow.stages import check
from tests.services.dead_letters import deliver
from tests.spark.running import Running
from tests.unit.test_dead_letter_masking import ANSWERS

SECRET, SALARY = "ada@example.com", 31415926
PROJECT = """
project: {{name: p}}
{defaults}
sources:
  - name: people
    topic: people.v1
    columns:
      - {{name: id, type: BIGINT}}
      - {{name: email, type: STRING}}
      - {{name: salary, type: BIGINT, classification: sensitive}}
      - {{name: city, type: STRING}}
models:
  - name: shares
    on_error: {on_error}
    sql: SELECT id, email, city, {computed} AS share FROM {{{{ source("people") }}}}
    security: {{masking: [{{column: email, policy: hash}}]}}
"""


def _person(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "email": SECRET, "salary": SALARY, "city": "Oslo", **more}


def _written(running: Running, computed: str, on_error: str = "dead_letter", defaults: str = "") -> None:
    text = PROJECT.format(computed=computed, on_error=on_error, defaults=defaults)
    running.write({"stream_project.yml": text})


def _files_with(root: Path, text: str) -> list[str]:
    """Files of the run, beside the topic that people put rows into, in which a text stands."""
    found = [file for file in root.rglob("*") if file.is_file() and "people.v1" not in file.parts]
    return [str(file) for file in found if text.encode() in file.read_bytes()]


def test_what_is_kept_of_a_row_that_fails_has_no_masked_and_no_sensitive_value(running: Running) -> None:
    _written(running, "10 / (id - 5) + CAST(email AS INT) * 0")
    running.drop("people.v1", "1.json", [_person(5), _person(6, email="7")])
    assert running.run()["shares"].rejected == 1
    (row,) = running.topic("shares.errors")
    assert json.loads(row["value"]) == {"id": 5, "email": "***", "salary": "***", "city": "Oslo"}
    assert row["withheld"].startswith("sha256:")
    assert _files_with(running.root, SECRET) == []
    assert _files_with(running.root, str(SALARY)) == []

    (dead_letter,) = mask_dead_letters(check(running.root), pending_dead_letters(check(running.root), None))
    assert SECRET not in str(dead_letter)

    _written(running, "10 / (id - 4)")
    assert deliver(running) == {"model.shares": ReplayResult(1, 0)}
    assert {r["id"]: r["share"] for r in running.topic("shares")} == {5: 10, 6: -10 + 20}
    assert pending_dead_letters(check(running.root), None) == []


def test_a_record_that_is_not_in_its_topic_waits_until_it_is_there_again(running: Running) -> None:
    _written(running, "10 / (id - 5)")
    running.drop("people.v1", "1.json", [_person(5)])
    running.run()
    _written(running, "10 / (id - 4)")
    topic = running.root / ".penstock" / "topics" / "people.v1"
    topic.rename(topic.with_name("away"))
    topic.mkdir()
    for _ in range(2):
        assert deliver(running) == {"model.shares": ReplayResult(0, 1)}
        (dead_letter,) = pending_dead_letters(check(running.root), None)
        assert (dead_letter.code, dead_letter.about["offset"]) == ("row-failed", 1)
        assert "no longer exists at its origin" in dead_letter.about["message"]
    topic.rmdir()
    topic.with_name("away").rename(topic)
    assert deliver(running) == {"model.shares": ReplayResult(1, 0)}
    assert pending_dead_letters(check(running.root), None) == []


READERS = """
project: {{name: p}}
sources:
  - name: people
    topic: people.v1
    columns: [{{name: id, type: BIGINT}}, {{name: email, type: STRING}}, {{name: score, type: {score}}}]
models:
  - {{name: all, sql: 'SELECT id, email{added} FROM {{{{ source("people") }}}}'}}
  - name: of_model
    sql: SELECT id, email, 10 / (id - {less}) AS share FROM {{{{ ref("all") }}}}
    security: {{masking: [{{column: email, policy: hash}}]}}
  - name: of_files
    sql: SELECT id, email, 10 / (id - {less}) AS share FROM {{{{ source("people") }}}}
    security: {{masking: [{{column: email, policy: hash}}]}}
"""


def test_rows_are_found_again_in_files_and_behind_models_whose_columns_have_changed(running: Running) -> None:
    running.write({"stream_project.yml": READERS.format(score="INT", added="", less=5)})
    topics = running.root / ".penstock" / "topics"
    (topics / "people.v1").mkdir(parents=True)
    (topics / "people.v1" / "1.csv").write_text(f"id,email,score\n5,{SECRET},1\n6,{SECRET},2\n")
    assert {name: done.rejected for name, done in running.run().items()} == {"all": 0, "of_model": 1, "of_files": 1}
    for name in ("of_model", "of_files"):
        assert _files_with(topics / f"{name}.errors", SECRET) == []

    running.write({"stream_project.yml": READERS.format(score="DOUBLE", added=", 1 AS one", less=4)})
    assert deliver(running) == {"model.of_model": ReplayResult(1, 0), "model.of_files": ReplayResult(1, 0)}
    for name in ("of_model", "of_files"):
        assert {row["id"]: row["share"] for row in running.topic(name)} == {5: 10, 6: 10}


@pytest.mark.parametrize("value", ["31415926x", '{"a": 31415926}', '"31415926'])
def test_a_record_that_stops_a_query_is_not_quoted(running: Running, value: str) -> None:
    _written(running, "id", on_error="stop", defaults="defaults: {on_error: stop}")
    topic = running.root / ".penstock" / "topics" / "people.v1"
    topic.mkdir(parents=True)
    (topic / "1.json").write_text(f'{{"id": 1, "email": "{SECRET}", "salary": {value}}}\n')
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert str(SALARY) not in str(failed.value)
    assert SECRET not in str(failed.value)


def test_an_error_that_ends_a_query_quotes_no_such_value(running: Running) -> None:
    _written(running, "CAST(email AS INT)", on_error="stop")
    running.drop("people.v1", "1.json", [_person(1)])
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert "CAST_INVALID_INPUT" in str(failed.value)
    assert SECRET not in str(failed.value)


def test_a_project_may_choose_to_keep_records_as_they_are(running: Running) -> None:
    _written(running, "10 / (id - 5)", defaults="defaults: {dead_letters: clear}")
    running.drop("people.v1", "1.json", [_person(5)])
    running.run()
    (row,) = running.topic("shares.errors")
    assert json.loads(row["value"])["email"] == SECRET


def test_dead_letters_that_were_kept_before_are_covered_when_they_are_shown_and_can_be_replayed(
    running: Running,
) -> None:
    _written(running, "10 / (id - 5)", defaults="defaults: {dead_letters: clear}")
    running.drop("people.v1", "1.json", [_person(5)])
    running.run()
    _written(running, "10 / (id - 4)")
    (dead_letter,) = mask_dead_letters(check(running.root), pending_dead_letters(check(running.root), None))
    assert isinstance(dead_letter, DeadLetter)
    assert json.loads(str(dead_letter.about["value"])) == {"id": 5, "email": "***", "salary": "***", "city": "Oslo"}
    assert deliver(running) == {"model.shares": ReplayResult(1, 0)}


def test_spark_and_python_leave_the_same_of_what_others_say(running: Running) -> None:
    fields = "key STRING, value STRING, code STRING, message STRING, partition INT, offset BIGINT, headers STRING"
    rows = [(None, "{}", "row-refused", text, None, None, None) for text, _ in ANSWERS]
    dead_letters = masking.mask_dead_letters(running.spark.createDataFrame(rows, fields), ["email"])
    assert [row["message"] for row in dead_letters.collect()] == [covered for _, covered in ANSWERS]
