"""One connection to an endpoint, kept open between requests, with a deadline for each whole answer.

It uses the standard library: executors then need no package, and a request takes two thirds of the time that it takes
with urllib3, whose timeouts would need the same deadline, because they start again with every byte.
"""

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from penstock.clients.http.endpoint import CONNECT_SECS, Endpoint, Failure, Response
from penstock.clients.http.failures import connection_failure, status_failure


class EndpointConnection:
    """A connection that is opened by the first request, and again after it was closed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._headers = endpoint.all_headers()
        self._target = endpoint.target
        self._aborted = False
        parts = urlsplit(endpoint.url)
        host, connect_secs = cast("str", parts.hostname), min(CONNECT_SECS, endpoint.timeout_secs)
        self._connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=connect_secs, context=ssl.create_default_context())
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=connect_secs)
        )
        answer: Any = partial(_TimedResponse, within_secs=endpoint.timeout_secs)
        self._connection.response_class = answer

    def post(self, body: bytes, headers: Mapping[str, str]) -> Response | Failure:
        """Send a request once; twice if an open connection turns out to be closed by the server."""
        was_open = self._connection.sock is not None
        try:
            return self._post(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if was_open and isinstance(error, ConnectionError) and not self._aborted:
                return self.post(body, headers)
            return connection_failure(error, self.endpoint.timeout_secs)

    def abort(self) -> None:
        """End a request that another thread waits for, and refuse further ones."""
        self._aborted = True
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Response | Failure:
        connection, sent = self._connection, True
        if connection.sock is None:
            connection.connect()
        if self._aborted:
            raise ConnectionAbortedError("the request was cancelled")
        connection.sock.settimeout(self.endpoint.timeout_secs)
        try:
            connection.request("POST", self._target, body, {**self._headers, **headers})
        except (BrokenPipeError, ConnectionResetError):
            sent = False  # the server may have answered before it had read everything
        answer = connection.getresponse()
        content = self._read(answer)
        complete = answer.isclosed()
        if not (sent and complete):
            self.close()
        if 200 <= answer.status < 300:
            return Response(answer.status, answer.headers, content, complete)
        return status_failure(self.endpoint, answer.status, answer.reason, answer.headers, content)

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        """Read the body of an answer, as far as it comes in time."""
        content, limit = bytearray(), self.endpoint.max_answer_bytes
        with suppress(TimeoutError):
            while len(content) < limit and (part := answer.read1(limit - len(content))):
                content += part
        if answer.length == 0:
            answer.read()  # marks the answer as read, so that the connection can be used again
        return bytes(content)


class _TimedResponse(http.client.HTTPResponse):
    """An answer that must be complete in time, however slowly its bytes come."""

    def __init__(self, sock: socket.socket, *, within_secs: float, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, within_secs))


class _DeadlineReader(io.RawIOBase):
    """The bytes of a socket, up to a deadline."""

    def __init__(self, stream: io.RawIOBase, sock: socket.socket, within_secs: float) -> None:
        self._stream = stream
        self._sock = sock
        self._deadline = time.monotonic() + within_secs

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._stream.readinto(buffer)

    def close(self) -> None:
        self._stream.close()
        super().close()
