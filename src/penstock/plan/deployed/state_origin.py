"""The initial layout of a checkpoint's state, stored next to the checkpoint so that both move together."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from penstock.plan.deployed.place import last_batch

ORIGIN: Final = "state-origin.json"
InputColumns: TypeAlias = Mapping[str, Mapping[str, str]]
"""Columns and their types, by view."""


@dataclass(frozen=True, slots=True)
class StateOrigin:
    """The number of state partitions, which can never change, and the columns in state. `declared` has the used input
    columns with declared or inferred types; `found` has the columns that operators keep, with Spark's types."""

    partitions: int
    declared: InputColumns = field(default_factory=dict)
    found: InputColumns = field(default_factory=dict)


def read_origin(checkpoint: Path) -> StateOrigin | None:
    """Read the layout; None if it is missing or unreadable."""
    try:
        document = json.loads((checkpoint / ORIGIN).read_text(encoding="utf-8"))
        if (before := document.get("before")) and last_batch(checkpoint, "commits") <= document["after"]:
            document = before
        return StateOrigin(int(document["partitions"]), document.get("declared", {}), document.get("found", {}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_origin(checkpoint: Path, origin: StateOrigin, before: StateOrigin | None = None) -> None:
    """Write the layout atomically. For existing state, `before` is its current layout, which applies until a batch is
    committed, since Spark may refuse the new columns."""
    document = asdict(origin)
    if before is not None:
        document |= {"before": asdict(before), "after": last_batch(checkpoint, "commits")}
    checkpoint.mkdir(parents=True, exist_ok=True)
    staged = checkpoint / f".{ORIGIN}.{os.getpid()}"
    with staged.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(checkpoint / ORIGIN)
