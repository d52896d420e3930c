"""Rows and records of a batch that could not be used, read once more and kept where they can be looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from penstock.clients.files.batch_directory import BatchRef, PartRead
from penstock.clients.rows.topic_names import dead_letter_topic
from penstock.connectors.contract import Source
from penstock.manifest.model import Check, Input, KeyedStep, QueryOutput, QuerySpec
from penstock.runtime.checkpoint.layout import BatchTime
from penstock.runtime.dead_letters import rows as rejections
from penstock.runtime.dead_letters.store import DeadLetterStore
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.query import row_rules
from penstock.runtime.query.dataframes import Frames


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was read: what each reader has read of it, and when it was."""

    ref: BatchRef
    parts: Mapping[str, PartRead]
    time: BatchTime


@dataclass(frozen=True, slots=True)
class DeadLetterCollector:
    """Keeps what a query leaves out, each in a topic for errors of the node that it belongs to."""

    spec: QuerySpec
    sources: Sequence[Source]
    frames: Frames
    board: ProgressBoard
    errors: DeadLetterStore

    def reread_input(self, view: str, batch: Batch, *, ordered: bool = False) -> DataFrame | None:
        """An input's part of a batch once more, if it can be read again. The clock stands where it stood."""
        entry, source = next(pair for pair in self.inputs() if pair[0].view == view)
        session = self.frames.session(now_ms=batch.time.began_ms)
        return source.reread(session, entry.name, batch.parts, ordered=ordered)

    def inputs(self) -> list[tuple[Input, Source]]:
        return list(zip(self.spec.inputs, self.sources, strict=True))

    def collect_undecodable(self, entry: Input, batch: Batch) -> None:
        """Keep the records of an input that could not be made into rows."""
        rows = self.reread_input(entry.view, batch)
        if rows is not None:
            self.write_dead_letters(
                entry.node,
                rejections.undecodable_records(rows, entry, self._writer),
                batch.ref,
                f"{entry.view} unreadable",
            )

    def collect_unread_files(self, entry: Input, files: Mapping[str, str], batch: Batch) -> None:
        """Keep the names of files that could not be read, and why."""
        letters = rejections.unread_files(self.frames.session(), files, self._writer)
        self.write_dead_letters(entry.node, letters, batch.ref, f"{entry.view} files")

    def collect_gone_records(self, entry: Input, ranges: Sequence[tuple[int, int, int]], batch: Batch) -> None:
        """Keep which records of an input are gone, by partition, first and last offset: nobody knows any more what was
        left out of them."""
        if entry.on_error == "dead_letter" or (self.spec.checks and self.spec.outputs[0].on_error == "dead_letter"):
            letters = rejections.gone_records(self.frames.session(), str(entry.source["topic"]), ranges, self._writer)
            self.write_dead_letters(entry.node, letters, batch.ref, f"{entry.view} gone")

    def collect_untimed(self, entry: Input, batch: Batch) -> None:
        """Keep the rows of an input that had no usable event time."""
        rows = self.reread_input(entry.view, batch)
        if rows is not None:
            self.write_dead_letters(
                entry.node, rejections.untimed_rows(rows, entry, self._writer), batch.ref, f"{entry.view} errors"
            )

    def collect_failing(self, check: Check, batch: Batch) -> None:
        """Keep the rows that were kept out because the SQL would have failed over them."""
        rows = self.reread_input(check.input, batch)
        if rows is not None:
            found = self.frames.failing_rows(self.spec, check, rows)
            letters = rejections.failing_rows(found, self._entry(check.input), self._writer)
            self.write_dead_letters(self._writer, letters, batch.ref, f"{check.view} fails")

    def collect_rule_breaks(self, output: QueryOutput, batch: Batch, count: int) -> bool:
        """Keep the records whose rows break a rule. Whether that could be done: each of so many rows must be made of
        one, and break it also when it is made once more."""
        entry = next(entry for entry in self.spec.inputs if not entry.static)
        rows = self.reread_input(entry.view, batch)
        made = None if rows is None else self.frames.rows_with_records(self.spec, output.view, entry, rows)
        if made is None:
            return False
        found = row_rules.breaking_rows(row_rules.mark_broken_rules(made, output.rules)).persist()
        try:
            if found.count() != count:
                return False
            letters = rejections.rule_breaking_records(found, entry, output.node)
            self.write_dead_letters(output.node, letters, batch.ref, f"{output.view} rules")
            return True
        finally:
            found.unpersist()

    def collect_late(self, step: KeyedStep, batch: Batch) -> None:
        """Keep the rows that came too late for an operator."""
        assert step.late is not None
        rows = self.reread_input(step.late.input, batch)
        if rows is not None:
            entry = self._entry(step.late.input)
            found = self.frames.late_rows(self.spec, step.late, rows)
            letters = rejections.late_rows(found, step, entry, batch.time.watermark_ms)
            self.write_dead_letters(entry.node, letters, batch.ref, f"{step.view} late", late=True)

    def write_dead_letters(
        self, node: str, letters: DataFrame, ref: BatchRef, kind: str, *, late: bool = False
    ) -> None:
        if self.errors.write(node, letters, replace(ref, output=kind)):
            self.board.note_dead_letters(self.spec.name, dead_letter_topic(node), late=late)

    def _entry(self, view: str) -> Input:
        return next(entry for entry in self.spec.inputs if entry.view == view)

    @property
    def _writer(self) -> str:
        return self.spec.outputs[0].node
