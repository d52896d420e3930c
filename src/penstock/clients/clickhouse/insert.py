"""Inserts from executors: Arrow batches in, inserts out.

An insert has a token, and ClickHouse skips a repeated one. A token is a hash of the batch, its partition, and all rows
of the partition so far. So a replay either sends the same rows, which are skipped, or the first insert that differs and
all later ones are inserted.

An insert that is refused because of some rows is bisected to find them. The others are written.
"""

import hashlib
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clients.clickhouse.client import ClickHouse, quote_identifier
from penstock.clients.clickhouse.last_per_key import chunks, last_per_key
from penstock.clients.clickhouse.rejected_rows import AT_FAULT, RejectedRows, encode_arrow, find_failing
from penstock.clients.clickhouse.tables import DELETED, SETTINGS, ClickHouseColumn, delete_sql
from penstock.clients.clickhouse.types import COLLECTIONS, WIDE, blank_text, kind_of, target_type
from penstock.clients.clickhouse.values import convert_values, literals
from penstock.clients.task_report import report_batch
from penstock.config import OnError
from penstock.errors import PenstockError, QueryFailed
from penstock.row_columns import OP

REPORT: Final = (
    "rows BIGINT, refused BIGINT, rejected BINARY, code STRING, message STRING, hint STRING, retriable BOOLEAN, "
    "of_service BOOLEAN"
)
"""The result of a partition: the number of rows written, or the error. Rejected rows come before it, as an Arrow
stream, with the error of each in `message`."""
_PLACE: Final = "\0place"
_KEYS_A_DELETE: Final = 1000
_BYTES_A_DELETE: Final = 200_000
"""ClickHouse accepts statements of up to 256 KiB."""


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression of an insert's body.

    Arrow compresses single columns, which takes half of the time of compressing the whole body; it does not support
    `gzip`.
    """

    codec: str
    level: int

    @property
    def encoding(self) -> str | None:
        """The value of `Content-Encoding`."""
        return "gzip" if self.codec == "gzip" else None

    def compress_rows(self, rows: pa.Table) -> bytes:
        """Encode rows as a compressed Arrow stream."""
        if self.codec != "gzip":
            return bytes(encode_arrow(rows, None if self.codec == "none" else self.codec))
        packer = zlib.compressobj(self.level, wbits=31)
        return packer.compress(encode_arrow(rows)) + packer.flush()


@dataclass(frozen=True, slots=True)
class PartitionInsert:
    """Writes the partitions of one batch, which `token` identifies.

    A deleted row differs from one that was never inserted. So a batch with deletes is repeated as a whole, without
    tokens: they would skip inserts of an earlier attempt whose rows this attempt has just deleted.
    """

    server: ClickHouse
    table: str
    names: Sequence[str]
    """The names of the columns; Spark cannot pass on every name."""
    columns: Mapping[str, ClickHouseColumn]
    key: Sequence[str]
    version: str | None
    append_only: bool
    deduplicate: bool
    batch_size: int
    packing: Compression
    token: str
    on_refusal: OnError = "stop"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        refused = RejectedRows()
        try:
            result: dict[str, object] = {"rows": self._insert_batches(batches, refused), "refused": refused.count}
        except PenstockError as error:
            result = {"code": error.code, "message": error.message, "hint": error.hint, "retriable": error.retriable}
            result["of_service"] = not isinstance(error, QueryFailed)
        rejected = refused.dead_letters() if self.on_refusal == "dead_letter" and "code" not in result else ()
        yield report_batch(REPORT, [*rejected, result])

    def _insert_batches(self, batches: Iterable[pa.RecordBatch], refused: RejectedRows) -> int:
        from pyspark import TaskContext

        task = TaskContext.get()
        seen = hashlib.blake2b(f"{self.token}/{task.partitionId() if task else 0}".encode(), digest_size=16)
        written = 0
        for chunk in chunks(batches, self.batch_size):
            chunk = chunk.rename_columns(list(self.names))
            rows = self._last_rows(chunk)
            try:
                self._write_rows(rows, seen)
                written += len(rows)
            except QueryFailed as error:
                if self.on_refusal == "stop" or error.code not in AT_FAULT:
                    raise
                written += self._insert_valid(chunk, seen, refused)
        return written

    @property
    def _newest_only(self) -> bool:
        return self.deduplicate or not self.append_only  # deletes follow all inserts

    def _last_rows(self, chunk: pa.Table) -> pa.Table:
        wide = self.version is not None and kind_of(self.columns[self.version].type).word in WIDE
        return last_per_key(chunk, self.key, self.version, as_numbers=wide) if self._newest_only else chunk

    def _write_rows(self, rows: pa.Table, seen: "hashlib.blake2b") -> None:
        """Insert rows, and delete those that are marked as deleted."""
        gone = _deleted_mask(rows)
        rows = rows.drop_columns([OP]) if gone is not None else rows
        if self.append_only:
            self._insert(self._mark_deleted(rows, gone), seen)
            return
        if gone is None:
            self._insert(rows, None)
            return
        leaving = rows.filter(gone)
        for column in self.key:  # before anything is inserted: what is refused then is nothing that was half done
            self._convert_column(column, leaving[column].combine_chunks())
        self._insert(rows.filter(pc.invert(gone)), None)
        self._delete(leaving)

    def _insert_valid(self, chunk: pa.Table, seen: "hashlib.blake2b", refused: RejectedRows) -> int:
        """Write the valid rows of a refused insert, and return their number.

        A rejected row counts as never inserted, so an older row of its key stays.
        """
        left, written = chunk.append_column(_PLACE, pa.array(np.arange(len(chunk)))), 0
        while len(left):
            rows = self._last_rows(left)
            wrong = self._find_unfit(rows, refused.count)
            if wrong:
                left = left.filter(pc.invert(pc.is_in(left[_PLACE], pa.array(wrong))))
            else:
                wrong = self._bisect_insert(rows, seen, refused.count)
                written += len(rows) - len(wrong)
                left = self._older_rows(left, wrong) if self._newest_only else left.slice(0, 0)
            refused.add(chunk, wrong)
        return written

    def _find_unfit(self, rows: pa.Table, before: int) -> dict[int, str]:
        """Return the errors of rows that the columns of the table cannot hold, by row number."""
        gone = _deleted_mask(rows)
        marks = None if gone is None or not self.append_only else gone.combine_chunks()
        staying = rows if gone is None or self.append_only else rows.filter(pc.invert(gone))
        found: dict[int, str] = {}
        for column in rows.column_names:
            if column not in (OP, _PLACE):
                asked = rows if column in self.key else staying
                values = asked[column].combine_chunks()

                def attempt(begin: int, end: int, column: str = column, values: pa.Array = values) -> None:
                    some = None if marks is None else marks.slice(begin, end - begin)
                    self._convert_column(column, values.slice(begin, end - begin), some)

                for place, said in find_failing(len(asked), attempt, before):
                    found.setdefault(asked[_PLACE][place].as_py(), said)
        return found

    def _bisect_insert(self, rows: pa.Table, seen: "hashlib.blake2b", before: int) -> dict[int, str]:
        """Insert rows in ever smaller parts, and collect the error of each row that the server refuses."""

        def attempt(begin: int, end: int) -> None:
            self._write_rows(rows.slice(begin, end - begin).drop_columns([_PLACE]), seen)

        return {rows[_PLACE][place].as_py(): said for place, said in find_failing(len(rows), attempt, before)}

    def _older_rows(self, rows: pa.Table, wrong: Mapping[int, str]) -> pa.Table:
        """Return the rows that share a key with a rejected row, without the rejected rows."""
        names = [f"k{number}" for number in range(len(self.key))]
        keys = pa.table([*(rows[column] for column in self.key), rows[_PLACE]], names=[*names, _PLACE])
        is_wrong = pc.is_in(keys[_PLACE], pa.array(wrong))
        others = keys.filter(pc.invert(is_wrong))
        found = others.join(keys.filter(is_wrong).drop_columns([_PLACE]), keys=names, join_type="left semi")
        return rows.filter(pc.is_in(rows[_PLACE], found[_PLACE].combine_chunks()))

    def _mark_deleted(self, rows: pa.Table, gone: pa.ChunkedArray | None) -> pa.Table:
        if DELETED in self.columns:
            marks = pa.repeat(pa.scalar(0, pa.uint8()), len(rows)) if gone is None else gone.cast(pa.uint8())
            return rows.append_column(DELETED, marks)
        if gone is not None and pc.any(gone).as_py():
            table = quote_identifier(self.table)
            hint = f"ALTER TABLE {table} ADD COLUMN {DELETED} UInt8; or use `append_only_mode: false`"
            text = f"a row is to be deleted, and table `{self.table}` has no column `{DELETED}` to say so"
            raise QueryFailed("table-mismatch", text, hint=hint)
        return rows

    def _insert(self, rows: pa.Table, seen: "hashlib.blake2b | None") -> None:
        if not len(rows):
            return
        marks = rows[DELETED].combine_chunks().cast(pa.bool_()) if DELETED in rows.column_names else None
        gone = marks if self.append_only else None
        table = pa.table({c: self._convert_column(c, rows[c].combine_chunks(), gone) for c in rows.column_names})
        body = self.packing.compress_rows(table)
        token = uuid.uuid4().hex  # otherwise ClickHouse would deduplicate inserts by their content
        if seen is not None:
            seen.update(body)
            token = seen.hexdigest()
        names = ", ".join(map(quote_identifier, rows.column_names))
        sql = f"INSERT INTO {quote_identifier(self.table)} ({names}) FORMAT ArrowStream"
        self.server.insert(sql, body, self.packing.encoding, {**SETTINGS, "insert_deduplication_token": token})

    def _convert_column(self, column: str, values: pa.Array, gone: pa.Array | None = None) -> pa.Array:
        """Convert values to the type of the column. Deleted rows may have only a key: their nulls are replaced by a
        default."""
        table_column = self.columns[column]
        kind = kind_of(table_column.type)
        optional = kind.nullable or kind.word in COLLECTIONS or table_column.has_default
        try:
            if values.null_count and (not optional or column in self.key):
                self._check_nulls(table_column, values, gone)
                values = values.fill_null(blank_text(table_column.type)) if pa.types.is_string(values.type) else values
            return convert_values(values, kind, target_type(values.type, kind))
        except (ValueError, pa.ArrowException) as error:
            said = str(error).partition("\n")[0]
            text = f"column `{column}` of table `{self.table}` is {table_column.type}: {said}"
            raise QueryFailed("field-mismatch", text, hint="fix it in the SQL, or change the table") from None

    def _check_nulls(self, column: ClickHouseColumn, values: pa.Array, gone: pa.Array | None) -> None:
        if gone is None or column.name in self.key or values.filter(pc.invert(gone)).null_count:
            raise ValueError("null in a column that is not Nullable")
        if column.decides:
            raise ValueError("null in a row that is deleted, which would then not be the newest of its key")

    def _delete(self, rows: pa.Table) -> None:
        parts = [literals(rows[column].combine_chunks(), kind_of(self.columns[column].type)) for column in self.key]
        for keys in _portions([f"({', '.join(key)})" for key in zip(*parts, strict=True)]):
            self.server.execute(delete_sql(self.table, self.key, keys), {"mutations_sync": "1"})


def _deleted_mask(rows: pa.Table) -> pa.ChunkedArray | None:
    return pc.equal(pc.utf8_lower(rows[OP]), "d").fill_null(False) if OP in rows.column_names else None


def _portions(keys: Sequence[str]) -> Iterator[list[str]]:
    """Split keys into lists that fit into a statement."""
    held: list[str] = []
    size = 0
    for key in keys:
        size += len(key.encode()) + 2
        if held and (len(held) == _KEYS_A_DELETE or size > _BYTES_A_DELETE):
            yield held
            held, size = [], len(key.encode()) + 2
        held.append(key)
    if held:
        yield held
