"""Queries that can read more by now than when they began: they end behind the batch under way, to begin again."""

from penstock.runtime.run.launch import Live
from penstock.runtime.spark.drain import begin_no_other, is_at_rest


class Renewals:
    """Knows which queries were told to end."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def is_over(self, live: Live) -> bool:
        """Whether a query that runs has ended for that, which is then among its failures. If it should, it is told."""
        why = live.outdated
        if not self.has_told(live):
            if why is None:
                return False
            begin_no_other(live.query)
            self._told.add(live.query.runId)
        if not is_at_rest(live.query):
            return False
        live.failures.extend(filter(None, [why]))
        return True

    def has_told(self, live: Live) -> bool:
        """Whether it only seems to have ended: a batch may be under way."""
        return live.query.runId in self._told
