"""A Redis server: its address, and the translation of its errors."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.errors import ServiceError

if TYPE_CHECKING:
    from redis import Redis

_PASSING: Final = frozenset({"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY"})
"""Error codes of Redis that are temporary, and for which its client has no exception class."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The address and the login of a server. It is sent to the executors."""

    url: str
    database: int
    user: str | None
    password: str | None
    ca_file: str | None
    timeout_secs: float

    def __repr__(self) -> str:
        return f"Redis at {self.url}"

    def connect(self) -> Redis:
        """Open a client that never retries: the runtime does, with the whole batch."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        parts = urlsplit(self.url)
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": self.ca_file} if parts.scheme == "rediss" else {}
        return redis.Redis(
            parts.hostname or "",
            parts.port or 6379,
            self.database,
            username=self.user,
            password=self.password,
            socket_timeout=self.timeout_secs,
            socket_connect_timeout=self.timeout_secs,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **tls,
        )

    def failure(self, error: Exception) -> ServiceError:
        """Translate an error of the client, by its class or by its Redis error code."""
        from redis import exceptions

        code, text, retriable, hint = "database-refused", f"{self!r}: {error}", False, None
        match error:
            case exceptions.AuthenticationError() | exceptions.NoPermissionError():
                hint = "see `user` and `password` of the sink, and the rights of the user (ACL)"
            case exceptions.OutOfMemoryError():
                retriable, hint = True, "it has reached `maxmemory`: raise it, or let keys expire with `ttl_secs`"
            case exceptions.ReadOnlyError():
                retriable, hint = True, "it is a replica; name the primary"
            case exceptions.ConnectionError() if isinstance(error.__cause__, ssl.SSLError):
                hint = "see `ca_file`, and whether the server speaks TLS at this port"
            case exceptions.ConnectionError() | exceptions.TimeoutError():
                code, retriable, text = "unreachable", True, f"{self!r} does not answer: {error}"
            case _:
                retriable = str(error).partition(" ")[0] in _PASSING
        return ServiceError(code, text, hint=hint, retriable=retriable)


@dataclass(slots=True)
class Session:
    """A client as a context manager that translates its errors."""

    server: RedisServer
    client: Redis | None = None

    def __enter__(self) -> Redis:
        self.client = self.server.connect()
        return self.client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from redis.exceptions import RedisError

        assert self.client is not None
        self.client.close()
        if isinstance(error, RedisError):
            raise self.server.failure(error) from error
