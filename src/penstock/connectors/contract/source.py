"""What a source is asked to do: read a stream, read a batch of it again, and show what is there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from penstock.batch import PartRead
from penstock.config import OnError
from penstock.connectors.contract.common import Connector
from penstock.errors import QueryFailed
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class SourceCapabilities:
    """Facts about a configured source: what its rows are made of, and how they are read."""

    bounded: bool = False
    """Whether its rows come to an end by themselves."""
    ends_as_job: bool = False
    """Whether a job can read it: it is bounded, or it has a place where a job ends."""
    has_records: bool = False
    """Whether rows are made of records, which may not be decodable: they have the columns `ERROR` and `ORIGIN`."""
    has_positions: bool = False
    """Whether it is read by positions in topics, so that a stream of it can be scanned after a commit."""
    has_files: bool = False
    """Whether it reads files that come one by one: some may not be readable, and Spark reads them in any order."""
    loses_order: bool = False
    """Whether Spark may mix up the rows of a batch that were in several files."""
    finds_key: bool = False
    """Whether its system may know the primary key where none is declared."""
    poll_ms: int = 10
    """How long to wait before looking again when there was nothing new."""
    condition: str | None = None
    """A condition, in the SQL of pipelines, that rows must meet once they are read."""
    condition_at: tuple[str, ...] = ("filter",)
    """The field in which that condition is written."""
    rename_hint: str = "give it another name where rows come from"
    """The way out where a column has a name that cannot be used."""


class Snapshot:
    """What a source found when a query began. All batches of the query are read by it."""

    @property
    def restart_reason(self) -> QueryFailed | None:
        """Why the query should begin again: something can be read by now that could not when it began."""
        return None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How one query reads a source. A reader may ignore `only`, `condition` and `any_order`: they make it faster."""

    name: str = ""
    """The name of every reader, or its prefix, so that a checkpoint can outlive a change of the query."""
    columns: Columns | None = None
    """The columns that the writer of its rows puts out, or that a hybrid source has: a source that does not know the
    types of its values takes them from here."""
    declared: bool = False
    """Whether `columns` are declared in documents: values that do not fit them are faults."""
    only: frozenset[str] | None = None
    """The columns that the query uses, in lower case; None for all."""
    condition: str | None = None
    """A condition in Spark SQL that the query applies to the rows itself."""
    any_order: bool = False
    """Whether the order of rows does not matter."""
    ordered: bool = False
    """Whether rows need the columns of `ORDER`, which say where a row was."""
    directory: Path | None = None
    """Where the source may keep what it must remember for as long as the checkpoint of the query lasts."""
    snapshot: Snapshot | None = None
    """What the source found when the query began (`Source.take_snapshot`)."""


class Source(Connector):
    """Rows come from here."""

    table_only: ClassVar[bool] = False
    """Whether it is a table that streams look rows up in, and no stream itself."""
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "a batch is what is there when it begins",
        "batch_flush_interval": "the sinks of a query say how often its batches begin",
        "parallelism": "Spark reads every part of the input by a task of its own",
    }

    on_error: OnError = "dead_letter"
    """What becomes of what cannot be read: keep it as a dead letter, `stop`, `skip`."""

    @property
    def capabilities(self) -> SourceCapabilities:
        """Its facts. They may depend on the configuration."""
        return SourceCapabilities()

    @property
    def live(self) -> Source:
        """The source that is read in the end, of one that is made of several."""
        return self

    @abstractmethod
    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """The stream. It may have the column `ERROR`, and those of `ORDER` if it knows an order."""

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        """Read the rows of a batch again, as a finite table; None where rows cannot be read twice.

        `parts` are what each reader has read in the batch. Without them, read every row that is there now. Rows have
        `ORIGIN` where the source has records, and the columns of `ORDER` if they are asked for.
        """
        return None

    @abstractmethod
    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """What is there now, as a finite table."""

    def known_columns(self) -> Columns | None:
        """The columns, as far as they are known without Spark and without reading rows."""
        return None

    def take_snapshot(self, spark: SparkSession, request: ReadRequest, *, again: bool) -> Snapshot | None:
        """Find what all batches of a query are to be read by, such as the columns; None if there is nothing to find.

        If a batch is to be done `again`, what could not be read of it then must not be read now.
        """
        return None

    def backlog(self, position: str | None) -> int | None:
        """How much there is to read from a position on, where that is more than Spark plans for one batch."""
        return None

    def file_stamps(self) -> Mapping[str, tuple[int, int]] | None:
        """The files of a lookup table by name, with size and modification time; None if they cannot be compared."""
        return None


class RecordSource(Source):
    """A source whose rows are made of records, which dead letters keep as they were."""

    @abstractmethod
    def decode_records(self, records: DataFrame, request: ReadRequest) -> DataFrame:
        """The rows of records that were kept: key, value, where they were and their headers.

        Rows have `ERROR` and `ORIGIN` if the source has records with this configuration.
        """

    def newer_rows(
        self, spark: SparkSession, request: ReadRequest, places: Mapping[int, int], since_ms: int
    ) -> DataFrame | None:
        """Read the rows behind an offset in some partitions, and those since a time in the others, with `ORIGIN`.

        None where the source has no such order, or no longer holds all of them.
        """
        return None
