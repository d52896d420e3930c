"""Maps each part of a rendered template to the part of the template that it comes from.

A marker is put before each literal part. The text after a marker, of the length of the literal part, is that part. The
rest up to the next marker was produced by the tag in between.
"""

import re
from typing import Final

from penstock.project.templates.template import MARK, Piece, secret_problem, unset_problem
from penstock.project.yaml.secrets import is_secret
from penstock.project.yaml.variables import REFERENCE, Environ, find_references, substitute_variables
from penstock.sql.parse.query import Problem

_RAW: Final = re.compile(r"\{%[-+]?\s*(raw|endraw)\b")
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARKER: Final = re.compile(f"{_OPEN}(\\d+):(\\d+){_CLOSE}")


def prepare_template(text: str, environ: Environ, missing: list[Problem], *, marked: bool) -> str:
    """The template with `${NAME}` resolved and, if wanted, with a marker before each literal part."""
    parts: list[str] = []

    def add_literal(start: int, end: int) -> None:
        part = text[start:end]
        lead = len(part) - len(part.lstrip())
        marker = f"{_OPEN}{start + lead}:{len(part) - lead}{_CLOSE}" if marked and part.strip() else ""
        parts.append(part[:lead] + marker + part[lead:])

    def resolve(found: re.Match[str]) -> str:
        missing.extend(
            secret_problem(n, found.start()) for n, _, _ in find_references(found[0]) if is_secret(n, environ)
        )
        return substitute_variables(
            found[0], environ, lambda name: missing.append(unset_problem(name, environ, found.start()))
        )

    def add_text(start: int, end: int) -> None:
        position = start
        for found in REFERENCE.finditer(text, start, end):
            add_literal(position, found.start())
            parts.append(resolve(found) if raw else f"{{% raw %}}{resolve(found)}{{% endraw %}}")
            position = found.end()
        add_literal(position, end)

    position, raw = 0, False
    for mark in MARK.finditer(text):
        add_text(position, mark.start())
        parts.append(mark[0])
        position = mark.end()
        if word := _RAW.match(mark[0]):
            raw = word[1] == "raw"
    add_text(position, len(text))
    return "".join(parts)


def split_pieces(marked: str, plain: str) -> tuple[Piece, ...]:
    """The pieces of a result with markers. None if it differs from the `plain` result in more than the markers."""
    pieces: list[Piece] = []
    parts: list[str] = []
    length = position = written = left = 0
    for marker in [*_MARKER.finditer(marked), None]:
        part = marked[position : marker.start() if marker else len(marked)]
        if part:
            literal = min(left, len(part))
            if literal:
                pieces.append(Piece(length, written, True))
            if len(part) > literal:
                pieces.append(Piece(length + literal, written + left, False))
            parts.append(part)
            length += len(part)
        if marker:
            position, written, left = marker.end(), int(marker[1]), int(marker[2])
    return tuple(pieces) if "".join(parts) == plain else ()
