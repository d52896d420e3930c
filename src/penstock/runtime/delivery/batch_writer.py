"""What becomes of the batches of a query: rows to their sinks, and rows that cannot be used to where they are kept."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from penstock.clients.files.batch_directory import BatchRef
from penstock.clients.files.formats import is_local
from penstock.connectors.contract import Sink
from penstock.errors import PenstockError, QueryFailed
from penstock.manifest.model import KeyedStep, QueryOutput, QuerySpec
from penstock.runtime.checkpoint.layout import (
    batch_offsets,
    batch_parts,
    batch_time,
    checkpoint_id,
    unfinished_batch,
)
from penstock.runtime.dead_letters import rows as rejections
from penstock.runtime.delivery import sink_progress
from penstock.runtime.delivery.collector import Batch, DeadLetterCollector
from penstock.runtime.delivery.fan_out import persist_batch, split_streams
from penstock.runtime.delivery.isolate import BatchIsolation
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.delivery.reread import (
    UnreadFiles,
    can_reread,
    gone_files,
    has_lost_order,
    reread_batch,
    unreadable_files,
    without_files,
)
from penstock.runtime.query import row_rules
from penstock.runtime.query.compaction import prepare_rows
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.decode_errors import count_undecodable
from penstock.runtime.query.event_time import can_drop_untimed, count_untimed
from penstock.runtime.query.row_guards import count_failing
from penstock.runtime.query.stateful import turn_metric
from penstock.runtime.query.table_watch import TableWatch
from penstock.runtime.spark.errors import SPARK_ERRORS, failure_in_python, file_at_fault, is_row_error
from penstock.runtime.spark.plan_metrics import count_untimed_rows, observed_metric
from penstock.sql.parse.dialects import quote_spark_identifier


@dataclass(slots=True)
class BatchWriter:
    """Takes one batch after the other. `failures` has the errors of our own that ended the query."""

    spec: QuerySpec
    sinks: Mapping[str, Sink]
    session: SparkSession
    checkpoint: Path
    frames: Frames
    board: ProgressBoard
    keeping: DeadLetterCollector
    tables: TableWatch
    failures: list[PenstockError] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)
    """Batches of which nobody may have counted everything: those that are begun once more."""
    rescued: dict[tuple[int, str], int] = field(default_factory=dict)
    """Batches and inputs that were read once more to write them, and how many of their records could not be read."""
    broken: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)
    """Batches that go without some of their files: those by the views of inputs, and why."""
    at: str | None = None
    """The output that is written now."""

    def __post_init__(self) -> None:
        begun = unfinished_batch(self.checkpoint)
        self.unsure = set() if begun is None else {begun}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.board.begin_batch(self.spec.name, batch_id)
        try:
            if (changed := self.tables.find_change()) is not None:
                raise changed
            ref = self._ref(batch_id)
            if any(source.has_files or (source.loses_order and source.has_records) for source in self.keeping.sources):
                self._write_files(batch, self._batch(ref))
            elif self._needs_reorder(read := self._batch(ref)):
                self._write_reread(read)
            else:
                self._write_outputs(self._output_frames(batch), ref)
            self._collect_undecodable(ref)
            self._collect_untimed_rows(ref)
            self._collect_failing_rows(ref)
            self._collect_late_rows(ref)
        except Exception as error:
            failure = self.tables.find_change() or failure_in_python(error)
            if self.at is not None:
                kind, _, name = self.at.partition(".")
                failure.with_context(f"batch {batch_id:,} was not written to {kind} `{name}`", node=name)
            self.failures.append(failure)
            raise

    def _ref(self, batch_id: int) -> BatchRef:
        begun, offsets = checkpoint_id(self.checkpoint), batch_offsets(self.checkpoint, batch_id)
        return BatchRef(self.spec.name, self.spec.outputs[0].node, begun, batch_id, offsets)

    def _write_files(self, batch: DataFrame, read: Batch) -> None:
        """Write a batch of files to every output. Those that are gone or broken are left out, if that is wanted."""
        self._skip_files(gone_files(self.keeping, read), read.ref)
        read = self._batch(read.ref)
        try:
            if read.ref.batch_id in self.broken or self._needs_reorder(read):
                self._write_reread(read)
            else:
                self._write_outputs(self._output_frames(batch), read.ref)
        except SPARK_ERRORS as error:
            if file_at_fault(error) is None or not can_reread(self.keeping):
                raise
            self._skip_files(unreadable_files(self.keeping, read), read.ref)
            self._write_reread(self._batch(read.ref))
        self._collect_unread_files(read)

    def _skip_files(self, unread: UnreadFiles, ref: BatchRef) -> None:
        """Go on without some files, where that is wanted and can be done.

        What lies elsewhere than on this machine may be out of reach for a while only.
        """
        for entry in self.spec.inputs:
            for file, why in unread.get(entry.view, {}).items():
                if entry.on_error == "stop" or not is_local(file) or not can_reread(self.keeping):
                    hint = "mend it or put it back; `on_error: dead_letter` where it is read leaves such files out"
                    raise QueryFailed("file-unreadable", f"{unquote(file)} cannot be read: {why}", hint=hint)
                self.broken.setdefault(ref.batch_id, {}).setdefault(entry.view, {})[file] = why

    def _needs_reorder(self, read: Batch) -> bool:
        """Whether an output wants the order of rows, and Spark has lost it. Some queries read it as columns."""
        told = any(entry.ordered for entry in self.spec.inputs)
        by_order = not told and any(sink.needs_order for sink in self.sinks.values())
        return by_order and has_lost_order(read) and can_reread(self.keeping)

    def _write_reread(self, read: Batch) -> None:
        again = reread_batch(self.keeping, read, ordered=self._needs_reorder(read))
        self.unsure.add(read.ref.batch_id)
        kept = [again.views[entry.view].persist() for entry in self.spec.inputs if self.spec.fan_out]
        try:
            self._write_outputs(((o, self._prepare_rows(again.views[o.view], o)) for o in self.spec.outputs), read.ref)
        finally:
            for frame in kept:
                frame.unpersist()
        found = again.counts()
        self.board.note_reread(self.spec.name, read.ref.batch_id, sum(counts.rows for counts in found.values()))
        for view, counts in found.items():
            self.rescued.setdefault((read.ref.batch_id, view), counts.faults)

    def _collect_unread_files(self, read: Batch) -> None:
        for entry in self.spec.inputs:
            if files := self.broken.get(read.ref.batch_id, {}).get(entry.view):
                self._count_rejected(len(files), f"{entry.view} files", read.ref)
                if entry.on_error == "dead_letter":
                    self.keeping.collect_unread_files(entry, {unquote(file): why for file, why in files.items()}, read)

    def _write_outputs(self, rows: Generator[tuple[QueryOutput, DataFrame]], ref: BatchRef) -> None:
        """Write to every output that does not have the batch yet. One of them always works it through."""
        *_, last = every = [output.node for output in self.spec.outputs]
        had = sink_progress.written_outputs(self.checkpoint, ref)
        with closing(rows):
            for output, frame in rows:
                if output.node not in had:
                    written = self._write(output, frame, replace(ref, output=output.node))
                    self.board.count_written(self.spec.name, written, output.node, batch_id=ref.batch_id)
                    had |= {output.node}
                    if not had.issuperset(every):
                        sink_progress.record_outputs(self.checkpoint, ref, had)
                elif output.node == last and had.issuperset(every):
                    frame.write.format("noop").mode("append").save()

    def _output_frames(self, batch: DataFrame) -> Generator[tuple[QueryOutput, DataFrame]]:
        """What each output gets of a batch. When there are several, the batch is kept until the last one has it."""
        if not self.spec.fan_out:
            (output,) = self.spec.outputs
            yield output, self._prepare_rows(batch, output)
            return
        with persist_batch(batch) as rows:
            for view, frame in split_streams(rows, [entry.view for entry in self.spec.inputs]).items():
                frame.createOrReplaceTempView(quote_spark_identifier(view))
            frames = self.frames.run_steps(self.spec, rows.sparkSession)
            for output in self.spec.outputs:
                yield output, self._prepare_rows(frames[output.view], output)

    def _prepare_rows(self, rows: DataFrame, output: QueryOutput) -> DataFrame:
        spread = any(source.loses_order for source in self.keeping.sources)
        return prepare_rows(rows, output, self.sinks[output.node], spread=spread)

    def _write(self, output: QueryOutput, rows: DataFrame, ref: BatchRef) -> int:
        """Write the rows of one output. What goes wrong meanwhile is said of it."""
        self.at = output.node
        written = self._write_or_isolate(output, rows, ref)
        self.at = None
        return written

    def _write_or_isolate(self, output: QueryOutput, rows: DataFrame, ref: BatchRef) -> int:
        try:
            return self._deliver(output, rows, ref)
        except (*SPARK_ERRORS, QueryFailed) as error:
            if output.on_error == "stop" or self.spec.stateful or not is_row_error(error):
                raise
            written = self._isolate_rows(output, ref)
            if written is None:
                raise
            return written

    def _deliver(self, output: QueryOutput, rows: DataFrame, ref: BatchRef, *, whole: bool = True) -> int:
        """Write the rows that meet the rules of their output, and deal with the others. A batch that is not `whole`
        lacks the rows that it would fail over."""
        if not output.rules:
            return self._write_to_sink(output, rows, ref)
        rows = row_rules.mark_broken_rules(rows, output.rules).persist()
        try:
            found = row_rules.breaking_rows(rows).count()
            if found and output.on_error == "stop":
                raise row_rules.rule_failure(rows, output)
            written = self._write_to_sink(output, row_rules.passing_rows(rows), ref)
            self._count_rejected(found, f"{output.node} rules", ref)
            if (
                found
                and output.on_error == "dead_letter"
                and not (whole and self._collect_rule_breaks(output, ref, found))
            ):
                letters = rejections.rule_breaking_rows(row_rules.breaking_rows(rows), output.node)
                self.keeping.write_dead_letters(output.node, letters, ref, f"{output.view} rules")
            return written
        finally:
            rows.unpersist()

    def _collect_rule_breaks(self, output: QueryOutput, ref: BatchRef, count: int) -> bool:
        """Keep the records of rows that break rules, where that is one for each."""
        gathered = self.spec.stateful or output.fold is not None or output.latest_by is not None
        if gathered or self.sinks[output.node].compaction_key:
            return False
        return self.keeping.collect_rule_breaks(output, self._batch(ref), count)

    def _write_to_sink(self, output: QueryOutput, rows: DataFrame, ref: BatchRef) -> int:
        def keep(letters: DataFrame) -> None:
            self.keeping.write_dead_letters(
                output.node, rejections.rejected_rows(letters, output.node), ref, f"{output.view} refused"
            )

        written = self.sinks[output.node].deliver(rows, ref, keep)
        self._count_rejected(written.refused, f"{output.node} refused", ref)
        return written.rows

    def _isolate_rows(self, output: QueryOutput, ref: BatchRef) -> int | None:
        """Write a batch to an output without the rows that make it fail there; None if it cannot be read twice."""
        read = self._batch(ref)
        rescue = BatchIsolation(
            self.keeping,
            read,
            output,
            self.sinks[output.node],
            partial(self._prepare_rows, output=output),
            partial(self._deliver, output, ref=ref, whole=False),
        )
        done = rescue(ordered=self._needs_reorder(read))
        if done is None:
            return None
        self.unsure.add(ref.batch_id)
        for view, counts in done.read.items():
            self.rescued[ref.batch_id, view] = counts.faults
        self.board.note_reread(self.spec.name, ref.batch_id, sum(counts.rows for counts in done.read.values()))
        self._count_rejected(done.found, f"{output.node} isolated", ref)
        return done.written

    def _collect_undecodable(self, ref: BatchRef) -> None:
        """Deal with the records of a batch that could not be made into rows, now that it is written."""
        alone = len(self.spec.inputs) == 1
        for entry, source in self.keeping.inputs():
            if not source.has_records:
                continue
            found = self.rescued.pop((ref.batch_id, entry.view), None)
            if found is None:
                found = count_undecodable(self.session, self.spec.name, entry, alone=alone)
            self._count_rejected(found, f"{entry.view} unreadable", ref)
            if entry.on_error == "dead_letter" and (found or ref.batch_id in self.unsure):
                self.keeping.collect_undecodable(entry, self._batch(ref))

    def _collect_untimed_rows(self, ref: BatchRef) -> None:
        """Deal with the rows of a batch that had no usable event time, now that it is written.

        A batch that is done again may have been written before, so that nobody counted: it is looked through anyway.
        """
        timed = [entry for entry in self.spec.inputs if self.spec.timed and entry.event_time is not None]
        if can_drop_untimed(self.spec):
            together = count_untimed_rows(self.session, self.spec.name) if timed else 0
            found = dict.fromkeys((entry.view for entry in timed), together)
        else:
            found = {entry.view: count_untimed(self.session, self.spec.name, entry) for entry in timed}
            together = sum(found.values())
        self._count_rejected(together, "untimed", ref)
        for entry in timed:
            if entry.on_error == "dead_letter" and (found[entry.view] or ref.batch_id in self.unsure):
                self.keeping.collect_untimed(entry, self._batch(ref))

    def _collect_failing_rows(self, ref: BatchRef) -> None:
        """Deal with the rows of a batch that were kept out because the SQL would have failed over them."""
        for check in self.spec.checks:
            found = count_failing(self.session, self.spec.name, check)
            self._count_rejected(found, f"{check.view} fails", ref)
            if self.spec.outputs[0].on_error == "dead_letter" and (found or ref.batch_id in self.unsure):
                self.keeping.collect_failing(check, self._batch(ref))

    def _collect_late_rows(self, ref: BatchRef) -> None:
        """Keep the rows of a batch that came too late, where that is wanted."""
        for step in self.spec.steps:
            if not isinstance(step, KeyedStep) or step.late is None:
                continue
            row = observed_metric(self.session, self.spec.name, turn_metric(step.view))
            none_late = row is None or row.isNullAt(0) or row.getLong(0) == 0
            if not none_late or ref.batch_id in self.unsure:
                self.keeping.collect_late(step, self._batch(ref))

    def _count_rejected(self, rows: int, where: str, ref: BatchRef) -> None:
        if rows:
            self.board.count_rejected(self.spec.name, rows, where, batch_id=ref.batch_id)

    def _batch(self, ref: BatchRef) -> Batch:
        read = Batch(ref, batch_parts(self.checkpoint, ref.batch_id), batch_time(self.checkpoint, ref.batch_id))
        return without_files(read, self.broken.get(ref.batch_id, {}), self.spec.inputs)
