"""Queries that can read more by now than when they began: they end behind the batch under way, to begin again."""

from penstock.runtime.run.launch import LiveQuery
from penstock.spark_internals.running_query import is_at_rest, stop_after_batch


class SchemaRestarts:
    """Knows which queries were told to end."""

    def __init__(self) -> None:
        self._table_offsets: set[str] = set()

    def has_stopped(self, live: LiveQuery) -> bool:
        """Whether a query that runs has ended for that, which is then among its failures. If it should, it is told."""
        why = live.restart_reason
        if not self.is_stopping(live):
            if why is None:
                return False
            stop_after_batch(live.query)
            self._table_offsets.add(live.query.runId)
        if not is_at_rest(live.query):
            return False
        live.failures.extend(filter(None, [why]))
        return True

    def is_stopping(self, live: LiveQuery) -> bool:
        """Whether it only seems to have ended: a batch may be under way."""
        return live.query.runId in self._table_offsets
