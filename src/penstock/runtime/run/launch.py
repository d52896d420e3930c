"""Starts a query in one of three shapes.

In batches: rows come to us batch by batch, to one sink or several, and rejected rows are stored. As a stream: Spark
writes rows by itself, which is faster. An observed stream counts rejected rows, which are stored after the commit. A
bare stream does not even count: it stops at the first rejected row, and the query continues in batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.clients.int256.columns import int256_to_texts
from penstock.connectors.contract import Sink, SourceCapabilities, StreamSink
from penstock.errors import PenstockError
from penstock.manifest.model import Every, QueryOutput, QuerySpec, RealTime
from penstock.plan.deployed.place import ProjectPlace
from penstock.runtime.checkpoint.layout import reached_ms, reader_offset, state_partitions, unfinished_batch
from penstock.runtime.checkpoint.state_schema import begin_state
from penstock.runtime.checkpoint.state_stats import StateNotes
from penstock.runtime.dead_letters.masking import dead_letter_store
from penstock.runtime.delivery.batch_writer import BatchWriter
from penstock.runtime.delivery.collector import DeadLetterCollector
from penstock.runtime.delivery.fan_out import fan_out_stream
from penstock.runtime.delivery.post_commit_scan import PostCommitScan
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.delivery.reread import BatchReader
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.lookup_tables import check_tables
from penstock.runtime.query.table_watch import TableWatch
from penstock.runtime.query.watermark_heartbeat import IdleWatch
from penstock.runtime.run.backfill import BackfillPhases
from penstock.runtime.run.completion import CompletionTracker
from penstock.runtime.run.listener import QueryListener
from penstock.runtime.run.live_query import LiveQuery, Shape
from penstock.runtime.run.resources import RunResources
from penstock.runtime.spark.errors import failure_of, is_input_error, is_row_error
from penstock.runtime.spark.process import is_spark_gone, spark_lost_error
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.spark_internals.running_query import list_once

_KEPT: Final = "kept"
"""The directory in a checkpoint where sources store their state."""
_AHEAD: Final = {
    "asyncProgressTrackingEnabled": "true",
    # Every batch is recorded, in order: with gaps, the checkpoint could only be resumed in this mode.
    "asyncProgressTrackingCheckpointIntervalMs": "0",
}


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts the queries of a run, in batches if an earlier attempt has stopped at a row."""

    frames: Frames
    resources: RunResources
    place: ProjectPlace
    board: ProgressBoard
    _in_batches: set[str] = field(default_factory=set)

    def try_fallback(self, live: LiveQuery, error: Exception) -> bool:
        """Whether a query that ended continues in batches, which store the rows that it stopped at."""
        if live.shape == "batches" or not is_input_error(error):
            return False
        wanted = live.spec.outputs if is_row_error(error) else live.spec.inputs
        if all(part.on_error == "stop" for part in wanted):
            return False
        self._in_batches.add(live.spec.name)
        return True

    def launch(self, whole: QuerySpec, *, drain: bool) -> LiveQuery | None:
        """Start a query; None if it has nothing left to read.

        The scan of what an earlier run has committed may need schemas that were not requested yet.
        """
        while True:
            try:
                return self._launch(whole, drain=drain)
            except (*SPARK_ERRORS, ConnectionError) as error:
                if is_spark_gone(error) or not isinstance(error, SPARK_ERRORS):
                    raise spark_lost_error() from error
                if not self.resources.resolve_schema(error):
                    raise failure_of(error) from error

    def _launch(self, whole: QuerySpec, *, drain: bool) -> LiveQuery | None:
        checkpoint = self.place.checkpoint(whole.name).absolute()
        phases = BackfillPhases(whole, checkpoint, self.frames, self.resources)
        if phases.finished:
            return None
        spec = self.resources.resume_query(phases.current_query(), whole, checkpoint)
        directories = [checkpoint / _KEPT / entry.name for entry in spec.inputs]
        inputs = [each.in_directory(at) for each, at in zip(self.frames.inputs(spec), directories, strict=True)]
        streams = [each.source.capabilities for each in inputs if not each.entry.static]
        ends = drain or phases.is_backfilling or all(stream.bounded for stream in streams)
        poll_ms = min(stream.poll_ms for stream in streams)
        session = self.frames.session(poll_ms, state_partitions(checkpoint), spec.conf)
        again = unfinished_batch(checkpoint) is not None
        tables = TableWatch(inputs)
        inputs = [each.at_snapshot(session, again=again) for each in inputs]
        check_tables(spec, inputs, self.frames.session, self.resources.warn_once)
        reader = BatchReader(spec, inputs, self.frames)
        collector = DeadLetterCollector(reader, self.board, dead_letter_store(spec, self.resources.dead_letters))
        shape, failures = self._shape(spec, streams), list[PenstockError]()
        scan = PostCommitScan(spec, collector, self.resources.earliest_offsets, checkpoint, failures)
        match shape:
            case "batches":
                scan.catch_up()
                writer = self._open_batches(collector, session, tables, failures)
            case "observed":
                scan.begin()
                realtime = isinstance(spec.trigger, RealTime) and not ends
                writer = self._open_stream(spec, inputs, session, observed=True, realtime=realtime)
            case "bare":
                writer = self._open_stream(spec, [_stop_on_error(each) for each in inputs], session)
        if spec.stateful:
            begin_state(checkpoint, spec, self.frames.manifest, session)
        notes, publish_offsets = StateNotes(checkpoint), self.resources.offset_listener(spec)
        on_commit = scan.enqueue_batch if shape == "observed" else None
        QueryListener(self.board, spec.name, notes, publish_offsets, shape != "batches", on_commit).listen(session)
        writer = writer.queryName(spec.name).option("checkpointLocation", str(checkpoint))
        if ends:
            writer = writer.trigger(availableNow=True)
        elif isinstance(spec.trigger, Every):
            writer = writer.options(**_AHEAD) if spec.trigger.ahead and shape == "observed" else writer
            writer = writer.trigger(processingTime=f"{spec.trigger.interval_ms} milliseconds")
        elif isinstance(spec.trigger, RealTime) and shape == "observed":
            writer = writer.trigger(realTime=f"{spec.trigger.checkpoint_ms} milliseconds")  # type: ignore[call-overload]
        self.board.start_query(spec.name, phases.phase_label)
        idle = None if drain else IdleWatch(spec, self.place.heartbeat_directory(spec.name), reached_ms(checkpoint))
        completion = CompletionTracker(checkpoint, _backlog_size(inputs, checkpoint)) if ends else None
        query = writer.start()
        list_once(query, () if ends else _list_once_readers(inputs))
        observer = scan if shape == "observed" else None
        about = (shape, self.board, observer, self._row_limits(spec), phases, completion, inputs, tables)
        return LiveQuery(whole, query, failures, idle, drain, ends, *about)

    def _shape(self, spec: QuerySpec, streams: Sequence[SourceCapabilities]) -> Shape:
        plain = len(spec.outputs) == 1 and _is_whole(spec.outputs[0]) and not (spec.fan_out or spec.stateful)
        looks_up = any(entry.static for entry in spec.inputs)  # its tables are checked before each batch
        if looks_up or not plain or spec.timed or spec.name in self._in_batches:
            return "batches"
        sink = self._sink(spec.outputs[0])
        if not isinstance(sink, StreamSink) or sink.capabilities.compaction_key:
            return "batches"
        if sink.capabilities.repeatable and not spec.checks:
            return "bare"
        return "observed" if all(stream.has_positions for stream in streams) else "batches"

    def _open_batches(
        self, collector: DeadLetterCollector, session: SparkSession, tables: TableWatch, failures: list[PenstockError]
    ) -> DataStreamWriter:
        reader = collector.reader
        spec, checkpoint = reader.query, self.place.checkpoint(reader.query.name).absolute()
        streams = self.frames.open_inputs(spec, reader.inputs, session)
        whole = fan_out_stream(spec, streams) if spec.fan_out else self._output_rows(spec, session)
        sinks = {output.node: self._sink(output) for output in spec.outputs}
        writer = BatchWriter(spec, sinks, session, checkpoint, reader, self.board, collector, tables, failures)
        return whole.writeStream.foreachBatch(writer)

    def _open_stream(
        self,
        spec: QuerySpec,
        inputs: Sequence[QueryInput],
        session: SparkSession,
        *,
        observed: bool = False,
        realtime: bool = False,
    ) -> DataStreamWriter:
        self.frames.open_inputs(spec, inputs, session, observed=observed)
        sink = self._sink(spec.outputs[0])
        assert isinstance(sink, StreamSink)
        rows = self._output_rows(spec, session)
        return sink.write_stream(rows if sink.capabilities.takes_int256 else int256_to_texts(rows), realtime=realtime)

    def _output_rows(self, spec: QuerySpec, session: SparkSession) -> DataFrame:
        return self.frames.run_steps(spec, session)[spec.outputs[0].view]

    def _row_limits(self, spec: QuerySpec) -> dict[str, int]:
        most = {output.node: self._sink(output).capabilities.most_rows for output in spec.outputs}
        return {node: rows for node, rows in most.items() if rows is not None}

    def _sink(self, output: QueryOutput) -> Sink:
        return self.frames.resolver.sink(output.sink, output.node)


def _backlog_size(inputs: Sequence[QueryInput], checkpoint: Path) -> int | None:
    """Return the size of the backlog, as far as sources know more of it than Spark plans for one batch."""
    streams = [each for each in inputs if not each.entry.static]
    known = [each.source.backlog(reader_offset(checkpoint, each.entry.name)) for each in streams]
    return sum(amount or 0 for amount in known) or None


def _list_once_readers(inputs: Sequence[QueryInput]) -> list[str]:
    """Return the readers that read the files that exist at one moment."""
    streams = [(each.entry, each.source.capabilities) for each in inputs if not each.entry.static]
    return [entry.name for entry, facts in streams if facts.bounded and facts.has_files]


def _is_whole(output: QueryOutput) -> bool:
    """Whether all rows are written unchanged, rather than compacted by key or checked by rules."""
    return output.fold is None and output.latest_by is None and not output.rules


def _stop_on_error(each: QueryInput) -> QueryInput:
    """Return the input, which stops the query at the first undecodable record."""
    return replace(each, entry=each.entry.model_copy(update={"on_error": "stop"}))
