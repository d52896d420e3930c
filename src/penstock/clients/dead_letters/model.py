"""Dead letters: rows and records that could not be processed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from penstock.clients.files import parquet
from penstock.clients.files.formats import FORMATS, files_under

HEADER: Final = "penstock."
"""The prefix of our headers in dead-letter topics."""
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "code", "message", "node", "time")
OWNER: Final = "owner"
"""The project or pipeline, with its environment, that wrote a dead letter. Older ones do not have it."""
WITHHELD: Final = "withheld"
"""How to find the record of a dead letter that is stored without it."""
REFUSED: Final = "row-refused"
RULE_FAILED: Final = "rule-failed"
UNREAD: Final = "file-unreadable"
GONE: Final = "records-gone"
_MOST: Final = 1_000_000
DeadLetterKey: TypeAlias = tuple[str, str, int]
"""The position of a dead letter: topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be processed, as it is kept in a dead-letter topic.

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
    """The id of the topic that keeps it; directories have none."""

    @property
    def at(self) -> DeadLetterKey:
        return self.kept_in, self.part, self.place

    @property
    def node(self) -> str:
        """The node that could not process it."""
        return str(self.about["node"])

    @property
    def code(self) -> str:
        return str(self.about["code"])

    @property
    def kind(self) -> str:
        """Its code, and whether it holds a record where others of this code hold an output row."""
        return f"{self.code} record" if self.code == RULE_FAILED and self.about["offset"] is not None else self.code

    @property
    def origin(self) -> tuple[object, ...]:
        """The identity of the record. After a topic is created again, the same offset has another time."""
        topic, partition, offset, time = (self.about[name] for name in FIELDS[:4])
        if offset is None:
            return self.kept_in, self.node, self.part, self.place
        return self.kept_in, self.node, topic, partition, offset, _parse_time(time)

    @property
    def record(self) -> str:
        """The position of the record: topic, partition and offset, or file and line."""
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
    """How far the dead letters of a node in a topic were replayed or discarded.

    `parts` has offsets by part for all kinds, `kinds` those for single kinds, because some may have to wait. They
    belong to the topic with this id; progress without an id is taken as it is.
    """

    parts: Mapping[str, int]
    kinds: Mapping[str, Mapping[str, int]]
    topic_id: str | None = None

    def limit_to_topic(self, topic_id: str | None) -> "ReplayProgress":
        """Return the progress for the topic with this id: none, if the topic was created again."""
        is_other = None not in (topic_id, self.topic_id) and topic_id != self.topic_id
        return ReplayProgress({}, {}, topic_id) if is_other else self

    def merge(self, other: "ReplayProgress") -> "ReplayProgress":
        """Combine two progresses of one topic; of a topic that was created again, this one."""
        also = other.limit_to_topic(self.topic_id)
        both = (*self.kinds, *also.kinds)
        kinds = {kind: _highest_places(self.kinds.get(kind, {}), also.kinds.get(kind, {})) for kind in both}
        return ReplayProgress(_highest_places(self.parts, also.parts), kinds, self.topic_id or also.topic_id)

    def has_replayed(self, kind: str, part: str, place: int) -> bool:
        return place < max(self.parts.get(part, 0), self.kinds.get(kind, {}).get(part, 0))

    def add_dead_letters(self, letters: Iterable[DeadLetter]) -> "ReplayProgress":
        """Add dead letters that are in order: no earlier one of their kinds is missing."""
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
    """Dead letters that wait for a replay, in order. Each iteration reads them again: they may not fit into memory."""

    read: Callable[[], Iterable[DeadLetter]]
    nodes: Mapping[DeadLetterKey, str]
    """Nodes that could not process them, by position."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[DeadLetter]:
        return (letter for letter in self.read() if letter.at in self.nodes)

    def of(self, node: str) -> "PendingDeadLetters":
        return PendingDeadLetters(self.read, {at: of for at, of in self.nodes.items() if of == node})


def outstanding_dead_letters(
    letters: Iterable[DeadLetter], delivered: Mapping[tuple[str, str], ReplayProgress]
) -> dict[DeadLetterKey, str]:
    """Return the dead letters that were not replayed, one per record: the newest about it.

    A replayed dead letter covers older ones about the same record.
    """
    newest = {(x.origin, x.part): (x.kind, x.place, x.topic_id) for x in letters}
    found: dict[tuple[object, ...], tuple[DeadLetterKey, str]] = {}
    for (origin, part), (kind, place, topic_id) in newest.items():
        kept_in, node = str(origin[0]), str(origin[1])
        if not delivered.get((kept_in, node), NOTHING).limit_to_topic(topic_id).has_replayed(kind, part, place):
            found[origin] = ((kept_in, part, place), node)
    return dict(sorted(found.values()))


def read_from_directories(topics: Path, names: Iterable[str]) -> Iterator[DeadLetter]:
    """Read the dead letters of topics in directories, in order."""
    for name in sorted(names):
        for folder in sorted((topics / name).glob("*-*")):
            rows = parquet.first_rows(sorted(files_under(folder, FORMATS["parquet"])), _MOST, ("key", "value"))
            for place, row in enumerate(rows):
                texts = {part: parquet.decode_text(row[part]) for part in ("key", "value")}
                yield DeadLetter(name, folder.name, place, {**row, **texts}, row["key"], row["value"])


def _highest_places(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {part: max(one.get(part, 0), other.get(part, 0)) for part in (*one, *other)}


def _parse_time(text: str | None) -> object:
    """Parse a time in any of the formats that were written."""
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return text
