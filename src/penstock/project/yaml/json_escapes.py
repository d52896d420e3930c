"""Rewrites JSON that YAML cannot read: surrogate pairs as escapes, and tabs as white space."""

import json
import re
from typing import Final

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def to_yaml(text: str) -> str:
    """The text in a form that YAML can read. Surrogate pairs are joined inside double quotes only. Tabs become spaces
    outside of strings, and only if the whole text is JSON.
    """
    found = _QUOTED.sub(lambda quoted: _ESCAPE.sub(_join_surrogates, quoted[0]), text)
    return _replace_tabs(found) if "\t" in found and _is_json(found) else found


def _join_surrogates(escape: re.Match[str]) -> str:
    if escape["high"] is None:
        return escape[0]
    number = 0x10000 + ((int(escape["high"], 16) - 0xD800) << 10) + (int(escape["low"], 16) - 0xDC00)
    return f"\\U{number:08X}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return r"\U" in text and _is_json(text.replace(r"\U", r"\u"))
    return True


def _replace_tabs(text: str) -> str:
    parts, position = [], 0
    for quoted in _QUOTED.finditer(text):
        parts += [text[position : quoted.start()].replace("\t", " "), quoted[0]]
        position = quoted.end()
    return "".join([*parts, text[position:].replace("\t", " ")])
