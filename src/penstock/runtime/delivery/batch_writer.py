"""Takes the batches of a query from Spark and delivers each to all outputs.

A crash at any point leaves the batch uncommitted: Spark hands it over again under the same number and offsets. Sinks
with a ledger recognise it, sinks that have it by `sink_progress` are skipped, and dead letters are stored under the
batch's name, so that a store that recognises batches has them once.
"""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from penstock.batch import BatchRef
from penstock.clients.files.formats import is_local
from penstock.connectors.contract import Sink
from penstock.errors import PenstockError, QueryFailed
from penstock.manifest.model import QueryOutput, QuerySpec
from penstock.runtime.checkpoint.layout import batch_offsets, batch_parts, batch_time, checkpoint_id, unfinished_batch
from penstock.runtime.delivery import rejections, sink_progress
from penstock.runtime.delivery.attempt import BatchAttempt, BatchRead
from penstock.runtime.delivery.collector import DeadLetterCollector
from penstock.runtime.delivery.deliver import Delivered, OutputDelivery
from penstock.runtime.delivery.fan_out import persist_batch, split_streams, union_streams
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.delivery.reread import BatchReader, FilesByView, has_lost_order, sort_rows, without_files
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query.compaction import prepare_rows
from penstock.runtime.query.decode_errors import count_rows, drop_undecodable
from penstock.runtime.query.table_watch import TableWatch
from penstock.runtime.spark.errors import failure_in_python, file_at_fault, is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.sql.parse.dialects import quote_spark_identifier


