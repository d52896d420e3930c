"""Tables that are read, page by page along their first sorting key.

Whatever a table has is asked for as a type that Spark has too, so that ClickHouse converts it. Of rows that replace
each other the newest is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from penstock.clients.clickhouse.server import ClickHouse, name
from penstock.clients.clickhouse.types import Kind, kind_of
from penstock.errors import ServiceError, did_you_mean
from penstock.keyed.operators import OP
from penstock.sql.dialects import quoted
from penstock.sql.wide_types import Wide

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
_WIDE: Final[Mapping[str, Wide]] = {"UInt256": "UINT256", "Int256": "INT256"}
_WHOLE: Final = re.compile(r"U?Int\d+")
_REPLACING: Final = re.compile(r"\w*ReplacingMergeTree(?:\((.*?)\))?(?: |$)")
_COLUMN: Final = re.compile(r"`(?:[^`\\]|\\.)+`|\w+")


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a table, as SQL of ClickHouse and types of Spark."""

    server: ClickHouse
    table: str
    sort_key: str
    key_type: str
    columns: tuple[tuple[str, str, str], ...]
    """Name, expression, type of Spark."""
    rows: str
    """Where rows come from, with `{range}` in it."""
    operation: str
    filter: str | None
    page_size: int
    wide: tuple[tuple[str, Wide], ...] = ()
    """The columns that come as texts of wide numbers."""
    key: tuple[str, ...] = ()
    """The columns that the table is sorted by; none if they are not all columns, or not all of them are read."""
    keeps_one: bool = False
    """Whether only the newest row of each sorting key is read."""

    @property
    def schema(self) -> str:
        return ", ".join(f"{quoted(column)} {kind}" for column, _, kind in (*self.columns, (OP, "", "STRING")))

    @property
    def lowest(self) -> int:
        """The lowest key that there can be."""
        return 0 if self.key_type.startswith("U") else -(2 ** (_bits(self.key_type) - 1))

    def ends(self) -> tuple[int, int] | None:
        """The first key, and the one behind the last; None for a table without rows."""
        key = self.sort_key
        found = self.server.ask(f"SELECT toString(min({key})), toString(max({key})), count() FROM {name(self.table)}")
        ((first, last, count),) = found
        return (int(first), int(last) + 1) if int(count) else None

    def page_end(self, begin: int, end: int) -> int:
        """Where a page ends that begins at a key: behind so many rows, and never inside of a key."""
        key, inside = self.sort_key, self._range(begin, end)
        page = f"SELECT {key} AS k FROM {name(self.table)} WHERE {inside} ORDER BY {key} LIMIT {self.page_size}"
        ((last, count),) = self.server.ask(f"SELECT toString(max(k)), count() FROM ({page})")
        return int(last) + 1 if int(count) == self.page_size else end

    def batches(self, begin: int, end: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows with keys from `begin` up to, and without, `end`."""
        for batch in self.server.batches(f"{self._select(self._range(begin, end))} FORMAT ArrowStream"):
            if len(batch):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

    def tried(self) -> Self:
        """The same, once ClickHouse has understood what it will be asked for."""
        try:
            self.server.do(f"{self._select('0')} FORMAT Null")
        except ServiceError as error:
            if error.code != "clickhouse-failed" or error.retriable:
                raise
            text = f"table `{self.table}` cannot be read like this: {error.message}"
            raise ServiceError("table-mismatch", text, hint="see `filter`") from None
        return self

    def _select(self, condition: str) -> str:
        chosen = [f"{expression} AS {name(column)}" for column, expression, _ in self.columns]
        where = f" WHERE ({self.filter})" if self.filter else ""
        rows = self.rows.replace("{range}", condition)
        return f"SELECT {', '.join(chosen)}, {self.operation} AS {name(OP)} FROM ({rows}) AS t{where}"

    def _range(self, begin: int, end: int) -> str:
        """Numbers are written as values of the key's type: long ones would be taken for fractions otherwise."""
        first, last = max(begin, self.lowest), min(end - 1, self.lowest + 2 ** _bits(self.key_type) - 1)
        if first > last:
            return "0"
        key, kind = self.sort_key, self.key_type
        return f"{key} >= CAST('{first}' AS {kind}) AND {key} <= CAST('{last}' AS {kind})"


def reading(server: ClickHouse, table: str, columns: Sequence[str], filter: str | None, page_size: int) -> Reading:
    """How a table is read. ServiceError if it is not there, or cannot be read page by page."""
    place = {"database": server.database, "table": table}
    found = server.ask(
        "SELECT engine_full, sorting_key FROM system.tables "
        "WHERE database = {database:String} AND name = {table:String}",
        **place,
    )
    if not found:
        text = f"there is no table `{table}` in the database `{server.database}`"
        raise ServiceError("table-mismatch", text, hint=f"see `{server.settings}__DATABASE`")
    ((engine, sorting_key),) = found
    described = server.ask(
        "SELECT name, type, default_kind FROM system.columns "
        "WHERE database = {database:String} AND table = {table:String} AND default_kind != 'EPHEMERAL'",
        **place,
    )
    types = {column: kind for column, kind, _ in described}
    for column in columns:
        if column not in types:
            hint = did_you_mean(column, types, otherwise="there are")
            raise ServiceError("table-mismatch", f"table `{table}` has no column `{column}`", hint=hint)
    keys = tuple(part.strip() for part in str(sorting_key).split(",") if part.strip())
    first = _plain(keys[0]) if keys else ""
    if not _WHOLE.fullmatch(types.get(first, "")):
        text = f"table `{table}` is not sorted by a column of whole numbers first, so it cannot be read page by page"
        hint = f"its sorting key is `{sorting_key}`" if keys else "it has no sorting key"
        raise ServiceError("table-mismatch", text, hint=hint)
    computed = [column for column, _, default in described if default in ("MATERIALIZED", "ALIAS")]
    chosen = columns or [column for column in types if column not in computed]
    wire = [(column, *_wire(kind_of(types[column]))) for column in chosen if column != OP]
    rows, operation = _newest(table, ", ".join(("*", *map(name, computed))), str(engine), keys)
    return Reading(
        server=server,
        table=table,
        sort_key=name(first),
        key_type=types[first],
        columns=tuple((column, f"CAST({name(column)} AS {kind})", spark) for column, kind, spark in wire),
        rows=rows,
        operation=f"toString({name(OP)})" if OP in types else operation,
        filter=filter,
        page_size=page_size,
        wide=tuple((c, _WIDE[word]) for c in chosen if (word := kind_of(types[c]).word) in _WIDE),
        key=tuple(map(_plain, keys)) if all(_plain(part) in chosen for part in keys) else (),
        keeps_one=_REPLACING.match(str(engine)) is not None,
    ).tried()


def _newest(table: str, columns: str, engine: str, keys: Sequence[str]) -> tuple[str, str]:
    """The rows of a table, the newest of each key, and the operation that each of them is."""
    plain = f"SELECT {columns} FROM {name(table)} WHERE {{range}}"
    replacing = _REPLACING.match(engine)
    if replacing is None:
        return plain, "'i'"
    arguments = [part.strip() for part in (replacing[1] or "").split(",") if part.strip() and "'" not in part]
    if len(arguments) < 2:
        return f"SELECT {columns} FROM {name(table)} FINAL WHERE {{range}}", "'i'"
    version, deleted = arguments[:2]
    by = ", ".join(keys)
    # FINAL would leave out what is deleted. Of equal versions the one counts that was inserted last.
    newest = f"{plain} ORDER BY {by}, {version} DESC, _part_index DESC, _part_offset DESC LIMIT 1 BY {by}"
    return newest, f"if({deleted} != 0, 'd', 'i')"


def _plain(key: str) -> str:
    """The name of a column, if a part of a sorting key is one."""
    return re.sub(r"\\(.)", r"\1", key.strip("`")) if _COLUMN.fullmatch(key) else ""


def _bits(key_type: str) -> int:
    return int(key_type.lstrip("UInt"))


def _wire(kind: Kind) -> tuple[str, str]:
    """The type to ask for, and the one of Spark that it arrives as."""
    match kind.word:
        case "Array":
            ((wire, spark),) = map(_wire, kind.inner)
            return f"Array({wire})", f"ARRAY<{spark}>"
        case "Map":
            (key, key_spark), (item, item_spark) = map(_wire, kind.inner)
            return f"Map({key}, {item})", f"MAP<{key_spark}, {item_spark}>"
        case "Tuple" if all(kind.names):
            inner = list(zip(kind.names, map(_wire, kind.inner), strict=True))
            wires = ", ".join(f"{name(label)} {wire}" for label, (wire, _) in inner)
            return f"Tuple({wires})", f"STRUCT<{', '.join(f'{quoted(label)}: {spark}' for label, (_, spark) in inner)}>"
    wire, spark = _SAME.get(kind.word, _TEXT)
    if kind.word == "Decimal" and kind.numbers[0] <= 38:
        wire = spark = f"DECIMAL({kind.numbers[0]}, {kind.numbers[1]})"
    return (f"Nullable({wire})" if kind.nullable else wire), spark
