"""Sends the rows of a Spark task as requests to an endpoint, from the executor that has them.

Rows come as JSON texts, and Arrow builds request bodies from them. Several requests are in flight at a time. A request
waits for earlier ones that have a key in common with it, so rows of one key arrive in their order.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clients.http.endpoint import Endpoint, Failure, Response
from penstock.clients.http.pool import Outcome, RequestPool
from penstock.clients.masked_answers import mask_in_worker
from penstock.clients.task_report import report_batch

_LOGGED: Final = 5
"""How many skipped requests a task writes to Spark's log."""
OnRefusal = Literal["stop", "skip", "dead_letter"]
ROW: Final = "row"
KEY: Final = "key"
MESSAGE: Final = "message"
RESULT: Final = (
    "row STRING, message STRING, sent BIGINT, refused BIGINT, requests BIGINT, retries BIGINT, failure STRING"
)
"""What a task returns: rows that become dead letters, and at the end one row with its tally."""


@dataclass(frozen=True, slots=True)
class Request:
    """A body, the rows in it, and hashes of their keys, if there is a key."""

    number: int
    body: bytes
    rows: pa.Array
    keys: frozenset[int] = frozenset()


@dataclass(slots=True)
class Tally:
    """The results of the requests of a task, counted. `failure` is the first one that ends the task, as JSON."""

    sent: int = 0
    refused: int = 0
    requests: int = 0
    retries: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends the rows of one task. `batch` identifies the batch and its output."""

    endpoint: Endpoint
    batch: str
    rows_per_request: int
    in_flight: int
    single: bool
    """Whether a body is one row, rather than a list."""
    on_refusal: OnRefusal

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        flight = _InFlightRequests(self, context.partitionId() if context is not None else 0)
        try:
            yield from flight.send_all(self.requests(batches))
        finally:
            flight.close()
        yield report_batch(RESULT, [asdict(flight.tally)])

    def requests(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Request]:
        """Cut rows into requests, in their order. Only the last request may have fewer rows than the others."""
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
        """Whether a batch continues without these rows. With `skip`, rows of a retriable failure are skipped too; they
        never become dead letters."""
        match self.on_refusal:
            case "skip":
                return failure.answered
            case "dead_letter":
                return failure.answered and not failure.retriable
            case "stop":
                return False

    def headers(self, request: Request, partition: int) -> dict[str, str]:
        """Return the idempotency key: the same only for a replay of the batch with the same rows in the same order."""
        about = f"{self.batch}\n{partition}\n{request.number}\n".encode()
        return {"Idempotency-Key": hashlib.sha256(about + request.body).hexdigest()[:32]}


class _InFlightRequests:
    """The requests of one task that have not been answered yet, and the tally of the others."""

    def __init__(self, sender: Sender, partition: int) -> None:
        self.tally = Tally()
        self._sender = sender
        self._partition = partition
        retries_answers = sender.on_refusal != "skip"
        self._pool = RequestPool(sender.endpoint, sender.in_flight, retries_answers=retries_answers)
        self._pending: dict[Future[Outcome], Request] = {}

    def send_all(self, requests: Iterable[Request]) -> Iterator[pa.RecordBatch]:
        """Send all requests, or up to the first failure; yield the rows that become dead letters."""
        for request in requests:
            while self._must_wait(request) and self.tally.failure is None:
                yield from self._collect_finished()
            if self.tally.failure is not None:
                return
            headers = partial(self._sender.headers, request, self._partition)
            self._pending[self._pool.submit(request.body, headers)] = request
        while self._pending and self.tally.failure is None:
            yield from self._collect_finished()

    def close(self) -> None:
        """Give up what is still pending after a failure: the batch will be sent again."""
        self._pool.close(abort=bool(self._pending))

    def _must_wait(self, request: Request) -> bool:
        if len(self._pending) >= self._sender.in_flight:
            return True
        return any(not request.keys.isdisjoint(other.keys) for other in self._pending.values())

    def _collect_finished(self) -> Iterator[pa.RecordBatch]:
        """Wait until at least one request is done, and count it."""
        done, _ = wait(self._pending, return_when=FIRST_COMPLETED)
        for future in done:
            request, outcome = self._pending.pop(future), future.result()
            tally, count, failure = self.tally, len(request.rows), outcome.result
            tally.requests += 1
            tally.retries += outcome.retries
            if isinstance(failure, Response):
                tally.sent += count
            elif self._sender.can_skip(failure):
                tally.refused += count
                message = f"{self._sender.endpoint.name} {failure.message}"
                if self._sender.on_refusal == "dead_letter":
                    rows = [{ROW: row, MESSAGE: message} for row in request.rows.to_pylist()]
                    yield report_batch(RESULT, rows)
                elif tally.refused <= _LOGGED * count:
                    text = mask_in_worker(message)
                    sys.stderr.write(f"skipping failed webhook delivery: {text} ({count} rows)\n")
            elif tally.failure is None:
                tally.failure = json.dumps({**asdict(failure), "rows": count})
