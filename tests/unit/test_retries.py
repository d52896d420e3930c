"""Queries that begin again after a while."""

import pytest

from penstock.manifest.model import QuerySpec
from penstock.runtime import retries
from penstock.runtime.retries import Retries

SPEC = QuerySpec(name="q", inputs=(), steps=(), outputs=())


def test_every_time_in_vain_doubles_the_wait_and_a_batch_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(retries.time, "monotonic", lambda: now)
    waiting = Retries()

    def wait(batches: int) -> float:
        nonlocal now
        begun = now
        waiting.add(SPEC, batches)
        assert len(waiting) == 1
        while not waiting.due():
            now += 0.5
        assert len(waiting) == 0
        return now - begun

    assert [wait(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [wait(3), wait(3), wait(4)] == [1, 2, 1]


def test_those_that_wait_can_be_forgotten() -> None:
    waiting = Retries()
    waiting.add(SPEC, 0)
    assert waiting.clear() == ["q"]
    assert len(waiting) == 0
