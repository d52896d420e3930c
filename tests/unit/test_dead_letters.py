"""Dead letters that wait, and positions in Kafka."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from pyarrow.compute import CastOptions, cast
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from penstock.cli.errors import app
from penstock.clients.dead_letters.model import (
    FIELDS,
    NOTHING,
    DeadLetter,
    PendingDeadLetters,
    ReplayProgress,
    outstanding_dead_letters,
)
from penstock.clients.retry import wait_until
from penstock.errors import PlanRefused, ServiceError
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import read_replay_progress, record_replay_progress
from penstock.plan.deployed.stores import SqliteStore
from penstock.runtime.checkpoint.offset_commit import (
    OffsetCommitter,
    Positions,
    describe_gone_records,
    lowest_positions,
    parse_positions,
)
from penstock.runtime.run.lock import run_lock
from penstock.runtime.spark.errors import failure_of, is_lost_records_error
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check
from tests.support import write


def dead_letter(
    place: int,
    offset: int | None,
    *,
    node: str = "model.m",
    part: str = "0",
    code: str = "not-json",
    timestamp: str | None = None,
    topic_id: str | None = None,
) -> DeadLetter:
    about: dict[str, Any] = dict.fromkeys(("topic", "partition", "key", "value", "message", "time"))
    about |= {"offset": offset, "timestamp": timestamp, "code": code, "node": node}
    return DeadLetter("s.errors", part, place, about, None, b"x", topic_id=topic_id)


def found(
    dead_letters: list[DeadLetter], delivered: Mapping[tuple[str, str], ReplayProgress] = MappingProxyType({})
) -> list[DeadLetter]:
    return list(PendingDeadLetters(lambda: dead_letters, outstanding_dead_letters(dead_letters, delivered)))


def test_a_record_waits_once_by_the_newest_dead_letter_about_it() -> None:
    dead_letters = [
        dead_letter(0, 7),
        dead_letter(1, 8),
        dead_letter(2, 7, code="not-text"),
        dead_letter(3, 7, node="model.other"),
    ]
    assert [(x.place, x.about["code"], x.node) for x in found(dead_letters)] == [
        (1, "not-json", "model.m"),
        (2, "not-text", "model.m"),
        (3, "not-json", "model.other"),
    ]


def test_records_of_a_topic_that_was_made_anew_hide_none_of_the_earlier_one() -> None:
    dead_letters = [
        dead_letter(0, 5, timestamp="2026-01-01T00:00:00Z"),
        dead_letter(1, 5, timestamp="2026-01-02T00:00:00Z"),
    ]
    assert [x.place for x in found(dead_letters)] == [0, 1]


def test_rows_without_an_offset_are_told_apart_by_their_place() -> None:
    assert len(found([dead_letter(0, None), dead_letter(1, None)])) == 2


def test_what_was_delivered_again_does_not_wait() -> None:
    dead_letters = [
        dead_letter(0, 1),
        dead_letter(1, 2),
        dead_letter(2, 4, node="model.other"),
        dead_letter(0, 3, part="1"),
    ]
    delivered = {("s.errors", "model.m"): ReplayProgress({"0": 1}, {})}
    assert [x.about["offset"] for x in found(dead_letters, delivered)] == [2, 4, 3]


def test_what_cannot_be_delivered_waits_and_what_stands_behind_it_is_not_delivered_twice() -> None:
    dead_letters = [
        dead_letter(0, 1),
        dead_letter(1, None, code="rule-failed"),
        dead_letter(2, 3),
        dead_letter(3, None, code="rule-failed"),
    ]
    delivered = {("s.errors", "model.m"): NOTHING.add_dead_letters([dead_letters[0], dead_letters[2]])}
    assert [x.place for x in found([*dead_letters, dead_letter(4, 5)], delivered)] == [1, 3, 4]
    more = {("s.errors", "model.m"): delivered["s.errors", "model.m"].add_dead_letters([dead_letters[1]])}
    assert [x.place for x in found(dead_letters, more)] == [3]


def test_a_dead_letter_that_was_delivered_stands_for_those_before_it_about_its_record() -> None:
    dead_letters = [dead_letter(0, 7), dead_letter(1, 7, code="not-text")]
    assert found(dead_letters, {("s.errors", "model.m"): NOTHING.add_dead_letters(dead_letters[1:])}) == []


def test_dead_letters_of_a_topic_for_errors_that_was_made_anew_were_never_delivered() -> None:
    marks = {("s.errors", "model.m"): NOTHING.add_dead_letters([dead_letter(5, 1, topic_id="old")])}
    assert [x.place for x in found([dead_letter(2, 7, topic_id="new")], marks)] == [2]
    assert found([dead_letter(2, 7, topic_id="old")], marks) == []
    assert found([dead_letter(2, 7)], marks) == [], "brokers that give no ids are believed"
    renewed = {
        ("s.errors", "model.m"): marks["s.errors", "model.m"].add_dead_letters([dead_letter(2, 7, topic_id="new")])
    }
    assert [
        x.place for x in found([dead_letter(2, 7, topic_id="new"), dead_letter(3, 8, topic_id="new")], renewed)
    ] == [3]


def test_what_was_noted_of_dead_letters_before_topics_were_known_by_their_ids_still_counts(tmp_path: Path) -> None:
    store, place = SqliteStore(tmp_path / "state.db"), ProjectPlace(tmp_path, "project.p", "default")
    document = {"topic": "s.errors", "node": "model.m", "parts": {"0": 1}, "codes": {"not-json": {"0": 2}}}
    store.put(place.namespace, {"delivered:s.errors:model.m": document})
    dead_letters = [dead_letter(number, number, topic_id="a") for number in range(4)]
    assert [x.place for x in found(dead_letters, read_replay_progress(store, place))] == [2, 3]
    record_replay_progress(store, place, dead_letters[2:3])
    assert [x.place for x in found(dead_letters, read_replay_progress(store, place))] == [3]
    assert len(found([replace(x, topic_id="b") for x in dead_letters], read_replay_progress(store, place))) == 4


@pytest.mark.parametrize(("owner", "is_ours"), [(None, True), ("project.p/default", True), ("project.p/prod", False)])
def test_dead_letters_of_another_environment_are_not_ours(owner: str | None, *, is_ours: bool) -> None:
    one = dead_letter(0, 1)
    assert replace(one, about={**one.about, "owner": owner}).is_owned_by("project.p/default") is is_ours


PROJECT = """
project: {name: p}
sources: [{name: orders, topic: orders, columns: [{name: id, type: BIGINT}]}]
models: [{name: m, sql: 'SELECT id FROM {{ source("orders") }}'}]
"""


def kept(root: Path, *owners_and_codes: tuple[str | None, str]) -> None:
    """Dead letters of a model, as a batch leaves them."""
    columns: dict[str, list[Any]] = {name: [None] * len(owners_and_codes) for name in FIELDS}
    owners, codes = (list(column) for column in zip(*owners_and_codes, strict=True))
    about = {"node": ["model.m"] * len(codes), "code": codes, "owner": owners}
    folder = root / ".penstock" / "topics" / "m.errors" / "batch-0"
    folder.mkdir(parents=True)
    table = pyarrow.table(
        {name: pyarrow.array(values, pyarrow.string()) for name, values in {**columns, **about}.items()}
    )
    pyarrow.parquet.write_table(table, folder / "1.parquet")


def said(*arguments: str) -> tuple[list[str], str]:
    """The lines that a command shows, and what it says beside."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return result.stdout.splitlines(), result.stderr


