"""What a connector is: a frozen model that is configuration, documentation and behaviour in one.

A connector holds no connection and no state, and can be pickled. It imports pyspark and its client library inside
methods only, so that checking a project starts no JVM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import Field

from penstock.clients.batches import BatchRef, PartRead
from penstock.clients.clusters import Clusters
from penstock.clients.jars import Package
from penstock.config import OnError
from penstock.connectors.node import PipelineNode
from penstock.keyed.operators import ORDER
from penstock.settings import Settings
from penstock.sql.types import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


ERROR: Final = "_error"
"""A column of a source's rows: why a row could not be made, as a code; null if it could."""
ORIGIN: Final = "_origin"
"""A column of rows that are read again: where they came from, as a struct of topic, partition, offset, …, value."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a field of a connector. What is not `fatal` may be put right before it runs."""

    code: str
    field: str
    text: str
    hint: str | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows of a batch a sink has written, and how many it could not."""

    rows: int
    refused: int = 0


class Connector(PipelineNode, ABC):
    """Common to sources and sinks."""

    packages: ClassVar[tuple[Package, ...]] = ()
    """What Spark needs for it beside what comes with PySpark."""
    by_options: ClassVar[bool] = False
    """Whether its fields may also stand below `options`, as those of plugins do. One that stands beside is stronger."""
    on_this_machine: ClassVar[bool] = False
    """Whether it reads or writes directories of this machine, which those of a cluster do not see."""

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        """What Spark needs for one that is written like this."""
        return cls.packages

    @classmethod
    def stays_here(cls, config: Mapping[str, Any]) -> bool:
        """Whether one that is written like this reads or writes what only this machine has."""
        return cls.on_this_machine

    def rooted_at(self, root: Path) -> Self:
        """The same connector with its relative paths taken from `root`."""
        return self

    def reaching(self, clusters: Clusters) -> Self:
        """The same connector, which knows the systems it reads from or writes to."""
        return self

    def check(self) -> None:
        """Raise a ServiceError when the system cannot be reached."""

    def remarks(self, settings: Settings) -> Iterator[Remark]:
        """What is wrong with it beside these settings of the application."""
        yield from ()


class Source(Connector):
    """Rows come from here."""

    has_positions: ClassVar[bool] = False
    """Whether it is read by positions in topics, so that a stream of it can be looked through afterwards."""
    loses_order: ClassVar[bool] = False
    """Whether Spark may mix up the rows of a batch that stood in several files."""
    has_files: ClassVar[bool] = False
    """Whether it reads files that come one by one: some may not be readable, and Spark reads them in any order."""
    filter_at: ClassVar[tuple[str, ...]] = ("filter",)
    """Where its condition is written."""
    table_only: ClassVar[bool] = False
    """Whether it is a table that streams look rows up in, and no stream itself."""
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "a batch is what is there when it begins",
        "batch_flush_interval": "the sinks of a query say how often its batches begin",
        "parallelism": "Spark reads every part of the input by a task of its own",
    }

    on_error: OnError = "dead_letter"
    """What becomes of what cannot be read: keep it as a letter, `stop`, `skip`."""

    @property
    def has_records(self) -> bool:
        """Whether rows are made of records, which may not be readable: they have the columns `ERROR` and `ORIGIN`."""
        return False

    @property
    def filter_(self) -> str | None:
        """A condition, in the SQL of pipelines, that rows must meet once they are read."""
        return None

    @property
    def bounded(self) -> bool:
        """Whether the rows come to an end by themselves."""
        return False

    @property
    def ends_as_job(self) -> bool:
        """Whether a job can read it: it comes to an end, or to a place where a job ends."""
        return self.bounded

    @property
    def tells_key(self) -> bool:
        """Whether what it reads may say what the primary key is, where that is not written down."""
        return False

    @property
    def live(self) -> Source:
        """What it reads in the end, if it is made of several sources; else the source itself."""
        return self

    @abstractmethod
    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The stream. Every reader behind it is called `name`, or `name` with a suffix, so that a checkpoint can
        outlive a change of the query. It may have the column `ERROR`."""

    def read_in_order(self, spark: SparkSession, name: str) -> DataFrame:
        """The stream with the columns of `ORDER`, which tell where a row stood; rows are numbered later on.

        Unless a source knows better, only its batches have an order.
        """
        from pyspark.sql import functions as f

        blanks = (f.lit(0).cast("bigint"), f.lit(""), f.lit(0).cast("bigint"), f.lit(0).cast("bigint"))
        return self.read(spark, name).withColumns(dict(zip(ORDER, blanks, strict=True)))

    def read_again(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        """The rows of a batch once more, as a finite table; `parts` are what each reader of it has read.

        If they are to be `ordered`, with the columns of `ORDER`; with `ORIGIN` where a source has records. None where
        rows cannot be read twice.
        """
        return None

    def rows_of(self, records: DataFrame) -> DataFrame | None:
        """The rows of records that were kept: key, value, where they stood and their headers.

        With `ERROR` and `ORIGIN` where a source has records; None where none can be made of them.
        """
        return None

    @abstractmethod
    def peek(self, spark: SparkSession) -> DataFrame:
        """What is there now, as a finite table."""

    def as_of_now(self, spark: SparkSession, *, again: bool) -> Self:
        """The same source with the columns that it has now, so that all batches of a run are read alike.

        If a batch is to be done `again`, what could not be read of it then cannot be read now.
        """
        return self

    @property
    def outdated(self) -> str | None:
        """Why what was opened `as_of_now` should be opened anew: something can be read by now that could not."""
        return None

    def in_any_order(self) -> Self:
        """The same source, for readers to whom the order of rows is all one."""
        return self

    def with_only(self, names: frozenset[str]) -> Self:
        """The same source, for readers that ask for no columns but those of these names, in lower case.

        It may leave others out where that makes it faster.
        """
        return self

    def where(self, condition: str) -> Self:
        """The same source, for readers that want rows which meet a condition in Spark SQL, and look for themselves.

        It may leave others out where it knows of them before it has read them.
        """
        return self

    def ahead(self, position: str | None) -> int | None:
        """How much there is to read from a position on, by what positions lie apart, where that is more than Spark
        plans for one batch. None if it is not, or is not known."""
        return None

    def keeping_in(self, directory: Path) -> Self:
        """The same source, which may keep there what it must remember as long as the checkpoint of its reader lasts."""
        return self

    @property
    def poll_ms(self) -> int:
        """How long to wait before looking again when there was nothing new."""
        return 10

    def with_columns(self, columns: Columns) -> Self:
        """The same source, with the columns that the writer of its rows is known to put out."""
        return self

    def first_rows(self, limit: int) -> list[dict[str, Any]] | None:
        """A few rows as JSON values and decimals, where they can be had without Spark; None where they cannot."""
        return None

    def known_columns(self) -> Columns | None:
        """The columns, as far as they can be told without Spark and without reading rows."""
        return None


NO_SERVICE: Final = dict.fromkeys(
    (
        "a_service_that_starts_again_loses_nothing",
        "a_service_that_is_silent_is_given_up",
        "a_write_that_hangs_can_be_let_go",
    ),
    "there is no service",
)
"""What a sink without a service behind it cannot promise."""


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

    from_: str = Field(alias="from")
    """The source or transform whose rows are written."""
    isolate: bool = False
    """Whether it reads for itself: where it is slow or fails, the other sinks go on without it."""
    on_error: OnError = "dead_letter"
    """What becomes of a row that the SQL fails over, or that is not taken here: keep it as a letter, `stop`, `skip`."""

    def usual_interval(self, settings: Settings) -> int | None:
        """How often its batches begin by the settings, in milliseconds, where it does not say so itself and they do."""
        return None

    @property
    def by_order(self) -> bool:
        """Whether the last of several rows counts, so that they must come in their order."""
        return self.keyed

    @property
    def by_arrival(self) -> bool:
        """Whether it is the row that arrives last that counts, whatever its place: tasks write at the same time."""
        return False

    @property
    def last_by(self) -> tuple[str, ...]:
        """The key of which it wants the last row only, of those in a batch; empty if it wants every row."""
        return ()

    @property
    def doubles(self) -> bool:
        """Whether rows come twice when a batch that failed halfway is written again."""
        return "a_replayed_batch_leaves_no_duplicates" in self.waives

    @property
    def columns_named(self) -> Mapping[str, str]:
        """The columns that rows must have beside the key, by the place where they are named: `group_by.account`."""
        return {}

    @abstractmethod
    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        """Write one batch and say how many rows that were. Called again with an equal `ref` after a crash.

        The batch must be worked through even if nothing is written: operators with state depend on it. A sink that does
        not take a row raises QueryFailed with the code `rows-refused`.
        """

    def rehearse(self, rows: DataFrame, ref: BatchRef) -> None:
        """Work through some rows of a batch without a trace, and raise what writing them would raise."""
        rows.write.format("noop").mode("append").save()

    def refusing(self, rows: DataFrame, place: str, ref: BatchRef) -> Iterator[tuple[int, str]] | None:
        """Those of some rows of a batch that it would not take if they came one by one: the numbers that they have in
        the column `place`, which is none of theirs, and why. It leaves no trace. None where only `rehearse` tells.
        """
        return None

    def deliver(self, batch: DataFrame, ref: BatchRef, keep: Callable[[DataFrame], None]) -> Written:
        """Write one batch. Rows that the system does not take are handed to `keep`, if they are to be kept.

        They have the columns `value`, a row as JSON, and `message`, what was said of it.
        """
        return Written(self.write(batch, ref))

    def let_go(self) -> None:
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