@dataclass(slots=True)
class BatchWriter:
    """Takes the batches of a query from Spark, one after the other. `failures` has the errors that ended the query."""

    spec: QuerySpec
    sinks: Mapping[str, Sink]
    session: SparkSession
    checkpoint: Path
    reader: BatchReader
    board: ProgressBoard
    collector: DeadLetterCollector
    tables: TableWatch
    failures: list[PenstockError] = field(default_factory=list)
    unfinished: int | None = None
    """The batch that an earlier run has begun and not committed."""

    def __post_init__(self) -> None:
        self.unfinished = unfinished_batch(self.checkpoint)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Deliver a batch to all outputs, then collect its rejected rows. If it returns, Spark commits the batch."""
        self.board.begin_batch(self.spec.name, batch_id)
        attempt: BatchAttempt | None = None
        try:
            if (changed := self.tables.find_change()) is not None:
                raise changed
            attempt = self._begin_attempt(batch_id)
            if self._reads_files:
                self._write_files(batch, attempt)
            else:
                self._write_batch(batch, attempt)
            self._collect_rejected(attempt)
        except Exception as error:
            failure = self.tables.find_change() or failure_in_python(error)
            if attempt is not None and attempt.writing_to is not None:
                kind, _, name = attempt.writing_to.partition(".")
                failure.with_context(f"batch {batch_id:,} was not written to {kind} `{name}`", node=name)
            self.failures.append(failure)
            raise

    @property
    def _reads_files(self) -> bool:
        facts = (each.source.capabilities for each in self.reader.inputs)
        return any(fact.has_files or (fact.loses_order and fact.has_records) for fact in facts)

    def _begin_attempt(self, batch_id: int) -> BatchAttempt:
        """Begin an attempt. Every attempt at a batch has the same name for sinks, the same input and the same time."""
        begun, offsets = checkpoint_id(self.checkpoint), batch_offsets(self.checkpoint, batch_id)
        ref = BatchRef(self.spec.name, self.spec.outputs[0].node, begun, batch_id, offsets)
        read = BatchRead(ref, batch_parts(self.checkpoint, batch_id), batch_time(self.checkpoint, batch_id))
        return BatchAttempt(read, recount=batch_id == self.unfinished)

    # Which rows: those of the stream, or those of a second reading.

    def _write_files(self, batch: DataFrame, attempt: BatchAttempt) -> None:
        """Write a batch of files. Missing or broken files become dead letters, if `on_error` asks for that."""
        self._skip_files(self.reader.gone_files(attempt.read), attempt)
        try:
            self._write_batch(batch, attempt)
        except SPARK_ERRORS as error:
            if file_at_fault(error) is None or not self.reader.can_reread_files:
                raise
            self._skip_files(self.reader.unreadable_files(attempt.read), attempt)
            self._write_reread(attempt)
        for entry in self.spec.inputs:
            if files := attempt.unread_files.get(entry.view):
                unread = rejections.UnreadFiles(entry, {unquote(file): why for file, why in files.items()})
                self._count(rejections.count_label(unread), len(files), attempt.ref)
                self.collector.collect(unread, attempt.read)

    def _skip_files(self, unread: FilesByView, attempt: BatchAttempt) -> None:
        """Skip unreadable local files, or stop. Files on other machines may be unreachable only for a while."""
        for entry in self.spec.inputs:
            for file, why in unread.get(entry.view, {}).items():
                if entry.on_error == "stop" or not is_local(file) or not self.reader.can_reread_files:
                    hint = "mend it or put it back, or set `on_error: dead_letter` where it is read to skip such files"
                    raise QueryFailed("file-unreadable", f"{unquote(file)} cannot be read: {why}", hint=hint)
                attempt.unread_files.setdefault(entry.view, {})[file] = why
        attempt.read = without_files(attempt.read, attempt.unread_files, self.spec.inputs)

    def _write_batch(self, batch: DataFrame, attempt: BatchAttempt) -> None:
        """Write the rows of the stream, or of a second reading if the stream lacks the files' order or skips files."""
        if attempt.unread_files or self._needs_reorder(attempt.read):
            self._write_reread(attempt)
        else:
            self._write_outputs(self._output_frames(batch), attempt)

    def _needs_reorder(self, read: BatchRead) -> bool:
        """Whether an output needs an order that Spark has lost. Some queries read the order as columns."""
        in_columns = any(entry.ordered for entry in self.spec.inputs)
        by_order = not in_columns and any(sink.capabilities.last_row_wins for sink in self.sinks.values())
        return by_order and has_lost_order(read) and self.reader.can_reread_files

    def _write_reread(self, attempt: BatchAttempt) -> None:
        """Write the rows of a second reading, which must be possible."""
        ordered = self._needs_reorder(attempt.read)
        again = self.reader.reread_streams(attempt.read, ordered=ordered)
        assert again is not None
        views = self.reader.compute_views(again, ordered=ordered)
        attempt.recount = True
        cached = [views[entry.view].persist() for entry in self.spec.inputs if self.spec.fan_out]
        try:
            rows = ((output, self._prepare_rows(views[output.view], output)) for output in self.spec.outputs)
            self._write_outputs(rows, attempt)
        finally:
            for frame in cached:
                frame.unpersist()
        self._note_reread(again, attempt)

    def _note_reread(self, rows: Mapping[str, DataFrame], attempt: BatchAttempt) -> None:
        """Count the rows of a second reading. They are read once more for that: Spark does not count them."""
        counts = {view: count_rows(found) for view, found in rows.items()}
        attempt.note_reread(counts)
        self.board.note_reread(self.spec.name, attempt.ref.batch_id, sum(count.rows for count in counts.values()))

    # To each output.

    def _write_outputs(self, rows: Generator[tuple[QueryOutput, DataFrame]], attempt: BatchAttempt) -> None:
        """Write to every output that does not have the batch yet. One of them always processes it."""
        ref = attempt.ref
        *_, last = every = [output.node for output in self.spec.outputs]
        had = sink_progress.written_outputs(self.checkpoint, ref)
        with closing(rows):
            for output, frame in rows:
                if output.node not in had:
                    attempt.writing_to = output.node
                    done = self._deliver(output, frame, attempt)
                    attempt.writing_to = None
                    self.board.count_written(self.spec.name, done.written, output.node, batch_id=ref.batch_id)
                    for label, count in done.rejected.items():
                        self._count(label, count, ref)
                    had |= {output.node}
                    if not had.issuperset(every):
                        sink_progress.record_outputs(self.checkpoint, ref, had)
                elif output.node == last and had.issuperset(every):
                    frame.write.format("noop").mode("append").save()

    def _output_frames(self, batch: DataFrame) -> Generator[tuple[QueryOutput, DataFrame]]:
        """Yield the rows of each output. With several outputs, the batch is cached until the last one has it."""
        if not self.spec.fan_out:
            (output,) = self.spec.outputs
            yield output, self._prepare_rows(batch, output)
            return
        with persist_batch(batch) as rows:
            for view, frame in split_streams(rows, [entry.view for entry in self.spec.inputs]).items():
                frame.createOrReplaceTempView(quote_spark_identifier(view))
            views = self.reader.frames.run_steps(self.spec, rows.sparkSession)
            for output in self.spec.outputs:
                yield output, self._prepare_rows(views[output.view], output)

    def _prepare_rows(self, rows: DataFrame, output: QueryOutput) -> DataFrame:
        spread = any(each.source.capabilities.loses_order for each in self.reader.inputs)
        return prepare_rows(rows, output, self.sinks[output.node], spread=spread)

    def _deliver(self, output: QueryOutput, rows: DataFrame, attempt: BatchAttempt) -> Delivered:
        """Deliver to one output; if rows make it fail, read the batch again and deliver it without them.

        Other outputs are not affected. A stateful query cannot process a batch twice, so its errors end the query.
        """
        delivery = self._delivery(output, replace(attempt.ref, output=output.node))
        try:
            return delivery.deliver(rows, lambda: self._records(output, attempt))
        except (*SPARK_ERRORS, QueryFailed) as error:
            if output.on_error == "stop" or self.spec.stateful or not is_row_error(error):
                raise
            ordered = self._needs_reorder(attempt.read)
            again = self.reader.reread_streams(attempt.read, ordered=ordered)
            if again is None:
                raise
        found = {view: drop_undecodable(sort_rows(rows) if ordered else rows) for view, rows in again.items()}
        done = delivery.deliver_isolated(union_streams(found))
        self._note_reread(again, attempt)
        return done

    def _delivery(self, output: QueryOutput, ref: BatchRef) -> OutputDelivery:
        about = (self.reader.frames, self.spec, self.reader.inputs, output, self.sinks[output.node], ref)
        trial = TrialRun(*about, prepare=lambda rows: self._prepare_rows(rows, output))
        return OutputDelivery(trial, output.on_error, partial(self.collector.write_output, ref=ref))

    def _records(self, output: QueryOutput, attempt: BatchAttempt) -> DataFrame | None:
        """Read the input records of an output's rows again, if each row is made from one record."""
        gathered = self.spec.stateful or output.fold is not None or output.latest_by is not None
        if gathered or self.sinks[output.node].capabilities.compaction_key:
            return None
        return self.reader.reread_input(self.spec.streams[0].view, attempt.read)

    # What the stream has filtered out.

    def _collect_rejected(self, attempt: BatchAttempt) -> None:
        """Count and collect the rows that the stream has filtered out, now that the outputs have the batch.

        An attempt that died may have written the batch and collected nothing: then rows are collected in any case.
        """
        for rejection in rejections.stream_rejections(self.spec, self.reader.inputs):
            match rejection:
                case rejections.Undecodable(entry) if (counts := attempt.reread.get(entry.view)) is not None:
                    found = counts.faults
                case _:
                    found = rejections.count_rejected(rejection, self.spec, self.session)
            if not isinstance(rejection, rejections.Late):  # Spark's report of the batch counts these
                self._count(rejections.count_label(rejection), found, attempt.ref)
            if found or attempt.recount:
                self.collector.collect(rejection, attempt.read)

    def _count(self, label: str, rows: int, ref: BatchRef) -> None:
        if rows:
            self.board.count_rejected(self.spec.name, rows, label, batch_id=ref.batch_id)
