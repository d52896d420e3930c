"""Names of directories for arbitrary names."""

import hashlib
from typing import Final
from urllib.parse import quote

LONGEST: Final = 255
"""The maximum length in bytes of a name in common file systems."""


def directory_name(name: str) -> str:
    """Quote a name as the name of one directory: without separators, and never `.` or `..`."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted


def short_directory_name(name: str) -> str:
    """Quote a name of any length. The end of a name that is too long is replaced by a digest."""
    whole = directory_name(name)
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{whole[: LONGEST - len(digest) - 1]}-{digest}"
