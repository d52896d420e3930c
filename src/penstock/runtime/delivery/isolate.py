"""A batch that fails for the sake of some rows, written without them: it is read once more, and they are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.connectors.contract import Sink
from penstock.errors import QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import QueryOutput
from penstock.runtime.dead_letters import rows as rejections
from penstock.runtime.delivery.bisect import Faults, find_faults, find_joint_faults
from penstock.runtime.delivery.collector import Batch, DeadLetterCollector
from penstock.runtime.delivery.fan_out import split_streams, union_streams
from penstock.runtime.delivery.reread import reread_rows, sort_rows
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query.decode_errors import Counts, count_rows, drop_undecodable
from penstock.runtime.query.provenance import PLACE
from penstock.runtime.query.row_guards import MESSAGE
from penstock.runtime.spark.errors import is_row_error


@dataclass(frozen=True, slots=True)
class IsolationResult:
    """How many rows of a batch were written, how many were found that fail, and what was read for it, by view."""

    written: int
    found: int
    read: Mapping[str, Counts]


@dataclass(frozen=True, slots=True)
class BatchIsolation:
    """The way of a batch to one output, which is gone once more. Other outputs have nothing to do with it.

    `settled` are rows as they are to be written, `deliver` writes them and says how many that were.
    """

    keeping: DeadLetterCollector
    batch: Batch
    output: QueryOutput
    sink: Sink
    settled: Callable[[DataFrame], DataFrame]
    deliver: Callable[[DataFrame], int]

    def __call__(self, *, ordered: bool) -> IsolationResult | None:
        """Write a batch without the rows that make it fail; those are kept, if that is wanted.

        None if it cannot be read twice.
        """
        session = self.keeping.frames.session(now_ms=self.batch.time.began_ms)
        again = reread_rows(self.keeping, self.batch, session, ordered=ordered)
        if again is None:
            return None
        rows = {view: drop_undecodable(sort_rows(found) if ordered else found) for view, found in again.items()}
        way = self._trial
        faults = find_faults(union_streams(rows), way)
        try:
            self._write_dead_letters(faults, "errors")
            try:
                written = self.deliver(way.compute_output(faults.passing_rows.drop(PLACE)))
            except QueryFailed as error:
                if not is_row_error(error):
                    raise
                beside = find_joint_faults(faults, way)
                self._write_dead_letters(Faults(faults.numbered, few=beside), "errors beside others")
                faults = faults.with_faults(beside)
                written = self.deliver(way.compute_output(faults.passing_rows.drop(PLACE)))
            return IsolationResult(written, len(faults), {view: count_rows(found) for view, found in again.items()})
        finally:
            faults.close()

    @property
    def _trial(self) -> TrialRun:
        keeping = self.keeping
        about = (keeping.frames, keeping.spec, keeping.sources, self.output, self.sink)
        return TrialRun(*about, self.batch.ref, self.settled)

    def _write_dead_letters(self, faults: Faults, what: str) -> None:
        """Before the others are written: once that is noted, nobody asks for these again."""
        if self.output.on_error != "dead_letter" or not faults:
            return
        for view, rows in split_streams(faults.failing_rows, self._views, MESSAGE).items():
            entry = next(entry for entry in self.keeping.spec.inputs if entry.view == view)
            letters = rejections.failing_rows(rows.drop(*ORDER), entry, self.output.node)
            kind = self.output.view if len(self._views) == 1 else f"{self.output.view} {view}"
            self.keeping.write_dead_letters(self.output.node, letters, self.batch.ref, f"{kind} {what}")

    @property
    def _views(self) -> list[str]:
        return [entry.view for entry in self.keeping.spec.inputs if not entry.static]
