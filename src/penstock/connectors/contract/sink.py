"""The interface of sinks: write batches, try rows without writing them, and cancel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from pydantic import Field

from penstock.batch import BatchRef
from penstock.config import OnError
from penstock.connectors.contract.common import Connector
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

NO_SERVICE: Final = dict.fromkeys(
    (
        "a_service_that_starts_again_loses_nothing",
        "a_service_that_is_silent_is_given_up",
        "a_write_that_hangs_can_be_let_go",
    ),
    "there is no service",
)
"""The lines of the contract that a sink without a service behind it cannot promise."""

KeepRows: TypeAlias = "Callable[[DataFrame], None]"
"""Takes rows that the system rejected. Columns: `value`, the row as JSON, and `message`, the reason."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How many rows of a batch a sink has written, and how many the system rejected."""

    rows: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SinkCapabilities:
    """Facts about a configured sink: what it requires of its rows, and what it does with them."""

    ordered: bool = True
    """Whether the order of rows matters. If not, several cores may read one partition."""
    changes: bool = True
    """Whether the sink distinguishes inserts, updates and deletes."""
    keyed: bool = False
    """Whether rows replace earlier ones of the same primary key, so that a missing key causes a warning."""
    key_message: str | None = None
    """The error for a missing primary key, if the sink requires one. `NODE` in it stands for the sink's name."""
    last_row_wins: bool = False
    """Whether the last of several rows replaces the others, so that rows must arrive in the order they were read."""
    last_arrival_wins: bool = False
    """Whether the row that arrives last replaces the others, so that all rows of a key must be in one task."""
    replace_key: tuple[str, ...] = ()
    """The key by which a row replaces or restores an earlier one, whatever its age; empty if rows replace nothing."""
    compaction_key: tuple[str, ...] = ()
    """The key to compact a batch by, so that only its last row per key is written; empty if every row is written."""
    takes_int256: bool = False
    """Whether it supports 256-bit integers and wide decimals (`clients.int256`). If not, it gets them as text."""
    duplicates: bool = False
    """Whether a batch that failed halfway and is retried leaves duplicate rows."""
    repeatable: bool = False
    """Whether writing a row twice does no harm, so that nothing has to be counted."""
    named_columns: Mapping[str, str] = field(default_factory=dict)
    """The columns that rows must have besides the key, by the field that names them: `group_by.account`."""
    flush_interval_ms: int | None = None
    """The default interval between its batches, if its configuration does not set one; None for the general default."""
    most_rows: int | None = None
    """The number of rows after which the run ends; None for no limit."""

    @classmethod
    def by_key(cls, key: tuple[str, ...], **others: Any) -> SinkCapabilities:
        """Return the capabilities of a sink whose rows replace earlier ones of the same key."""
        return cls(**{"keyed": True, "last_row_wins": True, "replace_key": key, **others})


class Sink(Connector):
    """The base class of sinks."""

    delivery: ClassVar[str]
    """The delivery guarantee: what a crash between write and commit leaves behind."""
    waives: ClassVar[Mapping[str, str]] = {}
    """The lines of `penstock.testing.lines` that the sink does not promise, each with the reason. Only tests and docs
    read it."""
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "rows of a batch are written together",
        "parallelism": "every task of a batch writes its own rows",
    }

    from_: str = Field(alias="from")
    """The source or transform whose rows are written."""
    isolate: bool = False
    """Whether the sink reads its source by itself: if it is slow or fails, the other sinks continue without it."""
    on_error: OnError = "dead_letter"
    """What to do with a row that the SQL fails on, or that this sink rejects: `dead_letter`, `stop`, `skip`."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """The facts about this sink. They may depend on the configuration and on settings."""
        return SinkCapabilities()

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        """Describe for a plan what `empty` does with a configuration; None if it cannot be emptied."""
        return None

    def empty(self) -> None:
        """Delete the rows that were written so far, so that they can be written again."""

    def check_rows(self, columns: Columns | None) -> None:
        """Raise a ServiceError if rows with these columns would be refused, without creating or changing anything.

        `columns` is None if they are unknown, and so may be single types.
        """
        self.check()

    @abstractmethod
    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        """Write one batch and return how many rows that were. After a crash it is called again with an equal `ref`.

        The batch must be processed even if nothing is written: stateful operators depend on it. Rejected rows go to
        `keep` if `on_error` asks for that and the sink can tell them from the others. A sink that cannot, or that has
        no `keep`, raises QueryFailed with the code `rows-refused`.
        """

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None = None) -> Iterator[tuple[int, str]] | None:
        """Try some rows of a batch without leaving a trace.

        Without `place`, process the rows and raise what writing them would raise. With it, return the rows that the
        system would reject one by one: their numbers, which are in the column `place`, and the reasons. None if the
        sink cannot tell.
        """
        if place is None:
            rows.write.format("noop").mode("append").save()
        return None

    def cancel(self) -> None:
        """Cancel the waits of `write` in this process. Called from another thread; the write ends with an error.

        Spark cancels its tasks itself.
        """

    @property
    def refusal_action(self) -> OnError:
        """What `write` does with rejected rows if it is given no `keep`."""
        return "stop" if self.on_error == "dead_letter" else self.on_error


class StreamSink(Sink):
    """A sink that Spark can also write by itself, without handing us the batches."""

    @abstractmethod
    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        """Return the writer for the rows of a stream, in batches or, in real-time mode, row by row."""
