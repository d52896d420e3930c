"""A captured table as a Spark data source, whose offsets are in the checkpoint.

An offset is a page of the snapshot, or an LSN. Spark asks for the next offset only after the previous batch is
committed, so that is when the LSN is confirmed to the server.
"""
# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.clients.postgres.cdc import change_rows, replication_slots, snapshots
from penstock.clients.postgres.cdc.published_table import PublishedTable
from penstock.errors import raise_as_text

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

    from penstock.clients.postgres.server import Database

_UNCONFIRMED_BYTES: Final = 16_000_000
"""How much of the log other tables' changes may leave unconfirmed, before a batch without rows confirms it."""


class _Follower:
    """Finds the next offset. It holds the slot for itself as long as its connection lasts."""

    def __init__(self, followed: PublishedTable) -> None:
        self._followed = followed
        self._db: Database | None = None
        self._nothing: tuple[int, int] | None = None

    def next_offset(self, start: dict[str, str], target: int | None) -> dict[str, str]:
        if "page" in start:
            return snapshots.stored_state(self._followed).offset_after(int(start["page"]))
        begin, db = replication_slots.offset_lsn(start), self._open_connection()
        with self._followed.server.translate_errors():
            replication_slots.confirm(db, self._followed, begin)
            there = replication_slots.flushed_lsn(db)
            end = there if target is None else target
            if end <= begin or self._nothing == (begin, end):
                return start
            replication_slots.check_publication(db, self._followed)
            ahead = replication_slots.find_batch_end(db, self._followed, end)
        if not ahead.changes and ahead.end == end and end - begin < _UNCONFIRMED_BYTES:
            self._nothing = (begin, end)
            return start
        return {"lsn": replication_slots.lsn_text(ahead.end)}

    def server_lsn(self) -> int:
        with self._followed.server.connect() as db:
            return replication_slots.flushed_lsn(db)

    def _open_connection(self) -> Database:
        if self._db is None:
            self._db = self._followed.server.open_connection()
            with self._followed.server.translate_errors():
                replication_slots.lock_slot(self._db, self._followed)
            snapshots.forget_pages(self._followed)
        return self._db

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def data_source(label: str, followed: PublishedTable, within: tuple[str, str] | None = None) -> type[DataSource]:
    """Return a data source class for the table: as a stream, or as the rows of one batch or the current ones.

    Its settings are in the class, because Spark writes options into plans.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
    from pyspark.sql.types import StructType

    class Page(InputPartition):
        def __init__(self, number: int) -> None:
            self.number = number

    class Span(InputPartition):
        def __init__(self, begin: int, end: int) -> None:
            self.begin, self.end = begin, end

    def parts(start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        if "page" in start:
            last = int(end["page"]) if "page" in end else snapshots.stored_state(followed).pages
            return [Page(number) for number in range(int(start["page"]), last)]
        return [Span(replication_slots.offset_lsn(start), replication_slots.offset_lsn(end))]

    class Rows:
        def __init__(self, schema: StructType) -> None:
            self.schema = schema

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            arrow = to_arrow_schema(self.schema, timezone="UTC")
            with raise_as_text():
                match partition:
                    case Page(number=number):
                        yield from snapshots.page_rows(snapshots.page_path(followed, number), arrow)
                    case Span(begin=begin, end=end):
                        yield from change_rows.read_changes(followed, begin, end, arrow)
                    case _:
                        yield from snapshots.current_rows(followed, arrow)

    class Changes(Rows, DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Reads the snapshot first, then every change."""

        target: int | None = None

        def __init__(self, schema: StructType) -> None:
            super().__init__(schema)
            self.follower = _Follower(followed)

        def initialOffset(self) -> dict[str, str]:
            with raise_as_text():
                return snapshots.begin_snapshot(followed, to_arrow_schema(self.schema, timezone="UTC")).first

        def prepareForTriggerAvailableNow(self) -> None:
            with raise_as_text():
                self.target = self.follower.server_lsn()

        def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
            with raise_as_text():
                return self.follower.next_offset(start, self.target)

        def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
            return parts(start, end)

        def stop(self) -> None:
            self.follower.close()

    class Whole(Rows, DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(None)] if within is None else parts(*map(json.loads, within))

    class TableSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return label

        def schema(self) -> str:
            return followed.schema

        def streamReader(self, schema: StructType) -> Any:
            return Changes(schema)

        def reader(self, schema: StructType) -> Any:
            return Whole(schema)

    return TableSource
