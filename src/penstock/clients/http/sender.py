"""The rows of a task, sent as requests from the executor that has them.

Rows come as JSON texts, and requests are made of them by Arrow. Several requests are under way at a time. Where rows
have keys, one with a key that is under way waits: rows of a key arrive in the order in which they came.
"""

import hashlib
import json
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clients.http.request import Endpoint, EndpointConnection, Failure, send_with_retry
from penstock.clients.masked_answers import mask_in_worker

_TOLD: Final = 5
"""How many requests that were skipped a task tells Spark's log of."""
OnRefusal = Literal["stop", "skip", "dead_letter"]
ROW: Final = "row"
KEY: Final = "key"
RESULT: Final = "row string, said string, sent bigint, refused bigint, requests bigint, retries bigint, failure string"
"""Rows that were refused, if they are to be kept; and at the end one line that says how it went."""
_SCHEMA: Final = pa.schema(
    [
        (ROW, pa.string()),
        ("said", pa.string()),
        *((name, pa.int64()) for name in ("sent", "refused", "requests", "retries")),
        ("failure", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Request:
    """A body, the rows that it was made of, and their keys, where they have some."""

    number: int
    body: bytes
    rows: pa.Array
    keys: frozenset[int] = frozenset()


@dataclass(slots=True)
class Tally:
    """What became of the requests of a task."""

    sent: int = 0
    refused: int = 0
    requests: int = 0
    retries: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the rows of one task of a batch. `batch` says which batch of which output it is."""

    endpoint: Endpoint
    batch: str
    rows_per_request: int
    in_flight: int
    single: bool
    """Whether a request is one row, and not a list of them."""
    on_refusal: OnRefusal

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        flight = _InFlightRequests(self, context.partitionId() if context is not None else 0)
        try:
            yield from flight.send_all(self.requests(batches))
        finally:
            flight.close()
        yield _batch([{**asdict(flight.tally)}])

    def requests(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Request]:
        """Rows in their order, as many as a request takes; the last one may have fewer."""
        rows, keys, number = pa.array([], pa.string()), np.array([], dtype=np.int64), 0
        for batch in batches:
            rows = pa.concat_arrays([rows, batch.column(ROW)])
            if KEY in batch.schema.names:
                keys = np.concatenate([keys, batch.column(KEY).to_numpy(zero_copy_only=False)])
            whole = len(rows) - len(rows) % self.rows_per_request
            for request in self._bodies(rows[:whole], keys[:whole], number):
                number = request.number + 1
                yield request
            rows, keys = rows[whole:], keys[whole:]
        yield from self._bodies(rows, keys, number)

    def _bodies(self, rows: pa.Array, keys: Any, number: int) -> Iterator[Request]:
        starts = range(0, len(rows), self.rows_per_request)
        if not starts:
            return
        offsets = pa.array([*starts, len(rows)], pa.int32())
        joined = pc.binary_join(pa.ListArray.from_arrays(offsets, rows), ",\n")
        for place, start in enumerate(starts):
            text = joined[place].as_buffer()
            body = text.to_pybytes() if self.single else b"".join((b"[", text, b"]\n"))
            end = start + self.rows_per_request
            yield Request(number + place, body, rows[start:end], frozenset(keys[start:end].tolist()))

    def can_skip(self, failure: Failure) -> bool:
        """Whether rows may be left out. What may pass is no reason to keep a row, but it is one to skip it."""
        match self.on_refusal:
            case "skip":
                return failure.answered
            case "dead_letter":
                return failure.answered and not failure.retriable
            case "stop":
                return False

    def idempotency_key(self, request: Request, partition: int) -> str:
        """The same for a batch that is done again with the same rows in the same order, and for nothing else."""
        about = f"{self.batch}\n{partition}\n{request.number}\n".encode()
        return hashlib.sha256(about + request.body).hexdigest()[:32]


class _InFlightRequests:
    """The requests of one task that are under way, and what became of the others."""

    def __init__(self, sender: Sender, partition: int) -> None:
        self.tally = Tally()
        self._sender = sender
        self._partition = partition
        self._pool = ThreadPoolExecutor(sender.in_flight, thread_name_prefix="penstock-request")
        self._batch_progress: dict[Future[tuple[Failure | None, int]], Request] = {}
        self._ended = threading.Event()
        self._own = threading.local()
        self._lines: list[EndpointConnection] = []

    def send_all(self, requests: Iterable[Request]) -> Iterator[pa.RecordBatch]:
        """Send everything, or up to the first failure; rows that are to be kept come back."""
        for request in requests:
            while self._must_wait(request) and self.tally.failure is None:
                yield from self._collect_finished()
            if self.tally.failure is not None:
                return
            self._batch_progress[self._pool.submit(self._send, request)] = request
        while self._batch_progress and self.tally.failure is None:
            yield from self._collect_finished()

    def close(self) -> None:
        """What is still under way after a failure is let go: the batch is done again."""
        self._ended.set()
        for line in list(self._lines) if self._batch_progress else ():
            line.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for line in self._lines:
            line.close()

    def _must_wait(self, request: Request) -> bool:
        if len(self._batch_progress) >= self._sender.in_flight:
            return True
        return any(not request.keys.isdisjoint(other.keys) for other in self._batch_progress.values())

    def _send(self, request: Request) -> tuple[Failure | None, int]:
        line = getattr(self._own, "line", None)
        if line is None:
            line = self._own.line = EndpointConnection(self._sender.endpoint)
            self._lines.append(line)
            if self._ended.is_set():
                line.abort()
        headers = {"Idempotency-Key": self._sender.idempotency_key(request, self._partition)}
        patient = self._sender.on_refusal != "skip"
        return send_with_retry(line, request.body, headers, self._ended, patient=patient)

    def _collect_finished(self) -> Iterator[pa.RecordBatch]:
        """Wait for a request or more, and note what became of it."""
        done, _ = wait(self._batch_progress, return_when=FIRST_COMPLETED)
        for future in done:
            request = self._batch_progress.pop(future)
            failure, retries = future.result()
            tally, count = self.tally, len(request.rows)
            tally.requests += 1
            tally.retries += retries
            if failure is None:
                tally.sent += count
            elif self._sender.can_skip(failure):
                tally.refused += count
                said = f"{self._sender.endpoint.name} {failure.said}"
                if self._sender.on_refusal == "dead_letter":
                    yield _batch([{ROW: row, "said": said} for row in request.rows.to_pylist()])
                elif tally.refused <= _TOLD * count:
                    told = mask_in_worker(said)
                    sys.stderr.write(f"skipping failed webhook delivery: {told} ({count} rows)\n")
            elif tally.failure is None:
                tally.failure = json.dumps({**asdict(failure), "rows": count})


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
