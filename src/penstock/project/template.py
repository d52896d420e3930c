"""`{{ source("x") }}` and `{{ ref("x") }}` in SQL: what a text refers to, and the text with node ids in place."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, Literal

from penstock.sql.dialects import quoted

_MARK: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\{\{|\{%", re.DOTALL)
_CALL: Final = re.compile(r"""\{\{-?\s*(source|ref)\s*\(\s*(?:"([^"]*)"|'([^']*)')\s*\)\s*-?\}\}""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reference:
    """A call in the text; `offset` counts characters of the text as written."""

    kind: Literal["source", "model"]
    name: str
    offset: int

    @property
    def id(self) -> str:
        return f"{self.kind}.{self.name}"


@dataclass(frozen=True, slots=True)
class Rendered:
    """SQL with each call replaced by a quoted node id; `written` maps a place in it back to the text as written."""

    sql: str
    references: tuple[Reference, ...]
    problems: tuple[tuple[int, str], ...]
    _starts: tuple[int, ...]
    _shifts: tuple[tuple[int, bool], ...]

    def written(self, offset: int) -> int:
        at = max(0, bisect_right(self._starts, offset) - 1)
        origin, literal = self._shifts[at]
        return origin + (offset - self._starts[at] if literal else 0)


def render(text: str) -> Rendered:
    pieces: list[str] = []
    starts: list[int] = []
    shifts: list[tuple[int, bool]] = []
    references: list[Reference] = []
    problems: list[tuple[int, str]] = []
    length = 0

    def put(piece: str, origin: int, literal: bool) -> None:
        nonlocal length
        starts.append(length)
        shifts.append((origin, literal))
        pieces.append(piece)
        length += len(piece)

    position = 0
    for mark in _MARK.finditer(text):
        put(text[position : mark.start()], position, True)
        position = mark.end()
        if call := _CALL.fullmatch(mark[0]):
            kind: Literal["source", "model"] = "source" if call[1] == "source" else "model"
            reference = Reference(kind, call[2] if call[2] is not None else call[3], mark.start())
            references.append(reference)
            put(quoted(reference.id), mark.start(), False)
        elif not mark[0].startswith("{#"):
            shown = mark[0] if len(mark[0]) < 40 else mark[0][:37] + "…"
            problems.append((mark.start(), f'`{shown}` is not `source("name")` or `ref("name")`'))
    put(text[position:], position, True)
    return Rendered("".join(pieces), tuple(references), tuple(problems), tuple(starts), tuple(shifts))
