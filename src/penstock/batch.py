"""One batch of a query: its name, and what its readers read for it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRef:
    """Which batch of which query this is, and for which of its outputs. It is what makes a replay harmless.

    Batch numbers start again with a new checkpoint, so the checkpoint's own id belongs to the name; and a checkpoint
    restored from a copy can plan other input under an old number, so the offsets do too.
    """

    query: str
    output: str
    checkpoint_id: str
    batch_id: int
    offsets: tuple[str, ...]

    @property
    def directory(self) -> str:
        return f"{self.checkpoint_id}-{self.batch_id:012d}-{zlib.crc32(self.output.encode()):08x}"


@dataclass(frozen=True, slots=True)
class PartRead:
    """What one reader read in a batch: files, by their addresses, or all that lies between two positions.

    Positions are in the reader's own words. Before the first batch there may be none.
    """

    files: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
