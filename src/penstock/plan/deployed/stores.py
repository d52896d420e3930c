"""Stores for deployed state: a file, a database, or memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.tables import LOCK, QualifiedTable, make_schema, quote_identifier
from penstock.errors import PlanRefused, ServiceError
from penstock.plan.deployed.place import ProjectPlace
from penstock.settings import StateBackend

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database


RUNNING: Final = "this pipeline is already running"


@dataclass(frozen=True, slots=True)
class StoreLock:
    """A held lock of a store."""

    check: Callable[[], None]
    """Check the lock; raises if another process has taken it. Call it regularly."""
    descriptors: tuple[int, ...] = ()
    """File descriptors that Spark's process inherits, so that it holds the lock too."""


class StateStore(Protocol):
    """Documents by key. Namespaces separate projects in one store."""

    @property
    def lasts(self) -> bool:
        """Whether documents outlive the process."""

    def get(self, namespace: str, prefix: str) -> Mapping[str, Any]:
        """The documents whose keys start with `prefix`."""

    def put(self, namespace: str, documents: Mapping[str, Any]) -> None:
        """Write all documents in one transaction."""

    def remove(self, namespace: str, keys: list[str]) -> None: ...
    def hold_lock(self, namespace: str, busy: str = RUNNING) -> AbstractContextManager[StoreLock]:
        """Hold a lock while the block runs. Another process that asks for it gets an error with the text `busy`."""


