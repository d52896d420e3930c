"""Formats rows as a table if it fits, else as a block of lines per row. Numbers and times are never cut."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from rich.cells import cell_len, set_cell_size

from penstock.cli.output import escape_controls, exact_json

LEAST: Final = 16
"""The minimum width of a cut text."""

_GAP: Final = "  "
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.0+|(\.\d+?)0*)Z")


def lines(rows: Sequence[Mapping[str, Any]], width: int | None) -> Iterator[str]:
    """The rows, at most `width` wide if it is given and their numbers and times allow it."""
    if not rows:
        return
    names = list(rows[0])
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    wanted = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    least = [
        max(cell_len(name), min(LEAST, size)) if any(_may_be_cut(row.get(name)) for row in rows) else size
        for name, size in zip(names, wanted, strict=True)
    ]
    fitting = _fit_widths(wanted, least, width)
    if fitting is None:
        yield from _blocks(names, cells)
        return
    right = [all(_is_number(row.get(name)) for row in rows) for name in names]
    for row in (names, *cells):
        yield _GAP.join(map(_pad_cell, row, fitting, right)).rstrip()


def _fit_widths(wanted: list[int], least: list[int], width: int | None) -> list[int] | None:
    """The width of each column: the widest are cut first. None if the minimum does not fit."""
    room = None if width is None else width - len(_GAP) * (len(wanted) - 1)
    if room is None or sum(wanted) <= room:
        return wanted
    if sum(least) > room:
        return None
    sizes = list(wanted)
    while sum(sizes) > room:
        widest = max((n for n, size in enumerate(sizes) if size > least[n]), key=lambda n: sizes[n])
        sizes[widest] -= 1
    return sizes


def _blocks(names: list[str], cells: list[list[str]]) -> Iterator[str]:
    size = max(map(cell_len, names))
    for number, row in enumerate(cells):
        if number:
            yield ""
        for name, text in zip(names, row, strict=True):
            yield f"{set_cell_size(name, size)}{_GAP}{text}"


def _pad_cell(text: str, size: int, right: bool) -> str:
    spare = size - cell_len(text)
    if spare < 0:
        return set_cell_size(text, size - 1) + "…"
    return " " * spare + text if right else text + " " * spare


def _cell(value: Any) -> str:
    if value is None:
        return "∅"
    if not isinstance(value, str):
        return escape_controls(exact_json(value))
    time = _TIME.fullmatch(value)
    return f"{time[1]}{time[2] or ''}Z" if time else escape_controls(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _may_be_cut(value: Any) -> bool:
    text = isinstance(value, str) and not _TIME.fullmatch(value)
    return text or isinstance(value, dict | list)
