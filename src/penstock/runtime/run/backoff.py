"""Queries that failed for a reason that may pass, and the times at which they restart."""

import time
from dataclasses import dataclass
from typing import Final

from penstock.backoff import delay_secs
from penstock.errors import PenstockError
from penstock.manifest.model import QuerySpec
from penstock.runtime.query.table_watch import CHANGED

MOST_IN_DRAIN: Final = 3
"""How many times in a row a query that reads what is there to its end (`--once`) begins again."""
_PASSING_IN_DRAIN: Final = ("worker-lost", CHANGED)


@dataclass(frozen=True, slots=True)
class _PendingRetry:
    spec: QuerySpec
    due: float
    failure: PenstockError
    drain: bool


class Retries:
    """Every time in vain doubles the wait; a batch that was committed in between begins the count anew."""

    def __init__(self) -> None:
        self._waiting: dict[str, _PendingRetry] = {}
        self._tries: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def can_add(self, spec: QuerySpec, batches: int, failure: PenstockError, *, drain: bool) -> bool:
        """Whether a query may begin again after this failure.

        A query that comes to an end (`drain`) leaves services that are gone to whoever started it, who is told so at
        once. A Python worker that was lost says nothing of the next one, and a lookup table that changed can be read.
        """
        if not (failure.retriable and drain):
            return failure.retriable
        return failure.code in _PASSING_IN_DRAIN and self._next_try(spec, batches) <= MOST_IN_DRAIN

    def add(self, spec: QuerySpec, batches: int, failure: PenstockError, *, drain: bool = False) -> tuple[int, float]:
        """Put off a query that has committed so many batches by now. Which attempt is next, and in how many seconds."""
        tries = self._next_try(spec, batches)
        self._tries[spec.name] = batches, tries
        wait_secs = delay_secs(tries)
        self._waiting[spec.name] = _PendingRetry(spec, time.monotonic() + wait_secs, failure, drain)
        return tries, wait_secs

    def _next_try(self, spec: QuerySpec, batches: int) -> int:
        before, tries = self._tries.get(spec.name, (batches, 0))
        return tries + 1 if before == batches else 1

    def pop_due(self) -> list[tuple[QuerySpec, bool]]:
        """Those that have waited long enough, and whether they come to an end. They do not wait any more."""
        found = [waiting for waiting in self._waiting.values() if waiting.due <= time.monotonic()]
        for waiting in found:
            del self._waiting[waiting.spec.name]
        return [(waiting.spec, waiting.drain) for waiting in found]

    def failures(self) -> dict[str, PenstockError]:
        """Why those that wait do so, by name."""
        return {name: waiting.failure for name, waiting in self._waiting.items()}

    def clear(self) -> list[str]:
        """Forget those that wait; their names."""
        names = list(self._waiting)
        self._waiting.clear()
        return names
