"""Dead letters: rows and records that could not be used, as they are kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from penstock.clients.files import parquet
from penstock.clients.files.formats import FORMATS, files_under

HEADER: Final = "penstock."
"""What our headers of a record in a topic for errors begin with."""
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "code", "message", "node", "time")
OWNER: Final = "owner"
"""The project or pipeline, and its environment, of which a dead letter is. Those that were kept before tell nothing."""
WITHHELD: Final = "withheld"
"""What a dead letter without its record says: how that is found again where it came from."""
REFUSED: Final = "row-refused"
RULE_FAILED: Final = "rule-failed"
UNREAD: Final = "file-unreadable"
GONE: Final = "records-gone"
_MOST: Final = 1_000_000
DeadLetterKey: TypeAlias = tuple[str, str, int]
"""Where a dead letter stands: a topic for errors, a part of it, and a place in that."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
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
    topic_id: str | None = None
    """What tells the topic that keeps it from another one of its name; directories have none."""

    @property
    def at(self) -> DeadLetterKey:
        return self.kept_in, self.part, self.place

    @property
    def node(self) -> str:
        """Who could not use it."""
        return str(self.about["node"])

    @property
    def code(self) -> str:
        return str(self.about["code"])

    @property
    def kind(self) -> str:
        """Its code, and whether it holds a record where others of this code hold a row as it was to be written."""
        return f"{self.code} record" if self.code == RULE_FAILED and self.about["offset"] is not None else self.code

    @property
    def origin(self) -> tuple[object, ...]:
        """The identity of the record that a dead letter is about. A recreated topic has another one at the offset,
        with another time."""
        known = self.about["offset"] is not None
        where = (
            self.about["topic"],
            self.about["partition"],
            self.about["offset"],
            _parse_time(self.about["timestamp"]),
        )
        return (self.kept_in, self.node, *(where if known else (self.part, self.place)))

    @property
    def record(self) -> str:
        """Where its record stood: topic, partition and offset, or file and line."""
        topic, partition, offset = (self.about[name] for name in ("topic", "partition", "offset"))
        if offset is None:
            return str(topic or "")
        return f"{topic}:{offset}" if partition is None else f"{topic}/{partition}/{offset}"

    def is_owned_by(self, owner: str) -> bool:
        return self.about.get(OWNER) in (None, owner)

    def to_json(self) -> dict[str, Any]:
        return {**{name: self.about[name] for name in FIELDS}, "kept_in": self.kept_in}


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """How far the dead letters of a node in a topic for errors were delivered again, or discarded.

    By its parts: those of all kinds, and those of single kinds, some of which cannot be delivered and wait meanwhile.
    The places are those of the topic with this id; what was noted without one is believed.
    """

    parts: Mapping[str, int]
    kinds: Mapping[str, Mapping[str, int]]
    topic_id: str | None = None

    def limit_to_topic(self, topic_id: str | None) -> "ReplayProgress":
        """What this says of the topic with that id: nothing, if it was made anew."""
        is_other = None not in (topic_id, self.topic_id) and topic_id != self.topic_id
        return ReplayProgress({}, {}, topic_id) if is_other else self

    def merge(self, other: "ReplayProgress") -> "ReplayProgress":
        """What either says of one topic; of one that was made anew, what this says."""
        also = other.limit_to_topic(self.topic_id)
        kinds = {
            kind: _highest_places(self.kinds.get(kind, {}), also.kinds.get(kind, {}))
            for kind in (*self.kinds, *also.kinds)
        }
        return ReplayProgress(_highest_places(self.parts, also.parts), kinds, self.topic_id or also.topic_id)

    def has_replayed(self, kind: str, part: str, place: int) -> bool:
        return place < max(self.parts.get(part, 0), self.kinds.get(kind, {}).get(part, 0))

    def add_dead_letters(self, letters: Iterable[DeadLetter]) -> "ReplayProgress":
        """Add dead letters, which are in order: none of their kinds is missing before the last of them."""
        some = list(letters)
        topic_id = next((letter.topic_id for letter in some), None)
        known = self.limit_to_topic(topic_id)
        kinds = {kind: dict(parts) for kind, parts in known.kinds.items()}
        for letter in some:
            kinds.setdefault(letter.kind, {})[letter.part] = letter.place + 1
        return ReplayProgress(known.parts, kinds, topic_id or known.topic_id)


NOTHING: Final = ReplayProgress({}, {})


@dataclass(frozen=True, slots=True)
class PendingDeadLetters:
    """Dead letters that wait, in order. Each iteration reads them again: they may not fit into memory."""

    read: Callable[[], Iterable[DeadLetter]]
    nodes: Mapping[DeadLetterKey, str]
    """Who could not use them, by where they stand."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[DeadLetter]:
        return (letter for letter in self.read() if letter.at in self.nodes)

    def of(self, node: str) -> "PendingDeadLetters":
        return PendingDeadLetters(self.read, {at: of for at, of in self.nodes.items() if of == node})


def outstanding_dead_letters(
    letters: Iterable[DeadLetter], delivered: Mapping[tuple[str, str], ReplayProgress]
) -> dict[DeadLetterKey, str]:
    """The dead letters that were not replayed; each record once, by the newest dead letter about it.

    A dead letter that was replayed covers older ones about the same record.
    """
    newest = {(x.origin, x.part): (x.kind, x.place, x.topic_id) for x in letters}
    found: dict[tuple[object, ...], tuple[DeadLetterKey, str]] = {}
    for (origin, part), (kind, place, topic_id) in newest.items():
        kept_in, node = str(origin[0]), str(origin[1])
        if not delivered.get((kept_in, node), NOTHING).limit_to_topic(topic_id).has_replayed(kind, part, place):
            found[origin] = ((kept_in, part, place), node)
    return dict(sorted(found.values()))


def read_from_directories(topics: Path, names: Iterable[str]) -> Iterator[DeadLetter]:
    """The dead letters of embedded topics for errors, in order."""
    for name in sorted(names):
        for folder in sorted((topics / name).glob("*-*")):
            rows = parquet.first_rows(sorted(files_under(folder, FORMATS["parquet"])), _MOST, ("key", "value"))
            for place, row in enumerate(rows):
                texts = {part: parquet.decode_text(row[part]) for part in ("key", "value")}
                yield DeadLetter(name, folder.name, place, {**row, **texts}, row["key"], row["value"])


def _highest_places(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {part: max(one.get(part, 0), other.get(part, 0)) for part in (*one, *other)}


def _parse_time(text: str | None) -> object:
    """A time, however it is written."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return text
