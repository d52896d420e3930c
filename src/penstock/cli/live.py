"""The table that a person watches while queries run."""

import sys
from collections.abc import Callable, Mapping, Sequence
from os import environ
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from penstock.runtime.progress import QueryProgress

STATES = {
    "waiting": "dim",
    "running": "cyan",
    "retrying": "yellow",
    "stopping": "yellow",
    "finished": "green",
    "stopped": "yellow",
    "failed": "red",
}

WIDE = 240
"""A file or a pipe takes lines of any length."""
ASIDE = ("late", "rejected")
SPARE = ("batches", "batch ms", "rows/s")
"""Columns that are left out where there is no room, in this order."""


class LiveTable:
    """Redraws itself on a terminal; elsewhere it is printed once, at the end. Never mixes with rows on stdout."""

    def __init__(self, rows: "Callable[[], Sequence[QueryProgress]]", *, quiet: bool, data_on_stdout: bool) -> None:
        self._rows = rows
        limited = sys.stderr.isatty() or environ.get("COLUMNS")
        self._console = Console(stderr=True, width=None if limited else WIDE)
        self._quiet = quiet
        shares_terminal = data_on_stdout and sys.stdout.isatty()
        moving = self._console.is_terminal and not quiet and not shares_terminal
        self._live = Live(console=self._console, auto_refresh=False) if moving else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def refresh(self) -> None:
        if self._live:
            self._live.update(self._table(), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self.refresh()
            self._live.stop()
        elif not self._quiet:
            self._console.print(self._table())

    def _table(self) -> Table:
        return table(self._rows(), self._console.width)


def table(rows: "Sequence[QueryProgress]", width: int) -> Table:
    """The rows at most `width` wide: what matters least is left out, and long names go over several lines."""
    columns: dict[str, list[str]] = {
        "rows in": [f"{row.rows_in:,}" for row in rows],
        "rows out": [f"{row.rows_out:,}" for row in rows],
        **{word: [f"{getattr(row, word):,}" for row in rows] for word in ASIDE if any(getattr(r, word) for r in rows)},
        "rows/s": [f"{row.rows_per_second:,.0f}" for row in rows],
        "batch ms": [f"{row.batch_ms:,}" for row in rows],
        "batches": [f"{row.batches:,}" for row in rows],
    }
    fixed: dict[str, list[str]] = {"query": [row.query for row in rows], "state": [row.state for row in rows]}
    for least in SPARE:
        if _needed({**fixed, **columns}) <= width:
            break
        del columns[least]
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("query", overflow="fold")
    drawn.add_column("state", no_wrap=True)
    for heading in columns:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row, *cells in zip(rows, *columns.values(), strict=True):
        drawn.add_row(Text(row.query), Text(row.state, style=STATES[row.state]), *cells)
    return drawn


def _needed(columns: Mapping[str, Sequence[str]]) -> int:
    return sum(2 + max(map(len, (name, *cells))) for name, cells in columns.items()) - 2


def left_aside(row: "QueryProgress") -> tuple[str, bool] | None:
    """A line about the rows of a query that did not take part, and whether none did; None if all have.

    Late rows that are not kept may have been counted by Spark, which puts rows together before it counts.
    """
    counts = [f"{row.rejected:,} row{'' if row.rejected == 1 else 's'} rejected"] if row.rejected else []
    sure = "" if row.kept_in else "at least "
    counts += [f"{sure}{row.late:,} row{'' if row.late == 1 else 's'} too late"] if row.late else []
    if not counts:
        return None
    none_taken = bool(row.rejected) and row.rejected >= row.rows_in > 0
    said = f"all {counts[0]}" if none_taken and row.rejected > 1 else ", ".join(counts)
    kept = f"kept in {' and '.join(row.kept_in)}: see `penstock errors list`" if row.kept_in else "not kept"
    return f"{row.query}: {said}; {kept}", none_taken
