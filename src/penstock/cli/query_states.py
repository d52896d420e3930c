"""The state of a query as text for the live table, the log and `status`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.cli.output import Level
    from penstock.runtime.delivery.progress import QueryProgress

LIVE_STATES = ("waiting", "running", "retrying", "stopping")


def state_text(query: Mapping[str, Any]) -> str:
    """The state of a query from its progress as JSON, with what it waits for."""
    since = query.get("broker_unreachable_since")
    if since and query["state"] in LIVE_STATES:
        return f"broker unreachable since {clock_time(since)}"
    if query.get("waiting_for") and query["state"] in LIVE_STATES:
        return "waiting for upstream"
    return str(query["state"])


def clock_time(at: float) -> str:
    return time.strftime("%H:%M:%SZ", time.gmtime(at))


def counts_text(query: Mapping[str, Any]) -> str:
    """The rows and batches of a query from its progress as JSON."""
    extra = "".join(f", {query[word]:,} {word}" for word in ("late", "rejected") if query.get(word))
    batches = f"{query['batches']:,} batch{'' if query['batches'] == 1 else 'es'}"
    return f"{query['rows_in']:,} rows in, {query['rows_out']:,} out{extra}, {batches}"


def summary_line(row: "QueryProgress") -> str:
    """The progress of a query as a log line."""
    if row.state == "not started":
        because = f": waiting for {' and '.join(f'`{name}`' for name in row.waiting_for)}" if row.waiting_for else ""
        return f"{row.query}: not started{because}"
    return f"{row.query}: {row.state}: {counts_text(row.to_json())}"


class StateChanges:
    """Reports when a query becomes blocked and when it runs again."""

    def __init__(self) -> None:
        self._retrying: dict[str, str] = {}
        self._unreachable: dict[str, float] = {}

    def lines(self, rows: "Sequence[QueryProgress]") -> "Iterator[tuple[Level, str, str]]":
        """The changes since the last call: level, query and text."""
        yield from self._broker_lines(rows)
        yield from self._retry_lines(rows)

    def _retry_lines(self, rows: "Sequence[QueryProgress]") -> "Iterator[tuple[Level, str, str]]":
        before = self._retrying
        self._retrying = {r.query: r.error.message for r in rows if r.error is not None and r.retry is not None}
        for row in rows:
            why = self._retrying.get(row.query)
            if why is not None and row.error is not None and before.get(row.query) != why:
                hint = f"\nhint: {row.error.hint}" if row.error.hint else ""
                yield "WARN", row.query, f"retrying: {why}{hint}"
            if why is None and row.query in before and row.state == "running":
                yield "INFO", row.query, "running again"

    def _broker_lines(self, rows: "Sequence[QueryProgress]") -> "Iterator[tuple[Level, str, str]]":
        before = self._unreachable
        self._unreachable = {
            r.query: r.broker_unreachable_since for r in rows if r.broker_unreachable_since is not None
        }
        for row in rows:
            if row.query in self._unreachable and row.query not in before:
                yield "WARN", row.query, f"broker unreachable since {clock_time(self._unreachable[row.query])}"
            if row.query not in self._unreachable and row.query in before and row.state in LIVE_STATES:
                yield "INFO", row.query, "the broker is reachable again"
