"""A batch that fails for the sake of a few rows, written without them: it is read once more, and they are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.connectors.contract import Sink
from penstock.errors import QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Output
from penstock.runtime import rejects
from penstock.runtime.decoding import sound
from penstock.runtime.failures import is_for_rows
from penstock.runtime.keeping import Batch, Keeping
from penstock.runtime.rereading import Counts, counted, in_order, rows_again
from penstock.runtime.rescue import MESSAGE, faulty, only, together, without
from penstock.runtime.sharing import split_read, united


@dataclass(frozen=True, slots=True)
class Rescued:
    """How many rows of a batch were written, how many were found that fail, and what was read for it, by view."""

    written: int
    found: int
    read: Mapping[str, Counts]


@dataclass(frozen=True, slots=True)
class Rescue:
    """The way of a batch to one output, which is gone once more. Other outputs have nothing to do with it.

    `settled` are rows as they are to be written, `deliver` writes them and says how many that were.
    """

    keeping: Keeping
    batch: Batch
    output: Output
    sink: Sink
    settled: Callable[[DataFrame], DataFrame]
    deliver: Callable[[DataFrame], int]

    def __call__(self, *, ordered: bool) -> Rescued | None:
        """Write a batch without the rows that make it fail; those are kept, if that is wanted.

        None if it cannot be read twice.
        """
        session = self.keeping.frames.session(now_ms=self.batch.time.began_ms)
        again = rows_again(self.keeping, self.batch, session, ordered=ordered)
        if again is None:
            return None
        rows = {view: sound(in_order(found) if ordered else found) for view, found in again.items()}
        numbered, found = faulty(united(rows), self._attempt)
        try:
            self._keep(numbered, found, "errors")
            try:
                written = self.deliver(self._worked(without(numbered, list(found))))
            except QueryFailed as error:
                if not is_for_rows(error):
                    raise
                alone, found = found, together(numbered, found, self._attempt)
                beside = {place: said for place, said in found.items() if place not in alone}
                self._keep(numbered, beside, "errors beside others")
                written = self.deliver(self._worked(without(numbered, list(found))))
        finally:
            numbered.unpersist()
        return Rescued(written, len(found), {view: counted(found_rows) for view, found_rows in again.items()})

    def _attempt(self, some: DataFrame) -> None:
        self.sink.rehearse(self._worked(some), self.batch.ref)

    def _worked(self, some: DataFrame) -> DataFrame:
        keeping = self.keeping
        rows = split_read(some, self._views)
        views = keeping.frames.worked_from(keeping.spec, keeping.sources, rows, some.sparkSession)
        return self.settled(views[self.output.view])

    def _keep(self, numbered: DataFrame, found: Mapping[int, str], what: str) -> None:
        """Before the others are written: once that is noted, nobody asks for these again."""
        if self.output.on_error != "dead_letter" or not found:
            return
        for view, rows in split_read(only(numbered, found), self._views, MESSAGE).items():
            entry = next(entry for entry in self.keeping.spec.inputs if entry.view == view)
            letters = rejects.failed(rows.drop(*ORDER), entry, self.output.node)
            kind = self.output.view if len(self._views) == 1 else f"{self.output.view} {view}"
            self.keeping.keep(self.output.node, letters, self.batch.ref, f"{kind} {what}")

    @property
    def _views(self) -> list[str]:
        return [entry.view for entry in self.keeping.spec.inputs if not entry.static]
