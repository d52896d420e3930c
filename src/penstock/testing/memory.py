"""Reads the rows that sinks of type `memory` have kept in this process."""

from typing import Any

from penstock.connectors.memory import KEPT


def kept_rows(sink: str) -> list[dict[str, Any]]:
    """Return the rows of the sink of this name, batch by batch."""
    return [row for batch in KEPT.get(f"sink.{sink}", {}).values() for row in batch.rows]


def forget() -> None:
    """Delete the rows of all sinks."""
    KEPT.clear()
