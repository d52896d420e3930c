"""A client for ClickHouse over HTTP, made of the standard library: executors need no package."""

import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from weakref import WeakSet

import pyarrow as pa

from penstock.clients.http.auth import credentials
from penstock.errors import PenstockError, QueryFailed, ServiceError

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_REFUSED: Final = frozenset((164, 192, 193, 194, 497, 516))
"""Error codes: read-only user; unknown user, wrong password, no password, missing right, authentication failed."""
_NO_DATABASE: Final = 81
_PASSING: Final = frozenset(
    # timeouts, too many queries or parts, sockets, network, memory, read-only or missing replicas, Keeper
    (159, 202, 203, 209, 210, 241, 242, 252, 279, 285, 286, 319, 999)
)
_TOO_MUCH: Final = frozenset((158, 159, 160, 241, 307, 396))
"""Error codes: limits on rows, time, speed, memory, bytes and the size of the answer."""
_ROWS: Final = frozenset(
    # text that is no number, date, address or Enum value; a number too large; a null; a constraint; throwIf
    (6, 26, 27, 38, 41, 69, 70, 72, 117, 131, 190, 321, 349, 376, 395, 407, 469, 675, 676, 691)
)
_BUSY: Final = frozenset((408, 429, 502, 503, 504))
_CONNECT_SECS: Final = 10.0


class RequestTooLarge(ServiceError):
    """A request exceeds a limit of the server, or the timeout. A smaller one may succeed."""


class _Connection(HTTPConnection):
    """A connection with a short timeout for connecting, which `cancel` can find."""

    def connect(self) -> None:
        _open_connection(self, super().connect)


class _SecureConnection(HTTPSConnection):
    def connect(self) -> None:
        _open_connection(self, super().connect)


class _ConnectionHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req, context=ssl.create_default_context())


_OPEN: Final[WeakSet[HTTPConnection]] = WeakSet()
_OPENER: Final = urllib.request.build_opener(_ConnectionHandler)


def _open_connection(connection: HTTPConnection, connect: Callable[[], None]) -> None:
    patience = connection.timeout
    connection.timeout = min(_CONNECT_SECS, patience or _CONNECT_SECS)
    connect()
    connection.sock.settimeout(patience)
    _OPEN.add(connection)