def test_no_more_are_shown_than_somebody_would_read_and_all_are_counted(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    kept(tmp_path, *[("project.p/default", "late")] * 150)
    lines, beside = said("list")
    assert len(lines) == 101
    assert beside == "150 dead letters. The first 100 are shown; `--limit` shows more.\n"
    assert len(said("list", "--limit", "120")[0]) == 121
    lines, _ = said("list", "--format", "json")
    assert len(json.loads("\n".join(lines))) == 150


def test_a_list_has_the_reason_and_who_rejected_and_moves_no_cursor(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    about = {"node": "model.m", "code": "field-mismatch", "message": "`amount`: `abc\x1b[2J` is not a DOUBLE"}
    row = {
        **dict.fromkeys(FIELDS),
        **about,
        "topic": "orders",
        "value": '{"amount": "abc\x1b[2J\u202e"}\r\n',
        "owner": None,
    }
    folder = tmp_path / ".penstock" / "topics" / "m.errors" / "batch-0"
    folder.mkdir(parents=True)
    columns = {name: pyarrow.array([value], pyarrow.string()) for name, value in row.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "1.parquet")
    (heading, line), _ = said("list")
    assert heading.split() == ["record", "code", "reason", "rejected", "by", "time", "value"]
    assert "field-mismatch  `amount`: `abc\\x1b[2J` is not a DOUBLE  model.m" in line
    assert line.endswith('{"amount": "abc\\x1b[2J\\u202e"}\\r\\n')
    shown, _ = said("show", "1")
    assert 'value      {"amount": "abc\\x1b[2J\\u202e"}\\r\\n' in shown


def test_bytes_that_are_no_text_are_listed_shown_and_discarded(tmp_path: Path) -> None:
    """Spark writes them into columns of text as they are, wherever they stand."""
    write(tmp_path, {"stream_project.yml": PROJECT})
    about = {"node": b"model.m", "code": b"not-text", "message": b"`\xff` is no text", "topic": b"orders"}
    row = {**dict.fromkeys(FIELDS), **about, "key": b"\xfe", "value": b"\xff{}", "owner": None}
    folder = tmp_path / ".penstock" / "topics" / "m.errors" / "batch-0"
    folder.mkdir(parents=True)
    anything = CastOptions(pyarrow.string(), allow_invalid_utf8=True)
    columns = {name: cast(pyarrow.array([value], pyarrow.binary()), options=anything) for name, value in row.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "1.parquet")
    (_, line), _ = said("list")
    assert line.split()[-1] == "base64:/3t9"
    assert "value      base64:/3t9" in said("show", "1")[0]
    (found,) = json.loads("\n".join(said("list", "--format", "json")[0]))
    assert (found["key"], found["value"], found["code"]) == ("base64:/g==", "base64:/3t9", "not-text")
    assert [dead_letter.value for dead_letter in pending_dead_letters(check(tmp_path), None)] == [b"\xff{}"], (
        "as it is replayed"
    )
    assert said("discard", "--node", "m")[0] == ["1 dead letter discarded."]
    assert said("list")[0] == []


def test_dead_letters_are_those_of_their_owner_and_may_be_let_go_by_code(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    ours, other = "project.p/default", "project.p/prod"
    kept(tmp_path, (ours, "late"), (other, "late"), (None, "rule-failed"), (ours, "rule-failed"), (ours, "late"))
    assert [dead_letter.place for dead_letter in pending_dead_letters(check(tmp_path), None)] == [0, 2, 3, 4]
    assert said("discard", "--node", "m", "--code", "late")[0] == ["2 dead letters discarded."]
    assert [dead_letter.place for dead_letter in pending_dead_letters(check(tmp_path), None)] == [2, 3]
    assert said("discard", "--node", "m")[0] == ["2 dead letters discarded."]
    assert said("list", "--format", "json")[0] == ["[]"]
    assert said("replay")[0] == ["There are no dead letters to replay."]


@pytest.mark.parametrize("command", [("replay",), ("discard", "--node", "m")])
def test_dead_letters_are_delivered_by_one_at_a_time(tmp_path: Path, command: tuple[str, ...]) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    with (
        run_lock(check(tmp_path).place.replay_lock),
        pytest.raises(PlanRefused, match="already replaying") as no,
    ):
        said(*command)
    assert no.value.code == "already-running"


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        ('{"t": {"0": 5, "1": 7}}', {("t", 0): 5, ("t", 1): 7}),
        ('{"logOffset": 3}', {}),
        ("12", {}),
        ("not json", {}),
        (None, {}),
    ],
)
def test_positions_are_those_of_readers_of_kafka(offset: str | None, found: dict[tuple[str, int], int]) -> None:
    assert parse_positions(offset) == found


def test_records_that_are_gone_are_named_by_their_ranges() -> None:
    reached = {("a", 0): 5, ("a", 1): 5, ("a", 2): 5, ("b", 0): 5}
    begins, ends = {("a", 0): 5, ("a", 1): 1000, ("a", 2): 0}, {("a", 0): 9, ("a", 1): 2000, ("a", 2): 3}
    assert list(describe_gone_records(reached, begins, ends)) == [
        "a/1: the records 5 to 999 are gone and were never read",
        "a/2 ends at 3, and was read up to 5: it was created again",
        "b/0 is gone; records up to 5 were read",
    ]
    assert list(describe_gone_records({("a", 0): 5}, begins, ends, {"a"})) == [
        "a/0 was created again after it was read up to 5: records before that were never read"
    ]
    assert not list(describe_gone_records({("a", 0): 0}, {("a", 0): 0}, ends, {"a"}))


def test_of_several_readers_the_one_farthest_back_counts() -> None:
    told: list[dict[tuple[str, int], int]] = [{("a", 0): 5, ("a", 1): 9}, {("a", 0): 7, ("b", 0): 1}, {("a", 1): 2}]
    assert lowest_positions(told) == {("a", 0): 5, ("a", 1): 2, ("b", 0): 1}


def test_positions_that_are_refused_are_said_once_and_keep_no_others_back() -> None:
    said: list[str] = []
    told: list[tuple[str, int]] = []
    away = [ServiceError("unreachable", "nobody there", retriable=True)]

    def commit(group: str, positions: Positions) -> None:
        if group == "closed":
            raise ServiceError("kafka-refused", "the user has no right to do that")
        if away:
            raise away.pop()
        told.append((group, positions["a", 0]))

    teller = OffsetCommitter(commit, said.append)
    for at in (1, 2):
        for group in ("closed", "open"):
            teller.submit_positions(group, {("a", 0): at})
        wait_until(lambda now=("open", at): now in told, 30)  # type: ignore[misc]
    teller.close()
    assert told == [("open", 1), ("open", 2)]
    assert said == ["The offsets of `closed` cannot be committed: the user has no right to do that"]


def test_what_passes_by_itself_and_what_does_not() -> None:
    def passes(said: str) -> bool:
        return failure_of(PySparkException(said)).retriable

    assert passes("org.apache.kafka.common.errors.TimeoutException: no metadata")
    assert passes("Python worker failed to connect back.")
    assert passes("ConfigException: No resolvable bootstrap urls given in bootstrap.servers")
    assert passes("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: not yet")
    assert not passes("org.apache.kafka.common.errors.SaslAuthenticationException: no")
    absent = failure_of(PySparkException('Cannot run program "./env/bin/python": error=2, No such file or directory'))
    assert absent.message == "Spark cannot start ./env/bin/python: there is no such program"
    assert is_lost_records_error(Exception("Some data may have been lost because they are not available"))
    assert not is_lost_records_error(Exception("division by zero"))
