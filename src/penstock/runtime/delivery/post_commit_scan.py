"""The scan after a commit: it collects dead letters of a stream that Spark writes by itself.

Such a stream has no batch of ours in which they could be collected. A mark in the checkpoint says how far the scan has
come, so no dead letter is lost if the process dies between a commit and its scan; one may be stored twice.
"""

import json
import queue
import threading
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from penstock.batch import BatchRef, PartRead
from penstock.errors import PenstockError, QueryFailed
from penstock.manifest.model import Input, QuerySpec
from penstock.plan.deployed.place import last_number
from penstock.runtime.checkpoint import layout
from penstock.runtime.checkpoint.layout import BatchTime, last_offsets, start_offset
from penstock.runtime.checkpoint.offset_commit import Positions, flatten_positions
from penstock.runtime.delivery.attempt import BatchRead
from penstock.runtime.delivery.collector import DeadLetterCollector
from penstock.runtime.delivery.committed_batch import CommittedBatch
from penstock.runtime.delivery.rejections import GoneRecords, observed_count, stream_rejections
from penstock.runtime.spark.errors import failure_in_python

Offsets: TypeAlias = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition, as Spark writes them."""
_MARK: Final = "looked-through.json"


@dataclass(slots=True)
class PostCommitScan:
    """Scans the committed batches of one query, in a thread of its own. Its errors are put into `failures`."""

    spec: QuerySpec
    collector: DeadLetterCollector
    earliest_offsets: Callable[[Iterable[str]], Positions]
    checkpoint: Path
    failures: list[PenstockError]
    _committed: queue.SimpleQueue[CommittedBatch | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Scan what was committed after the last scan, and start to accept committed batches."""
        self.catch_up()
        layout.write_note(self.checkpoint, _MARK, _reached_offsets(self.checkpoint, min))
        self._thread = threading.Thread(target=self._work, name=f"after {self.spec.name}", daemon=True)
        self._thread.start()

    def catch_up(self) -> None:
        """Scan what was committed after the last scan, while the query does not run."""
        done = last_number(self.checkpoint / "commits")
        seen: Offsets | None = None if done is None else layout.read_note(self.checkpoint, _MARK)
        if done is not None and seen is not None:
            reached = _reached_offsets(self.checkpoint, max)
            if _is_behind(seen, reached):
                self._scan_backlog(seen, reached, done)
        (self.checkpoint / _MARK).unlink(missing_ok=True)

    def _scan_backlog(self, seen: Offsets, reached: Offsets, done: int) -> None:
        """Scan what was read since and still exists. Dead letters record the ranges of records that do not."""
        began, begins = self._start_offsets(seen), self.earliest_offsets(reached)
        before: dict[str, dict[str, int]] = {}
        after: dict[str, dict[str, int]] = {}
        gone: dict[str, list[tuple[int, int, int]]] = {}
        for topic, number, end in _flatten_offsets(reached):
            start = began.get(topic, {}).get(number, 0)
            first = max(start, begins.get((topic, int(number)), start))
            if start < min(first, end):
                gone.setdefault(topic, []).append((int(number), start, min(first, end) - 1))
            if first < end:
                before.setdefault(topic, {})[number] = first
                after.setdefault(topic, {})[number] = end
        time = layout.last_batch_time(self.checkpoint)
        for entry in self.spec.streams:
            if ranges := gone.get(str(entry.source.get("topic"))):
                self.collector.collect(GoneRecords(entry, ranges), BatchRead(self._ref(reached, done), {}, time))
        self._scan_range(before, after, None, done, time)

    def _start_offsets(self, seen: Offsets) -> Offsets:
        """Return the offsets to scan from. A topic that was never scanned is scanned from where its reader began."""
        starts = (json.loads(start_offset(self.checkpoint, entry.name) or "{}") for entry in self.spec.streams)
        return {**_merge_offsets((offsets for offsets in starts if flatten_positions(offsets)), min), **seen}

    def enqueue_batch(self, batch: CommittedBatch) -> None:
        self._committed.put(batch)

    def close(self, until: float | None = None) -> None:
        """Scan the remaining batches. The query does not run any more.

        The scan is given up at `until`, a moment of the monotonic clock; the next start continues there.
        """
        if self._thread is None:
            return
        self._committed.put(None)
        self._thread.join(None if until is None else max(0.0, until - clock.monotonic()))
        if self._thread.is_alive():
            text = "the dead letters of its last batches were not stored in time"
            self.failures.append(QueryFailed("not-drained", text, retriable=True))

    def _work(self) -> None:
        while (batch := self._committed.get()) is not None:
            try:
                self._scan_batch(batch)
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it
                self.failures.append(failure_in_python(error))
                return

    def _scan_batch(self, batch: CommittedBatch) -> None:
        found = {name: int(next(iter(counted.values())) or 0) for name, counted in batch.observed.items()}
        before, after = _merge_offsets(batch.starts, min), _merge_offsets(batch.ends, max)
        self._scan_range(before, after, found, batch.batch_id, BatchTime(batch.began_ms, 0))
        layout.write_note(self.checkpoint, _MARK, _merge_offsets(batch.ends, min))

    def _scan_range(
        self, before: Offsets, after: Offsets, found: Mapping[str, int] | None, batch_id: int, time: BatchTime
    ) -> None:
        """Collect the rows that were rejected between two positions. `found` are Spark's counts by metric, if any."""
        read = [entry for entry in self.spec.streams if entry.source.get("topic") in after]
        parts = {entry.name: self._part(entry, before, after) for entry in read}
        batch = BatchRead(self._ref(after, batch_id), parts, time)
        for rejection in stream_rejections(self.spec, self.collector.reader.inputs):
            count = None if found is None else observed_count(rejection, found)
            self.collector.board.count_rejected(self.spec.name, count or 0)
            if count != 0:
                self.collector.collect(rejection, batch)

    def _ref(self, after: Offsets, batch_id: int) -> BatchRef:
        offsets, checkpoint_id = (json.dumps(after, sort_keys=True),), layout.checkpoint_id(self.checkpoint)
        return BatchRef(self.spec.name, self.spec.outputs[0].node, checkpoint_id, batch_id, offsets)

    def _part(self, entry: Input, before: Offsets, after: Offsets) -> PartRead:
        topic = str(entry.source["topic"])
        begun = json.dumps({topic: before[topic]}) if topic in before else start_offset(self.checkpoint, entry.name)
        return PartRead(before=begun, after=json.dumps({topic: after[topic]}))


