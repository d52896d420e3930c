"""A batch that fails for the sake of some rows, written without them: it is read once more, and they are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.connectors.contract import Sink
from penstock.errors import QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Output
from penstock.runtime.batch.fan_out import split_read, united
from penstock.runtime.dead_letters import rejections
from penstock.runtime.dead_letters.bisect import MESSAGE, PLACE, Faults, faulty, together
from penstock.runtime.dead_letters.collector import Batch, Keeping
from penstock.runtime.dead_letters.trial_run import WayOut
from penstock.runtime.query.decode_errors import sound
from penstock.runtime.query.reread import Counts, counted, in_order, rows_again
from penstock.runtime.spark.errors import is_for_rows


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
        way = self._way
        faults = faulty(united(rows), way)
        try:
            self._keep(faults, "errors")
            try:
                written = self.deliver(way.worked(faults.others.drop(PLACE)))
            except QueryFailed as error:
                if not is_for_rows(error):
                    raise
                beside = together(faults, way)
                self._keep(Faults(faults.numbered, few=beside), "errors beside others")
                faults = faults.and_also(beside)
                written = self.deliver(way.worked(faults.others.drop(PLACE)))
            return Rescued(written, len(faults), {view: counted(found) for view, found in again.items()})
        finally:
            faults.close()

    @property
    def _way(self) -> WayOut:
        keeping = self.keeping
        about = (keeping.frames, keeping.spec, keeping.sources, self.output, self.sink)
        return WayOut(*about, self.batch.ref, self.settled)

    def _keep(self, faults: Faults, what: str) -> None:
        """Before the others are written: once that is noted, nobody asks for these again."""
        if self.output.on_error != "dead_letter" or not faults:
            return
        for view, rows in split_read(faults.failing, self._views, MESSAGE).items():
            entry = next(entry for entry in self.keeping.spec.inputs if entry.view == view)
            letters = rejections.failed(rows.drop(*ORDER), entry, self.output.node)
            kind = self.output.view if len(self._views) == 1 else f"{self.output.view} {view}"
            self.keeping.keep(self.output.node, letters, self.batch.ref, f"{kind} {what}")

    @property
    def _views(self) -> list[str]:
        return [entry.view for entry in self.keeping.spec.inputs if not entry.static]
