"""One attempt at a batch: what was read of it, and what the attempt has found out so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.batch import BatchRef, PartRead
from penstock.runtime.checkpoint.layout import BatchTime
from penstock.runtime.query.decode_errors import Counts


@dataclass(frozen=True, slots=True)
class BatchRead:
    """A batch that was read: its name for sinks, what each reader has read of it, and its times."""

    ref: BatchRef
    parts: Mapping[str, PartRead]
    time: BatchTime


@dataclass(slots=True)
class BatchAttempt:
    """The state of one attempt at a batch. It begins when Spark hands the batch over.

    A batch that failed is attempted again by a new query with a new value, so nothing here outlives its batch.
    """

    read: BatchRead
    recount: bool
    """Whether Spark's counts may be incomplete, so that rejected rows are searched for in any case: an earlier attempt
    died after it wrote, or the batch was read again outside the stream."""
    unread_files: dict[str, dict[str, str]] = field(default_factory=dict)
    """Files that are skipped and why, by the views of their inputs."""
    reread: dict[str, Counts] = field(default_factory=dict)
    """The counts of a second reading of the batch, by the views of inputs. They replace Spark's counts."""
    writing_to: str | None = None
    """The output that is being written, which an error is about."""

    @property
    def ref(self) -> BatchRef:
        return self.read.ref

    def note_reread(self, counts: Mapping[str, Counts]) -> None:
        """Note that rows came from a second reading, which Spark does not count."""
        self.recount = True
        self.reread.update(counts)