def _merge_offsets(
    offsets: Iterable[Offsets | None], of_several: Callable[[int, int], int]
) -> dict[str, dict[str, int]]:
    """Merge the positions of all readers. Those of one topic are seldom at the same offset; before its first batch, a
    reader has none."""
    found: dict[str, dict[str, int]] = {}
    for topic, number, at in (each for positions in offsets if positions for each in _flatten_offsets(positions)):
        places = found.setdefault(topic, {})
        places[number] = of_several(at, places.get(number, at))
    return found


def _reached_offsets(checkpoint: Path, of_several: Callable[[int, int], int]) -> dict[str, dict[str, int]]:
    """Return the positions of the readers of topics. Readers of another source, in an earlier phase, have none."""
    last = (json.loads(offset) for offset in last_offsets(checkpoint))
    return _merge_offsets((offsets for offsets in last if flatten_positions(offsets)), of_several)


def _is_behind(seen: Offsets, reached: Offsets) -> bool:
    """Whether anything was read after the scanned positions."""
    return any(at > seen.get(topic, {}).get(number, -1) for topic, number, at in _flatten_offsets(reached))


def _flatten_offsets(offsets: Offsets) -> Iterator[tuple[str, str, int]]:
    return ((topic, number, at) for topic, places in offsets.items() for number, at in places.items())
