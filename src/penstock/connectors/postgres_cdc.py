"""Change data capture from PostgreSQL tables: a snapshot of the rows first, then every change."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field

from penstock.batch import PartRead
from penstock.clients.postgres.connection_fields import PostgresAddress
from penstock.clients.postgres.tables import QualifiedTable
from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.config import Names, Number, TextPattern, Whole
from penstock.connectors.contract import ReadRequest, Source, SourceCapabilities
from penstock.row_columns import ORDER
from penstock.spark_functions import f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.clients.postgres.cdc.published_table import PublishedTable

_FORMAT: Final = "penstock_postgres_cdc"
_LONGEST_NAME: Final = 63
_SLOT: Final = TextPattern(
    f"[a-z0-9_]{{1,{_LONGEST_NAME}}}",
    f"the name of a slot has up to {_LONGEST_NAME} small letters (a to z), digits and `_`",
)
_POLL_MS: Final = 200
_RENAME_HINT: Final = "leave it out: `columns` names those that are read"


class PostgresCdcSource(PostgresAddress, Source):
    """Captures the changes of a PostgreSQL table: first a snapshot of its rows, then every insert, update and delete.

    It uses logical replication, with a slot and a publication that are created if they do not exist. Rows have their
    operation in `_gs_op`: `i`, `u` or `d`.
    """

    type: Literal["postgres_cdc"] = "postgres_cdc"
    located_by = ("database", "schema", "table")
    own_labels: ClassVar = frozenset({"table"})
    table: str = Field(min_length=1)
    """The name of the table, with its schema before a dot unless `schema` is set."""
    schema_: str | None = Field(None, alias="schema", min_length=1)
    """The schema of the table. Default: `public`."""
    columns: Names = ()
    """The columns to read, separated by commas. Default: all. They must include those of the key."""
    as_text: Names = ()
    """Columns to read as text, as PostgreSQL writes them: for values that Spark's type cannot represent."""
    slot_name: Annotated[str, _SLOT] | None = None
    """The replication slot. It is created if it does not exist. Default: a slot for this pipeline only."""
    publication_name: str | None = Field(None, min_length=1, max_length=_LONGEST_NAME)
    """The publication. It is created if it does not exist. Default: a publication for the table."""
    snapshot: Literal["initial", "never"] = "initial"
    """Whether the existing rows of the table are read first."""
    on_truncate: Literal["stop", "skip"] = "stop"
    """What to do on TRUNCATE, which removes all rows without reporting any of them: `stop`, or `skip` it."""
    auto_create_publication: bool = True
    """Whether the publication is created if it does not exist."""
    emit_update_before_row: bool = False
    """Whether an update is two rows: the old row as a delete (`d`), and the new one (`u`). For sinks that add and
    subtract; the table needs `REPLICA IDENTITY FULL`."""
    max_rows_per_trigger: Whole = Field(100_000, ge=1)
    """The approximate number of rows per batch. Transactions are never split, so a batch may have more."""

    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(poll_ms=_POLL_MS, rename_hint=_RENAME_HINT)

    def check(self) -> None:
        self._published_table(None)

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        from penstock.clients.postgres.cdc.spark_source import data_source

        label = f"{_FORMAT}_{zlib.crc32(request.name.encode()):08x}"
        spark.dataSource.register(data_source(label, self._published_table(request.directory)))
        rows = spark.readStream.name(request.name).format(label).load()
        return _add_order(rows) if request.ordered else rows

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        from penstock.clients.postgres.cdc.snapshots import read_state

        part = None if parts is None else parts.get(request.name)
        begun = None if request.directory is None else read_state(request.directory)
        if part is None or part.after is None or begun is None:
            return None
        rows = self._rows(spark, request, (part.before or json.dumps(begun.first), part.after))
        return _add_order(rows) if request.ordered else rows

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self._rows(spark, request)

    def _rows(self, spark: SparkSession, request: ReadRequest, within: tuple[str, str] | None = None) -> DataFrame:
        from penstock.clients.postgres.cdc.spark_source import data_source

        spark.dataSource.register(data_source(_FORMAT, self._published_table(request.directory), within))
        return spark.read.format(_FORMAT).load()

    def _published_table(self, directory: Path | None) -> PublishedTable:
        from penstock.clients.postgres.cdc.published_table import PublishedTable, describe_table
        from penstock.clients.postgres.cdc.snapshots import read_state

        schema, _, table = (self.table if self.schema_ is None else "").rpartition(".")
        name = QualifiedTable(self.schema_ or schema or "public", table or self.table)
        with_old = self.emit_update_before_row
        found = describe_table(self.server, name, self.columns, self.as_text, self.primary_key, with_old=with_old)
        if wrong := invalid_names_error((column.name for column in found.columns), f"table `{name}`", _RENAME_HINT):
            raise wrong
        begun = None if directory is None else read_state(directory)
        return PublishedTable(
            server=self.server,
            table=name,
            columns=found.columns,
            key=found.key,
            are_all=found.are_all,
            slot=self.slot_name or (begun.slot if begun is not None else _own_name(self.table, str(directory))),
            publication=self.publication_name or _own_name(self.table, str(name)),
            keeps_slot=self.slot_name is not None,
            with_rows=self.snapshot == "initial",
            passes_truncate=self.on_truncate == "skip",
            most_rows=self.max_rows_per_trigger,
            with_old=with_old,
            makes_publication=self.auto_create_publication,
            directory=directory,
        )


class PostgresCdcPlugin(PostgresCdcSource):
    """The same source under the name of a plugin. Its fields may also be written below `options`."""

    type: Literal["postgres_cdc_source"] = "postgres_cdc_source"  # type: ignore[assignment]
    by_options = True
    inert: ClassVar[Mapping[str, str]] = {
        f"memory_backpressure_{setting}": "rows are read in batches, as many as `max_rows_per_trigger` says"
        for setting in ("enabled", "activate_threshold", "resume_threshold")
    }
    memory_backpressure_enabled: bool = True
    """Accepted, but has no effect: rows are read in batches."""
    memory_backpressure_activate_threshold: Number | None = Field(None, gt=0, le=1)
    """Accepted, but has no effect: rows are read in batches."""
    memory_backpressure_resume_threshold: Number | None = Field(None, gt=0, le=1)
    """Accepted, but has no effect: rows are read in batches."""


def _own_name(table: str, of: str) -> str:
    """Return a name that is recognizable and unique."""
    words = re.sub("[^a-z0-9]+", "_", table.lower()).strip("_")[:40]
    return f"penstock_{words}_{hashlib.sha256(of.encode()).hexdigest()[:8]}"


def _add_order(rows: DataFrame) -> DataFrame:
    """Add the order of the server's log. The rows of the snapshot have no order, and each key only once."""
    zero = f.lit(0).cast("bigint")
    return rows.withColumns(dict(zip(ORDER, (zero, f.lit(""), f.monotonically_increasing_id(), zero), strict=True)))
