"""Concurrent requests to one endpoint, with retries.

Requests run in threads, each with a connection that stays open. The pool keeps no order: `sender` lets requests with
a common key wait for each other. Who needs the answers in the order of the requests keeps the futures in that order.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from penstock.backoff import delay_secs
from penstock.clients.http.connection import EndpointConnection
from penstock.clients.http.endpoint import Endpoint, Failure, Response


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last answer to a request, and how many retries it took."""

    result: Response | Failure
    retries: int


class RequestPool:
    """Sends requests to one endpoint, at most `size` at a time.

    A request without an answer is retried for as long as the endpoint says (`retry_secs`), and so are answers that may
    pass, unless `retries_answers` is false.
    """

    def __init__(self, endpoint: Endpoint, size: int, *, retries_answers: bool = True) -> None:
        self._endpoint = endpoint
        self._retries_answers = retries_answers
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="penstock-request")
        self._cancelled = threading.Event()
        self._local = threading.local()
        self._connections: list[EndpointConnection] = []

    def submit(self, body: bytes, headers: Callable[[], Mapping[str, str]]) -> Future[Outcome]:
        """Send a request. Its headers are made in its thread: a digest of the body would hold up the caller."""
        return self._threads.submit(self._send, body, headers)

    def close(self, *, abort: bool = False) -> None:
        """Close all connections; with `abort`, end requests that still wait for an answer."""
        self._cancelled.set()
        for connection in list(self._connections) if abort else ():
            connection.abort()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def _send(self, body: bytes, headers: Callable[[], Mapping[str, str]]) -> Outcome:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = EndpointConnection(self._endpoint)
            self._connections.append(connection)
            if self._cancelled.is_set():
                connection.abort()
        return send_with_retry(connection, body, headers(), self._cancelled, retries_answers=self._retries_answers)


def send_with_retry(
    connection: EndpointConnection,
    body: bytes,
    headers: Mapping[str, str],
    cancelled: threading.Event,
    *,
    retries_answers: bool,
) -> Outcome:
    """Send a request until it succeeds, fails for good, is cancelled, or the time for retries is over."""
    began, retries = time.monotonic(), 0
    while True:
        result = connection.post(body, headers)
        if isinstance(result, Response) or not result.retriable or (result.answered and not retries_answers):
            return Outcome(result, retries)
        if time.monotonic() - began >= connection.endpoint.retry_secs:
            return Outcome(result, retries)
        pause = max(delay_secs(retries + 1, jitter=random.random()), result.retry_after_secs)
        if cancelled.wait(pause):
            return Outcome(result, retries)
        retries += 1
