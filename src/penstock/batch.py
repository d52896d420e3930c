"""One batch of a query: its identity, and what its readers read for it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchRef:
    """The identity of a batch of one output of a query, by which a replay is recognized.

    Batch numbers start again with a new checkpoint, so the id of the checkpoint belongs to the identity. A checkpoint
    that was restored from a copy may plan other input under an old number, so the offsets belong to it too.
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
    """What one reader read in a batch: files, by their addresses, or everything between two positions.

    The format of positions is the reader's own. Before the first batch there may be none.
    """

    files: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
