"""A table whose changes are captured: its columns, their types, and the key of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.clients.postgres.cdc.text_decoding import spark_type
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.tables import QualifiedTable, quote_names
from penstock.errors import ServiceError, did_you_mean
from penstock.row_columns import OP
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_KINDS: Final = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "p": "a partitioned table"}
_COLUMNS: Final = """
    WITH RECURSIVE typed AS (
        SELECT attnum, attname::text AS name, atttypid AS of, atttypmod AS modifier, attgenerated <> '' AS generated,
               atttypid::bigint AS number, atttypmod AS declared
        FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT attnum, name, typbasetype, typtypmod, generated, number, declared
        FROM typed JOIN pg_type ON pg_type.oid = of WHERE typtype = 'd'
    )
    SELECT name, format_type(of, modifier), generated, number, declared
    FROM typed JOIN pg_type ON pg_type.oid = of WHERE typtype <> 'd' ORDER BY attnum
"""
"""Columns and their types. A domain is resolved to its base type."""
_IDENTITY: Final = """
    SELECT array_agg(attname::text ORDER BY attnum) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY((indkey::int2[])[0:indnkeyatts - 1])
    WHERE indrelid = %s AND CASE WHEN %s THEN indisreplident ELSE indisprimary END
"""
_ALLOWED: Final = """
    SELECT bool_or(rolsuper OR rolreplication) FROM pg_roles
    WHERE rolname = current_user OR (rolname = 'rds_replication' AND pg_has_role(oid, 'MEMBER'))
