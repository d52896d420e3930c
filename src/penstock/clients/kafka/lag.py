"""The lag of a consumer group, in records and in time."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.record_reader import record_times


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition and the lag of a group. `seconds` is how long its next record has waited."""

    topic: str
    partition: int
    position: int | None
    end: int
    records: int
    seconds: float | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": None if self.seconds is None else round(self.seconds, 3)}


def lag_of(
    admin: KafkaAdmin, group: str, topics: Iterable[str], begun: Mapping[tuple[str, int], int]
) -> list[PartitionLag]:
    """Return the lag of every partition of the topics.

    A group without a committed offset is at `begun`, or else has read nothing. A group whose offset is past the end has
    read nothing either: the topic was created again.
    """
    names = list(topics)
    begins, ends, read = admin.ends(names, earliest=True), admin.ends(names), admin.committed_offsets(group, names)
    reached = {place: read.get(place, begun.get(place, 0)) for place in ends}
    behind = {place: begins[place] if at > ends[place] else max(at, begins[place]) for place, at in reached.items()}
    waiting = {place: position for place, position in behind.items() if position < ends[place]}
    came = record_times(admin, waiting)
    now = time.time()
    return [
        PartitionLag(
            *place,
            position=read.get(place),
            end=end,
            records=end - behind[place],
            seconds=max(0.0, now - came[place]) if place in came else None if place in waiting else 0.0,
        )
        for place, end in sorted(ends.items())
    ]
