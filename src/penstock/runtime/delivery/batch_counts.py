"""Counts of the batches of a query until they are committed.

A batch that fails is retried, and counts its rows again. The attempt with the highest count is taken: an output that
has the batch already is not written again.
"""

from collections import Counter
from typing import Literal, TypeAlias

CountKey: TypeAlias = tuple[Literal["written", "rejected"], str]
"""What was counted, and where: at an output, or at an input."""


class BatchCounts:
    """The counts of uncommitted batches, by batch number."""

    def __init__(self) -> None:
        self._attempt: dict[int, Counter[CountKey]] = {}
        self._best: dict[int, Counter[CountKey]] = {}

    def begin(self, batch_id: int) -> None:
        """Note that an attempt at a batch begins."""
        self._best[batch_id] = self._best.get(batch_id, Counter()) | self._attempt.pop(batch_id, Counter())

    def add(self, batch_id: int, key: CountKey, rows: int) -> None:
        """Count rows of the current attempt."""
        self._attempt.setdefault(batch_id, Counter())[key] += rows

    def commit(self, batch_id: int) -> Counter[CountKey]:
        """Remove the counts of a committed batch, and of earlier ones whose commit was not reported."""
        done = [number for number in {*self._attempt, *self._best} if number <= batch_id]
        total: Counter[CountKey] = Counter()
        for number in done:
            total += self._best.pop(number, Counter()) | self._attempt.pop(number, Counter())
        return total
