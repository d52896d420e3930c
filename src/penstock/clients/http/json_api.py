"""One JSON request to a service with a REST interface. Clients turn its two exceptions into their own errors."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any


class StatusError(Exception):
    """The service answered with a status other than 2xx; the text is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoAnswerError(Exception):
    """The service did not answer, or not with JSON over HTTP. `untrusted`: its certificate is not trusted."""

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))
        self.untrusted = isinstance(reason, ssl.SSLError)


def request_json(
    method: str,
    url: str,
    body: object = None,
    *,
    headers: Mapping[str, str],
    timeout_secs: float,
    trust: ssl.SSLContext | None = None,
) -> Any:
    """Send a value as JSON and return that of the answer; None if the answer is empty. It is tried once."""
    kind = "application/json"
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, {"Accept": kind, "Content-Type": kind, **headers}, method=method)
        with urllib.request.urlopen(request, timeout=timeout_secs, context=trust) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            raise StatusError(error.code, _error_text(error)) from None
    except (OSError, ValueError, HTTPException) as error:
        raise NoAnswerError(getattr(error, "reason", error)) from error


def _error_text(error: urllib.error.HTTPError) -> str:
    """Join the title, the message and the cause that services name in an error; the status line if they do not."""
    try:
        answer = json.load(error)
        parts = [answer.get("title"), answer.get("message") or answer.get("msg"), answer.get("cause")]
    except (OSError, ValueError, AttributeError, HTTPException):
        return str(error.reason)
    return ": ".join(dict.fromkeys(str(part) for part in parts if part)) or str(error.reason)
