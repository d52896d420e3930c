"""What services with a REST interface have in common."""

import base64
import json
import re
import urllib.error
from typing import Final, NamedTuple
from urllib.parse import unquote

_WITH_NAME: Final = re.compile(r"([A-Za-z][\w+.-]*://)([^/?#]*)@(.*)", re.DOTALL)


class ServiceAddress(NamedTuple):
    """An address as messages may show it, and who asks there if it said so: `https://name:password@host`."""

    url: str
    username: str | None = None
    password: str | None = None


def split_credentials(url: str) -> ServiceAddress:
    """An address without the name and the password in it."""
    found = _WITH_NAME.fullmatch(url)
    if found is None:
        return ServiceAddress(url)
    username, _, password = found[2].partition(":")
    return ServiceAddress(found[1] + found[3], unquote(username), unquote(password))


def credentials(username: str | None, password: str | None) -> dict[str, str]:
    """The header that says who asks; none for nobody."""
    if username is None:
        return {}
    return {"Authorization": "Basic " + base64.b64encode(f"{username}:{password or ''}".encode()).decode()}


def message_of(error: urllib.error.HTTPError) -> str:
    """What a service says of a request that it does not take: what is wrong, what about it, and why."""
    try:
        told = json.load(error)
        said = [told.get("title"), told.get("message") or told.get("msg"), told.get("cause")]
    except (ValueError, AttributeError):
        return str(error.reason)
    return ": ".join(dict.fromkeys(str(part) for part in said if part)) or str(error.reason)
