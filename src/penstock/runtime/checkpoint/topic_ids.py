"""The ids of topics that a query reads: a topic that was deleted and created again is a different one.

The ids are noted in the checkpoint next to the offsets, which mean nothing in another topic.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.manifest.model import QuerySpec
from penstock.runtime.checkpoint.layout import read_note, write_note

_NOTE: Final = "topics.json"


def topics_of(spec: QuerySpec) -> frozenset[str]:
    """Return the Kafka topics that a query reads."""
    return frozenset(entry.topic for entry in spec.inputs if entry.topic is not None)


def noted_ids(checkpoint: Path) -> dict[str, str]:
    return read_note(checkpoint, _NOTE) or {}


def note_ids(checkpoint: Path, ids: Mapping[str, str]) -> None:
    noted = noted_ids(checkpoint)
    known = {**noted, **ids}
    if known != noted:
        write_note(checkpoint, _NOTE, known)


def recreated_topics(noted: Mapping[str, str], ids: Mapping[str, str]) -> frozenset[str]:
    """Return the topics whose id differs from the noted one. A broker without ids has no such topics."""
    return frozenset(topic for topic, number in ids.items() if noted.get(topic, number) != number)
