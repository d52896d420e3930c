"""Names as directories."""

import hashlib
from typing import Final
from urllib.parse import quote

LONGEST: Final = 255
"""The bytes that file systems give to one name."""


def directory_name(name: str) -> str:
    """A name as one directory: no separators, and nothing that means the directory itself or the one above."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted


def short_directory_name(name: str) -> str:
    """As `folder_of`, for names that nobody limits. The end of one that is too long is told by a digest."""
    whole = directory_name(name)
    if len(whole) <= LONGEST:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{whole[: LONGEST - len(digest) - 1]}-{digest}"
