"""Queries that ended with a retriable error, and wait for their retry."""

import time
from dataclasses import dataclass
from typing import Final

from penstock.backoff import delay_secs
from penstock.errors import PenstockError
from penstock.manifest.model import QuerySpec
from penstock.runtime.query.table_watch import CHANGED

MOST_IN_DRAIN: Final = 3
"""The maximum number of consecutive retries of a query with `--once`."""
_PASSING_IN_DRAIN: Final = ("worker-lost", CHANGED)


@dataclass(frozen=True, slots=True)
class _PendingRetry:
    spec: QuerySpec
    due: float
    failure: PenstockError
    drain: bool


class Retries:
    """Waiting retries. Each failure doubles the wait; a committed batch resets it."""

    def __init__(self) -> None:
        self._waiting: dict[str, _PendingRetry] = {}
        self._tries: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def can_add(self, spec: QuerySpec, batches: int, failure: PenstockError, *, drain: bool) -> bool:
        """Whether a query may be retried after this failure.

        A query that ends by itself (`drain`) reports unreachable services at once. It is retried only after a lost
        Python worker, which says nothing about the next one, and a changed lookup table, which can be read again.
        """
        if not (failure.retriable and drain):
            return failure.retriable
        return failure.code in _PASSING_IN_DRAIN and self._next_try(spec, batches) <= MOST_IN_DRAIN

    def add(self, spec: QuerySpec, batches: int, failure: PenstockError, *, drain: bool = False) -> tuple[int, float]:
        """Schedule a retry of a query with this many committed batches. Returns the attempt and the wait in seconds."""
        tries = self._next_try(spec, batches)
        self._tries[spec.name] = batches, tries
        wait_secs = delay_secs(tries)
        self._waiting[spec.name] = _PendingRetry(spec, time.monotonic() + wait_secs, failure, drain)
        return tries, wait_secs

    def _next_try(self, spec: QuerySpec, batches: int) -> int:
        before, tries = self._tries.get(spec.name, (batches, 0))
        return tries + 1 if before == batches else 1

    def pop_due(self) -> list[tuple[QuerySpec, bool]]:
        """Take the queries that are due, each with whether it ends by itself."""
        found = [waiting for waiting in self._waiting.values() if waiting.due <= time.monotonic()]
        for waiting in found:
            del self._waiting[waiting.spec.name]
        return [(waiting.spec, waiting.drain) for waiting in found]

    def failures(self) -> dict[str, PenstockError]:
        return {name: waiting.failure for name, waiting in self._waiting.items()}

    def clear(self) -> list[str]:
        """Remove all waiting queries. Returns their names."""
        names = list(self._waiting)
        self._waiting.clear()
        return names
