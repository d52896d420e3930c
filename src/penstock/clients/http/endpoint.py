"""The URL that requests go to, the parts of it that may be shown, and the result of one request."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Final
from urllib.parse import unquote, urlsplit

from penstock.clients.http.auth import credentials
from penstock.errors import ServiceError

CONNECT_SECS: Final = 10.0
_MASK: Final = "****"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `secrets` are values that no message may show, even where the server repeats them."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_secs: float
    retry_secs: float
    secrets: tuple[str, ...] = field(default=(), repr=False)
    max_answer_bytes: int = 65_536
    """The maximum size of an answer that is read. A connection with more data to come is closed."""

    @property
    def name(self) -> str:
        """The address for messages, without its path: a path may be a secret."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")

    @property
    def target(self) -> str:
        """The path and the query of the address."""
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def all_headers(self) -> dict[str, str]:
        """Return the headers of every request, with one for the user and the password in the address."""
        parts = urlsplit(self.url)
        user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
        return {**credentials(user, password), **self.headers}

    def check(self) -> None:
        """Raise a ServiceError if no connection can be opened. No request is sent."""
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
class Response:
    """An answer of 2xx. It is not `complete` if it was too long, or did not end in time."""

    status: int
    headers: Message
    content: bytes
    complete: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed. `answered`: the server has answered with a status."""

    code: str
    message: str
    answered: bool = False
    retriable: bool = False
    retry_after_secs: float = 0.0
    """How long the server asks clients to wait."""
    hint: str | None = None
