"""Watermark heartbeats: rows with nothing but a time, which advance event time while an input is idle.

They are files next to the checkpoint and are read like any other input: a retried batch reads the same ones.
"""

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.clients.files.formats import STREAM_OPTIONS, escape_glob
from penstock.manifest.model import Input, QuerySpec
from penstock.runtime.query.event_time import NEWEST, input_metric


def read_heartbeats(session: SparkSession, folder: Path, entry: Input) -> DataFrame:
    """Read the heartbeats of an input, as a column `at`. Files that were read are deleted."""
    place = folder / entry.name
    place.mkdir(parents=True, exist_ok=True)
    reader = session.readStream.name(f"{entry.name}_beats").format("json").schema("at TIMESTAMP")
    return reader.options(cleanSource="delete", **STREAM_OPTIONS).load(escape_glob(place))


def write_heartbeat(folder: Path, entry: Input, at_ms: int) -> None:
    """Write a heartbeat: event time has reached `at_ms`."""
    place = folder / entry.name
    place.mkdir(parents=True, exist_ok=True)
    staged = place / f"_{at_ms}.json"
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    staged.write_text(json.dumps({"at": moment}) + "\n", encoding="utf-8")
    os.replace(staged, place / f"{at_ms}.json")


@dataclass(slots=True)
class Silence:
    """How long an input has been idle: since its last rows, up to the latest time at which it certainly had none.

    `latest_ms` is its event time, from its rows and heartbeats; the other times are clock times.
    """

    idle_ms: int
    since_ms: int
    latest_ms: int | None = None
    until_ms: int = 0

    def note_batch(self, newest_ms: int | None, began_ms: int, now_ms: int) -> None:
        """Note that a batch, which began at some time, had rows of the input up to `newest_ms`, or none."""
        if newest_ms is None:
            self.until_ms = max(self.until_ms, began_ms)
        else:
            self.latest_ms = max(self.latest_ms or 0, newest_ms)
            self.since_ms = self.until_ms = now_ms

    def advance_time(self, others_ms: int | None) -> int | None:
        """Advance event time if the input is idle for long enough. Returns the new event time.

        Before its first row, it starts at the event time of the other inputs.
        """
        waited = self.until_ms - self.since_ms
        start = others_ms if self.latest_ms is None else self.latest_ms
        if start is None or waited < self.idle_ms:
            return None
        self.latest_ms, self.since_ms = start + waited, self.until_ms
        return self.latest_ms


class IdleWatch:
    """Advances event time with the clock for inputs of a query that are idle for too long.

    Rows may wait while a batch is processed. So an input counts as idle only up to the start of a batch that had none
    of its rows, or up to now if the query has nothing to do.
    """

    def __init__(self, spec: QuerySpec, folder: Path, reached_ms: int | None) -> None:
        """`reached_ms` is the watermark of the last run."""
        self._folder = folder
        self._seen = -1
        now_ms = _now_ms()
        self._inputs: list[tuple[Input, Silence | None]] = []
        for entry in spec.inputs if spec.timed else ():
            if (time := entry.event_time) is not None:
                started = None if reached_ms is None else reached_ms + time.delay_ms
                silence = None if time.idle_ms is None else Silence(time.idle_ms, now_ms, started)
                self._inputs.append((entry, silence))
        self._last_rows: dict[str, int] = {}

    def check_query(self, query: StreamingQuery) -> None:
        """Advance event time where needed. To be called at intervals while the query runs."""
        if not any(silence for _, silence in self._inputs):
            return
        self._note_batches(query)
        status = query.status
        if not status["isTriggerActive"] and not status["isDataAvailable"]:
            for _, silence in self._inputs:
                if silence is not None:
                    silence.until_ms = _now_ms()
        for entry, silence in self._inputs:
            others = [newest for view, newest in self._last_rows.items() if view != entry.view]
            at_ms = silence.advance_time(max(others, default=None)) if silence is not None else None
            if at_ms is not None:
                write_heartbeat(self._folder, entry, at_ms)

    def _note_batches(self, query: StreamingQuery) -> None:
        """Process the reports of batches since the last call."""
        last = query.lastProgress
        if last is None or last["batchId"] == self._seen:
            return
        for progress in query.recentProgress if last["batchId"] > self._seen + 1 else [last]:
            if progress["batchId"] <= self._seen:
                continue
            began_ms = int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)
            for entry, silence in self._inputs:
                counted = progress["observedMetrics"].get(input_metric(entry))
                newest_ms = None if counted is None else counted[NEWEST]
                if newest_ms is not None:
                    self._last_rows[entry.view] = max(self._last_rows.get(entry.view, newest_ms), newest_ms)
                if silence is not None:
                    silence.note_batch(newest_ms, began_ms, _now_ms())
        self._seen = last["batchId"]


def _now_ms() -> int:
    return int(time.time() * 1000)
