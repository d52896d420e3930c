"""What sources are asked: a stream, and what else is known of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from penstock.batch import PartRead
from penstock.config import OnError
from penstock.connectors.contract.common import Connector
from penstock.row_columns import ORDER
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    renaming: ClassVar[str] = "give it another name where rows come from"
    """The way out where a column has a name that cannot be used."""
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

    def reread(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        """The rows of a batch once more, as a finite table; `parts` are what each reader of it has read.

        If they are to be `ordered`, with the columns of `ORDER`; with `ORIGIN` where a source has records. None where
        rows cannot be read twice.
        """
        return None

    def reread_all(self, spark: SparkSession, name: str) -> DataFrame | None:
        """Every row that is there now, as `read_again` gives them; None where records are found by their places."""
        return None

    def decode_records(self, records: DataFrame) -> DataFrame | None:
        """The rows of records that were kept: key, value, where they stood and their headers.

        With `ERROR` and `ORIGIN` where a source has records; None where none can be made of them.
        """
        return None

    def newer_rows(self, spark: SparkSession, places: Mapping[int, int], since_ms: int) -> DataFrame | None:
        """Read the rows behind an offset in some partitions, and those since a time in the others, with `ORIGIN`.

        None where the source has no such order, or no longer holds all of them.
        """
        return None

    @abstractmethod
    def peek(self, spark: SparkSession) -> DataFrame:
        """What is there now, as a finite table."""

    def freeze(self, spark: SparkSession, *, again: bool) -> Self:
        """The same source with the columns that it has now, so that all batches of a run are read alike.

        If a batch is to be done `again`, what could not be read of it then cannot be read now.
        """
        return self

    @property
    def restart_reason(self) -> str | None:
        """Why what was opened `as_of_now` should be opened anew: something can be read by now that could not."""
        return None

    def file_stamps(self) -> Mapping[str, tuple[int, int]] | None:
        """The files of a lookup table by name, with size and modification time; None where there is nothing to compare:
        no files, or they lie elsewhere than on this machine."""
        return None

    def without_order(self) -> Self:
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

    def with_directory(self, directory: Path) -> Self:
        """The same source, which may keep there what it must remember as long as the checkpoint of its reader lasts."""
        return self

    @property
    def poll_ms(self) -> int:
        """How long to wait before looking again when there was nothing new."""
        return 10

    def with_columns(self, columns: Columns) -> Self:
        """The same source, with the columns that the writer of its rows is known to put out, or that others of a hybrid
        source have: what does not say by itself of what type its values are takes them from there."""
        return self

    def with_declared(self, columns: Columns) -> Self:
        """The same source, with the types that documents declare for its columns: values that do not fit are faults."""
        return self.with_columns(columns)

    def first_rows(self, limit: int) -> list[dict[str, Any]] | None:
        """A few rows as JSON values and decimals, where they can be had without Spark; None where they cannot."""
        return None

    def known_columns(self) -> Columns | None:
        """The columns, as far as they can be told without Spark and without reading rows."""
        return None
