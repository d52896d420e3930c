"""Escapes control characters in foreign texts before they reach a terminal."""

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, change colours, end lines or change the writing direction."""
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape_controls(text: str) -> str:
    """The text with its control characters as escapes, on one line."""
    return _CONTROL.sub(lambda found: _escape(found[0]), text)


def escape_lines(text: str) -> str:
    """The text with its control characters as escapes, except line feeds."""
    return "\n".join(map(escape_controls, text.split("\n")))


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
