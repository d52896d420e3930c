"""Staging of rows: each task copies its rows into a table next to the target, once, however often it is retried.

The table is not logged, so it is empty after a crash of the server. A second table records which parts have arrived,
and is emptied with it. A task with few rows returns them to the driver, which copies them when it merges.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from penstock.batch import BatchRef
from penstock.clients.int256.columns import int256_columns, register_int256
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.sink.copy_rows import copy_line
from penstock.clients.postgres.tables import LOCK, QualifiedTable, columns_of, quote_identifier, quote_names
from penstock.clients.task_report import report_batch
from penstock.errors import PenstockError, QueryFailed, ServiceError

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

    from penstock.clients.postgres.server import Database

ORDER: Final = "_penstock_order"
GONE: Final = "_penstock_gone"
TOKEN: Final = "_penstock_token"
_OWN: Final = {ORDER: "bigint", GONE: "boolean", TOKEN: "bigint"}
_REPORT: Final = (
    "part INT, rows BIGINT, checksum BIGINT, lines BINARY, code STRING, message STRING, hint STRING, passing BOOLEAN"
)
_FEW: Final = 128 * 1024
"""The most bytes that a task returns to the driver: to log in takes longer than to copy them."""
_ROOM: Final = 2**20
"""The most bytes of finished batches that stay in the table: to truncate it takes longer than to skip them."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Staged rows of one token: parts in the staging table, and lines that the driver will copy."""

    table: QualifiedTable
    token: int
    rows: int
    checksum: int
    arrived: int
    copy: str
    lines: Mapping[int, bytes]
    """Lines by the number of their part."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The staging table of one sink."""

    table: QualifiedTable
    columns: Mapping[str, str]
    gone: str | None
    """The SQL condition for deleted rows; None without it: an additional column costs time to read and sort."""

    @staticmethod
    def create_for(target: QualifiedTable, ref: BatchRef, columns: Mapping[str, str], gone: str | None) -> Stage:
        own = zlib.crc32(f"{ref.query}\n{ref.output}\n{ref.checkpoint_id}\n{target}".encode())
        return Stage(target.sibling(f"penstock_rows_{own:08x}"), columns, gone)

    @property
    def _own(self) -> dict[str, str]:
        return {name: kind for name, kind in _OWN.items() if name != GONE or self.gone is not None}

    @property
    def parts(self) -> QualifiedTable:
        return self.table.sibling(self.table.name.replace("rows", "parts", 1))

    def create_if_missing(self, db: Database) -> None:
        """Create the table, again if its columns differ."""
        wanted = {**self.columns, **self._own}
        if columns_of(db, self.table) == wanted and columns_of(db, self.parts):
            return
        with db.transaction():
            db.execute(LOCK)
            db.execute(
                f"CREATE UNLOGGED TABLE IF NOT EXISTS {self.parts}"
                " (token bigint, part int, rows bigint, checksum bigint, PRIMARY KEY (token, part))"
            )
            if columns_of(db, self.table) != wanted:
                each = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in wanted.items())
                db.execute(f"TRUNCATE {self.parts}")
                db.execute(f"DROP TABLE IF EXISTS {self.table}")
                db.execute(f"CREATE UNLOGGED TABLE {self.table} ({each}) WITH (autovacuum_enabled = false)")

    def fill(self, rows: DataFrame, server: PostgresServer, most_tasks: int | None = None) -> StagedRows:
        """Copy rows from the executors, or fetch them if they are few.

        Rows are numbered before tasks are combined, so that their order is kept whoever copies them.
        """
        token = secrets.randbits(62)
        copier = Copier(server, self.copy_sql(rows), self.parts.parameter_safe, token)
        lines = rows.selectExpr(f"{self._line(rows, token)} AS line")
        lines = lines if most_tasks is None else lines.coalesce(most_tasks)
        reports = lines.mapInArrow(copier, _REPORT).collect()
        for report in reports:
            if report["code"] == "rows-refused":
                raise QueryFailed(report["code"], report["message"], hint=report["hint"])
            if report["code"] is not None:
                raise ServiceError(report["code"], report["message"], hint=report["hint"], retriable=report["passing"])
        return StagedRows(
            self.table,
            token,
            rows=sum(report["rows"] for report in reports),
            checksum=sum(report["checksum"] for report in reports) % 2**62,
            arrived=sum(report["rows"] for report in reports if report["lines"] is None),
            copy=copier.copy,
            lines={report["part"]: report["lines"] for report in reports if report["lines"]},
        )

    def number_lines(self, rows: DataFrame, place: str) -> Iterator[tuple[int, bytes]]:
        """Return rows as lines in the order of a number column, without the token and what follows it."""
        lines = rows.selectExpr(place, f"{self._line(rows)} AS line")
        return ((row[place], row["line"].encode()[:-1]) for row in lines.toLocalIterator())

    def copy_sql(self, rows: DataFrame) -> str:
        """Return the COPY statement for such lines."""
        names = quote_names([*(field.name for field in self._fields(rows)), *self._own])
        return f"COPY {self.table} ({names}) FROM STDIN"

    def _fields(self, rows: DataFrame) -> list[StructField]:
        return [field for field in rows.schema if field.name in self.columns]

    def _line(self, rows: DataFrame, token: int | None = None) -> str:
        if int256_columns(rows.schema):
            register_int256(rows.sparkSession)
        texts = {ORDER: "monotonically_increasing_id()", GONE: self.gone, TOKEN: f"'{token}'"}
        more = [f"cast({texts[name]} AS string)" for name in self._own if name != TOKEN or token is not None]
        return copy_line(self._fields(rows), more)

    def complete(self, db: Database, staged: StagedRows) -> None:
        """Copy the fetched lines, in the open transaction, and check that all parts are there: a crash empties the
        table.

        An abandoned task can write no part from now on, nor may it have written one that was fetched.
        """
        there, free = staged.arrived, len(staged.lines)
        if there:
            counted = f"SELECT coalesce(sum(rows), 0)::bigint FROM {self.parts.parameter_safe} WHERE token = %s"
            (there,) = db.execute(counted, (staged.token,)).fetchone() or (0,)
        if staged.lines:
            taken = f"INSERT INTO {self.parts.parameter_safe} SELECT %s, unnest(%s::int[]), 0, 0 ON CONFLICT DO NOTHING"
            free = db.execute(taken, (staged.token, list(staged.lines))).rowcount
        if (there, free) != (staged.arrived, len(staged.lines)):
            why = "PostgreSQL has started again in the middle of a batch, or a task was run twice"
            raise ServiceError("unreachable", why, retriable=True)
        if staged.lines:
            with db.cursor() as cursor, cursor.copy(staged.copy) as copy:
                for lines in staged.lines.values():
                    copy.write(lines)

    def empty(self, db: Database) -> None:
        """Delete all rows, unless they are few. Rows that an abandoned task writes later do no harm: nothing reads
        them."""
        from psycopg.errors import LockNotAvailable

        if db.execute("SELECT pg_table_size(to_regclass(%s)) > %s", (str(self.table), _ROOM)).fetchone() == (True,):
            with suppress(LockNotAvailable):
                db.execute(f"TRUNCATE {self.table}, {self.parts}")


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies lines from Spark to the server, on an executor.

    The first task that writes a part of a token owns it. A second attempt fails the batch, which is then retried: the
    first one may not have seen all rows before Spark ended it.
    """

    server: PostgresServer
    copy: str
    parts: str
    token: int

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        remaining = iter(batches)
        try:
            rows, checksum, lines = self._deliver_lines(part, remaining)
            report: dict[str, object] = {"rows": rows, "checksum": checksum, "lines": lines}
        except PenstockError as error:
            report = {"rows": 0, "checksum": 0, "code": error.code, "message": error.message, "hint": error.hint}
            report["passing"] = error.retriable
        for _ in remaining:
            pass
        yield report_batch(_REPORT, [{"part": part, **report}])

    def _deliver_lines(self, part: int, batches: Iterator[RecordBatch]) -> tuple[int, int, bytes | None]:
        """Return the number of rows and their checksum, and the rows themselves if they are few."""
        first: list[RecordBatch] = []
        size = 0
        for batch in batches:
            first.append(batch)
            size += len(_text(batch))
            if size > _FEW:
                return *self._copy_batches(part, chain(first, batches)), None
        lines = b"".join(map(_text, first))
        return sum(batch.num_rows for batch in first), zlib.crc32(lines), lines

    def _copy_batches(self, part: int, batches: Iterable[RecordBatch]) -> tuple[int, int]:
        with self.server.connect() as db, db.transaction():
            begin = f"INSERT INTO {self.parts} VALUES (%s, %s, 0, 0) ON CONFLICT DO NOTHING"
            if db.execute(begin, (self.token, part)).rowcount == 0:
                raise ServiceError("unreachable", "a task of the batch was run twice", retriable=True)
            rows, checksum = 0, 0
            with db.cursor() as cursor, cursor.copy(self.copy) as copy:
                for batch in batches:
                    text = _text(batch)
                    rows, checksum = rows + batch.num_rows, zlib.crc32(text, checksum)
                    copy.write(text)
            done = f"UPDATE {self.parts} SET rows = %s, checksum = %s WHERE (token, part) = (%s, %s)"
            db.execute(done, (rows, checksum, self.token, part))
            return rows, checksum


def _text(batch: RecordBatch) -> memoryview:
    """Return the lines of an Arrow batch as one buffer."""
    import pyarrow

    lines = batch.column(0)
    wide = pyarrow.types.is_large_string(lines.type)
    _, offsets, data = lines.buffers()
    places = memoryview(offsets).cast("q" if wide else "i")
    return memoryview(data)[places[lines.offset] : places[lines.offset + len(lines)]]
