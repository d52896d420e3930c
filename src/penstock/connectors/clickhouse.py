"""ClickHouse tables as a source."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr

from penstock.batch import PartRead
from penstock.clients.clickhouse.client import ClickHouseSourceServer as Origin
from penstock.clients.clickhouse.settings_server import source_server
from penstock.clients.int256.columns import int256_from_texts
from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.config import Names, Whole
from penstock.connectors.contract import ReadRequest, Source, SourceCapabilities
from penstock.settings import Settings
from penstock.sql.types.columns import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.clients.clickhouse.paging import PagedTable

_FORMAT: Final = "penstock_clickhouse"
_RENAME_HINT: Final = "leave it out: `columns` names those that are read"


@dataclass(frozen=True, slots=True)
class ClickHouseTable:
    """The columns that are read from a table, its sorting key, and whether that key is unique."""

    columns: Columns
    key: tuple[str, ...]
    keeps_one: bool


class ClickHouseSource(Source):
    """Reads the rows that a ClickHouse table has when the run starts, page by page, and ends."""

    type: Literal["clickhouse"] = "clickhouse"
    located_by = ("table_name",)
    own_labels: ClassVar = frozenset({"table"})
    table_name: str = Field(min_length=1)
    """The name of the table. Its sorting key must begin with an integer column."""
    columns: Names = ()
    """The columns to read, separated by commas. Default: all."""
    filter: str | None = None
    """A condition in ClickHouse SQL that rows must meet."""
    start_at: Whole | None = None
    """The first sorting key that the first run reads. Later runs continue where the previous one ended."""
    _origin: Origin = PrivateAttr(Origin())

    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(bounded=True, ends_as_job=True, finds_key=True, rename_hint=_RENAME_HINT)

    def with_settings(self, settings: Settings, name: str) -> Self:
        found = self.model_copy()
        found._origin = source_server(settings)
        return found

    def check(self) -> None:
        self._paged_table()

    def describe_table(self) -> ClickHouseTable:
        """Describe the columns and the key of the table, as the server reports them."""
        found = self._paged_table()
        wide = dict(found.wide)
        columns = tuple(Column(name, wide.get(name) or kind) for name, _, kind in found.columns)
        return ClickHouseTable(columns, found.key, found.keeps_one)

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        from penstock.clients.clickhouse.spark_source import Table, data_source

        label = f"{_FORMAT}_{zlib.crc32(request.name.encode()):08x}"
        reading = self._paged_table()
        spark.dataSource.register(data_source(label, Table(reading, self.start_at)))
        return int256_from_texts(spark.readStream.name(request.name).format(label).load(), dict(reading.wide))

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        return self._read_range(spark)

    def backlog(self, position: str | None) -> int | None:
        from penstock.clients.clickhouse.spark_source import Table

        begin, end = Table(self._paged_table(), self.start_at, position).span
        return end - begin

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        part = None if parts is None else parts.get(request.name)
        if part is None or part.after is None or request.ordered:
            return None
        return self._read_range(spark, part.before, part.after)

    def _read_range(self, spark: SparkSession, before: str | None = None, after: str | None = None) -> DataFrame:
        from penstock.clients.clickhouse.spark_source import Table, data_source

        reading = self._paged_table()
        spark.dataSource.register(data_source(_FORMAT, Table(reading, self.start_at, before, after)))
        return int256_from_texts(spark.read.format(_FORMAT).load(), dict(reading.wide))

    def _paged_table(self) -> PagedTable:
        from penstock.clients.clickhouse.paging import paged_table

        origin = self._origin
        found = paged_table(origin.server, self.table_name, self.columns, self.filter, origin.page_size)
        names = [name for name, _, _ in found.columns]
        if wrong := invalid_names_error(names, f"table `{self.table_name}`", _RENAME_HINT):
            raise wrong
        return found
