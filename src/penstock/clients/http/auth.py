"""User and password of an HTTP service: in its address, and as a header."""

import base64
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_WITH_CREDENTIALS: Final = re.compile(r"([A-Za-z][\w+.-]*://)([^/?#]*)@(.*)", re.DOTALL)


class ServiceAddress(NamedTuple):
    """A URL that messages may show, and the user and password that it contained: `https://user:password@host`."""

    url: str
    username: str | None = None
    password: str | None = None


def split_credentials(url: str) -> ServiceAddress:
    """Split an address into one without user and password, and these two."""
    found = _WITH_CREDENTIALS.fullmatch(url)
    if found is None:
        return ServiceAddress(url)
    username, _, password = found[2].partition(":")
    return ServiceAddress(found[1] + found[3], unquote(username), unquote(password))


def credentials(username: str | None, password: str | None) -> dict[str, str]:
    """Return the header for a user and a password; no header without a user."""
    if username is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password or ''}".encode()).decode()}
