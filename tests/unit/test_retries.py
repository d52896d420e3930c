"""Queries that begin again after a while."""

import pytest

from penstock.errors import ServiceError
from penstock.manifest.model import QuerySpec
from penstock.runtime import retries
from penstock.runtime.retries import Retries

SPEC = QuerySpec(name="q", inputs=(), steps=(), outputs=())
DOWN = ServiceError("unreachable", "no answer", retriable=True)


def test_every_time_in_vain_doubles_the_wait_and_a_batch_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(retries.time, "monotonic", lambda: now)
    waiting = Retries()
    tries: list[int] = []

    def wait(batches: int) -> float:
        nonlocal now
        begun = now
        tries.append(waiting.add(SPEC, batches, DOWN)[0])
        assert len(waiting) == 1
        while not waiting.due():
            now = round(now + 0.1, 1)
        assert len(waiting) == 0
        return round(now - begun, 1)

    assert [wait(0) for _ in range(11)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert [wait(3), wait(3), wait(4)] == [0.1, 0.2, 0.1]
    assert tries == [*range(1, 12), 1, 2, 1]


def test_those_that_wait_can_be_forgotten() -> None:
    waiting = Retries()
    waiting.add(SPEC, 0, DOWN)
    assert waiting.failures() == {"q": DOWN}
    assert waiting.clear() == ["q"]
    assert len(waiting) == 0
