"""Queries that ended for a reason that may pass, and begin again after a while."""

import time
from dataclasses import dataclass
from typing import Final

from penstock.errors import PenstockError
from penstock.manifest.model import QuerySpec

FIRST_SECS: Final = 0.1
LONGEST_SECS: Final = 30.0
"""How long a query waits at most before it begins again."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    spec: QuerySpec
    due: float
    failure: PenstockError


class Retries:
    """Every time in vain doubles the wait; a batch that was committed in between begins the count anew."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._tries: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, spec: QuerySpec, batches: int, failure: PenstockError) -> tuple[int, float]:
        """Put a query off that has committed so many batches by now; for the how manieth time, and for how long."""
        before, tries = self._tries.get(spec.name, (batches, 0))
        tries = tries + 1 if before == batches else 1
        self._tries[spec.name] = batches, tries
        wait_secs = min(FIRST_SECS * 2 ** min(tries - 1, 20), LONGEST_SECS)
        self._waiting[spec.name] = _Waiting(spec, time.monotonic() + wait_secs, failure)
        return tries, wait_secs

    def due(self) -> list[QuerySpec]:
        """Those that have waited long enough. They do not wait any more."""
        found = [waiting.spec for waiting in self._waiting.values() if waiting.due <= time.monotonic()]
        for spec in found:
            del self._waiting[spec.name]
        return found

    def failures(self) -> dict[str, PenstockError]:
        """Why those that wait do so, by name."""
        return {name: waiting.failure for name, waiting in self._waiting.items()}

    def clear(self) -> list[str]:
        """Forget those that wait; their names."""
        names = list(self._waiting)
        self._waiting.clear()
        return names
