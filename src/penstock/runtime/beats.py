"""Heartbeats: rows that say nothing but how late it is, so that event time can go on without rows of the input's own.

They lie in files beside the checkpoint and are read like any other input: a batch that is done again sees the same.
"""

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.clients.formats import STREAM_OPTIONS, literal
from penstock.manifest.model import Input, QuerySpec


def read(session: SparkSession, folder: Path, entry: Input) -> DataFrame:
    """The heartbeats of an input, a column `at`."""
    place = folder / entry.name
    place.mkdir(parents=True, exist_ok=True)
    reader = session.readStream.name(f"{entry.name}_beats").format("json").schema("at TIMESTAMP")
    return reader.options(**STREAM_OPTIONS).load(literal(place))


def beat(folder: Path, entry: Input, at_ms: int) -> None:
    """Say that event time has come to `at_ms`."""
    place = folder / entry.name
    place.mkdir(parents=True, exist_ok=True)
    staged = place / f"_{at_ms}.json"
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    staged.write_text(json.dumps({"at": moment}) + "\n", encoding="utf-8")
    os.replace(staged, place / f"{at_ms}.json")


class IdleWatch:
    """Lets event time go on with the clock for the inputs of a query that are silent for too long."""

    def __init__(self, spec: QuerySpec, folder: Path) -> None:
        self._folder = folder
        times = [(entry, entry.event_time.idle_ms) for entry in spec.inputs if spec.timed and entry.event_time]
        self._waits = [(entry, idle_ms) for entry, idle_ms in times if idle_ms is not None]
        self._latest_ms: int | None = None
        self._since = time.monotonic()
        self._seen = -1

    def look(self, query: StreamingQuery) -> None:
        """To be called now and then, while the query runs."""
        progress = query.lastProgress if self._waits else None
        if progress is None:
            return
        if progress["batchId"] != self._seen:
            self._seen = progress["batchId"]
            newest = progress["eventTime"].get("max")
            if newest is not None:
                self._latest_ms = max(self._latest_ms or 0, _milliseconds(newest))
                self._since = time.monotonic()
        waited_ms = int((time.monotonic() - self._since) * 1000)
        for entry, idle_ms in self._waits if self._latest_ms is not None else ():
            if waited_ms >= idle_ms:
                assert self._latest_ms is not None
                beat(self._folder, entry, self._latest_ms + waited_ms)
        if self._waits and waited_ms >= min(idle_ms for _, idle_ms in self._waits) and self._latest_ms is not None:
            self._latest_ms += waited_ms
            self._since = time.monotonic()


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
