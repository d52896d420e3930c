"""Idle connections that are kept for the next batch: to log in takes longer than to write a few rows."""

from __future__ import annotations

import atexit
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.clients.postgres.server import PostgresServer

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_WAITING: Final[dict[PostgresServer, list[Database]]] = {}
"""Idle connections of this process. A forked process starts without any: they belong to its parent."""

os.register_at_fork(after_in_child=_WAITING.clear)


@contextmanager
def pooled_connection(server: PostgresServer) -> Iterator[Database]:
    """Use an idle connection or a new one, and keep it afterwards if no error occurred."""
    from psycopg.pq import TransactionStatus

    db = _pop_waiting(server) or server.open_connection()
    try:
        with server.translate_errors():
            yield db
    except BaseException:
        db.close()
        raise
    if db.info.transaction_status == TransactionStatus.IDLE:
        _WAITING.setdefault(server, []).append(db)
    else:
        db.close()


def _pop_waiting(server: PostgresServer) -> Database | None:
    """Return an idle connection that still answers: the server may have restarted, or hang."""
    while True:
        try:
            db = _WAITING[server].pop()
        except LookupError:
            return None
        if not getattr(db, "let_go", False) and _answers(db, server.patience_seconds):
            return db
        db.close()


def _answers(db: Database, patience_seconds: float) -> bool:
    """Whether the server answers in time. An ordinary statement would wait forever for a server that hangs."""
    import psycopg

    try:
        db.pgconn.send_query(b"")
        poll = select.poll()
        poll.register(db.pgconn.socket, select.POLLIN)
        if not poll.poll(patience_seconds * 1000):
            return False
        db.pgconn.consume_input()
        answer = db.pgconn.get_result()
        while db.pgconn.get_result() is not None:
            pass
    except psycopg.Error:
        return False
    return answer is not None and answer.status == psycopg.pq.ExecStatus.EMPTY_QUERY


@atexit.register
def _close() -> None:
    for waiting in _WAITING.values():
        while waiting:
            waiting.pop().close()
