"""Collects the dead letters of a running query: rejected rows are read again, described, and stored.

A dead letter is stored under the name of its batch and kind (`BatchRef.output`), so a store that recognises batches has
it once, however often the batch is attempted. These names are on disk: they must not change.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from pyspark.sql import DataFrame

from penstock.batch import BatchRef
from penstock.clients.rows.topic_names import dead_letter_topic
from penstock.manifest.model import Input
from penstock.runtime.dead_letters import rows as dead_letter_rows
from penstock.runtime.dead_letters.store import DeadLetterStore
from penstock.runtime.delivery import rejections
from penstock.runtime.delivery.attempt import BatchRead
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.delivery.reread import BatchReader


@dataclass(frozen=True, slots=True)
class DeadLetterCollector:
    """Finds and stores the rejected rows of a query, if its `on_error` asks for that."""

    reader: BatchReader
    board: ProgressBoard
    store: DeadLetterStore

    def collect(self, rejection: rejections.StreamRejection | rejections.InputRejection, batch: BatchRead) -> None:
        """Store rows that were rejected before they reached an output."""
        query, frames, ref = self.reader.query, self.reader.frames, batch.ref
        writer = query.outputs[0]
        match rejection:
            case rejections.Undecodable(entry):
                self._collect_input(entry, batch, "unreadable", dead_letter_rows.undecodable_records)
            case rejections.Untimed(entries):
                for entry in entries:
                    self._collect_input(entry, batch, "errors", dead_letter_rows.untimed_rows)
            case rejections.Failing(check):
                rows = self.reader.reread_input(check.input, batch) if writer.on_error == "dead_letter" else None
                if rows is not None:
                    found = frames.failing_rows(query, check, rows)
                    dead_letters = dead_letter_rows.failing_rows(found, query.input(check.input), writer.node)
                    self.write(writer.node, dead_letters, ref, f"{check.view} fails")
            case rejections.Late(step, late):
                rows = self.reader.reread_input(late.input, batch)
                if rows is not None:
                    entry, found = query.input(late.input), frames.late_rows(query, late, rows)
                    dead_letters = dead_letter_rows.late_rows(found, step, entry, batch.time.watermark_ms)
                    self.write(entry.node, dead_letters, ref, f"{step.view} late", late=True)
            case rejections.UnreadFiles(entry, files):
                if entry.on_error == "dead_letter":
                    dead_letters = dead_letter_rows.unread_files(frames.session(), files, writer.node)
                    self.write(entry.node, dead_letters, ref, f"{entry.view} files")
            case rejections.GoneRecords(entry, ranges):
                if entry.on_error == "dead_letter" or (query.checks and writer.on_error == "dead_letter"):
                    topic = str(entry.source["topic"])
                    dead_letters = dead_letter_rows.gone_records(frames.session(), topic, ranges, writer.node)
                    self.write(entry.node, dead_letters, ref, f"{entry.view} gone")
            case _:
                assert_never(rejection)

    def write_output(self, rejection: rejections.OutputRejection, dead_letters: DataFrame, ref: BatchRef) -> None:
        """Store rows that were rejected at an output."""
        view = rejection.output.view
        match rejection:
            case rejections.RuleBroken():
                kind = f"{view} rules"
            case rejections.Refused():
                kind = f"{view} refused"
            case rejections.Faulty(_, stream, joint):
                kind = " ".join(filter(None, (view, stream, "errors beside others" if joint else "errors")))
            case _:
                assert_never(rejection)
        self.write(rejection.output.node, dead_letters, ref, kind)

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef, kind: str, *, late: bool = False) -> None:
        if self.store.write(node, dead_letters, replace(ref, output=kind)):
            self.board.note_dead_letters(self.reader.query.name, dead_letter_topic(node), late=late)

    def _collect_input(
        self, entry: Input, batch: BatchRead, kind: str, describe: Callable[[DataFrame, Input, str], DataFrame]
    ) -> None:
        rows = self.reader.reread_input(entry.view, batch) if entry.on_error == "dead_letter" else None
        if rows is not None:
            dead_letters = describe(rows, entry, self.reader.query.outputs[0].node)
            self.write(entry.node, dead_letters, batch.ref, f"{entry.view} {kind}")
