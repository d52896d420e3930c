"""The table that a person watches while queries run."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import environ
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli import output
from penstock.cli.output import escape_controls, escape_lines
from penstock.cli.query_states import StateChanges, clock_time, state_text, summary_line

if TYPE_CHECKING:
    from penstock.runtime.delivery.progress import QueryProgress

STATES = {
    **dict.fromkeys(("waiting", "not started"), "dim"),
    **dict.fromkeys(("retrying", "stopping", "stopped"), "yellow"),
    "running": "cyan",
    "finished": "green",
    "failed": "red",
}
WIDE = 240
"""A file or a pipe takes lines of any length."""
COUNTS = ("late", "rejected")
DROPPED_WHEN_NARROW = ("batches", "batch ms", "rows/s")
"""Columns that are dropped on a narrow terminal, in this order."""


class Epochs:
    """Counts the reports of finished batches."""

    def __init__(self, every_secs: float) -> None:
        self._every_secs = every_secs
        self._due = 0.0
        self._batches = 0
        self._count = 0

    def next_line(self, rows: "Sequence[QueryProgress]", now: float) -> str | None:
        """The next log line; None if there are no new batches, or if it is too early."""
        batches = sum(row.batches for row in rows)
        if batches == self._batches or now < self._due:
            return None
        self._batches, self._due, self._count = batches, now + self._every_secs, self._count + 1
        return f"Epoch finalized: {self._count}"


class LiveTable:
    """Redraws itself on a terminal; elsewhere it is printed once, at the end. Never mixes with rows on stdout. Without
    a terminal it logs when a query is blocked and when it runs again and, with `epochs`, finished batches.
    """

    def __init__(
        self,
        rows: "Callable[[], Sequence[QueryProgress]]",
        *,
        quiet: bool,
        data_on_stdout: bool,
        epochs: Epochs | None = None,
    ) -> None:
        self._rows = rows
        self._epochs = epochs
        self._changes = StateChanges()
        limited = sys.stderr.isatty() or environ.get("COLUMNS")
        self._console = Console(stderr=True, width=None if limited else WIDE)
        self._quiet = quiet
        shares_terminal = data_on_stdout and sys.stdout.isatty()
        moving = self._console.is_terminal and not quiet and not shares_terminal and output.log_format is None
        self._live = Live(console=self._console, auto_refresh=False) if moving else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def refresh(self) -> None:
        if self._live:
            self._live.update(self._live_view(), refresh=True)
        else:
            self._log_changes(time.monotonic())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
        elif not self._quiet:
            self._log_changes(math.inf)
            self._print_summary()

    @property
    def is_moving(self) -> bool:
        """Whether the table is redrawn on a terminal."""
        return self._live is not None

    def _print_summary(self) -> None:
        if output.log_format is None:
            self._console.print(self._table())
            return
        for row in self._rows():
            fields = {name: value for name, value in row.to_json().items() if name != "error"}
            output.say(summary_line(row), **fields)

    def _log_changes(self, now: float) -> None:
        if self._quiet or (self._console.is_terminal and output.log_format is None):
            return
        rows = self._rows()
        for level, query, text in self._changes.lines(rows):
            output.say(f"{query}: {escape_lines(text)}", level=level, query=query)
        if self._epochs and (line := self._epochs.next_line(rows, now)) is not None:
            output.say(line)

    def _table(self) -> Table:
        return table(self._rows(), self._console.width)

    def _live_view(self) -> RenderableType:
        rows, width = self._rows(), self._console.width
        return Group(table(rows, width), *notes(rows), *bars(rows, width))


def table(rows: "Sequence[QueryProgress]", width: int) -> Table:
    """The table, at most `width` wide: less important columns are dropped, and long names wrap."""
    columns: dict[str, list[str]] = {
        "rows in": [f"{row.rows_in:,}" for row in rows],
        "rows out": [f"{row.rows_out:,}" for row in rows],
        **{word: [f"{getattr(row, word):,}" for row in rows] for word in COUNTS if any(getattr(r, word) for r in rows)},
        "rows/s": [f"{row.rows_per_second:,.0f}" for row in rows],
        "batch ms": [f"{row.batch_ms:,}" for row in rows],
        "batches": [f"{row.batches:,}" for row in rows],
    }
    fixed: dict[str, list[str]] = {
        "query": [row.query for row in rows],
        "state": [state_text(row.to_json()) for row in rows],
    }
    for least in DROPPED_WHEN_NARROW:
        if _needed_width({**fixed, **columns}) <= width:
            break
        del columns[least]
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("query", overflow="fold")
    drawn.add_column("state", no_wrap=True)
    for heading in columns:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row, *cells in zip(rows, *columns.values(), strict=True):
        hindered = row.broker_unreachable_since is not None
        style = "yellow" if hindered else STATES[row.state]
        drawn.add_row(Text(row.query), Text(state_text(row.to_json()), style=style), *cells)
    return drawn


def notes(rows: "Sequence[QueryProgress]") -> Iterator[Text]:
    """The errors of queries, each with its hint."""
    for row in rows:
        if row.error is not None and row.retry is not None:
            tries = f"{row.query}: retry {row.retry.attempt:,} since {clock_time(row.retry.since)}: "
            yield Text.assemble((tries, "yellow"), escape_controls(row.error.message), _hint_of(row))
        elif row.error is not None and row.state == "failed":
            yield Text.assemble((f"{row.query}: failed: ", "red"), escape_controls(row.error.message), _hint_of(row))


def _hint_of(row: "QueryProgress") -> str:
    return f"\n    hint: {row.error.hint}" if row.error is not None and row.error.hint else ""


def bars(rows: "Sequence[QueryProgress]", width: int) -> Iterator[RenderableType]:
    """Progress bars of queries that end: part, rows, rows per second, and the time left."""
    ending = [row for row in rows if row.part is not None and row.state in ("running", "stopping")]
    if not ending:
        return
    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(overflow="fold")
    for row in ending:
        seen = row.rows_in + row.rows_under_way
        rate = f"{seen / row.seconds:,.0f} rows/s" if seen and row.seconds else ""
        left = "" if row.left_secs is None else f"{clock(row.left_secs)} left"
        part = row.part or 0.0
        bar = ProgressBar(total=1.0, completed=part, width=max(10, min(40, width - 60)))
        drawn.add_row(Text(row.query), bar, f"{part:.0%}", f"{seen:,} rows", rate, left)
    yield Text()
    yield drawn


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _needed_width(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(2 + max(map(len, (name, *cells))) for name, cells in columns.items()) - 2


def skipped_rows_note(row: "QueryProgress") -> tuple[str, bool] | None:
    """A line about rejected and late rows of a query, and whether all rows were rejected; None if there are none. For
    dropped late rows the count is a minimum: Spark combines rows before it counts them.
    """
    rejected, late = _rows(row.rejected, "rejected"), _rows(row.late, "too late")
    if not (rejected or late):
        return (f"{row.query}: its dead letters were {_describe_kept(row)}", False) if row.kept_in else None
    if late and not row.late_kept:
        dropped = f"at least {late}; dropped"
        described = f"{rejected}; {_describe_kept(row)}; {dropped}" if rejected else dropped
        return f"{row.query}: {described}", False
    none_taken = bool(row.rejected) and row.rejected >= row.rows_in > 0 and not row.rows_out
    described = f"all {rejected}" if none_taken and row.rejected > 1 else ", ".join(filter(None, (rejected, late)))
    return f"{row.query}: {described}; {_describe_kept(row)}", none_taken


def _rows(count: int, what: str) -> str:
    return f"{count:,} row{'' if count == 1 else 's'} {what}" if count else ""


def _describe_kept(row: "QueryProgress") -> str:
    return f"kept in {' and '.join(row.kept_in)}: see `penstock errors list`" if row.kept_in else "not kept"
