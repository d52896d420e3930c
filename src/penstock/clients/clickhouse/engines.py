"""What table engines do with rows of the same sorting key."""

import re
from dataclasses import dataclass
from typing import Final

_REPLACING: Final = re.compile(r"\w*ReplacingMergeTree(?:\((.*?)\))?(?: |$)")
_COLUMN: Final = re.compile(r"`(?:[^`\\]|\\.)+`|\w+")


@dataclass(frozen=True, slots=True)
class ReplacingEngine:
    """An engine that keeps the newest row per sorting key. Columns are quoted as in SQL; empty if there is none."""

    version: str = ""
    """The column whose highest value is the newest."""
    deleted: str = ""
    """The column that marks deleted rows."""


def replacing_engine(engine: str) -> ReplacingEngine | None:
    """Return the replacing engine of a table; None if it has another one."""
    found = _REPLACING.match(engine)
    if found is None:
        return None
    arguments = [part.strip() for part in (found[1] or "").split(",") if part.strip() and "'" not in part]
    return ReplacingEngine(*arguments[:2])


def key_column(key: str) -> str:
    """Return the name of a column, if this part of a sorting key is a column."""
    return re.sub(r"\\(.)", r"\1", key.strip("`")) if _COLUMN.fullmatch(key) else ""


def unwrap_key(sorting_key: str) -> str:
    """Remove the parentheses that newer servers put around a sorting key of one column."""
    inner = sorting_key.strip().removeprefix("(").removesuffix(")")
    return inner if key_column(inner) else sorting_key
