"""Collects the dead letters of a running query: rejected rows are read again, described, and stored.

A dead letter is stored under the name of its batch and kind (`BatchRef.output`), so a store that recognises batches has
it once, however often the batch is attempted. These names are on disk: they must not change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from pyspark.sql import DataFrame

from penstock.batch import BatchRef
from penstock.clients.rows.topic_names import dead_letter_topic
from penstock.manifest.model import Input, QuerySpec
from penstock.runtime.dead_letters import rows as dead_letter_rows
from penstock.runtime.dead_letters.store import DeadLetterStore
from penstock.runtime.delivery.attempt import BatchRead
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.delivery.rejections import (
    Failing,
    Faulty,
    GoneRecords,
    InputRejection,
    Late,
    OutputRejection,
    Refused,
    RuleBroken,
    StreamRejection,
    Undecodable,
    UnreadFiles,
    Untimed,
)
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.inputs import QueryInput


@dataclass(frozen=True, slots=True)
class DeadLetterCollector:
    """Finds and stores the rejected rows of a query, if its `on_error` asks for that."""

    spec: QuerySpec
    inputs: Sequence[QueryInput]
    frames: Frames
    board: ProgressBoard
    errors: DeadLetterStore

    def reread_input(self, view: str, batch: BatchRead) -> DataFrame | None:
        """Read an input's part of a batch again, at the batch's own time; None if that cannot be done."""
        found = next(each for each in self.inputs if each.entry.view == view)
        return found.reread(self.frames.session(now_ms=batch.time.began_ms), batch.parts)

    def collect(self, rejection: StreamRejection | InputRejection, batch: BatchRead) -> None:
        """Store rows that were rejected before they reached an output."""
        writer, ref = self.spec.outputs[0], batch.ref
        match rejection:
            case Undecodable(entry):
                if entry.on_error == "dead_letter":
                    self._collect_input(
                        entry, batch, f"{entry.view} unreadable", dead_letter_rows.undecodable_records, writer.node
                    )
            case Untimed(entries):
                for entry in entries:
                    if entry.on_error == "dead_letter":
                        self._collect_input(
                            entry, batch, f"{entry.view} errors", dead_letter_rows.untimed_rows, writer.node
                        )
            case Failing(check):
                rows = self.reread_input(check.input, batch) if writer.on_error == "dead_letter" else None
                if rows is not None:
                    found = self.frames.failing_rows(self.spec, check, rows)
                    dead_letters = dead_letter_rows.failing_rows(found, self._entry(check.input), writer.node)
                    self.write(writer.node, dead_letters, ref, f"{check.view} fails")
            case Late(step, late):
                rows = self.reread_input(late.input, batch)
                if rows is not None:
                    entry, found = self._entry(late.input), self.frames.late_rows(self.spec, late, rows)
                    dead_letters = dead_letter_rows.late_rows(found, step, entry, batch.time.watermark_ms)
                    self.write(entry.node, dead_letters, ref, f"{step.view} late", late=True)
            case UnreadFiles(entry, files):
                if entry.on_error == "dead_letter":
                    dead_letters = dead_letter_rows.unread_files(self.frames.session(), files, writer.node)
                    self.write(entry.node, dead_letters, ref, f"{entry.view} files")
            case GoneRecords(entry, ranges):
                if entry.on_error == "dead_letter" or (self.spec.checks and writer.on_error == "dead_letter"):
                    topic = str(entry.source["topic"])
                    dead_letters = dead_letter_rows.gone_records(self.frames.session(), topic, ranges, writer.node)
                    self.write(entry.node, dead_letters, ref, f"{entry.view} gone")
            case _:
                assert_never(rejection)

    def write_output(self, rejection: OutputRejection, dead_letters: DataFrame, ref: BatchRef) -> None:
        """Store rows that were rejected at an output."""
        view = rejection.output.view
        match rejection:
            case RuleBroken():
                kind = f"{view} rules"
            case Refused():
                kind = f"{view} refused"
            case Faulty(_, stream, joint):
                kind = " ".join(filter(None, (view, stream, "errors beside others" if joint else "errors")))
            case _:
                assert_never(rejection)
        self.write(rejection.output.node, dead_letters, ref, kind)

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef, kind: str, *, late: bool = False) -> None:
        if self.errors.write(node, dead_letters, replace(ref, output=kind)):
            self.board.note_dead_letters(self.spec.name, dead_letter_topic(node), late=late)

    def _collect_input(
        self,
        entry: Input,
        batch: BatchRead,
        kind: str,
        describe: Callable[[DataFrame, Input, str], DataFrame],
        reader: str,
    ) -> None:
        rows = self.reread_input(entry.view, batch)
        if rows is not None:
            self.write(entry.node, describe(rows, entry, reader), batch.ref, kind)

    def _entry(self, view: str) -> Input:
        return next(entry for entry in self.spec.inputs if entry.view == view)
