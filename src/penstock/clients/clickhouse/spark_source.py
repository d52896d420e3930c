"""A table as a data source of Spark, whose offset is a key."""
# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.clients.clickhouse.paging import PagedTable
from penstock.errors import raise_as_text

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

_PARTS: Final = 4
"""The number of ranges of a page that are read in parallel."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as Spark reads it: between two positions if they are given, else from the first key on."""

    reading: PagedTable
    start_at: int | None = None
    before: str | None = None
    after: str | None = None

    @property
    def first(self) -> int:
        """The offset to start from. A table without rows may get any later, so it starts at the lowest possible key."""
        if self.start_at is not None:
            return self.start_at
        ends = self.reading.ends()
        return ends[0] if ends else self.reading.lowest

    @property
    def end(self) -> int:
        ends = self.reading.ends()
        return ends[1] if ends else self.reading.lowest

    @property
    def span(self) -> tuple[int, int]:
        begin = self.first if self.before is None else _key(self.before)
        return begin, max(begin, self.end if self.after is None else _key(self.after))


def split_range(begin: int, end: int) -> list[tuple[int, int]]:
    parts = max(1, min(_PARTS, end - begin))
    return list(pairwise(begin + (end - begin) * part // parts for part in range(parts + 1)))


def data_source(label: str, table: Table) -> type[DataSource]:
    """Return the class of a data source. Its settings are in the class, because Spark writes options into plans."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
    from pyspark.sql.types import StructType

    class Keys(InputPartition):
        def __init__(self, begin: int, end: int) -> None:
            self.begin, self.end = begin, end

    class Rows:
        def __init__(self, schema: StructType) -> None:
            self.schema = schema

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            assert isinstance(partition, Keys)
            with raise_as_text():
                arrow = to_arrow_schema(self.schema, timezone="UTC")
                yield from table.reading.batches(partition.begin, partition.end, arrow)

    class Pages(Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Reads page after page, up to the highest key that exists at the start."""

        end: int | None = None

        def initialOffset(self) -> dict[str, str]:
            with raise_as_text():
                return {"key": str(table.first)}

        def prepareForTriggerAvailableNow(self) -> None:
            with raise_as_text():
                self.end = table.end

        def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
            if self.end is None:
                self.prepareForTriggerAvailableNow()
            assert self.end is not None
            begin = int(start["key"])
            with raise_as_text():
                return start if begin >= self.end else {"key": str(table.reading.page_end(begin, self.end))}

        def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
            return [Keys(*part) for part in split_range(int(start["key"]), int(end["key"]))]

    class Whole(Rows, DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            with raise_as_text():
                return [Keys(*part) for part in split_range(*table.span)]

    class TableSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return label

        def schema(self) -> str:
            return table.reading.schema

        def streamReader(self, schema: StructType) -> Any:
            return Pages(schema)

        def reader(self, schema: StructType) -> Any:
            return Whole(schema)

    return TableSource


def _key(position: str) -> int:
    return int(json.loads(position)["key"])
