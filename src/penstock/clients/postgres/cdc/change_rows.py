"""Reads the changes of a table between two LSNs as rows.

A slot can be read from the same LSN repeatedly until that is confirmed, so a retried batch has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.clients.postgres.cdc import replication_slots
from penstock.clients.postgres.cdc.pgoutput import ChangeRows, PgOutputReader, RelationMessage, TruncateMessage
from penstock.clients.postgres.cdc.published_table import PublishedTable, current_columns, full_identity
from penstock.clients.postgres.cdc.text_decoding import decode_column
from penstock.clients.postgres.tables import quote_identifier
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_SETTINGS: Final = (
    "SET datestyle = ISO; SET intervalstyle = postgres; SET bytea_output = hex; SET extra_float_digits = 1;"
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET row_security = off"
)
"""Settings for the text format of values, and against timeouts; rows that a policy hides are an error."""
_CURSOR: Final = "penstock_changes"
_AT_ONCE_BYTES: Final = 4_000_000
_FIRST_ROWS: Final = 500
_MOST_ROWS: Final = 20_000


def read_changes(followed: PublishedTable, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the changes that were committed from `begin` on and before `end`, in order, in small batches."""
    with followed.server.connect() as db:
        prepare(db)
        watch = _SchemaWatch(db, followed)
        place = (followed.table.schema, followed.table.name)
        reader = PgOutputReader(place, (begin, end), followed.key, watch.check_relation, followed.with_old)
        for messages in _messages(db, followed, begin, end):
            for found in reader.read(messages):
                if isinstance(found, TruncateMessage):
                    watch.check_truncate()
                else:
                    yield _batch(followed, found, schema)


def prepare(db: Database) -> None:
    """Configure a connection to write all rows in the text format that is decoded here."""
    db.execute(_SETTINGS)


def _messages(db: Database, followed: PublishedTable, begin: int, end: int) -> Iterator[list[bytes]]:
    """Yield the messages of the slot. The server keeps them until they are fetched, on its disk if there are many."""
    asked = (followed.slot, replication_slots.lsn_text(end), None, quote_identifier(followed.publication))

    def first() -> list[bytes]:
        with db.transaction():
            replication_slots.check_slot(db, followed, begin)
            db.execute(f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR SELECT data FROM {replication_slots.PEEK}", asked)
            return _fetch_messages(db, _FIRST_ROWS)

    with db.transaction():
        messages = replication_slots.retry_while_in_use(followed, first)
        while messages:
            yield messages
            width = max(1, sum(map(len, messages)) // len(messages))
            messages = _fetch_messages(db, max(10, min(_MOST_ROWS, _AT_ONCE_BYTES // width)))
        replication_slots.check_slot(db, followed, begin)


def _fetch_messages(db: Database, count: int) -> list[bytes]:
    rows = db.execute(f"FETCH {count} FROM {_CURSOR}", binary=True).fetchall()
    return [data for (data,) in rows]


def _batch(followed: PublishedTable, rows: ChangeRows, schema: pa.Schema) -> pa.RecordBatch:
    hint = f"{full_identity(followed.table)}; then {replication_slots.REBUILD}"
    if left := [name for name in rows.lacking if name in followed.names]:
        text = (
            f"an update of {followed.table} comes without its value of {', '.join(left)}, which did not change "
            "and is kept apart from its row (TOAST)"
        )
        raise ServiceError("change-unusable", text, hint=hint)
    if rows.without_old:
        text = f"an update of {followed.table} comes without the row that it replaces"
        raise ServiceError("change-unusable", text, hint=hint)
    count = len(rows.operations)
    columns = [
        decode_column(wanted.name, wanted.spoken, rows.columns[wanted.name], schema.field(wanted.name).type)
        if wanted.name in rows.columns
        else pa.nulls(count, schema.field(wanted.name).type)
        for wanted in followed.columns
    ]
    return pa.RecordBatch.from_arrays([*columns, rows.operations], schema=schema)


@dataclass(frozen=True, slots=True)
class _SchemaWatch:
    """Checks whether the table still has the columns that are read."""

    db: Database
    followed: PublishedTable

    def check_relation(self, relation: RelationMessage) -> None:
        """Continue if only the old table differs from the expected columns; stop if the current one does.

        A new column is null in older changes. A renamed column cannot be distinguished from that, so it stops the
        query.
        """
        expected = {column.name: column.type for column in self.followed.columns}
        described = dict(zip(relation.columns, relation.types, strict=True))
        if not self.followed.are_all:
            described = {name: kind for name, kind in described.items() if name in expected}
        if described == expected:
            return
        now = current_columns(self.db, self.followed.table)
        if not self.followed.are_all:
            now = {name: kind for name, kind in now.items() if name in expected}
        if now != expected:
            text = f"{self.followed.table} has changed: {_difference(expected, now)}"
            raise ServiceError("schema-changed", text, hint="restart the run: rows then have the new columns")
        unknown, missing = described.keys() - expected.keys(), expected.keys() - described.keys()
        if unknown and missing:
            text = (
                f"changes of {self.followed.table} have {', '.join(sorted(unknown))}, and the table has "
                f"{', '.join(sorted(missing))} now: a column may have got another name"
            )
            raise ServiceError("schema-changed", text, hint=replication_slots.REBUILD)

    def check_truncate(self) -> None:
        if not self.followed.passes_truncate:
            text = f"{self.followed.table} was truncated: its rows are gone, and PostgreSQL does not report which"
            hint = (
                "empty what was written from it, and restart with `--allow-rebuild`; "
                "`on_truncate: skip` continues and keeps those rows"
            )
            raise ServiceError("change-unusable", text, hint=hint)


def _difference(before: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> str:
    said: Sequence[tuple[str, set[str]]] = (
        ("it has a new column", now.keys() - before.keys()),
        ("it has no longer the column", before.keys() - now.keys()),
        ("another type has", {name for name in before.keys() & now.keys() if before[name] != now[name]}),
    )
    return "; ".join(f"{words} {', '.join(sorted(names))}" for words, names in said if names)
