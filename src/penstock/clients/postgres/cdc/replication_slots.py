"""Publications and replication slots: what the server publishes, and up to where it may discard changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.clients.postgres.cdc.published_table import PublishedTable
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.tables import quote_identifier, quote_names
from penstock.clients.retry import retry
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_PATIENCE_SECS: Final = 15
"""How long to wait for another reader of the slot: a run that has just ended may still be connected."""
REBUILD: Final = "`--allow-rebuild` with the name of the query reads everything again"
PEEK: Final = "pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)"

_AHEAD: Final = (
    "SELECT count(*) FILTER (WHERE get_byte(data, 0) IN (68, 73, 84, 85)), count(*),"
    f" (max(lsn) FILTER (WHERE get_byte(data, 0) = 67))::text FROM {PEEK}"
)
"""The number of deletes, inserts, truncates and updates, that of all messages, and where the last transaction ends."""

Answer = TypeVar("Answer")


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_text(number: int) -> str:
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def offset_lsn(offset: dict[str, str]) -> int:
    return lsn_number(offset["lsn"])


def flushed_lsn(db: Database) -> int:
    """Return the LSN up to which the server has flushed its log."""
    ((found,),) = db.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()
    return lsn_number(found)


def create_publication(db: Database, followed: PublishedTable) -> str | None:
    """Create the publication, unless it exists, and return its row filter, if it has one.

    ServiceError if it does not publish everything that is read.
    """
    import psycopg

    there = db.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (followed.publication,)).fetchone()
    if there is None:
        if followed.keeps_slot and _exists(db, followed.slot):
            text = f"the slot `{followed.slot}` is there, and the publication `{followed.publication}` is not"
            hint = f"SELECT pg_drop_replication_slot('{followed.slot}'): a slot must be created after its publication"
            raise ServiceError("replication-refused", text, hint=hint)
        wanted = f"CREATE PUBLICATION {quote_identifier(followed.publication)} FOR TABLE {followed.table}"
        if not followed.makes_publication:
            text = f"there is no publication `{followed.publication}`, and `auto_create_publication` is off"
            raise ServiceError("replication-refused", text, hint=f"as the owner of the table: {wanted}")
        try:
            db.execute(wanted)
        except psycopg.errors.InsufficientPrivilege as error:
            said = error.diag.message_primary
            text = f"there is no publication `{followed.publication}`, and it cannot be created: {said}"
            raise ServiceError("replication-refused", text, hint=f"as the owner of the table: {wanted}") from None
    return check_publication(db, followed)


def check_publication(db: Database, followed: PublishedTable) -> str | None:
    """Return the row filter of a publication. Refuse one without all that is read: changes would be missed silently."""
    name = quote_identifier(followed.publication)
    found = db.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_publication WHERE pubname = %s",
        (followed.publication,),
    ).fetchone()
    if found == (False,):
        text = f"the publication `{followed.publication}` does not publish every kind of change"
        hint = f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')"
        raise ServiceError("replication-refused", text, hint=hint)
    return _check_published_table(db, followed, name)


def _check_published_table(db: Database, followed: PublishedTable, name: str) -> str | None:
    table = followed.table
    newer = db.info.server_version >= 150_000
    member = db.execute(
        f"SELECT {'attnames::text[], rowfilter' if newer else 'NULL, NULL'} FROM pg_publication_tables"
        " WHERE (pubname, schemaname, tablename) = (%s, %s, %s)",
        (followed.publication, table.schema, table.name),
    ).fetchone()
    if member is None:
        text = f"the publication `{followed.publication}` does not have the table {table}"
        raise ServiceError("replication-refused", text, hint=f"ALTER PUBLICATION {name} ADD TABLE {table}")
    columns, condition = member
    if columns and (left := [column for column in followed.names if column not in columns]):
        text = f"the publication `{followed.publication}` does not have the columns {', '.join(left)} of {table}"
        raise ServiceError("replication-refused", text, hint=f"choose `columns`, of {quote_names(columns)}")
    return None if condition is None else str(condition)


def _exists(db: Database, slot: str) -> bool:
    return db.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchone() is not None


def create_slot(db: Database, followed: PublishedTable) -> int:
    """Create the slot, unless it exists. Returns the LSN from which on it has changes."""
    if not _exists(db, followed.slot):
        db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (followed.slot,))
    asked = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    ((confirmed,),) = db.execute(asked, (followed.slot,)).fetchall()
    return check_slot(db, followed, lsn_number(confirmed or "0/0"))


@contextmanager
def open_snapshot(followed: PublishedTable) -> Iterator[tuple[int, str]]:
    """Create the slot, unless it exists, and export a snapshot of the database.

    Yields the LSN from which on the slot has changes that the snapshot lacks, and the name of the snapshot, which can
    be imported within the block. Changes that were committed before are in the snapshot, all others are not.
    """
    with followed.server.connect() as db:
        there = _exists(db, followed.slot)
        if there and not followed.keeps_slot:
            retry_while_in_use(followed, lambda: db.execute("SELECT pg_drop_replication_slot(%s)", (followed.slot,)))
            there = False
        with followed.server.open_connection(replicating=True) as link, followed.server.translate_errors():
            name, kind = (f"{followed.slot[:50]}_begin", "TEMPORARY") if there else (followed.slot, "")
            what = f"{quote_identifier(name)} {kind} LOGICAL pgoutput EXPORT_SNAPSHOT"
            lsn, image = _export_snapshot(followed.server, link, what)
            check_slot(db, followed, lsn)
            yield lsn, image


def _export_snapshot(server: PostgresServer, link: Database, what: str) -> tuple[int, str]:
    answer = link.pgconn.exec_(f"CREATE_REPLICATION_SLOT {what}".encode())
    if answer.error_field(67) is not None or not answer.ntuples:
        said = " ".join(answer.error_message.decode(errors="replace").split())
        hint = "see `max_replication_slots` and `max_wal_senders` of the server, and `pg_replication_slots`"
        raise ServiceError("replication-refused", f"{server} refused to create a slot: {said}", hint=hint)
    consistent, image = answer.get_value(0, 1), answer.get_value(0, 2)
    assert consistent is not None
    assert image is not None
    return lsn_number(consistent.decode()), image.decode()


def check_slot(db: Database, followed: PublishedTable, reached: int) -> int:
    """Refuse a slot that lacks changes from an LSN on. Returns the LSN up to which it is confirmed."""
    found = db.execute(
        "SELECT plugin::text, database::text = current_database(), confirmed_flush_lsn::text, wal_status"
        " FROM pg_replication_slots WHERE slot_name = %s",
        (followed.slot,),
    ).fetchone()
    place = lsn_text(reached)
    if found is None:
        text = f"the slot `{followed.slot}` of {followed.server} is gone, and with it the changes since {place}"
        raise ServiceError("records-gone", text, hint=REBUILD)
    plugin, is_here, confirmed, status = found
    if plugin != "pgoutput" or not is_here:
        text = f"the slot `{followed.slot}` of {followed.server} belongs to another database, or is not for `pgoutput`"
        raise ServiceError("replication-refused", text, hint="name another one in `slot_name`")
    if status == "lost" or confirmed is None:
        text = f"the server has deleted changes since {place} that the slot `{followed.slot}` should have kept"
        hint = f"see `max_slot_wal_keep_size`; drop the slot, and {REBUILD}"
        raise ServiceError("records-gone", text, hint=hint)
    if lsn_number(confirmed) > reached:
        text = f"another client has advanced the slot `{followed.slot}` to {confirmed}; it was read up to {place}"
        raise ServiceError("records-gone", text, hint=REBUILD)
    if (there := flushed_lsn(db)) < reached:
        text = f"{followed.server} is at {lsn_text(there)}, and was read up to {place}: it is another database"
        raise ServiceError("records-gone", text, hint=REBUILD)
    return lsn_number(confirmed)


def confirm(db: Database, followed: PublishedTable, reached: int) -> None:
    """Confirm to the server that changes before an LSN are no longer needed."""
    if check_slot(db, followed, reached) < reached:
        place = (followed.slot, lsn_text(reached))
        retry_while_in_use(followed, lambda: db.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", place))


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The LSN at which a batch may end, and the number of its changes."""

    end: int
    changes: int


