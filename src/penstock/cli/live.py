"""The table that a person watches while queries run."""

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from penstock.runtime.progress import QueryProgress

STATES = {"waiting": "dim", "running": "cyan", "finished": "green", "stopped": "yellow", "failed": "red"}


class LiveTable:
    """Redraws itself on a terminal; elsewhere it is printed once, at the end. Never mixes with rows on stdout."""

    def __init__(self, rows: "Callable[[], Sequence[QueryProgress]]", *, quiet: bool, data_on_stdout: bool) -> None:
        self._rows = rows
        self._console = Console(stderr=True)
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
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("query", no_wrap=True)
        table.add_column("state")
        rows = self._rows()
        aside = [word for word in ("late", "rejected") if any(getattr(row, word) for row in rows)]
        for heading in ("rows in", "rows out", *aside, "rows/s", "batch", "batches"):
            table.add_column(heading, justify="right")
        for row in rows:
            table.add_row(
                row.query,
                f"[{STATES[row.state]}]{row.state}",
                f"{row.rows_in:,}",
                f"{row.rows_out:,}",
                *(f"{getattr(row, word):,}" for word in aside),
                f"{row.rows_per_second:,.0f}",
                f"{row.batch_ms:,} ms",
                f"{row.batches:,}",
            )
        return table
