"""What is remembered of a schema registry, and for how long."""

from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clients.registry import schema_cache
from penstock.clients.registry.client import RegisteredSchema, Registry
from penstock.clients.registry.schema_cache import SchemaArrived, SchemaCache
from penstock.errors import ServiceError

SCHEMA = '{"type": "record", "name": "R", "fields": []}'


class Known:
    """A registry that has these schemas, and counts who asks."""

    def __init__(self, **subjects: dict[int, RegisteredSchema]) -> None:
        self.subjects = subjects
        self.numbers: dict[int, RegisteredSchema] = {}
        self.asked: list[int] = []

    def versions(self, subject: str) -> dict[int, RegisteredSchema]:
        return self.subjects[subject]

    def schema(self, number: int) -> RegisteredSchema:
        self.asked.append(number)
        return self.numbers[number]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds: the last of these."""
    times = [1000.0]
    monkeypatch.setattr(schema_cache.time, "monotonic", lambda: times[-1])
    monkeypatch.setattr(schema_cache.time, "time", lambda: times[-1])
    return times


def book_of(registry: Any) -> SchemaCache:
    return SchemaCache(cast("Registry", registry))


def test_a_schema_that_is_not_there_is_asked_for_again_after_a_while_and_then_less_often(clock: list[float]) -> None:
    registry = Known()
    book = book_of(registry)
    book.resolve_schema(7)
    book.resolve_schema(7)
    for seconds in (1, 4, 5, 5, 60):
        clock.append(clock[-1] + seconds)
        book.refresh_missing()
    assert registry.asked == [7] * 4
    registry.numbers[7] = RegisteredSchema(7, SCHEMA)
    clock.append(clock[-1] + 300)
    book.refresh_missing()
    book.refresh_missing()
    assert registry.asked == [7] * 5


def test_a_query_goes_by_what_was_known_when_it_began_and_is_told_when_there_is_more(
    clock: list[float], tmp_path: Path
) -> None:
    registry = Known(s={1: RegisteredSchema(1, SCHEMA)})
    book, notes = book_of(registry), tmp_path / "kept" / "schemas.json"
    book.learn(7)
    book.learn(8)
    begun = book.freeze(notes)
    clock.append(2000.0)
    registry.numbers[7] = RegisteredSchema(7, SCHEMA)
    book.refresh_missing()
    known = begun.schemas("t", "s")
    assert (set(known.writers), known.unknown, known.since) == ({1}, {7, 8}, {})
    assert isinstance(begun.restart_reason, SchemaArrived)
    assert "schema 7 now" in begun.restart_reason.message
    renewed = book.freeze(notes)
    known = renewed.schemas("t", "s")
    assert (set(known.writers), known.unknown, known.since) == ({1, 7}, {8}, {7: 2_000_000})
    assert renewed.restart_reason is None
    clock.append(3000.0)
    registry.subjects["s"][2] = RegisteredSchema(8, SCHEMA)
    another = book_of(registry)  # of another process
    another.learn(7)
    another.schemas("t", "s")
    assert another.freeze(notes).schemas("t", "s").since == {7: 2_000_000, 8: 3_000_000}


def test_a_subject_without_versions_has_no_schema() -> None:
    with pytest.raises(ServiceError, match="the subject `s` has no schema") as failed:
        book_of(Known(s={})).schemas("t", "s")
    assert failed.value.code == "schema-unknown"
