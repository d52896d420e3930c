"""What sinks are told: batches to write, and when to let go of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from penstock.batch import BatchRef
from penstock.config import OnError
from penstock.connectors.contract.common import Connector
from penstock.settings import Settings
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
"""What a sink without a service behind it cannot promise."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How many rows of a batch a sink has written, and how many it could not."""

    rows: int
    refused: int = 0


class Sink(Connector):
    """Rows go here."""

    delivery: ClassVar[str]
    """What a crash between writing and committing leaves behind."""
    ordered: ClassVar[bool] = True
    """Whether it matters in which order rows come."""
    changes: ClassVar[bool] = True
    """Whether it matters what is an insert, an update or a delete."""
    keyed: ClassVar[bool] = False
    """Whether rows replace earlier ones of the same primary key, so that one is missed where there is none."""

    waives: ClassVar[Mapping[str, str]] = {}
    """What it does not promise of `penstock.testing.contract.LINES`, each with the reason."""

    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "rows of a batch are written together",
        "parallelism": "every task of a batch writes its own rows",
    }
    takes_wide: ClassVar[bool] = False
    """Whether it knows wide numbers, which `clients.wide` tells of. It gets them as decimal text otherwise."""
    wants_key: ClassVar[str | None] = None
    """What to say where there is no primary key, of a sink that cannot do without. `NODE` in it is its name."""

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        """What `empty` does to one that is written like this, in words for a plan; None if nothing can be done."""
        return None

    def empty(self) -> None:
        """Take away the rows that were written here so far, so that they can be written once more."""

    from_: str = Field(alias="from")
    """The source or transform whose rows are written."""
    isolate: bool = False
    """Whether it reads for itself: where it is slow or fails, the other sinks go on without it."""
    on_error: OnError = "dead_letter"
    """What to do with a row that the SQL fails over, or that this sink rejects: `dead_letter`, `stop`, `skip`."""

    def default_interval(self, settings: Settings) -> int | None:
        """How often its batches begin by the settings, in milliseconds, where it does not say so itself and they do."""
        return None

    @property
    def needs_order(self) -> bool:
        """Whether the last of several rows counts, so that they must come in their order."""
        return self.keyed

    @property
    def replace_key(self) -> tuple[str, ...]:
        """The key by which a row that comes replaces another, or brings it back, however old it is; empty if none
        does."""
        return self.primary_key if self.keyed else ()

    @property
    def needs_arrival_order(self) -> bool:
        """Whether it is the row that arrives last that counts, whatever its place: tasks write at the same time."""
        return False

    @property
    def compaction_key(self) -> tuple[str, ...]:
        """The key of which it wants the last row only, of those in a batch; empty if it wants every row."""
        return ()

    @property
    def can_duplicate(self) -> bool:
        """Whether rows come twice when a batch that failed halfway is written again."""
        return "a_replayed_batch_leaves_no_duplicates" in self.waives

    @property
    def named_columns(self) -> Mapping[str, str]:
        """The columns that rows must have beside the key, by the place where they are named: `group_by.account`."""
        return {}

    def check_rows(self, columns: Columns | None) -> None:
        """Raise a ServiceError when rows with these columns would not be taken: what a first batch asks, and no more.

        Nothing is made or changed. None if the columns are not known, and likewise for single types.
        """
        self.check()

    @abstractmethod
    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        """Write one batch and say how many rows that were. Called again with an equal `ref` after a crash.

        The batch must be worked through even if nothing is written: operators with state depend on it. A sink that does
        not take a row raises QueryFailed with the code `rows-refused`.
        """

    def rehearse(self, rows: DataFrame, ref: BatchRef) -> None:
        """Work through some rows of a batch without a trace, and raise what writing them would raise."""
        rows.write.format("noop").mode("append").save()

    def find_rejected_rows(self, rows: DataFrame, place: str, ref: BatchRef) -> Iterator[tuple[int, str]] | None:
        """Those of some rows of a batch that it would not take if they came one by one: the numbers that they have in
        the column `place`, which is none of theirs, and why. It leaves no trace. None where only `rehearse` tells.
        """
        return None

    def deliver(self, batch: DataFrame, ref: BatchRef, keep: Callable[[DataFrame], None]) -> WriteResult:
        """Write one batch. Rows that the system does not take are handed to `keep`, if they are to be kept.

        They have the columns `value`, a row as JSON, and `message`, what was said of it.
        """
        return WriteResult(self.write(batch, ref))

    def cancel(self) -> None:
        """Give up what `write` waits for in this process: called from another thread, when nobody wants it any more.

        The write then ends with an error. What tasks of Spark wait for, Spark ends itself.
        """

    @property
    def most_rows(self) -> int | None:
        """After how many rows it has seen enough, so that the run ends; None for never."""
        return None


class StreamSink(Sink):
    """A sink that Spark can also write by itself, without batches that come to us."""

    repeatable: ClassVar[bool] = False
    """Whether it is all one how often a row is written."""

    @abstractmethod
    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        """How Spark writes these rows of a stream, in batches or, in real time, one by one."""
