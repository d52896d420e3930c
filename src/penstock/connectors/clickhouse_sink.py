"""ClickHouse tables as a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, Field, PrivateAttr

from penstock.batch import BatchRef
from penstock.clients.clickhouse.client import ClickHouseSinkServer as Target
from penstock.clients.clickhouse.client import quote_identifier
from penstock.clients.clickhouse.settings_server import sink_server
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.int256.columns import int256_columns, int256_to_texts
from penstock.config import Key, OnError, Whole
from penstock.connectors.contract import KeepRows, Sink, SinkCapabilities, WriteResult
from penstock.connectors.node import Parallelism
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.row_columns import OP
from penstock.settings import Settings
from penstock.spark_functions import f
from penstock.sql.types.columns import Columns
from penstock.sql.types.int256 import Int256Type, is_decimal
from penstock.sql.types.long_decimals import decimal_sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from penstock.clients.clickhouse.insert import PartitionInsert

_COLUMNS: Final[Mapping[Int256Type, str]] = {"UINT256": "UInt256", "INT256": "Int256"}
_DECIMAL_DIGITS: Final = 76


def _column_type(kind: Int256Type) -> str:
    """Return the ClickHouse type for 256-bit numbers and wide decimals: `String` if no decimal has enough digits."""
    if not is_decimal(kind):
        return _COLUMNS[kind]
    return kind.capitalize() if decimal_sizes(kind)[0] <= _DECIMAL_DIGITS else "String"


class ClickHouseSink(Sink):
    """Writes a ClickHouse table over HTTP, directly from the executors."""

    type: Literal["clickhouse"] = "clickhouse"
    inert: ClassVar[Mapping[str, str]] = {}
    located_by = ("table",)
    own_labels: ClassVar = frozenset({"table"})
    delivery = (
        "exactly once: a written batch is recorded in the table `penstock_batches` and not written again; of an "
        "interrupted one, inserts that were done are skipped by their tokens. Rows that a retry splits differently, or "
        "that differ in it (`now()`), are inserted twice, and the newest of each key is valid"
    )
    table: str = Field(min_length=1)
    """The name of the table."""
    primary_key: Key = Field(min_length=1)
    """The columns that identify a row, separated by commas. Of rows with the same key, the newest one is valid."""
    append_only_mode: bool = True
    """`true`: all rows are inserted; the columns `is_deleted` and `insert_time` mark the newest row of a key, and
    whether it is deleted. `false`: deleted rows are removed from the table, which rewrites parts of it."""
    version_column_name: str | None = None
    """The column whose highest value marks the newest row of a key. Default: the last inserted row is the newest."""
    deduplicate: bool = True
    """Whether only the newest row of each key within an insert is sent."""
    schema_override: dict[str, str] = Field(
        {}, validation_alias=AliasChoices("schema_override", "schema_overrides"), serialization_alias="schema_override"
    )
    """Column types, as ClickHouse types, for a table that the sink creates."""
    schema_change: Literal["fail", "evolve", "ignore"] = "ignore"
    """What to do with a column that the table lacks: `ignore` it with a warning, add it (`evolve`), or `fail`."""
    create: bool = True
    """Whether a missing table is created. An existing table is used as it is, if its columns fit."""
    batch_size: Whole | None = Field(None, ge=1)
    """The maximum number of rows per insert. Default: the setting `clickhouse_sink.batch_size`, which is 100000."""
    parallelism: Parallelism | None = None
    """The maximum number of concurrent inserts. Default: one for each partition of a batch."""
    compression: Literal["none", "gzip", "zstd", "lz4"] | None = None
    """The compression of inserts. Default: the setting `clickhouse_sink.compression`, which is `none`."""
    compression_level: Whole | None = Field(None, ge=0, le=9)
    """The level of `gzip`. Default: the setting `clickhouse_sink.compression_level`, which is 6."""
    _target: Target = PrivateAttr(Target())
    _flush_interval_ms: int | None = PrivateAttr(None)

    @property
    def capabilities(self) -> SinkCapabilities:
        named = {f"schema_override.{name}": name for name in self.schema_override}
        if self.version_column_name is not None:
            named = {"version_column_name": self.version_column_name, **named}
        return SinkCapabilities.by_key(
            self.primary_key,
            last_arrival_wins=self.version_column_name is None or not self.append_only_mode,  # deletes have no version
            takes_int256=True,
            named_columns=named,
            flush_interval_ms=self._flush_interval_ms,
        )

    def with_settings(self, settings: Settings, name: str) -> Self:
        found = self.with_target(sink_server(settings))
        found._flush_interval_ms = settings.clickhouse_sink.batch_flush_interval
        return found

    def with_target(self, target: Target) -> Self:
        """Return the same sink with another server."""
        found = self.model_copy()
        found._target = target
        return found

    def check(self) -> None:
        self._target.server.ask("SELECT 1")

    def check_rows(self, columns: Columns | None) -> None:
        from penstock.clients.clickhouse.tables import check_columns

        needed = [*self.primary_key, *filter(None, [self.version_column_name])]
        if self.schema_change == "fail":
            needed += [column.name for column in columns or () if column.name != OP]
        check_columns(self._target.server, self.table, needed, create=self.create)

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "all rows of the table are deleted, whoever wrote them"

    def empty(self) -> None:
        self._target.server.execute(f"TRUNCATE TABLE IF EXISTS {quote_identifier(self.table)}")

    def cancel(self) -> None:
        self._target.server.cancel()

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        from penstock.clients.clickhouse import tables
        from penstock.clients.clickhouse.insert import REPORT

        server = self._target.server
        wide = {name: _column_type(kind) for name, kind in int256_columns(batch.schema).items()}
        batch = int256_to_texts(batch)
        work = self._partition_insert(batch, ref, wide, self.on_error if keep else self.refusal_action)
        batch = _select_columns(batch, work.names)
        noting = tables.open_ledger(server, create=self.create)
        if noting and tables.is_written(server, ref):
            batch.write.format("noop").mode("append").save()
            return WriteResult(0)
        rows = batch if self.parallelism is None else batch.coalesce(self.parallelism)
        # Not cached: rejected rows are few, and caching the result to read it twice takes longer than a small batch.
        reports = _python_safe(rows).mapInArrow(work, REPORT).collect()
        summaries = [report for report in reports if report["rejected"] is None]
        for failure in (row for row in summaries if row["code"] is not None):
            raise _failure(failure)
        written = WriteResult(sum(row["rows"] for row in summaries), sum(row["refused"] for row in summaries))
        rejected = [(report["rejected"], report["message"]) for report in reports if report["rejected"] is not None]
        if rejected and keep is not None:
            keep(_dead_letters(rejected, batch))
        if noting and (written.rows or written.refused):
            tables.record_batch(server, ref)
        return written

    def _partition_insert(
        self, batch: DataFrame, ref: BatchRef, wide: Mapping[str, str], on_refusal: OnError
    ) -> PartitionInsert:
        """Prepare the table, and return the function that executors run for each partition."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from penstock.clients.clickhouse.insert import Compression, PartitionInsert
        from penstock.clients.clickhouse.tables import TableRequest, prepare_table

        target = self._target
        level = target.compression_level if self.compression_level is None else self.compression_level
        schema = to_arrow_schema(batch.drop(OP).schema, timezone="UTC")
        key, version = self.primary_key, self.version_column_name
        override, change = self.schema_override, self.schema_change
        wanted = TableRequest(self.table, schema, key, version, self.append_only_mode, override, wide, change)
        table = prepare_table(target.server, wanted, create=self.create)
        return PartitionInsert(
            server=target.server,
            table=self.table,
            names=[column for column in batch.columns if column in table.written or column == OP],
            columns=table.columns,
            key=key,
            version=version,
            append_only=self.append_only_mode,
            deduplicate=self.deduplicate,
            batch_size=self.batch_size or target.batch_size,
            packing=Compression(self.compression or target.compression, level),
            token=f"{ref.query}/{ref.output}/{ref.checkpoint_id}/{ref.batch_id}",
            on_refusal=on_refusal,
        )


