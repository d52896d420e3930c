"""Letters that wait, and positions in Kafka."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from penstock.clients.letters import Delivered, Letter, outstanding
from penstock.clients.patience import wait_until
from penstock.errors import ServiceError
from penstock.runtime.failures import failure_of, is_for_lost_records
from penstock.runtime.positions import Positions, PositionTeller, farthest_back, gone_records, positions_in


def letter(place: int, offset: int | None, *, node: str = "model.m", part: str = "0", code: str = "not-json") -> Letter:
    about: dict[str, Any] = dict.fromkeys(
        ("topic", "partition", "offset", "timestamp", "key", "value", "message", "time")
    )
    return Letter("s.errors", part, place, {**about, "offset": offset, "code": code, "node": node}, None, b"x")


def test_a_record_waits_once_by_the_newest_letter_about_it() -> None:
    letters = [letter(0, 7), letter(1, 8), letter(2, 7, code="not-text"), letter(3, 7, node="model.other")]
    found = outstanding(letters, {})
    assert [(x.place, x.about["code"], x.node) for x in found] == [
        (1, "not-json", "model.m"),
        (2, "not-text", "model.m"),
        (3, "not-json", "model.other"),
    ]


def test_rows_without_an_offset_are_told_apart_by_their_place() -> None:
    assert len(outstanding([letter(0, None), letter(1, None)], {})) == 2


def test_what_was_delivered_again_does_not_wait() -> None:
    letters = [letter(0, 1), letter(1, 2), letter(0, 3, part="1"), letter(0, 4, node="model.other")]
    delivered = {("s.errors", "model.m"): Delivered({"0": 1})}
    assert [x.about["offset"] for x in outstanding(letters, delivered)] == [4, 2, 3]


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
    assert positions_in(offset) == found


def test_records_that_are_gone_are_named_by_their_ranges() -> None:
    reached = {("a", 0): 5, ("a", 1): 5, ("a", 2): 5, ("b", 0): 5}
    begins, ends = {("a", 0): 5, ("a", 1): 1000, ("a", 2): 0}, {("a", 0): 9, ("a", 1): 2000, ("a", 2): 3}
    assert list(gone_records(reached, begins, ends)) == [
        "a/1: the records 5 to 999 are gone and were never read",
        "a/2 ends at 3, and was read up to 5: it was made anew",
        "b/0 is gone, of which the records up to 5 were read",
    ]
    assert list(gone_records({("a", 0): 5}, begins, ends, {"a"})) == [
        "a/0 was made anew since it was read up to 5: what it holds before that was never read"
    ]
    assert not list(gone_records({("a", 0): 0}, {("a", 0): 0}, ends, {"a"}))


def test_of_several_readers_the_one_farthest_back_counts() -> None:
    told: list[dict[tuple[str, int], int]] = [{("a", 0): 5, ("a", 1): 9}, {("a", 0): 7, ("b", 0): 1}, {("a", 1): 2}]
    assert farthest_back(told) == {("a", 0): 5, ("a", 1): 2, ("b", 0): 1}


def test_positions_that_are_refused_are_said_once_and_keep_no_others_back() -> None:
    said: list[str] = []
    told: list[tuple[str, int]] = []
    away = [ServiceError("unreachable", "nobody there", retriable=True)]

    def commit(group: str, positions: Positions) -> None:
        if group == "closed":
            raise ServiceError("kafka-refused", "the user may not do that")
        if away:
            raise away.pop()
        told.append((group, positions["a", 0]))

    teller = PositionTeller(commit, said.append)
    for at in (1, 2):
        for group in ("closed", "open"):
            teller.tell(group, {("a", 0): at})
        wait_until(lambda now=("open", at): now in told, 30)  # type: ignore[misc]
    teller.close()
    assert told == [("open", 1), ("open", 2)]
    assert said == ["How far `closed` is cannot be told: the user may not do that"]


def test_what_passes_by_itself_and_what_does_not() -> None:
    def passes(said: str) -> bool:
        return failure_of(PySparkException(said)).retriable

    assert passes("org.apache.kafka.common.errors.TimeoutException: no metadata")
    assert passes("Python worker failed to connect back.")
    assert passes("ConfigException: No resolvable bootstrap urls given in bootstrap.servers")
    assert passes("org.apache.kafka.common.errors.UnknownTopicOrPartitionException: not yet")
    assert not passes("org.apache.kafka.common.errors.SaslAuthenticationException: no")
    assert is_for_lost_records(Exception("Some data may have been lost because they are not available"))
    assert not is_for_lost_records(Exception("division by zero"))
