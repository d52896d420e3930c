"""The interface of sources: read a stream, read a batch of it again, and show current rows."""

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
    """Facts about a configured source: what its rows are made from, and how they are read."""

    bounded: bool = False
    """Whether its rows come to an end by themselves."""
    ends_as_job: bool = False
    """Whether a job can read it: it is bounded, or it has a place where a job ends."""
    has_records: bool = False
    """Whether rows are decoded from records, which may be undecodable: they have the columns `ERROR` and `ORIGIN`."""
    has_positions: bool = False
    """Whether it is read by offsets in topics, so that a stream of it can be scanned after a commit."""
    has_files: bool = False
    """Whether it reads files that arrive one by one: some may be unreadable, and Spark reads them in any order."""
    loses_order: bool = False
    """Whether Spark may lose the order of rows of a batch that come from several files."""
    finds_key: bool = False
    """Whether its system may know the primary key if none is declared."""
    poll_ms: int = 10
    """The interval in milliseconds between polls if there was nothing new."""
    condition: str | None = None
    """A condition, in the SQL of pipelines, that rows must meet after they are read."""
    condition_at: tuple[str, ...] = ("filter",)
    """The field that has this condition."""
    rename_hint: str = "give it another name where rows come from"
    """The hint for a column whose name cannot be used."""


class Snapshot:
    """What a source finds when a query begins. All batches of the query are read with it."""

    @property
    def restart_reason(self) -> QueryFailed | None:
        """The reason to restart the query: something has become readable that was not when the query began."""
        return None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How one query reads a source. A reader may ignore `only`, `condition` and `any_order`: they are optimizations."""

    name: str = ""
    """The name of every reader, or its prefix, so that a checkpoint outlives a change of the query."""
    columns: Columns | None = None
    """The columns that the writer of its rows produces, or that a hybrid source has. A source that does not know the
    types of its values takes them from here."""
    declared: bool = False
    """Whether `columns` are declared in documents: then values that do not fit them are faults."""
    only: frozenset[str] | None = None
    """The columns that the query uses, in lower case; None for all."""
    condition: str | None = None
    """A condition in Spark SQL that the query applies to the rows itself."""
    any_order: bool = False
    """Whether the order of rows does not matter."""
    ordered: bool = False
    """Whether rows need the columns of `ORDER`, which hold the position of a row."""
    directory: Path | None = None
    """Where the source may store what must last as long as the checkpoint of the query."""
    snapshot: Snapshot | None = None
    """What the source found when the query began (`Source.take_snapshot`)."""


class Source(Connector):
    """The base class of sources."""

    table_only: ClassVar[bool] = False
    """Whether it is a table for lookups only, and cannot be read as a stream."""
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "a batch is what is there when it begins",
        "batch_flush_interval": "the sinks of a query say how often its batches begin",
        "parallelism": "Spark reads every part of the input by a task of its own",
    }

    on_error: OnError = "dead_letter"
    """What to do with what cannot be read: `dead_letter`, `stop`, `skip`."""

    @property
    def capabilities(self) -> SourceCapabilities:
        """The facts about this source. They may depend on the configuration."""
        return SourceCapabilities()

    @property
    def live(self) -> Source:
        """The source that is read after all phases of a backfill; other sources return themselves."""
        return self

    @abstractmethod
    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """Return the stream. It may have the column `ERROR`, and those of `ORDER` if the source knows an order."""

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        """Read the rows of a batch again, as a finite table; None if rows cannot be read twice.

        `parts` are what each reader has read in the batch. Without them, read all current rows. Rows have `ORIGIN` if
        the source has records, and the columns of `ORDER` if they are requested.
        """
        return None

    @abstractmethod
    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """Return the current rows, as a finite table."""

    def known_columns(self) -> Columns | None:
        """Return the columns, as far as they are known without Spark and without reading rows."""
        return None

    def take_snapshot(self, spark: SparkSession, request: ReadRequest, *, again: bool) -> Snapshot | None:
        """Determine what all batches of a query are read with, such as the columns; None if there is nothing.

        If a batch is to be retried (`again`), what was unreadable in it must stay unreadable.
        """
        return None

    def backlog(self, position: str | None) -> int | None:
        """Return how much there is to read from a position on, if that is more than Spark plans for one batch."""
        return None

    def file_stamps(self) -> Mapping[str, tuple[int, int]] | None:
        """Return size and modification time of a lookup table's files, by name; None if they cannot be compared."""
        return None


class RecordSource(Source):
    """A source whose rows are decoded from records. Dead letters keep these records unchanged."""

    @abstractmethod
    def decode_records(self, records: DataFrame, request: ReadRequest) -> DataFrame:
        """Decode records of dead letters: key, value, position and headers.

        Rows have `ERROR` and `ORIGIN` if the source has records with this configuration.
        """

    def newer_rows(
        self, spark: SparkSession, request: ReadRequest, places: Mapping[int, int], since_ms: int
    ) -> DataFrame | None:
        """Read the rows after an offset in some partitions, and those since a time in the others, with `ORIGIN`.

        None if the source has no such order, or no longer holds all of these rows.
        """
        return None
