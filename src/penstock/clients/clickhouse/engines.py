"""What the engine of a table does with rows of one sorting key, by what ClickHouse says of it."""

import re
from dataclasses import dataclass
from typing import Final

_REPLACING: Final = re.compile(r"\w*ReplacingMergeTree(?:\((.*?)\))?(?: |$)")
_COLUMN: Final = re.compile(r"`(?:[^`\\]|\\.)+`|\w+")


@dataclass(frozen=True, slots=True)
class ReplacingEngine:
    """Of rows with one sorting key the newest counts. Columns are as SQL has them, and empty where there are none."""

    version: str = ""
    """The column that says which one is the newest."""
    deleted: str = ""
    """The column that says whether it is gone."""


def replacing_engine(engine: str) -> ReplacingEngine | None:
    """What rows of a table replace each other by; None if they do not."""
    found = _REPLACING.match(engine)
    if found is None:
        return None
    arguments = [part.strip() for part in (found[1] or "").split(",") if part.strip() and "'" not in part]
    return ReplacingEngine(*arguments[:2])


def key_column(key: str) -> str:
    """The name of a column, if a part of a sorting key is one."""
    return re.sub(r"\\(.)", r"\1", key.strip("`")) if _COLUMN.fullmatch(key) else ""


def unwrap_key(sorting_key: str) -> str:
    """A sorting key of one column, which newer servers write as `(id)` if the table was made so; others as they are."""
    inner = sorting_key.strip().removeprefix("(").removesuffix(")")
    return inner if key_column(inner) else sorting_key
