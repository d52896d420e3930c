"""One request to an address that a user names: sent, judged, and tried again for as long as that may help.

It runs where the rows are, so there is nothing here but the standard library: executors need no package for it.
"""

import html
import http.client
import io
import random
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.clients.http.auth import credentials
from penstock.errors import ServiceError

CONNECT_SECS: Final = 10.0
FIRST_WAIT_SECS: Final = 0.1
LONGEST_WAIT_SECS: Final = 30.0
LONGEST_WISH_SECS: Final = 600.0
"""How long a server is waited for that says how long to wait."""
_READ: Final = 65_536
"""Of an answer. A connection with more to come is closed rather than read to its end."""
_SHOWN: Final = 200
_MASK: Final = "****"
_AGAIN: Final = frozenset({408, 425, 429})
_TITLE: Final = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `secrets` are values that no message may show, whoever says them."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_secs: float
    retry_secs: float
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """How messages call it: without its path, which may be all that keeps strangers out."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")

    @property
    def target(self) -> str:
        """What is asked for on its server."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def all_headers(self) -> dict[str, str]:
        """The headers of every request, with the one for a name and password in the address."""
        parts = urlsplit(self.url)
        name, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
        return {**credentials(name, password), **self.headers}

    def check(self) -> None:
        """Raise a ServiceError if nobody listens there. Nothing is asked."""
        parts = urlsplit(self.url)
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            socket.create_connection((parts.hostname or "", port), CONNECT_SECS).close()
        except OSError as error:
            text = f"{self.name} cannot be reached: {error.strerror or error}"
            raise ServiceError("unreachable", text, retriable=True) from error

    def mask_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, _MASK)
        return text


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request did not do what it was to do. `answered` is whether the server said so itself."""

    code: str
    said: str
    answered: bool = False
    retriable: bool = False
    wish_secs: float = 0.0
    """How long the server wants to be left alone."""
    hint: str | None = None


class EndpointConnection:
    """One connection to an endpoint, opened when it is needed and kept open in between."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._headers = endpoint.all_headers()
        self._target = endpoint.target
        self._connection: http.client.HTTPConnection | None = None
        self._aborted = False

    def post(self, body: bytes, headers: Mapping[str, str]) -> Failure | None:
        """One try. None if the server has taken the request."""
        kept = self._connection is not None and self._connection.sock is not None
        try:
            return self._post(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if (
                kept and isinstance(error, ConnectionError) and not self._aborted
            ):  # closed because nothing was sent for a while
                return self.post(body, headers)
            return self._unreachable(error)

    def abort(self) -> None:
        """Let go of a request that another thread waits for, and take no other."""
        self._aborted = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, headers: Mapping[str, str]) -> Failure | None:
        connection, whole = self._open_connection(), True
        connection.sock.settimeout(self.endpoint.timeout_secs)
        try:
            connection.request("POST", self._target, body, {**self._headers, **headers})
        except (BrokenPipeError, ConnectionResetError):
            whole = False  # it may have answered before it had read everything
        answer = connection.getresponse()
        content = self._read(answer)
        if not whole or not answer.isclosed():
            self.close()
        return None if 200 <= answer.status < 300 else self._classify_response(answer, content)

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        """What the server says beside its status, as far as it comes in time."""
        content = b""
        with suppress(TimeoutError):
            while len(content) < _READ and (some := answer.read1(_READ - len(content))):
                content += some
        if answer.length == 0:
            answer.read()  # nothing: it ends the answer, so that the connection can be used again
        return content

    def _open_connection(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.endpoint.url)
            assert parts.hostname is not None
            if parts.scheme == "https":
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context)
            else:
                self._connection = http.client.HTTPConnection(parts.hostname, parts.port)
            answer: Any = partial(_TimedResponse, within_secs=self.endpoint.timeout_secs)
            self._connection.response_class = answer
        if self._connection.sock is None:
            _connect(self._connection, self.endpoint.timeout_secs)
        if self._aborted:
            raise ConnectionAbortedError("nobody waits for it any more")
        return self._connection

    def _classify_response(self, answer: http.client.HTTPResponse, content: bytes) -> Failure:
        """What an answer other than yes means."""
        status, headers = answer.status, answer.headers
        said = _printable(f"answered {status} {answer.reason}").rstrip()
        if status < 400:
            hint = "requests are not sent on to another address: write the new one into `url`"
            return Failure("http-refused", said, answered=True, hint=hint)
        if text := self.endpoint.mask_secrets(_summarize_content(content, headers.get("Content-Type", ""))):
            said = f"{said}: {text}"
        if status >= 500 or status in _AGAIN:
            wish = _parse_retry_after(headers.get("Retry-After"))
            return Failure("http-failed", said, answered=True, retriable=True, wish_secs=wish)
        return Failure("http-refused", said, answered=True, hint="set `on_error: skip` to go on without such rows")

    def _unreachable(self, error: Exception) -> Failure:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Failure("http-refused", f"has a certificate that is not trusted: {error.verify_message}")
        if isinstance(error, TimeoutError):
            return Failure("unreachable", f"did not answer within {self.endpoint.timeout_secs:g} s", retriable=True)
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        what = "cannot be reached" if isinstance(error, OSError) else "speaks no HTTP"
        return Failure("unreachable", f"{what}: {_printable(why)[:_SHOWN]}", retriable=True)


