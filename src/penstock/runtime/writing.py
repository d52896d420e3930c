"""What becomes of the batches of a query: rows to their sinks, and rows that cannot be used to where they are kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.clients.batches import BatchRef
from penstock.clients.wide.columns import with_texts
from penstock.connectors.contract import Sink
from penstock.errors import PenstockError, QueryFailed
from penstock.keyed.operators import ORDER
from penstock.manifest.model import Input, KeyedStep, Output, QuerySpec
from penstock.runtime import rejects, rules
from penstock.runtime.checkpoint import (
    batch_offsets,
    batch_parts,
    batch_time,
    checkpoint_id,
    unfinished_batch,
)
from penstock.runtime.checks import failed_rows
from penstock.runtime.counts import left_out, observed
from penstock.runtime.decoding import sound, unreadable_records
from penstock.runtime.failures import SPARK_ERRORS, failure_in_python, is_for_rows
from penstock.runtime.frames import Frames, last_of_each, settled, split_read
from penstock.runtime.keeping import Batch, Keeping
from penstock.runtime.keyed import turn_metric
from penstock.runtime.progress import ProgressBoard
from penstock.runtime.rescue import faulty, only, without
from penstock.runtime.times import is_plain, unusable_rows
from penstock.sql.dialects import quoted


@dataclass(slots=True)
class Writing:
    """Takes one batch after the other. `failures` has the errors of our own that ended the query."""

    spec: QuerySpec
    sinks: Mapping[str, Sink]
    session: SparkSession
    checkpoint: Path
    frames: Frames
    board: ProgressBoard
    keeping: Keeping
    failures: list[PenstockError] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)
    """Batches of which nobody may have counted everything: those that are begun once more."""
    rescued: dict[int, int] = field(default_factory=dict)
    """Batches that were read once more to write them, and how many of their records could not be read."""

    def __post_init__(self) -> None:
        begun = unfinished_batch(self.checkpoint)
        self.unsure = set() if begun is None else {begun}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            begun, offsets = checkpoint_id(self.checkpoint), batch_offsets(self.checkpoint, batch_id)
            for output, rows in self._rows(batch):
                ref = BatchRef(self.spec.name, output.node, begun, batch_id, offsets)
                self.board.written(self.spec.name, self._write(output, rows, ref), output.node)
            ref = BatchRef(self.spec.name, self.spec.outputs[0].node, begun, batch_id, offsets)
            self._keep_unreadable(ref)
            self._keep_untimed(ref)
            self._keep_failing(ref)
            self._keep_late(ref)
        except Exception as error:
            self.failures.append(failure_in_python(error))
            raise

    def _rows(self, batch: DataFrame) -> Iterator[tuple[Output, DataFrame]]:
        """What each output gets of a batch. When there are several, the batch is kept until the last one has it."""
        if not self.spec.fan_out:
            (output,) = self.spec.outputs
            yield output, self._settled(batch, output)
            return
        batch.persist()
        try:
            for view, frame in split_read(batch, [entry.view for entry in self.spec.inputs]).items():
                frame.createOrReplaceTempView(quoted(view))
            frames = self.frames.run_steps(self.spec, batch.sparkSession)
            for output in self.spec.outputs:
                yield output, self._settled(frames[output.view], output)
        finally:
            batch.unpersist()

    def _settled(self, rows: DataFrame, output: Output) -> DataFrame:
        sink = self.sinks[output.node]
        found = last_of_each(rows, sink.last_by) if sink.last_by else settled(rows, output)
        return found if sink.takes_wide else with_texts(found)

    def _write(self, output: Output, rows: DataFrame, ref: BatchRef) -> int:
        try:
            return self._deliver(output, rows, ref)
        except (*SPARK_ERRORS, QueryFailed) as error:
            streams = [entry for entry in self.spec.inputs if not entry.static]
            alone = len(streams) == 1 and not self.spec.stateful and not self.spec.fan_out
            if output.on_error == "stop" or not alone or not is_for_rows(error):
                raise
            written = self._rescue(output, streams[0], ref)
            if written is None:
                raise
            return written

    def _deliver(self, output: Output, rows: DataFrame, ref: BatchRef) -> int:
        """Write the rows that meet the rules of their output, and deal with the others."""
        if not output.rules:
            return self._handed(output, rows, ref)
        rows = rules.marked(rows, output.rules).persist()
        try:
            found = rules.breaking(rows).count()
            if found and output.on_error == "stop":
                raise rules.failure(rows, output)
            written = self._handed(output, rules.meeting(rows), ref)
            self.board.rejected(self.spec.name, found)
            if found and output.on_error == "dead_letter":
                letters = rejects.breaking(rules.breaking(rows), output.node)
                self.keeping.keep(output.node, letters, ref, f"{output.view} rules")
            return written
        finally:
            rows.unpersist()

    def _handed(self, output: Output, rows: DataFrame, ref: BatchRef) -> int:
        def keep(letters: DataFrame) -> None:
            self.keeping.keep(output.node, rejects.refused(letters, output.node), ref, f"{output.view} refused")

        written = self.sinks[output.node].deliver(rows, ref, keep)
        self.board.rejected(self.spec.name, written.refused)
        return written.rows

    def _rescue(self, output: Output, entry: Input, ref: BatchRef) -> int | None:
        """Write a batch without the rows that make it fail; those are kept, if that is wanted."""
        again = self.keeping.again(entry.view, self._batch(ref), ordered=entry.ordered)
        if again is None:
            return None
        self.unsure.add(ref.batch_id)
        session = again.sparkSession

        def work(some: DataFrame) -> DataFrame:
            worked = self.frames.worked(self.spec, self.keeping.sources, entry, some, session)[output.view]
            return self._settled(worked, output)

        sink = self.sinks[output.node]
        numbered, found = faulty(sound(again), lambda some: sink.rehearse(work(some), ref))
        try:
            written = self._deliver(output, work(without(numbered, list(found))), ref)
            read = again.count()
            self.rescued[ref.batch_id] = read - numbered.count()
            self.board.read_otherwise(self.spec.name, ref.batch_id, read)
            self.board.rejected(self.spec.name, len(found))
            if output.on_error == "dead_letter" and found:
                failed = rejects.failed(only(numbered, found).drop(*ORDER), entry, output.node)
                self.keeping.keep(output.node, failed, ref, f"{output.view} errors")
            return written
        finally:
            numbered.unpersist()

    def _keep_unreadable(self, ref: BatchRef) -> None:
        """Deal with the records of a batch that could not be made into rows, now that it is written."""
        alone = len(self.spec.inputs) == 1
        for entry, source in self.keeping.inputs():
            if not source.has_records:
                continue
            found = self.rescued.pop(ref.batch_id, None)
            if found is None:
                found = unreadable_records(self.session, self.spec.name, entry, alone=alone)
            self.board.rejected(self.spec.name, found)
            if entry.on_error == "dead_letter" and (found or ref.batch_id in self.unsure):
                self.keeping.unreadable(entry, self._batch(ref))

    def _keep_untimed(self, ref: BatchRef) -> None:
        """Deal with the rows of a batch that had no usable event time, now that it is written.

        A batch that is done again may have been written before, so that nobody counted: it is looked through anyway.
        """
        timed = [entry for entry in self.spec.inputs if self.spec.timed and entry.event_time is not None]
        if is_plain(self.spec):
            together = left_out(self.session, self.spec.name) if timed else 0
            found = dict.fromkeys((entry.view for entry in timed), together)
        else:
            found = {entry.view: unusable_rows(self.session, self.spec.name, entry) for entry in timed}
            together = sum(found.values())
        self.board.rejected(self.spec.name, together)
        for entry in timed:
            if entry.on_error == "dead_letter" and (found[entry.view] or ref.batch_id in self.unsure):
                self.keeping.untimed(entry, self._batch(ref))

    def _keep_failing(self, ref: BatchRef) -> None:
        """Deal with the rows of a batch that were kept out because the SQL would have failed over them."""
        for check in self.spec.checks:
            found = failed_rows(self.session, self.spec.name, check)
            self.board.rejected(self.spec.name, found)
            if self.spec.outputs[0].on_error == "dead_letter" and (found or ref.batch_id in self.unsure):
                self.keeping.failing(check, self._batch(ref))

    def _keep_late(self, ref: BatchRef) -> None:
        """Keep the rows of a batch that came too late, where that is wanted."""
        for step in self.spec.steps:
            if not isinstance(step, KeyedStep) or step.late is None:
                continue
            row = observed(self.session, self.spec.name, turn_metric(step.view))
            none_late = row is None or row.isNullAt(0) or row.getLong(0) == 0
            if not none_late or ref.batch_id in self.unsure:
                self.keeping.late(step, self._batch(ref))

    def _batch(self, ref: BatchRef) -> Batch:
        return Batch(ref, batch_parts(self.checkpoint, ref.batch_id), batch_time(self.checkpoint, ref.batch_id))
