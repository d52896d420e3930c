"""Restarts queries that can read more than when they began, after the current batch."""

from penstock.runtime.run.launch import LiveQuery
from penstock.spark_internals.running_query import is_at_rest, stop_after_batch


class SchemaRestarts:
    """The queries that are to end after the current batch."""

    def __init__(self) -> None:
        self._stopping: set[str] = set()

    def has_stopped(self, live: LiveQuery) -> bool:
        """Whether a query has ended for a restart, which is then among its failures. Stops it if it should restart."""
        why = live.restart_reason
        if not self.is_stopping(live):
            if why is None:
                return False
            stop_after_batch(live.query)
            self._stopping.add(live.query.runId)
        if not is_at_rest(live.query):
            return False
        self._stopping.discard(live.query.runId)
        live.failures.extend(filter(None, [why]))
        return True

    def is_stopping(self, live: LiveQuery) -> bool:
        """Whether a query only seems to have ended: a batch may still be processed."""
        return live.query.runId in self._stopping