class _TimedResponse(http.client.HTTPResponse):
    """An answer that must be whole in time, however much of it comes now and then."""

    def __init__(self, sock: socket.socket, *, within_secs: float, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, within_secs))


class _DeadlineReader(io.RawIOBase):
    """What comes through a socket until some seconds are over."""

    def __init__(self, coming: io.RawIOBase, sock: socket.socket, within_secs: float) -> None:
        self._coming = coming
        self._sock = sock
        self._until = time.monotonic() + within_secs

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._coming.readinto(buffer)

    def close(self) -> None:
        self._coming.close()
        super().close()


def _connect(connection: http.client.HTTPConnection, timeout_secs: float) -> None:
    connection.timeout = min(CONNECT_SECS, timeout_secs)
    connection.connect()


def send_with_retry(
    line: EndpointConnection, body: bytes, headers: Mapping[str, str], ended: threading.Event, *, patient: bool
) -> tuple[Failure | None, int]:
    """Send a request until it is taken, or trying again is of no use; and how often it was tried again.

    Who is not `patient` takes a server at its word that it could not. `ended` is set when nobody cares any more.
    """
    began, wait, tries = time.monotonic(), FIRST_WAIT_SECS, 0
    while True:
        failure = line.post(body, headers)
        if failure is None or not failure.retriable or (failure.answered and not patient):
            return failure, tries
        if time.monotonic() - began >= line.endpoint.retry_secs:
            return failure, tries
        pause = max(wait * random.uniform(0.5, 1), failure.wish_secs)
        if ended.wait(pause):
            return failure, tries
        wait, tries = min(wait * 2, LONGEST_WAIT_SECS), tries + 1


def _parse_retry_after(text: str | None) -> float:
    """What `Retry-After` says: seconds, or a moment."""
    if not text:
        return 0.0
    if text.strip().isdecimal():
        return min(float(text), LONGEST_WISH_SECS)
    try:
        wish = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError):
        return 0.0
    return min(max(wish, 0.0), LONGEST_WISH_SECS)


def _printable(text: str) -> str:
    """Words that do nothing to a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))


def _summarize_content(content: bytes, content_type: str) -> str:
    """The first words of an answer; of a page, its title."""
    if "html" in content_type.lower():
        found = _TITLE.search(content)
        title = _printable(html.unescape(found[1].decode(errors="replace"))) if found else ""
        return f"an HTML page, “{title[:_SHOWN]}”" if title else "an HTML page"
    words = _printable(content[: 4 * _SHOWN].decode(errors="replace"))
    return words if len(words) <= _SHOWN else words[:_SHOWN] + " …"
