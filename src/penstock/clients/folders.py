"""Names as directories."""

from typing import Final
from urllib.parse import quote

LONGEST: Final = 255
"""The bytes that file systems give to one name."""


def folder_of(name: str) -> str:
    """A name as one directory: no separators, and nothing that means the directory itself or the one above."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted
