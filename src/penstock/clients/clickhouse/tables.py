"""Tables of sinks, and the ledger of batches."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as set_field
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from penstock.batch import BatchRef
from penstock.clients.clickhouse.client import ClickHouse, quote_identifier
from penstock.clients.clickhouse.engines import key_column, replacing_engine
from penstock.clients.clickhouse.types import column_type, kind_of, target_type
from penstock.clients.warn_once import warn_once
from penstock.errors import QueryFailed, ServiceError

DELETED: Final = "is_deleted"
INSERTED: Final = "insert_time"
LEDGER: Final = "penstock_batches"
_WINDOW: Final = 10_000
"""How many recent inserts a new table deduplicates."""
_DAYS: Final = 30
SETTINGS: Final[Mapping[str, str]] = {"async_insert": "0"}
"""An insert is complete when the server answers."""


@dataclass(frozen=True, slots=True)
class ClickHouseColumn:
    """A column of an existing table."""

    name: str
    type: str
    has_default: bool = False
    decides: bool = False
    """Whether the column is part of the sorting key, or the version."""


SchemaChange: TypeAlias = Literal["fail", "evolve", "ignore"]


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The table that a sink needs."""

    table: str
    rows: pa.Schema
    key: Sequence[str]
    version: str | None
    append_only: bool
    override: Mapping[str, str]
    wide: Mapping[str, str] = set_field(default_factory=dict)
    """Columns that carry 256-bit integers as text, with their types."""
    schema_change: SchemaChange = "ignore"


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """An existing table, and the columns of rows that are written into it."""

    columns: Mapping[str, ClickHouseColumn]
    written: frozenset[str]


def prepare_table(server: ClickHouse, wanted: TableRequest, *, create: bool) -> PreparedTable:
    """Check the table, and create it if it does not exist."""
    _check_names(wanted)
    columns = _columns(server, wanted.table)
    if not columns and create:
        _check_types(wanted.table, wanted.rows, {n: ClickHouseColumn(n, kind) for n, kind in wanted.override.items()})
        server.execute(_create_sql(wanted))
        columns = _columns(server, wanted.table)
    if not columns:
        raise _missing_table_error(server, wanted.table)
    rows = [field for field in wanted.rows if field.name not in _sink_filled_columns(wanted, columns)]
    if missing := [field for field in rows if field.name not in columns]:
        columns = _change_table(server, wanted, missing, columns)
    kept = [field for field in rows if field.name in columns]
    _check_types(wanted.table, kept, columns)
    return PreparedTable(columns, frozenset(field.name for field in kept))


def check_columns(server: ClickHouse, table: str, needed: Iterable[str], *, create: bool) -> None:
    """Refuse a table that lacks needed columns. Types are not compared."""
    columns = _columns(server, table)
    if not columns and not create:
        raise _missing_table_error(server, table)
    if columns and (missing := [column for column in dict.fromkeys(needed) if column not in columns]):
        hint = "add it to the table, or leave it out of the rows"
        raise ServiceError("table-mismatch", f"table `{table}` has no column {_quote_names(missing)}", hint=hint)


def _missing_table_error(server: ClickHouse, table: str) -> ServiceError:
    text = f"there is no table `{table}` in the database `{server.database}`"
    return ServiceError("table-mismatch", text, hint="create it, or leave out `create: false`")


def _columns(server: ClickHouse, table: str) -> dict[str, ClickHouseColumn]:
    found = server.ask(
        "SELECT name, type, default_kind, is_in_sorting_key, (SELECT any(engine_full) FROM system.tables "
        "WHERE database = {database:String} AND name = {table:String}) FROM system.columns "
        "WHERE database = {database:String} AND table = {table:String}",
        database=server.database,
        table=table,
    )
    engine = replacing_engine(found[0][4]) if found else None
    version = key_column(engine.version) if engine else ""
    return {
        column: ClickHouseColumn(column, kind, default == "DEFAULT", bool(sorts) or column == version)
        for column, kind, default, sorts, _ in found
    }


def _check_names(wanted: TableRequest) -> None:
    for column in filter(None, (*wanted.key, wanted.version)):
        if column not in wanted.rows.names:
            raise ServiceError("table-mismatch", f"the rows for `{wanted.table}` have no column `{column}`")
    if wanted.append_only and DELETED in (*wanted.key, wanted.version):
        text = f"`{DELETED}` is part of the key of table `{wanted.table}`, or its version, and the sink fills it itself"
        raise ServiceError("table-mismatch", text, hint="give it another name in the SQL")


def _sink_filled_columns(wanted: TableRequest, columns: Mapping[str, ClickHouseColumn]) -> frozenset[str]:
    """Return the columns of rows that the sink or the table fills itself.

    Tables created here have such columns, so rows that are read from one have them too.
    """
    if not wanted.append_only:
        return frozenset()
    by_table = INSERTED not in (*wanted.key, wanted.version) and INSERTED in columns and columns[INSERTED].has_default
    found = [column for column in (DELETED, *((INSERTED,) if by_table else ())) if column in wanted.rows.names]
    if found:
        warn_once(f"table `{wanted.table}`: the sink fills {_quote_names(found)} itself, and not with what rows have")
    return frozenset(found)


def _change_table(
    server: ClickHouse, wanted: TableRequest, missing: Sequence[pa.Field], columns: dict[str, ClickHouseColumn]
) -> dict[str, ClickHouseColumn]:
    """Add the missing columns to a table, ignore them or refuse them, as the sink is configured."""
    names = [field.name for field in missing]
    needed = any(column in (*wanted.key, wanted.version) for column in names)
    if wanted.schema_change == "ignore" and not needed:
        warn_once(f"table `{wanted.table}` has no column {_quote_names(names)}: left out (`schema_change: ignore`)")
        return columns
    if wanted.schema_change == "evolve" and not needed:
        server.execute(_add_columns_sql(wanted, missing, "IF NOT EXISTS "))
        return _columns(server, wanted.table)
    hint = f"{_add_columns_sql(wanted, missing)}; or leave it out of the rows"
    if not needed:
        hint += "; or `schema_change: evolve`, or `ignore`"
    raise ServiceError("table-mismatch", f"table `{wanted.table}` has no column {_quote_names(names)}", hint=hint)


def _add_columns_sql(wanted: TableRequest, missing: Sequence[pa.Field], unless: str = "") -> str:
    added = [f"ADD COLUMN {unless}{quote_identifier(f.name)} {_type_of(wanted, f, nullable=True)}" for f in missing]
    return f"ALTER TABLE {quote_identifier(wanted.table)} {', '.join(added)}"


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{column}`" for column in names)


def _create_sql(wanted: TableRequest) -> str:
    fixed = {*wanted.key, wanted.version}
    filled = {DELETED: "UInt8", INSERTED: "DateTime DEFAULT now()"} if wanted.append_only else {}
    filled = {column: kind for column, kind in filled.items() if column not in fixed}
    rows = [field for field in wanted.rows if field.name not in filled]
    columns = [f"{quote_identifier(f.name)} {_type_of(wanted, f, nullable=f.name not in fixed)}" for f in rows]
    columns += [f"{column} {kind}" for column, kind in filled.items()]
    engine = "ReplacingMergeTree()"
    if wanted.append_only:
        engine = f"ReplacingMergeTree({quote_identifier(wanted.version or INSERTED)}, {DELETED})"
    elif wanted.version:
        engine = f"ReplacingMergeTree({quote_identifier(wanted.version)})"
    return (
        f"CREATE TABLE IF NOT EXISTS {quote_identifier(wanted.table)} ({', '.join(columns)}) ENGINE = {engine} "
        f"ORDER BY ({', '.join(map(quote_identifier, wanted.key))}) "
        f"SETTINGS non_replicated_deduplication_window = {_WINDOW}"
    )


def _type_of(wanted: TableRequest, field: pa.Field, *, nullable: bool) -> str:
    if chosen := wanted.override.get(field.name):
        return chosen
    if wide := wanted.wide.get(field.name):
        return f"Nullable({wide})" if nullable else wide
    kind = column_type(field.type, nullable=nullable)
    if kind is None:
        text = f"ClickHouse has no type for column `{field.name}` ({field.type})"
        raise ServiceError("table-mismatch", text, hint="cast it in the SQL, or leave it out")
    return kind


def _check_types(table: str, rows: Iterable[pa.Field], columns: Mapping[str, ClickHouseColumn]) -> None:
    for field in rows:
        if field.name not in columns:
            continue
        kind = columns[field.name].type
        if target_type(field.type, kind_of(kind)) is None:
            text = f"column `{field.name}` of table `{table}` is {kind}, and rows have {field.type}"
            raise ServiceError("table-mismatch", text, hint="cast it in the SQL, or change the table")


def open_ledger(server: ClickHouse, *, create: bool) -> bool:
    """Return whether the ledger exists; it is created if that is allowed."""
    if _columns(server, LEDGER):
        return True
    if create:
        server.execute(
            f"CREATE TABLE IF NOT EXISTS {LEDGER} (checkpoint_id String, output String, batch_id Int64, query String, "
            f"offsets String, written_at DateTime DEFAULT now()) ENGINE = MergeTree "
            f"ORDER BY (checkpoint_id, output, batch_id) TTL written_at + INTERVAL {_DAYS} DAY"
        )
    return create


def is_written(server: ClickHouse, ref: BatchRef) -> bool:
    """Whether the ledger has a batch. One of the same number with other offsets is an error."""
    found = server.ask(
        f"SELECT offsets FROM {LEDGER} WHERE checkpoint_id = {{checkpoint:String}} AND output = {{output:String}} "
        "AND batch_id = {batch:Int64}",
        checkpoint=ref.checkpoint_id,
        output=ref.output,
        batch=str(ref.batch_id),
    )
    if any(json.loads(offsets) != list(ref.offsets) for (offsets,) in found):
        text = f"batch {ref.batch_id} of `{ref.query}` was written before from other input (table `{LEDGER}`)"
        hint = f"its checkpoint was restored from an older copy: `penstock run --allow-rebuild {ref.query}`"
        raise QueryFailed("batch-conflict", text, hint=hint)
    return bool(found)


def record_batch(server: ClickHouse, ref: BatchRef) -> None:
    values = [ref.checkpoint_id, ref.output, ref.batch_id, ref.query, json.dumps(ref.offsets)]
    names = ("checkpoint_id", "output", "batch_id", "query", "offsets")
    row = json.dumps(dict(zip(names, values, strict=True)))
    server.insert(f"INSERT INTO {LEDGER} ({', '.join(names)}) FORMAT JSONEachRow", row.encode(), None, SETTINGS)


def delete_sql(table: str, key: Sequence[str], keys: Iterable[str]) -> str:
    """Return a DELETE by keys, which are tuples of literals."""
    columns = ", ".join(map(quote_identifier, key))
    return f"ALTER TABLE {quote_identifier(table)} DELETE WHERE ({columns}) IN ({', '.join(keys)})"
