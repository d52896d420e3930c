"""What sinks of type `memory` have kept in this process."""

from typing import Any

from penstock.connectors.memory import KEPT


def kept_rows(sink: str) -> list[dict[str, Any]]:
    """The rows of the sink of this name, batch by batch."""
    return [row for batch in KEPT.get(f"sink.{sink}", {}).values() for row in batch.rows]


def forget() -> None:
    """Begin anew, with nothing kept."""
    KEPT.clear()