def _python_safe(rows: DataFrame) -> DataFrame:
    """Return rows with names that Spark can pass to Python. Renaming copies every row, so it is done only if needed."""
    plain = {name.lower() for name in rows.columns if name.isidentifier()}
    return rows if len(plain) == len(rows.columns) else _number_columns(rows)


def _number_columns(rows: DataFrame) -> DataFrame:
    """Rename the columns to `c0`, `c1` and so on."""
    return rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))


def _select_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    if len(names) == len(rows.columns):
        return rows
    kept = [f"c{place}" for place, name in enumerate(rows.columns) if name in names]
    return _number_columns(rows).select(*kept).toDF(*names)


def _dead_letters(refused: Sequence[tuple[bytes, str]], batch: DataFrame) -> DataFrame:
    """Return the rows that executors report as rejected, as JSON, each with its error."""
    from pyspark.sql.types import StringType, StructField, StructType

    from penstock.clients.clickhouse.rejected_rows import unpack_rejected

    schema = StructType([*_number_columns(batch).schema, StructField("said", StringType())])
    packed = batch.sparkSession.createDataFrame(refused, "rejected BINARY, message STRING")
    row = f.struct(*(f.col(f"c{place}").alias(name) for place, name in enumerate(batch.columns)))
    value, message = f.to_json(row, JSON_OPTIONS).alias("value"), f.col("said").alias("message")
    return packed.mapInArrow(unpack_rejected, schema).select(value, message)


def _failure(report: Row) -> PenstockError:
    """Turn the error in an executor's report back into an exception."""
    if report["of_service"]:
        return ServiceError(report["code"], report["message"], hint=report["hint"], retriable=report["retriable"])
    return QueryFailed(report["code"], report["message"], hint=report["hint"])