def find_batch_end(db: Database, followed: PublishedTable, target: int) -> BatchEnd:
    """Find the end of a batch of whole transactions up to an LSN, with about as many changes as requested."""
    asked = (followed.slot, lsn_text(target), followed.most_rows, quote_identifier(followed.publication))
    ((changes, messages, committed),) = retry_while_in_use(followed, lambda: db.execute(_AHEAD, asked).fetchall())
    whole = messages < followed.most_rows or committed is None
    return BatchEnd(target if whole else min(target, lsn_number(committed)), changes)


def lock_slot(db: Database, followed: PublishedTable) -> None:
    """Lock the slot against other runs of Penstock as long as the connection lasts."""

    def lock() -> None:
        key = (f"penstock {followed.slot}",)
        if db.execute("SELECT pg_try_advisory_lock(hashtext(%s))", key).fetchone() != (True,):
            raise _slot_in_use_error(followed, "another query reads it")

    retry(lock, _PATIENCE_SECS)


def retry_while_in_use(followed: PublishedTable, ask: Callable[[], Answer]) -> Answer:
    """Repeat a call while another connection uses the slot."""
    import psycopg

    def ask_once() -> Answer:
        try:
            return ask()
        except psycopg.errors.ObjectInUse as error:
            raise _slot_in_use_error(followed, error.diag.message_primary or "") from None

    return retry(ask_once, _PATIENCE_SECS)


def _slot_in_use_error(followed: PublishedTable, said: str) -> ServiceError:
    """Return a retriable error: another run may be about to end, or a lost connection may not be detected yet."""
    text = f"the slot `{followed.slot}` of {followed.server} is in use: {said}"
    hint = "every reader needs one of its own: see `slot_name`"
    return ServiceError("replication-refused", text, hint=hint, retriable=True)