"""


@dataclass(frozen=True, slots=True)
class PublishedColumn:
    """A column, its Spark type, and its type in the database: OID and modifier."""

    name: str
    spoken: str
    type: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table, and how its changes are captured."""

    server: PostgresServer
    table: QualifiedTable
    columns: tuple[PublishedColumn, ...]
    key: tuple[str, ...]
    """The columns that identify a row; empty if all its values do."""
    are_all: bool
    """Whether the table must have exactly these columns."""
    slot: str
    publication: str
    keeps_slot: bool
    """Whether an existing slot is the user's, rather than the remains of an earlier attempt."""
    with_rows: bool
    """Whether a snapshot of the existing rows comes first."""
    passes_truncate: bool
    most_rows: int
    with_old: bool = False
    """Whether the old row comes before every update, as a delete."""
    makes_publication: bool = True
    """Whether the publication is created if it does not exist."""
    directory: Path | None = None
    """Where its state is stored."""

    @property
    def schema(self) -> str:
        kinds = [*((column.name, column.spoken) for column in self.columns), (OP, "STRING")]
        return ", ".join(f"{quote_spark_identifier(name)} {kind}" for name, kind in kinds)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The columns that are read of a table, whether they are all, and the key of its rows."""

    columns: tuple[PublishedColumn, ...]
    are_all: bool
    key: tuple[str, ...]


def describe_table(
    server: PostgresServer,
    table: QualifiedTable,
    columns: Sequence[str],
    as_text: Sequence[str],
    key: Sequence[str],
    *,
    with_old: bool = False,
) -> TableDescription:
    """Describe a table of the server. ServiceError if its changes cannot be captured, with a hint.

    `with_old` is whether updates must include the old row.
    """
    with server.connect() as db:
        _check_server(db, server)
        number, identity, has_large = _table(db, server, table)
        every, generated = _columns(db, number)
        there = {column.name: column for column in every}
        for name in (*columns, *as_text):
            if name in generated:
                text = f"column `{name}` of {table} is computed by the database, which does not publish its changes"
                raise ServiceError("table-mismatch", text, hint="leave it out, and compute it in a transform")
            if name not in there:
                hint = did_you_mean(name, there, otherwise="there are")
                raise ServiceError("table-mismatch", f"{table} has no column `{name}`", hint=hint)
        chosen = [there[name] for name in columns] if columns else list(every)
        if any(column.name == OP for column in chosen):
            raise ServiceError("table-mismatch", f"{table} has a column `{OP}` of its own", hint="choose `columns`")
        known_by = _key(db, number, table, identity, key)
        if left := [name for name in known_by if name not in {column.name for column in chosen}]:
            text = f"`columns` leaves out {', '.join(left)}, which identify the rows of {table}"
            raise ServiceError("table-mismatch", text)
        if has_large and identity != "f":
            text = f"{table} has values that PostgreSQL stores apart from their rows (TOAST), and updates may lack them"
            raise ServiceError("replication-refused", text, hint=full_identity(table))
        if with_old and identity != "f":
            text = f"`emit_update_before_row` needs the rows that updates replace, and {table} does not publish them"
            raise ServiceError("replication-refused", text, hint=full_identity(table))
        texts = [PublishedColumn(c.name, "STRING" if c.name in as_text else c.spoken, c.type) for c in chosen]
        return TableDescription(tuple(texts), not columns, known_by)


def current_columns(db: Database, table: QualifiedTable) -> dict[str, tuple[int, int]]:
    """Return the current columns of a table that are part of its changes, with their types."""
    ((number,),) = db.execute("SELECT to_regclass(%s)::oid", (str(table),)).fetchall()
    return {} if number is None else {column.name: column.type for column in _columns(db, number)[0]}


def full_identity(table: QualifiedTable) -> str:
    return f"ALTER TABLE {table} REPLICA IDENTITY FULL"


def _check_server(db: Database, server: PostgresServer) -> None:
    ((level,),) = db.execute("SHOW wal_level").fetchall()
    if level != "logical":
        text = f"{server} does not record changes for replication: its `wal_level` is `{level}`"
        hint = "ALTER SYSTEM SET wal_level = logical, and restart the server"
        raise ServiceError("replication-refused", text, hint=hint)
    if db.execute(_ALLOWED).fetchone() != (True,):
        text = f"user `{server.user}` of {server} has no right to read changes"
        raise ServiceError("replication-refused", text, hint=f"ALTER ROLE {quote_names([server.user])} REPLICATION")


def _table(db: Database, server: PostgresServer, table: QualifiedTable) -> tuple[int, str, bool]:
    """Return the OID of a table, its replica identity, and whether it has values that are stored separately (TOAST)."""
    found = db.execute(
        "SELECT oid::bigint, relkind::text, relpersistence::text, relreplident::text,"
        " reltoastrelid <> 0 AND pg_relation_size(reltoastrelid) > 0 FROM pg_class WHERE oid = to_regclass(%s)",
        (str(table),),
    ).fetchone()
    if found is None:
        raise ServiceError("table-mismatch", f"{server} has no table {table}", hint="see `schema` and `table`")
    number, kind, persistence, identity, has_large = found
    if kind != "r":
        hint = "capture its partitions, each as a source" if kind == "p" else None
        text = f"{table} is {_KINDS.get(kind, 'no table')}, whose changes are not published"
        raise ServiceError("table-mismatch", text, hint=hint)
    if persistence != "p":
        text = f"{table} is unlogged, so PostgreSQL does not record its changes"
        raise ServiceError("table-mismatch", text, hint=f"ALTER TABLE {table} SET LOGGED")
    return number, identity, has_large


def _columns(db: Database, number: int) -> tuple[tuple[PublishedColumn, ...], set[str]]:
    """Return the columns of a table, and the names of generated columns."""
    found: list[tuple[Any, ...]] = db.execute(_COLUMNS, (number,)).fetchall()
    stored = [row for row in found if not row[2]]
    columns = tuple(PublishedColumn(name, spark_type(spoken), (of, mod)) for name, spoken, _, of, mod in stored)
    return columns, {row[0] for row in found if row[2]}


def _key(db: Database, number: int, table: QualifiedTable, identity: str, declared: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify a row in updates and deletes."""
    ((found,),) = db.execute(_IDENTITY, (number, identity == "i")).fetchall()
    if identity == "f":
        return tuple(declared or found or ())
    if identity == "n" or not found:
        text = f"{table} has no primary key and no replica identity, so its changes do not identify their rows"
        hint = f"ALTER TABLE {table} ADD PRIMARY KEY (…), or {full_identity(table)}"
        raise ServiceError("replication-refused", text, hint=hint)
    if left := [name for name in declared if name not in found]:
        text = f"`primary_key` has {', '.join(left)}, and deletes of {table} have only {', '.join(found)}"
        raise ServiceError("replication-refused", text, hint=full_identity(table))
    return tuple(found)