class SqliteStore:
    """A store in a SQLite file. Reading a missing file finds nothing and creates nothing."""

    lasts = True

    def __init__(self, file: Path, table: str = "state") -> None:
        self.file = file
        self._table = quote_identifier(table)

    def __str__(self) -> str:
        return str(self.file)

    def get(self, namespace: str, prefix: str) -> dict[str, Any]:
        if not self.file.exists():
            return {}
        with self._connection() as connection:
            rows = connection.execute(
                f"SELECT key, data FROM {self._table} WHERE namespace = ? AND substr(key, 1, ?) = ? ORDER BY key",
                (namespace, len(prefix), prefix),
            ).fetchall()
        return {key: json.loads(data) for key, data in rows}

    def put(self, namespace: str, documents: Mapping[str, Any]) -> None:
        self._make_directory()
        with self._connection() as connection:
            connection.executemany(
                f"INSERT INTO {self._table} (namespace, key, data) VALUES (?, ?, ?)"
                " ON CONFLICT (namespace, key) DO UPDATE SET data = excluded.data",
                [(namespace, k, json.dumps(v)) for k, v in documents.items()],
            )

    def remove(self, namespace: str, keys: list[str]) -> None:
        with self._connection() as connection:
            delete = f"DELETE FROM {self._table} WHERE namespace = ? AND key = ?"
            connection.executemany(delete, [(namespace, key) for key in keys])

    def hold_lock(self, namespace: str, busy: str = RUNNING) -> AbstractContextManager[StoreLock]:
        return nullcontext(StoreLock(_nothing))

    def _make_directory(self) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError("not-writable", f"cannot create {self.file.parent}: {error.strerror}") from error

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = sqlite3.connect(self.file, timeout=10)
            try:
                with connection:
                    connection.execute(
                        f"CREATE TABLE IF NOT EXISTS {self._table} (namespace TEXT, key TEXT, data TEXT NOT NULL,"
                        " created_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (namespace, key))"
                    )
                    yield connection
            finally:
                connection.close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                text, hint = f"the state file {self.file}: {error}", "free some space on its disk"
                raise ServiceError("disk-full", text, hint=hint, retriable=True) from error
            closed = error.sqlite_errorcode in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
            code = "not-writable" if closed else "state-unreadable"
            raise ServiceError(code, f"the state file {self.file}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ServiceError("state-unreadable", f"the state file {self.file}: {error}") from error


class PostgresStateStore:
    """A store in a PostgreSQL table. Reading a missing table finds nothing and creates nothing."""

    lasts = True

    def __init__(self, server: PostgresServer, table: QualifiedTable) -> None:
        self.server = server
        self._table = table
        self._is_made = False

    def __str__(self) -> str:
        return f"{self._table} of {self.server}"

    def get(self, namespace: str, prefix: str) -> dict[str, Any]:
        from psycopg.errors import UndefinedTable

        with self.server.connect() as db:
            try:
                rows = db.execute(
                    f"SELECT key, data FROM {self._table.parameter_safe}"
                    " WHERE namespace = %s AND starts_with(key, %s) ORDER BY key",
                    (namespace, prefix),
                ).fetchall()
            except UndefinedTable:
                return {}
        return dict(rows)

    def put(self, namespace: str, documents: Mapping[str, Any]) -> None:
        texts = [(namespace, key, json.dumps(document)) for key, document in documents.items()]
        with self.server.connect() as db, db.transaction(), db.cursor() as cursor:
            if not self._is_made:
                db.execute(LOCK)
                make_schema(db, self._table.schema)
                db.execute(
                    f"CREATE TABLE IF NOT EXISTS {self._table} (namespace TEXT, key TEXT, data JSONB NOT NULL,"
                    " created_at TIMESTAMPTZ DEFAULT now(), PRIMARY KEY (namespace, key))"
                )
            cursor.executemany(
                f"INSERT INTO {self._table.parameter_safe} (namespace, key, data) VALUES (%s, %s, %s)"
                " ON CONFLICT (namespace, key) DO UPDATE SET data = excluded.data",
                texts,
            )
        self._is_made = True

    def remove(self, namespace: str, keys: list[str]) -> None:
        from psycopg.errors import UndefinedTable

        with self.server.connect() as db, suppress(UndefinedTable):
            delete = f"DELETE FROM {self._table.parameter_safe} WHERE namespace = %s AND key = ANY(%s)"
            db.execute(delete, (namespace, keys))

    @contextmanager
    def hold_lock(self, namespace: str, busy: str = RUNNING) -> Iterator[StoreLock]:
        """Hold an advisory lock of the database. It ends with the processes that hold its connection, on any machine.
        If the database restarts, the lock is taken again, unless another process has it by then."""
        with ExitStack() as connections:
            db = self._acquire_lock(namespace, busy, connections)

            def check_lock() -> None:
                nonlocal db
                try:
                    with self.server.translate_errors():
                        db.execute("SELECT 1")
                except ServiceError:
                    connections.close()
                    db = self._acquire_lock(namespace, busy, connections)

            yield StoreLock(check_lock, (db.fileno(),))

    def _acquire_lock(self, namespace: str, busy: str, connections: ExitStack) -> Database:
        """A new connection that holds the lock."""
        db = connections.enter_context(closing(self.server.open_connection()))
        with self.server.translate_errors():
            asked = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
            is_ours = db.execute(asked, (f"{self._table} {namespace}",)).fetchone() == (True,)
        if not is_ours:
            text = f"{busy}: another process holds its lock in {self}"
            raise PlanRefused("already-running", text, hint="stop that one, or set another `application_id`")
        return db


class MemoryStore:
    """A store in memory: every run starts from nothing."""

    lasts = False

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str], Any] = {}

    def get(self, namespace: str, prefix: str) -> dict[str, Any]:
        found = sorted(self._documents.items())
        return {key: document for (of, key), document in found if of == namespace and key.startswith(prefix)}

    def put(self, namespace: str, documents: Mapping[str, Any]) -> None:
        self._documents |= {(namespace, key): document for key, document in documents.items()}

    def remove(self, namespace: str, keys: list[str]) -> None:
        for key in keys:
            self._documents.pop((namespace, key), None)

    def hold_lock(self, namespace: str, busy: str = RUNNING) -> AbstractContextManager[StoreLock]:
        return nullcontext(StoreLock(_nothing))


def state_store(said: StateBackend, place: ProjectPlace) -> StateStore:
    """The store that settings name; by default the project's file."""
    match said.backend_type:
        case "InMemory":
            return MemoryStore()
        case "Sqlite":
            path = said.sqlite.database_path
            file = place.state_file if path is None else place.root / path
            return SqliteStore(file, said.sqlite.state_table_name)
        case "Postgres":
            at = said.postgres
            password = at.password.get_secret_value()
            server = PostgresServer(at.host, at.port, at.user, password, at.db, at.sslmode)
            return PostgresStateStore(server, QualifiedTable(at.state_schema_name, at.state_table_name))


def _nothing() -> None:
    pass
