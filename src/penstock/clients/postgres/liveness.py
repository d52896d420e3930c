"""Connections that do not wait forever.

A statement may take any time, but a connection may be cut without an error, or the server may hang. So after some
silence a second connection asks the server whether it works on the statement. A server that refuses this connection for
lack of slots is alive, too.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from penstock.clients.postgres.server import PostgresServer

_LOOK_MS: Final = 200
_READ: Final = 1
_WRITE: Final = 2
_OPEN: Final[WeakSet[WatchedConnection]] = WeakSet()
Answer = TypeVar("Answer")


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of psycopg that is closed when the server does not work for it."""

    server: PostgresServer | None = None
    let_go = False

    def wait(
        self, gen: Generator[Any, Any, Answer], interval: float | None = None, timeout: float | None = None
    ) -> Answer:
        poll, silent = select.poll(), time.monotonic()
        try:
            wanted = next(gen)
            while True:
                events = (select.POLLIN if wanted & _READ else 0) | (select.POLLOUT if wanted & _WRITE else 0)
                poll.register(self.pgconn.socket, events)
                if not (found := poll.poll(_LOOK_MS)):
                    silent = self._look_after(silent)
                    continue
                wanted, silent = gen.send(_ready(found[0][1], wanted)), time.monotonic()
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def _look_after(self, silent: float) -> float:
        """Return since when the server is silent; close the connection if the server does not work for it."""
        if self.let_go:
            self._give_up("the wait was cancelled")
        if self.server is None or time.monotonic() - silent < self.server.patience_seconds:
            return silent
        try:
            is_at_work = self._is_at_work()
        except psycopg.Error as error:
            if not _answers(self.server, error):
                self._give_up(f"it does not answer: {' '.join(str(error).split())}")
            is_at_work = True
        if not is_at_work:
            self._give_up("its answer was lost")
        return time.monotonic()

    def _is_at_work(self) -> bool:
        """Whether the server works on this connection. If it does not know it, there is a proxy in between."""
        assert self.server is not None
        with psycopg.connect(**self.server.address, connect_timeout=self.server.patience_seconds) as other:
            asked = "SELECT state FROM pg_stat_activity WHERE pid = %s"
            found = other.execute(asked, (self.info.backend_pid,)).fetchone()
        return found is None or found[0] in (None, "active")

    def _give_up(self, why: str) -> None:
        self.pgconn.finish()
        raise psycopg.OperationalError(why)


def open_connection(server: PostgresServer, **options: Any) -> WatchedConnection:
    connection = WatchedConnection.connect(**server.address, **options)
    connection.server = server
    _OPEN.add(connection)
    return connection


def cancel_waits(server: PostgresServer) -> None:
    """End all waits for a server."""
    for connection in list(_OPEN):
        if connection.server == server:
            connection.let_go = True


def _answers(server: PostgresServer, error: psycopg.Error) -> bool:
    """Whether a server that refused another connection has answered at all."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return False
    address = make_conninfo(**server.address, connect_timeout=server.patience_seconds)
    return psycopg.pq.PGconn.ping(address.encode()) in (psycopg.pq.Ping.OK, psycopg.pq.Ping.REJECT)


def _ready(events: int, wanted: int) -> int:
    """Return what a connection is ready for. A broken one is ready for all, and fails when it is used."""
    broken = events & (select.POLLERR | select.POLLHUP | select.POLLNVAL)
    read = _READ if events & select.POLLIN else 0
    write = _WRITE if events & select.POLLOUT else 0
    return wanted if broken else read | write
