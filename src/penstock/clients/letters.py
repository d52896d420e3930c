"""Letters: rows and records that could not be used, as they are kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.clients import parquet
from penstock.clients.formats import FORMATS, files_under

HEADER: Final = "penstock."
"""What our headers of a record in a topic for errors begin with."""
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "code", "message", "node", "time")
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Letter:
    """What is known of a record. It is kept in a topic for errors, in a part of it and at a place in that part.

    A part is a partition, or the directory of a batch.
    """

    kept_in: str
    part: str
    place: int
    about: Mapping[str, Any]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def node(self) -> str:
        """Who could not use it."""
        return str(self.about["node"])

    @property
    def origin(self) -> tuple[object, ...]:
        """What is the same for every letter about a record."""
        known = self.about["offset"] is not None
        where = (self.about["topic"], self.about["partition"], self.about["offset"])
        return (self.kept_in, self.node, *(where if known else (self.part, self.place)))

    def to_json(self) -> dict[str, Any]:
        return {**{name: self.about[name] for name in FIELDS}, "kept_in": self.kept_in}


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far the letters of a node were delivered again, by the parts of a topic for errors."""

    parts: Mapping[str, int]

    def has(self, letter: Letter) -> bool:
        return letter.place < self.parts.get(letter.part, 0)


NOTHING: Final = Delivered({})


def outstanding(letters: Iterable[Letter], delivered: Mapping[tuple[str, str], Delivered]) -> list[Letter]:
    """The letters that were not delivered again, as they stand; each record once, by the newest letter about it."""
    newest = {x.origin: x for x in letters if not delivered.get((x.kept_in, x.node), NOTHING).has(x)}
    return sorted(newest.values(), key=lambda x: (x.kept_in, x.part, x.place))


def in_directories(topics: Path, names: Iterable[str]) -> list[Letter]:
    """The letters of embedded topics for errors."""
    found = []
    for name in names:
        for folder in sorted((topics / name).glob("*-*")):
            rows = parquet.first_rows(sorted(files_under(folder, FORMATS["parquet"])), _MOST)
            found += [
                Letter(name, folder.name, place, row, _encoded(row["key"]), _encoded(row["value"]))
                for place, row in enumerate(rows)
            ]
    return found


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
