"""Queries that begin again after a while."""

import pytest

from penstock.backoff import delay_secs
from penstock.clients.retry import retry
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.manifest.model import QuerySpec
from penstock.runtime.run import backoff
from penstock.runtime.run.backoff import Retries

SPEC = QuerySpec(name="q", inputs=(), steps=(), outputs=())
DOWN = ServiceError("unreachable", "no answer", retriable=True)
LOST = QueryFailed("worker-lost", "a Python worker of Spark ended", retriable=True)
WRONG = QueryFailed("query-failed", "no such column")


def test_every_time_in_vain_doubles_the_wait_and_a_batch_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(backoff.time, "monotonic", lambda: now)
    waiting = Retries()

    def wait(batches: int) -> tuple[int, float]:
        nonlocal now
        attempt, seconds = waiting.add(SPEC, batches, DOWN)
        now += seconds - 0.01
        assert waiting.pop_due() == []
        now += 0.02
        assert waiting.pop_due() == [(SPEC, False)]
        assert len(waiting) == 0
        return attempt, round(seconds, 3)

    waits = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert [wait(0) for _ in waits] == list(enumerate(waits, 1))
    assert [wait(3), wait(3), wait(4)] == [(1, 0.1), (2, 0.2), (1, 0.1)]


def test_those_that_wait_can_be_forgotten() -> None:
    waiting = Retries()
    waiting.add(SPEC, 0, DOWN)
    assert waiting.failures() == {"q": DOWN}
    assert waiting.clear() == ["q"]
    assert len(waiting) == 0


def test_a_query_that_comes_to_an_end_begins_again_only_for_a_lost_worker_and_three_times_in_a_row() -> None:
    waiting = Retries()

    def may(failure: PenstockError, batches: int = 0, *, drain: bool = True) -> bool:
        return waiting.can_add(SPEC, batches, failure, drain=drain)

    assert not may(WRONG)
    assert not may(WRONG, drain=False)
    assert not may(DOWN)
    assert may(DOWN, drain=False)
    for _ in range(3):
        assert may(LOST)
        waiting.add(SPEC, 0, LOST, drain=True)
    assert not may(LOST)
    assert may(LOST, batches=1)


def test_the_wait_doubles_up_to_the_longest_and_jitter_takes_at_most_half_of_it() -> None:
    assert [delay_secs(attempt, first_secs=1, longest_secs=5) for attempt in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]
    assert (delay_secs(2, jitter=0), delay_secs(2, jitter=1)) == (0.2, 0.1)


def test_a_call_is_repeated_only_for_errors_that_may_pass_and_only_for_some_time() -> None:
    asked: list[ServiceError] = []

    def ask() -> str:
        if plan:
            asked.append(plan.pop(0))
            raise asked[-1]
        return "an answer"

    plan = [DOWN, DOWN]
    assert retry(ask, 10) == "an answer"
    refused = ServiceError("registry-refused", "no")
    for errors, within, expected in (([refused, DOWN], 10, refused), ([DOWN, DOWN], -1, DOWN)):
        plan[:] = errors
        asked.clear()
        with pytest.raises(ServiceError) as caught:
            retry(ask, within)
        assert (caught.value, asked) == (expected, [expected])
