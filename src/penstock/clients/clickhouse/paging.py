"""Reads of tables, page by page along their first sorting key.

Every column is requested with a type that Spark has, so ClickHouse converts it. Of rows that replace each other the
newest is read. A page has a fixed number of rows, of about a gigabyte at most. A page that exceeds a limit of the
server is read in smaller parts; the page stays as it was planned.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from penstock.clients.clickhouse.client import ClickHouse, RequestTooLarge, quote_identifier
from penstock.clients.clickhouse.engines import ReplacingEngine, key_column, replacing_engine, unwrap_key
from penstock.clients.clickhouse.types import Kind, kind_of
from penstock.errors import ServiceError, did_you_mean
from penstock.row_columns import OP
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.int256 import Int256Type

_SAME: Final = {
    "Bool": ("Bool", "BOOLEAN"),
    "Int8": ("Int8", "TINYINT"),
    "Int16": ("Int16", "SMALLINT"),
    "Int32": ("Int32", "INT"),
    "Int64": ("Int64", "BIGINT"),
    "UInt8": ("Int16", "SMALLINT"),
    "UInt16": ("Int32", "INT"),
    "UInt32": ("Int64", "BIGINT"),
    "UInt64": ("Decimal(20, 0)", "DECIMAL(20, 0)"),
    "Float32": ("Float32", "FLOAT"),
    "Float64": ("Float64", "DOUBLE"),
    "Date": ("Date32", "DATE"),
    "Date32": ("Date32", "DATE"),
    "DateTime": ("DateTime64(6, 'UTC')", "TIMESTAMP"),
    "DateTime64": ("DateTime64(6, 'UTC')", "TIMESTAMP"),
}
_TEXT: Final = ("String", "STRING")
_WIDE: Final[Mapping[str, Int256Type]] = {"UInt256": "UINT256", "Int256": "INT256"}
_WHOLE: Final = re.compile(r"U?Int\d+")
_PAGE_BYTES: Final = 2**30
_GIVEN_UP: Final[Mapping[str, str]] = {"cancel_http_readonly_queries_on_client_close": "1"}
"""The server stops a query when its client is gone."""


@dataclass(frozen=True, slots=True)
class PagedTable:
    """A table as SQL of ClickHouse, and its columns as types of Spark."""

    server: ClickHouse
    table: str
    sort_key: str
    key_type: str
    columns: tuple[tuple[str, str, str], ...]
    """Name, expression and Spark type of each column."""
    rows: str
    """The FROM clause, with `{range}` in it."""
    operation: str
    filter: str | None
    page_size: int
    wide: tuple[tuple[str, Int256Type], ...] = ()
    """Columns that carry 256-bit integers as text."""
    key: tuple[str, ...] = ()
    """The sorting key; empty if a part of it is not a column, or is not read."""
    keeps_one: bool = False
    """Whether only the newest row of each sorting key is read."""
    may_set: bool = False
    """Whether the user may change settings of a query."""

    @property
    def schema(self) -> str:
        kinds = [*((column, kind) for column, _, kind in self.columns), (OP, "STRING")]
        return ", ".join(f"{quote_spark_identifier(column)} {kind}" for column, kind in kinds)

    @property
    def lowest(self) -> int:
        return 0 if self.key_type.startswith("U") else -(2 ** (_bits(self.key_type) - 1))

    def ends(self) -> tuple[int, int] | None:
        """Return the first key and the one after the last; None for a table without rows."""
        key, table = self.sort_key, quote_identifier(self.table)
        found = self.server.ask(f"SELECT toString(min({key})), toString(max({key})), count() FROM {table}")
        ((first, last, count),) = found
        return (int(first), int(last) + 1) if int(count) else None

    def page_end(self, begin: int, end: int) -> int:
        """Return the end of the page that begins at a key."""
        return self._key_after(self.page_size, begin, end)

    def batches(self, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows with keys from `begin` to before `end`.

        If that exceeds a limit of the server, half as many rows are requested from there on, and half again, down to
        the rows of one key.
        """
        most: int | None = None
        while begin < end:
            stop = end if most is None else self._key_after(most, begin, end)
            sql = f"{self._select(self._range(begin, stop))} FORMAT ArrowStream"
            begun = False
            try:
                for batch in self.server.batches(sql, _GIVEN_UP if self.may_set else {}):
                    begun = True
                    if len(batch):
                        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
            except RequestTooLarge:
                most = None if begun else self._smaller_limit(most, begin, stop)
                if not most:
                    raise
            else:
                begin = stop

    def _key_after(self, rows: int, begin: int, end: int) -> int:
        """Return the key after a number of rows, or the end. A page never ends within a key."""
        key, inside = self.sort_key, self._range(begin, end)
        page = f"SELECT {key} AS k FROM {quote_identifier(self.table)} WHERE {inside} ORDER BY {key} LIMIT {rows}"
        ((last, count),) = self.server.ask(f"SELECT toString(max(k)), count() FROM ({page})")
        return int(last) + 1 if int(count) == rows else end

    def _smaller_limit(self, most: int | None, begin: int, end: int) -> int:
        """Return a smaller number of rows to request; 0 if there is none."""
        if end - begin == 1:
            return 0
        inside = self._range(begin, end)
        ((count,),) = self.server.ask(f"SELECT count() FROM {quote_identifier(self.table)} WHERE {inside}")
        return min(int(count), most or int(count)) // 2

    def check_query(self) -> Self:
        try:
            self.server.execute(f"{self._select('0')} FORMAT Null")
        except ServiceError as error:
            if error.code != "clickhouse-failed" or error.retriable:
                raise
            text = f"table `{self.table}` cannot be read like this: {error.message}"
            raise ServiceError("table-mismatch", text, hint="see `filter`") from None
        return self

    def _select(self, condition: str) -> str:
        chosen = [f"{expression} AS {quote_identifier(column)}" for column, expression, _ in self.columns]
        rows = self.rows.replace("{range}", condition)
        if self.filter:  # inside: at the outer level it would apply to the converted columns
            rows = f"SELECT * FROM ({rows}) AS t WHERE ({self.filter})"
        return f"SELECT {', '.join(chosen)}, {self.operation} AS {quote_identifier(OP)} FROM ({rows}) AS t"

    def _range(self, begin: int, end: int) -> str:
        """Return the condition for a range. Numbers are cast to the type of the key: large ones would become floats
        otherwise."""
        first, last = max(begin, self.lowest), min(end - 1, self.lowest + 2 ** _bits(self.key_type) - 1)
        if first > last:
            return "0"
        key, kind = self.sort_key, self.key_type
        return f"{key} >= CAST('{first}' AS {kind}) AND {key} <= CAST('{last}' AS {kind})"


def paged_table(
    server: ClickHouse, table: str, columns: Sequence[str], filter: str | None, page_size: int
) -> PagedTable:
    """Describe how a table is read. ServiceError if it does not exist, or cannot be paged."""
    place = {"database": server.database, "table": table}
    found = server.ask(
        "SELECT engine_full, sorting_key, ifNull(total_rows, 0), getSetting('readonly') FROM system.tables "
        "WHERE database = {database:String} AND name = {table:String}",
        **place,
    )
    if not found:
        text = f"there is no table `{table}` in the database `{server.database}`"
        raise ServiceError("table-mismatch", text, hint=f"see `{server.settings}__DATABASE`")
    ((engine, sorting_key, total, readonly),) = found
    described = server.ask(
        "SELECT name, type, default_kind, data_uncompressed_bytes FROM system.columns "
        "WHERE database = {database:String} AND table = {table:String} AND default_kind != 'EPHEMERAL'",
        **place,
    )
    types = {column: kind for column, kind, _, _ in described}
    sizes = {column: int(size) for column, _, _, size in described}
    for column in columns:
        if column not in types:
            hint = did_you_mean(column, types, otherwise="there are")
            raise ServiceError("table-mismatch", f"table `{table}` has no column `{column}`", hint=hint)
    keys = tuple(part.strip() for part in unwrap_key(sorting_key).split(",") if part.strip())
    first = key_column(keys[0]) if keys else ""
    if not _WHOLE.fullmatch(types.get(first, "")):
        text = f"table `{table}` is not sorted by a column of whole numbers first, so it cannot be read page by page"
        hint = f"its sorting key is `{sorting_key}`" if keys else "it has no sorting key"
        raise ServiceError("table-mismatch", text, hint=hint)
    computed = [column for column, _, default, _ in described if default in ("MATERIALIZED", "ALIAS")]
    chosen = columns or [column for column in types if column not in computed]
    wire = [(column, *_wire_types(kind_of(types[column]))) for column in chosen if column != OP]
    replaced = replacing_engine(str(engine))
    rows, operation = _newest_rows(table, ", ".join(("*", *map(quote_identifier, computed))), replaced, keys)
    return PagedTable(
        server=server,
        table=table,
        sort_key=quote_identifier(first),
        key_type=types[first],
        columns=tuple((column, f"CAST({quote_identifier(column)} AS {kind})", spark) for column, kind, spark in wire),
        rows=rows,
        operation=f"toString({quote_identifier(OP)})" if OP in types else operation,
        filter=filter,
        page_size=_rows_of_a_page(sizes, chosen, int(total), page_size),
        wide=tuple((c, _WIDE[word]) for c in chosen if (word := kind_of(types[c]).word) in _WIDE),
        key=tuple(map(key_column, keys)) if all(key_column(part) in chosen for part in keys) else (),
        keeps_one=replaced is not None,
        may_set=int(readonly) != 1,
    ).check_query()


def _rows_of_a_page(sizes: Mapping[str, int], chosen: Sequence[str], rows: int, most: int) -> int:
    """Return the most rows for a page of about a gigabyte, by the average size of the columns.

    A table without files per column, because it is small, has no such sizes.
    """
    read = sum(sizes[column] for column in chosen)
    return max(1, min(most, _PAGE_BYTES * rows // read)) if read else most


def _newest_rows(table: str, columns: str, replaced: ReplacingEngine | None, keys: Sequence[str]) -> tuple[str, str]:
    """Return the SQL for the newest row of each key, with its operation."""
    all_of_them = f"SELECT {columns} FROM {quote_identifier(table)} WHERE {{range}}"
    if replaced is None:
        return all_of_them, "'i'"
    if not replaced.deleted:
        return f"SELECT {columns} FROM {quote_identifier(table)} FINAL WHERE {{range}}", "'i'"
    by = ", ".join(keys)
    # FINAL would drop deleted rows. Of equal versions, the last inserted row is the newest.
    last = f"{by}, {replaced.version} DESC, _part_index DESC, _part_offset DESC"
    return f"{all_of_them} ORDER BY {last} LIMIT 1 BY {by}", f"if({replaced.deleted} != 0, 'd', 'i')"


def _bits(key_type: str) -> int:
    return int(key_type.lstrip("UInt"))


def _wire_types(kind: Kind) -> tuple[str, str]:
    """Return the type to request, and the Spark type in which it arrives."""
    match kind.word:
        case "Array":
            ((wire, spark),) = map(_wire_types, kind.inner)
            return f"Array({wire})", f"ARRAY<{spark}>"
        case "Map":
            (key, key_spark), (item, item_spark) = map(_wire_types, kind.inner)
            return f"Map({key}, {item})", f"MAP<{key_spark}, {item_spark}>"
        case "Tuple" if all(kind.names):
            inner = list(zip(kind.names, map(_wire_types, kind.inner), strict=True))
            wires = ", ".join(f"{quote_identifier(label)} {wire}" for label, (wire, _) in inner)
            sparks = ", ".join(f"{quote_spark_identifier(label)}: {spark}" for label, (_, spark) in inner)
            return f"Tuple({wires})", f"STRUCT<{sparks}>"
    wire, spark = _SAME.get(kind.word, _TEXT)
    if kind.word == "Decimal" and kind.numbers[0] <= 38:
        wire = spark = f"DECIMAL({kind.numbers[0]}, {kind.numbers[1]})"
    return (f"Nullable({wire})" if kind.nullable else wire), spark