@dataclass(frozen=True, slots=True)
class ClickHouse:
    """A server, the login, and the database that names belong to."""

    url: str = "http://localhost:8123"
    user: str = "default"
    password: str = field(default="", repr=False)
    database: str = "default"
    settings: str = "PENSTOCK__CLICKHOUSE_SINK"
    """The prefix of the variables that have these settings, for hints."""
    timeout_secs: float = 300
    """The timeout of an answer."""

    def cancel(self) -> None:
        """End all requests of this process to the server; their callers get an error."""
        address = urlsplit(self.url)
        for connection in list(_OPEN):
            sock, port = connection.sock, address.port or connection.default_port
            if sock is not None and (connection.host, connection.port) == (address.hostname, port):
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def ask(self, sql: str, **params: str) -> list[list[Any]]:
        """Return the rows of a query. `{name:Type}` in it is a parameter."""
        said = {f"param_{name}": _escape_parameter(value) for name, value in params.items()}
        answer = self._post({**said, "default_format": "JSONCompact"}, sql.encode())
        rows: list[list[Any]] = json.loads(answer)["data"]
        return rows

    def execute(self, sql: str, settings: Mapping[str, str] = _NOTHING) -> None:
        self._post(settings, sql.encode())

    def insert(self, sql: str, rows: bytes, packing: str | None, settings: Mapping[str, str]) -> None:
        """Insert rows in the format that the INSERT names. `packing` is their `Content-Encoding`."""
        headers = {} if packing is None else {"Content-Encoding": packing}
        self._post({**settings, "query": sql}, rows, headers, of_rows=_ROWS)

    def batches(self, sql: str, settings: Mapping[str, str] = _NOTHING) -> Iterator[pa.RecordBatch]:
        """Stream the result of a query in the format ArrowStream.

        The server buffers the whole result first, so a query that exceeds a limit (`RequestTooLarge`) has returned no
        rows.
        """
        try:
            with self._open({**settings, "wait_end_of_query": "1"}, sql.encode(), _NOTHING) as answer:
                with pa.ipc.open_stream(answer) as stream:
                    yield from stream
                # A stream that breaks off between two batches would look complete.
                if answer.read(1) or answer.length:
                    raise HTTPException("the answer broke off")
        except (OSError, HTTPException, pa.ArrowInvalid) as error:
            raise self._unreachable_error(error) from None

    def _post(
        self, said: Mapping[str, str], body: bytes, headers: Mapping[str, str] = _NOTHING, of_rows: Collection[int] = ()
    ) -> bytes:
        try:
            with self._open(said, body, headers, of_rows) as answer:
                return answer.read()
        except (OSError, HTTPException) as error:
            raise self._unreachable_error(error) from None

    def _open(
        self, said: Mapping[str, str], body: bytes, headers: Mapping[str, str], of_rows: Collection[int] = ()
    ) -> HTTPResponse:
        address = f"{self.url.rstrip('/')}/?{urlencode({'database': self.database, **said})}"
        known = credentials(self.user, self.password)
        try:
            request = urllib.request.Request(address, body, {**known, **headers}, method="POST")
            answer: HTTPResponse = _OPENER.open(request, timeout=self.timeout_secs)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise self._failure(error, of_rows) from None
        except (OSError, ValueError, HTTPException) as error:
            raise self._unreachable_error(error, no_address=isinstance(error, (ValueError, InvalidURL))) from None

    def _unreachable_error(self, error: Exception, *, no_address: bool = False) -> ServiceError:
        reason = getattr(error, "reason", error)
        late = isinstance(reason, TimeoutError)
        if late:
            reason = f"{reason} after {self.timeout_secs:g} s"
        text = f"ClickHouse at {self.url} does not answer: {reason}"
        passing = not (no_address or isinstance(reason, ssl.SSLCertVerificationError))
        kind = RequestTooLarge if late else ServiceError
        return kind("unreachable", text, hint=f"see `{self.settings}__URL`", retriable=passing)

    def _failure(self, error: urllib.error.HTTPError, of_rows: Collection[int]) -> PenstockError:
        code = int(error.headers.get("X-ClickHouse-Exception-Code") or 0)
        said = error.read().decode(errors="replace").strip().partition("\n")[0][:600] or str(error.reason)
        if code in _REFUSED or error.code in (401, 403):
            hint = f"see `{self.settings}__USER` and `…__PASSWORD`, and the rights of that user"
            text = f"ClickHouse at {self.url} refused the user `{self.user}`: {said}"
            return ServiceError("clickhouse-refused", text, hint=hint)
        if code in of_rows:
            return QueryFailed("rows-refused", f"ClickHouse at {self.url} does not take a row: {said}")
        way_out = f"make the database, or name another one in `{self.settings}__DATABASE`"
        passing = code in _PASSING or (code == 0 and error.code in _BUSY)
        text = f"ClickHouse at {self.url} says {error.code}: {said}"
        kind = RequestTooLarge if code in _TOO_MUCH else ServiceError
        return kind("clickhouse-failed", text, hint=way_out if code == _NO_DATABASE else None, retriable=passing)


@dataclass(frozen=True, slots=True)
class ClickHouseSinkServer:
    """The server of sinks, with their defaults."""

    server: ClickHouse = ClickHouse()
    compression: str = "none"
    compression_level: int = 6
    batch_size: int = 100_000


@dataclass(frozen=True, slots=True)
class ClickHouseSourceServer:
    """The server of sources, and the rows per page."""

    server: ClickHouse = ClickHouse(settings="PENSTOCK__CLICKHOUSE_SOURCE")
    page_size: int = 10_000_000


def quote_identifier(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _escape_parameter(value: str) -> str:
    """Escape a parameter as in tab-separated values."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
