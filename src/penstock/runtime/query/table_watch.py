"""Whether the files of lookup tables are still those that a query has listed."""

import time
from collections.abc import Sequence
from typing import Final

from penstock.errors import QueryFailed
from penstock.runtime.query.inputs import QueryInput

_POLL_SECS: Final = 1.0
CHANGED: Final = "table-changed"


class TableWatch:
    """Compares names, sizes and modification times of the files of a query's lookup tables. No file is read for it.

    Spark lists the files of a table when a query begins, and reads of each as much as it had then. When they change,
    the query must begin again.
    """

    def __init__(self, inputs: Sequence[QueryInput]) -> None:
        tables = [(each.entry.node, each.source) for each in inputs if each.entry.static]
        self._tables = [(node, source, source.file_stamps()) for node, source in tables]
        self._next_look = time.monotonic() + _POLL_SECS
        self._change_table: QueryFailed | None = None

    def find_change(self) -> QueryFailed | None:
        """Why the query must begin again, if it must. Once that is so it stays so: files that come back were read
        otherwise meanwhile."""
        for node, source, before in self._tables if self._change_table is None else ():
            if source.file_stamps() != before:
                text = f"files of the table `{node.partition('.')[2]}` changed: it is read again"
                self._change_table = QueryFailed(CHANGED, text, retriable=True)
        return self._change_table

    def poll(self) -> QueryFailed | None:
        """`find_change`, but files are looked at once in a while only."""
        now = time.monotonic()
        if not self._tables or now < self._next_look:
            return self._change_table
        self._next_look = now + _POLL_SECS
        return self.find_change()
