"""A PostgreSQL server: connections, and the meaning of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError, QueryFailed, ServiceError

if TYPE_CHECKING:
    import psycopg

    Database = psycopg.Connection[tuple[Any, ...]]

_SILENT_MS: Final = 30_000
"""How long data may stay unacknowledged. Statements themselves have no time limit."""
_ALIVE: Final = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}
"""Keepalive: a connection counts as broken after 5 s of silence and 3 probes of 5 s."""
_SEEN_OFF: Final = " ".join(f"-c tcp_{name}={value}" for name, value in _ALIVE.items())
"""Keepalive on the server, which would otherwise hold the locks of a lost connection for hours."""
_FINAL: Final = (
    "authentication failed", "authentication method", "does not exist", "empty password", "pg_hba.conf",
    "permission denied", "not permitted", "support SSL", "SSL required", "certificate",
    "unsupported startup parameter",
)  # fmt: skip
"""Texts of refused connections that a retry does not help against. libpq gives no SQLSTATE for them."""
_PASSING: Final = ("08", "25006", "40", "53", "55006", "55P03", "57", "58")
"""SQLSTATEs, or classes of them, that may pass: no connection, a lock, a server that shuts down."""
_CANCELED: Final = "57014"
_BY_SOMEBODY: Final = "canceling statement due to user request"
_ROWS: Final = ("21", "22", "23", "44000", "54000", "P0001")
"""SQLSTATEs, or classes of them, of errors in a row: a value out of range, a constraint, a trigger."""
_LACKING: Final = {
    "42P01": "the table does not exist",
    "42703": "a column does not exist",
    "42501": "ask for the right, or use another user",
    "3F000": "create the schema, or name another one",
}


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """The address of a database, and the login."""

    host: str = "127.0.0.1"
    port: int = 5432
    user: str = "graph-node"
    password: str = field(default="", repr=False)
    database: str = "postgres"
    sslmode: str = "disable"
    sslrootcert: str | None = None
    lock_seconds: int = 60
    """How long to wait for locks on a table."""
    patience_seconds: int = 10
    """How long to wait for a connection, and for an answer before checking that the server is at work."""

    def __str__(self) -> str:
        return f"PostgreSQL at {self.host}:{self.port}/{self.database}"

    @property
    def address(self) -> dict[str, Any]:
        """The address and the login as parameters of psycopg."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "sslrootcert": self.sslrootcert,
        }

    def cancel(self) -> None:
        """End all waits of this process for the server; their callers get an error."""
        from penstock.clients.postgres import liveness

        liveness.cancel_waits(self)

    def with_settings(self, **settings: Any) -> PostgresServer:
        """Return the same server with those of the settings that are not None."""
        return replace(self, **{name: value for name, value in settings.items() if value is not None})

    @contextmanager
    def connect(self) -> Iterator[Database]:
        """Open a connection in autocommit mode, and translate its errors."""
        with self.open_connection() as connection, self.translate_errors():
            yield connection

    def open_connection(self, *, replicating: bool = False) -> Database:
        """Open a connection for statements or, if `replicating`, for replication commands."""
        try:
            import psycopg

            from penstock.clients.postgres import liveness
        except ImportError as error:
            text = "PostgreSQL needs the Python package psycopg"
            raise ServiceError("package-missing", text, hint="pip install 'penstock[postgres]'") from error
        options = f"-c lock_timeout={self.lock_seconds}s -c timezone=UTC -c client_min_messages=warning {_SEEN_OFF}"
        if replicating:
            options += " -c idle_in_transaction_session_timeout=0"
        try:
            return liveness.open_connection(
                self,
                connect_timeout=self.patience_seconds,
                application_name="penstock",
                replication="database" if replicating else None,
                options=options,
                autocommit=True,
                client_encoding="utf8",
                prepare_threshold=None,  # a statement that was prepared fails when its table has changed
                tcp_user_timeout=_SILENT_MS,
                **_ALIVE,
            )
        except psycopg.Error as error:
            raise self._connection_error(error) from error

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            lost = isinstance(error, psycopg.OperationalError)
            raise self.failure(error.sqlstate or ("08000" if lost else "XX000"), _error_text(error)) from error

    def _connection_error(self, error: psycopg.Error) -> ServiceError:
        said = " ".join(str(error).split()).removeprefix("connection failed: ")
        if (error.pgconn is not None and error.pgconn.needs_password) or any(word in said for word in _FINAL):
            hint = "see `PENSTOCK__POSTGRES_SINK__USER`, `…__PASS`, `…__DB` and `…__SSLMODE`, or the fields of the sink"
            return ServiceError("database-refused", f"{self} refused the connection: {said}", hint=hint)
        return ServiceError("unreachable", f"{self} does not answer: {said}", retriable=True)

    def failure(self, state: str, said: str) -> PenstockError:
        """Translate an error of the server: about rows, about something missing, or temporary."""
        if state == _CANCELED and not said.startswith(_BY_SOMEBODY):
            hint = (
                f"let `{self.user}` take longer: ALTER ROLE … SET statement_timeout = …;"
                " or make batches smaller, such as by `max_offsets_per_trigger` of a Kafka source"
            )
            return ServiceError("database-refused", f"{self}: {said}", hint=hint)
        if state.startswith(_PASSING):
            return ServiceError("unreachable", f"{self}: {said}", retriable=True)
        if state.startswith(_ROWS):
            return QueryFailed("rows-refused", f"{self} does not take a row: {said}")
        return ServiceError("database-refused", f"{self}: {said}", hint=_LACKING.get(state))


def _error_text(error: psycopg.Error) -> str:
    """Return the server's message in one line, with the column or the row that it is about."""
    diagnostic = error.diag
    said = [diagnostic.message_primary or " ".join(str(error).split()), diagnostic.message_detail, diagnostic.context]
    return "; ".join(part.splitlines()[0] for part in said if part)
