"""Detects changes of the files of lookup tables."""

import time
from collections.abc import Sequence
from typing import Final

from penstock.errors import QueryFailed
from penstock.runtime.query.inputs import QueryInput

_POLL_SECS: Final = 1.0
CHANGED: Final = "table-changed"


class TableWatch:
    """Compares names, sizes and modification times of the files of a query's lookup tables. No file is read for that.

    Spark lists the files of a table when a query begins, and reads each of them up to its size at that time. If they
    change, the query must restart.
    """

    def __init__(self, inputs: Sequence[QueryInput]) -> None:
        tables = [(each.entry.node, each.source) for each in inputs if each.entry.static]
        self._tables = [(node, source, source.file_stamps()) for node, source in tables]
        self._next_look = time.monotonic() + _POLL_SECS
        self._change_table: QueryFailed | None = None

    def find_change(self) -> QueryFailed | None:
        """Return why the query must restart, if it must. The result does not change back: files that are restored were
        read in another state meanwhile."""
        for node, source, before in self._tables if self._change_table is None else ():
            if source.file_stamps() != before:
                text = f"files of the table `{node.partition('.')[2]}` changed: it is read again"
                self._change_table = QueryFailed(CHANGED, text, retriable=True)
        return self._change_table

    def poll(self) -> QueryFailed | None:
        """Return the result of `find_change`, but check files only at intervals."""
        now = time.monotonic()
        if not self._tables or now < self._next_look:
            return self._change_table
        self._next_look = now + _POLL_SECS
        return self.find_change()
