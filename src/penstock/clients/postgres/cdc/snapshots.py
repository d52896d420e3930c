"""The snapshot of a table's rows when its capture begins, stored as pages until all of them have been read.

The rows are read once, in the snapshot at which the slot begins. A page can be read repeatedly, so a run that ends in
between continues with the next page, and all rows are from one moment.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.clients.postgres.cdc import replication_slots
from penstock.clients.postgres.cdc.change_rows import prepare
from penstock.clients.postgres.cdc.published_table import PublishedTable
from penstock.clients.postgres.cdc.text_decoding import decode_column
from penstock.clients.postgres.tables import quote_names
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from psycopg import Copy

    from penstock.clients.postgres.server import Database

_NOTE: Final = "begin.json"
_PAGES: Final = "pages"
_BLOCK_BYTES: Final = 32_000_000
"""The maximum size of a row."""
_PAGE_BYTES: Final = 64_000_000
_PAGES_OF_BATCH: Final = 4


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """How the capture of a table began: the slot, the LSN from which on it is read, and the number of pages before."""

    slot: str
    lsn: str
    pages: int

    @property
    def first(self) -> dict[str, str]:
        """The offset at which the first batch begins."""
        return {"page": "0"} if self.pages else {"lsn": self.lsn}

    def offset_after(self, page: int) -> dict[str, str]:
        """Return the offset at which a batch ends that begins with a page."""
        last = page + _PAGES_OF_BATCH
        return {"page": str(last)} if last < self.pages else {"lsn": self.lsn}


def read_state(directory: Path) -> SnapshotState | None:
    note = directory / _NOTE
    return SnapshotState(**json.loads(note.read_text(encoding="utf-8"))) if note.is_file() else None


def stored_state(followed: PublishedTable) -> SnapshotState:
    """Return the state of a capture that has begun."""
    assert followed.directory is not None
    found = read_state(followed.directory)
    assert found is not None
    return found


def begin_snapshot(followed: PublishedTable, schema: pa.Schema) -> SnapshotState:
    """Create what is needed to capture a table, and store a snapshot of its rows. Later calls return that state."""
    directory = followed.directory
    assert directory is not None
    if found := read_state(directory):
        return found
    pages = directory / _PAGES
    shutil.rmtree(pages, ignore_errors=True)
    try:
        pages.mkdir(parents=True)
        with followed.server.connect() as db:
            where = replication_slots.create_publication(db, followed)
            if followed.with_rows:
                with replication_slots.open_snapshot(followed) as (lsn, image):
                    count = _save_pages(db, followed, image, where, schema, pages)
            else:
                lsn, count = replication_slots.create_slot(db, followed), 0
        begun = SnapshotState(followed.slot, replication_slots.lsn_text(lsn), count)
        fresh = directory / f".{_NOTE}"
        fresh.write_text(json.dumps(asdict(begun)), encoding="utf-8")
        fresh.replace(directory / _NOTE)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot store rows in {directory}: {error.strerror}") from error
    return begun


def page_path(followed: PublishedTable, page: int) -> Path:
    assert followed.directory is not None
    return followed.directory / _PAGES / f"{page:06d}.parquet"


def page_rows(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        for batch in file.iter_batches(10_000):
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def forget_pages(followed: PublishedTable) -> None:
    """Delete the pages after all of them were read."""
    assert followed.directory is not None
    with suppress(OSError):
        shutil.rmtree(followed.directory / _PAGES)


def current_rows(followed: PublishedTable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with followed.server.connect() as db:
        yield from _rows(db, followed, None, schema)


def _save_pages(
    db: Database, followed: PublishedTable, image: str, where: str | None, schema: pa.Schema, pages: Path
) -> int:
    """Write the rows of a snapshot of the database to pages. Returns the number of pages."""
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        db.execute(f"SET TRANSACTION SNAPSHOT '{image}'")
        return _write_pages(_rows(db, followed, where, schema), followed, schema, pages)


def _write_pages(batches: Iterator[pa.RecordBatch], followed: PublishedTable, schema: pa.Schema, pages: Path) -> int:
    from pyarrow.parquet import ParquetWriter

    most = max(1, followed.most_rows // _PAGES_OF_BATCH)
    count, rows, size, writer = 0, 0, 0, None
    try:
        for whole in batches:
            for at in range(0, len(whole), most):
                batch = whole.slice(at, most)
                if writer is not None and (rows + len(batch) > most or size + batch.nbytes > _PAGE_BYTES):
                    writer.close()
                    writer = None
                if writer is None:
                    writer = ParquetWriter(page_path(followed, count), schema)
                    count, rows, size = count + 1, 0, 0
                writer.write_batch(batch)
                rows, size = rows + len(batch), size + batch.nbytes
    finally:
        if writer is not None:
            writer.close()
    return count


def _rows(db: Database, followed: PublishedTable, where: str | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    prepare(db)
    names = [str(at) for at in range(len(followed.columns))]
    condition = f" WHERE {where}" if where else ""
    select = f"SELECT {quote_names(followed.names)} FROM ONLY {followed.table}{condition}"
    with db.cursor().copy(f"COPY ({select}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)") as copy:
        source = _CopyFile(copy)
        if source.is_empty:
            return
        reader = csv.open_csv(
            pa.PythonFile(source, "r"),
            csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        for batch in reader:
            columns = [
                decode_column(wanted.name, wanted.spoken, found, schema.field(wanted.name).type)
                for wanted, found in zip(followed.columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([*columns, pa.repeat("i", len(batch))], schema=schema)


class _CopyFile(io.RawIOBase):
    """The output of COPY as a file object."""

    def __init__(self, copy: Copy) -> None:
        self._lines: Iterator[Any] = iter(copy)
        self._unread = memoryview(b"".join(islice(self._lines, 1)))

    @property
    def is_empty(self) -> bool:
        return not self._unread

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._unread:
            self._unread = memoryview(b"".join(islice(self._lines, 2000)))
        count = min(len(into), len(self._unread))
        into[:count] = self._unread[:count]
        self._unread = self._unread[count:]
        return count
