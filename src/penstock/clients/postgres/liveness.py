"""Connections that do not wait for ever: for an answer that is lost, or for one that nobody wants any more.

How long a server works on a statement is up to it. But a connection may lead nowhere, a server may stand still: then
no answer comes, and no error. So after a silence the server is asked, by a connection of its own, if it is at work.
One that has no room for that connection answers all the same, and is waited for.
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
    """A connection of psycopg, which is given up where nobody is at work for it."""

    server: PostgresServer | None = None
    let_go = False

    def wait(
        self, gen: Generator[Any, Any, Answer], interval: float | None = None, timeout: float | None = None
    ) -> Answer:
        poll, silent = select.poll(), time.monotonic()
        try:
            wanted = next(gen)
            while True:
                poll.register(
                    self.pgconn.socket,
                    (select.POLLIN if wanted & _READ else 0) | (select.POLLOUT if wanted & _WRITE else 0),
                )
                if not (events := poll.poll(_LOOK_MS)):
                    silent = self._look_after(silent)
                    continue
                wanted, silent = gen.send(_ready(events[0][1], wanted)), time.monotonic()
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    def _look_after(self, silent: float) -> float:
        """Since when nothing was heard of the server, if it is worth waiting for."""
        if self.let_go:
            self._give_up("nobody waits for it any more")
        if self.server is None or time.monotonic() - silent < self.server.patience_seconds:
            return silent
        try:
            is_at_work = self._is_at_work()
        except psycopg.Error as error:
            if not _answers(self.server, error):
                self._give_up(f"it does not answer: {' '.join(str(error).split())}")
            is_at_work = True
        if not is_at_work:
            self._give_up("its answer was lost on the way")
        return time.monotonic()

    def _is_at_work(self) -> bool:
        """What the server says of this connection. If it does not know it, somebody stands in between."""
        assert self.server is not None
        with psycopg.connect(**self.server.address, connect_timeout=self.server.patience_seconds) as other:
            asked = "SELECT state FROM pg_stat_activity WHERE pid = %s"
            found = other.execute(asked, (self.info.backend_pid,)).fetchone()
        return found is None or found[0] in (None, "active")

    def _give_up(self, why: str) -> None:
        self.pgconn.finish()
        raise psycopg.OperationalError(why)


def open_connection(server: PostgresServer, **options: Any) -> WatchedConnection:
    """A new connection."""
    connection = WatchedConnection.connect(**server.address, **options)
    connection.server = server
    _OPEN.add(connection)
    return connection


def cancel_waits(server: PostgresServer) -> None:
    """Give up everything that is waited for from a server now."""
    for connection in list(_OPEN):
        if connection.server == server:
            connection.let_go = True


def _answers(server: PostgresServer, error: psycopg.Error) -> bool:
    """Whether a server that did not let another connection in has said so itself."""
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return False
    address = make_conninfo(**server.address, connect_timeout=server.patience_seconds)
    return psycopg.pq.PGconn.ping(address.encode()) in (psycopg.pq.Ping.OK, psycopg.pq.Ping.REJECT)


def _ready(events: int, wanted: int) -> int:
    """What a connection is ready for. One that is broken is ready for everything, and tells so when it is used."""
    broken = events & (select.POLLERR | select.POLLHUP | select.POLLNVAL)
    read = _READ if events & select.POLLIN else 0
    write = _WRITE if events & select.POLLOUT else 0
    return wanted if broken else read | write
