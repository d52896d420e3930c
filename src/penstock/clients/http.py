"""What services with a REST interface have in common."""

import base64
import json
import urllib.error


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
