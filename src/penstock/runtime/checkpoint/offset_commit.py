"""Commits the offsets of queries for others: to a Kafka consumer group, and to the state store of a pipeline."""

import json
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from penstock.errors import ServiceError

Positions: TypeAlias = Mapping[tuple[str, int], int]
_PAUSE_SECS: Final = 0.5
"""The minimum interval between commits: only the last offsets matter."""


class OffsetCommitter:
    """Commits the newest offsets of every group in a thread of its own.

    A commit that fails is retried with the next positions. A refusal is reported once.
    """

    def __init__(self, commit: Callable[[str, Positions], None], say: Callable[[str], None]) -> None:
        self._commit = commit
        self._say = say
        self._news: dict[str, dict[tuple[str, int], int]] = {}
        self._refused: set[str] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="positions", daemon=True)
        self._thread.start()

    def submit_positions(self, group: str, positions: Positions) -> None:
        with self._lock:
            self._news.setdefault(group, {}).update(positions)

    def close(self) -> None:
        """Commit the remaining offsets, and end the thread."""
        self._closing.set()
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while not self._closing.wait(_PAUSE_SECS) or self._news:
            with self._lock:
                news, self._news = self._news, {}
            later = {group: at for group, at in news.items() if not self._try_commit(group, at)}
            if later and self._closing.is_set():
                return
            with self._lock:
                self._news |= {group: {**at, **self._news.get(group, {})} for group, at in later.items()}

    def _try_commit(self, group: str, positions: Positions) -> bool:
        """Commit offsets. Returns whether nothing is left to do: they were committed, or refused for good."""
        try:
            self._commit(group, positions)
        except ServiceError as error:
            if not error.retriable and group not in self._refused:
                self._refused.add(group)
                self._say(f"The offsets of `{group}` cannot be committed: {error.message}")
            return not error.retriable
        self._refused.discard(group)
        return True


def parse_positions(offset: str | None) -> dict[tuple[str, int], int]:
    """Parse the offsets of a Kafka reader; empty for other readers."""
    try:
        return flatten_positions(json.loads(offset or "{}"))
    except ValueError:
        return {}


def flatten_positions(offsets: Any) -> dict[tuple[str, int], int]:
    """Return the offsets of a Kafka reader, from JSON values."""
    if not isinstance(offsets, dict) or not all(isinstance(ends, dict) for ends in offsets.values()):
        return {}
    return {(topic, int(number)): int(end) for topic, ends in offsets.items() for number, end in ends.items()}


def lowest_positions(several: Iterable[Positions]) -> dict[tuple[str, int], int]:
    """Return the lowest offset of each partition: what one of several readers has not read does not count as read."""
    found: dict[tuple[str, int], int] = {}
    for place, at in (each for positions in several for each in positions.items()):
        found[place] = min(at, found.get(place, at))
    return found


def describe_gone_records(
    reached: Positions, begins: Positions, ends: Positions, anew: Container[str] = ()
) -> Iterator[str]:
    """Describe unread records that no longer exist, by partition. `anew` are topics that were created again since, for
    which only position 0 is valid."""
    for place, position in sorted(reached.items()):
        name = f"{place[0]}/{place[1]}"
        if place not in ends:
            yield f"{name} is gone; records up to {position} were read"
        elif ends[place] < position:
            yield f"{name} ends at {ends[place]:,}, and was read up to {position:,}: it was created again"
        elif position and place[0] in anew:
            yield f"{name} was created again after it was read up to {position:,}: records before that were never read"
        elif begins[place] > position:
            yield f"{name}: the records {position:,} to {begins[place] - 1:,} are gone and were never read"
