"""Classifies answers other than 2xx and missing answers: whether a retry may help, and what a message shows."""

import html
import re
import ssl
import time
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

from penstock.clients.http.endpoint import Endpoint, Failure

LONGEST_RETRY_AFTER_SECS: Final = 600.0
_SHOWN: Final = 200
_RETRIABLE: Final = frozenset({408, 425, 429})
"""Statuses below 500 that a retry may help against."""
_TITLE: Final = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


def status_failure(endpoint: Endpoint, status: int, reason: str, headers: Message, content: bytes) -> Failure:
    """Classify an answer other than 2xx: 408, 425, 429 and 5xx may pass."""
    message = _printable(f"answered {status} {reason}").rstrip()
    if status < 400:
        hint = "redirects are not followed: write the new address into `url`"
        return Failure("http-refused", message, answered=True, hint=hint)
    if text := endpoint.mask_secrets(_summarize(content, headers.get("Content-Type", ""))):
        message = f"{message}: {text}"
    if status >= 500 or status in _RETRIABLE:
        after = parse_retry_after(headers.get("Retry-After"))
        return Failure("http-failed", message, answered=True, retriable=True, retry_after_secs=after)
    return Failure("http-refused", message, answered=True, hint="set `on_error: skip` to go on without such rows")


def connection_failure(error: Exception, timeout_secs: float) -> Failure:
    """Classify a request without an answer: all but a certificate that is not trusted may pass."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure("http-refused", f"has a certificate that is not trusted: {error.verify_message}")
    if isinstance(error, TimeoutError):
        return Failure("unreachable", f"did not answer within {timeout_secs:g} s", retriable=True)
    why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    what = "cannot be reached" if isinstance(error, OSError) else "does not speak HTTP"
    return Failure("unreachable", f"{what}: {_printable(why)[:_SHOWN]}", retriable=True)


def parse_retry_after(text: str | None) -> float:
    """Return the seconds that `Retry-After` asks for, as a number or as a date; 0 if it has neither."""
    if not text:
        return 0.0
    if text.strip().isdecimal():
        return min(float(text), LONGEST_RETRY_AFTER_SECS)
    try:
        after = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError):
        return 0.0
    return min(max(after, 0.0), LONGEST_RETRY_AFTER_SECS)


def _printable(text: str) -> str:
    """Replace what could change a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))


def _summarize(content: bytes, content_type: str) -> str:
    """Return the first words of an answer; of an HTML page, its title."""
    if "html" in content_type.lower():
        found = _TITLE.search(content)
        title = _printable(html.unescape(found[1].decode(errors="replace"))) if found else ""
        return f"an HTML page, “{title[:_SHOWN]}”" if title else "an HTML page"
    words = _printable(content[: 4 * _SHOWN].decode(errors="replace"))
    return words if len(words) <= _SHOWN else words[:_SHOWN] + " …"
