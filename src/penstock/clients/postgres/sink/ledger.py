"""The ledger: one row per batch, written in the transaction that writes the rows of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.batch import BatchRef
from penstock.clients.postgres.tables import LOCK, QualifiedTable, make_schema
from penstock.errors import QueryFailed

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_NAME: Final = "penstock_ledger"
_KEPT: Final = 1000
"""How many batches of a query the ledger keeps; Spark keeps a hundred."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger table of a schema."""

    table: QualifiedTable

    @staticmethod
    def of(schema: str) -> Ledger:
        return Ledger(QualifiedTable(schema, _NAME))

    def create_if_missing(self, db: Database) -> None:
        with db.transaction():
            db.execute(LOCK)
            make_schema(db, self.table.schema)
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {self.table} (query text, sink text, checkpoint text, batch bigint,"
                " offsets text[] NOT NULL, rows bigint NOT NULL, checksum bigint NOT NULL,"
                " written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (query, sink, checkpoint, batch))"
            )

    def has_batch(self, db: Database, ref: BatchRef) -> bool:
        """Whether the ledger has the batch. A batch that was written from other input is refused."""
        from psycopg.errors import UndefinedTable

        try:
            found = db.execute(
                f"SELECT batch, offsets FROM {self.table.parameter_safe}"
                " WHERE (query, sink, checkpoint) = (%s, %s, %s)"
                " AND batch >= %s ORDER BY batch LIMIT 1",
                _key(ref),
            ).fetchone()
        except UndefinedTable:
            self.create_if_missing(db)
            return False
        if found is None:
            return False
        batch, offsets = found
        if batch != ref.batch_id:
            raise _conflict(ref, f"is older than {batch}, which is written")
        if offsets != list(ref.offsets):
            raise _conflict(ref, "was written before from other input")
        return True

    def add(self, db: Database, ref: BatchRef, rows: int, checksum: int) -> None:
        table = self.table.parameter_safe
        db.execute(
            f"WITH old AS (DELETE FROM {table} WHERE (query, sink, checkpoint) = (%s, %s, %s) AND batch < %s)"
            f" INSERT INTO {table} (query, sink, checkpoint, batch, offsets, rows, checksum)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*_key(ref)[:3], ref.batch_id - _KEPT, *_key(ref), list(ref.offsets), rows, checksum),
        )


def _key(ref: BatchRef) -> tuple[str, str, str, int]:
    return ref.query, ref.output, ref.checkpoint_id, ref.batch_id


def _conflict(ref: BatchRef, what: str) -> QueryFailed:
    hint = f"its checkpoint was restored from an older copy: `penstock run --allow-rebuild {ref.query}`"
    return QueryFailed("batch-conflict", f"batch {ref.batch_id} of `{ref.query}` {what}", hint=hint)
