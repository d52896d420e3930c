"""What a sink is asked to do: write batches, try rows, and give up."""

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
"""What a sink without a service behind it cannot promise."""

KeepRows: TypeAlias = "Callable[[DataFrame], None]"
"""Takes rows that the system refused, with the columns `value`, a row as JSON, and `message`, why it was refused."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How many rows of a batch a sink has written, and how many the system refused."""

    rows: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SinkCapabilities:
    """Facts about a configured sink: what it needs of its rows, and what it does with them."""

    ordered: bool = True
    """Whether the order of rows matters. If not, several cores may read one partition."""
    changes: bool = True
    """Whether it matters what is an insert, an update or a delete."""
    keyed: bool = False
    """Whether rows replace earlier ones of the same primary key, so that a missing key is pointed out."""
    key_message: str | None = None
    """What to say where there is no primary key, of a sink that cannot do without. `NODE` in it is its name."""
    last_row_wins: bool = False
    """Whether the last of several rows counts, so that rows must come in the order in which they were read."""
    last_arrival_wins: bool = False
    """Whether it is the row that arrives last that counts, so that rows of a key must not be in several tasks."""
    replace_key: tuple[str, ...] = ()
    """The key by which a row replaces another, or brings it back, however old it is; empty if none does."""
    compaction_key: tuple[str, ...] = ()
    """The key of which it wants the last row of a batch only; empty if it wants every row."""
    takes_int256: bool = False
    """Whether it knows 256-bit integers and wide decimals (`clients.int256`). It gets them as text otherwise."""
    duplicates: bool = False
    """Whether rows are there twice when a batch that failed halfway is written again."""
    repeatable: bool = False
    """Whether writing a row twice does no harm, so that nothing needs to be counted."""
    named_columns: Mapping[str, str] = field(default_factory=dict)
    """The columns that rows must have besides the key, by the field that names them: `group_by.account`."""
    flush_interval_ms: int | None = None
    """How often its batches begin where it does not say so itself; None for the usual."""
    most_rows: int | None = None
    """The number of rows after which the run ends; None for never."""

    @classmethod
    def by_key(cls, key: tuple[str, ...], **others: Any) -> SinkCapabilities:
        """Those of a sink whose rows replace earlier ones of the same key."""
        return cls(**{"keyed": True, "last_row_wins": True, "replace_key": key, **others})


class Sink(Connector):
    """Rows go here."""

    delivery: ClassVar[str]
    """What a crash between writing and committing leaves behind."""
    waives: ClassVar[Mapping[str, str]] = {}
    """The lines of `penstock.testing.lines` that it does not promise, each with the reason. Only tests and docs read
    it."""
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "rows of a batch are written together",
        "parallelism": "every task of a batch writes its own rows",
    }

    from_: str = Field(alias="from")
    """The source or transform whose rows are written."""
    isolate: bool = False
    """Whether it reads for itself: where it is slow or fails, the other sinks go on without it."""
    on_error: OnError = "dead_letter"
    """What to do with a row that the SQL fails over, or that this sink rejects: `dead_letter`, `stop`, `skip`."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """Its facts. They may depend on the configuration and on settings."""
        return SinkCapabilities()

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        """What `empty` does for a configuration, in words for a plan; None if it cannot be emptied."""
        return None

    def empty(self) -> None:
        """Delete the rows that were written so far, so that they can be written once more."""

    def check_rows(self, columns: Columns | None) -> None:
        """Raise a ServiceError when rows with these columns would not be taken, without creating or changing anything.

        `columns` is None if they are not known, and so may be single types.
        """
        self.check()

    @abstractmethod
    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        """Write one batch and return how many rows that were. Called again with an equal `ref` after a crash.

        The batch must be processed even if nothing is written: stateful operators depend on it. Rows that the system
        refuses go to `keep`, if `on_error` says so and the sink can tell them from the others. A sink that cannot, or
        that has no `keep`, raises QueryFailed with the code `rows-refused`.
        """

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None = None) -> Iterator[tuple[int, str]] | None:
        """Try some rows of a batch without leaving a trace.

        Without `place`, process the rows and raise what writing them would raise. With it, return the rows that the
        system would refuse one by one: their numbers, which are in the column `place`, and why. None if the sink cannot
        tell.
        """
        if place is None:
            rows.write.format("noop").mode("append").save()
        return None

    def cancel(self) -> None:
        """End what `write` waits for in this process. Called from another thread; the write ends with an error.

        Spark ends what its tasks wait for.
        """

    @property
    def refusal_action(self) -> OnError:
        """What `write` does with refused rows when it is given no `keep`."""
        return "stop" if self.on_error == "dead_letter" else self.on_error


class StreamSink(Sink):
    """A sink that Spark can also write by itself, without batches that come to us."""

    @abstractmethod
    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        """How Spark writes these rows of a stream, in batches or, in real time, one by one."""
