"""PostgreSQL tables: the columns that rows need, and those that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.clients.int256.columns import int256_kind
from penstock.errors import ServiceError
from penstock.sql.types.int256 import is_decimal
from penstock.sql.types.long_decimals import SPARK_DIGITS, decimal_sizes

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from penstock.clients.postgres.server import Database


_LONGEST_NAME: Final = 63
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('penstock'))"
"""A lock for creating tables: of several concurrent attempts, PostgreSQL lets one fail, even with IF NOT EXISTS."""


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_identifier, names))


@dataclass(frozen=True, slots=True)
class QualifiedTable:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.name)}"

    @property
    def parameter_safe(self) -> str:
        """The name for a statement that has parameters, with `%` doubled."""
        return str(self).replace("%", "%%")

    def sibling(self, name: str) -> QualifiedTable:
        return QualifiedTable(self.schema, name)


_TYPES: Final[Mapping[str, str]] = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "boolean": "boolean",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp without time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_NESTED: Final = ("struct", "array", "map", "variant")


def postgres_type(kind: DataType) -> str:
    """Return the column type for values of a Spark type."""
    spoken = kind.simpleString()
    if (wide := int256_kind(kind)) is not None:
        return "numeric({},{})".format(*decimal_sizes(wide)) if is_decimal(wide) else "numeric(78,0)"
    if spoken.startswith("decimal("):
        return spoken.replace("decimal", "numeric")
    return "jsonb" if spoken.startswith(_NESTED) else _TYPES.get(spoken, "text")


def type_of(spoken: str) -> str | None:
    """Return the column type for values of a Spark SQL type, given by name; None if it is not certain."""
    name = spoken.lower().replace(" ", "")
    if name.startswith("decimal("):
        return name.replace("decimal", "numeric")
    return _TYPES.get({"integer": "int", "long": "bigint"}.get(name, name))


def wanted_columns(schema: StructType, without: Sequence[str]) -> dict[str, str]:
    """Return the columns that rows need. Refuse names that PostgreSQL would truncate, and then not find again."""
    found = {field.name: postgres_type(field.dataType) for field in schema if field.name not in without}
    for name in found:
        if len(name.encode()) > _LONGEST_NAME:
            text = f"`{name}` is too long for a column of PostgreSQL, which has {_LONGEST_NAME} bytes at most"
            raise ServiceError("table-mismatch", text, hint="give the column another name with AS")
    return found


def columns_of(db: Database, table: QualifiedTable) -> dict[str, str]:
    """Return the columns of a table and their types; empty if it does not exist."""
    found = db.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (str(table),),
    )
    return dict(found.fetchall())


def make_schema(db: Database, name: str) -> None:
    """Create a schema unless it exists. CREATE for an existing one requires a right that is not needed otherwise."""
    if db.execute("SELECT to_regnamespace(%s)", (quote_identifier(name),)).fetchone() == (None,):
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_identifier(name)}")


def create_table(db: Database, table: QualifiedTable, columns: Mapping[str, str], key: Sequence[str]) -> None:
    each = [f"{quote_identifier(name)} {kind}" for name, kind in columns.items()]
    primary = [f"PRIMARY KEY ({quote_names(key)})"] if key else []
    with db.transaction():
        db.execute(LOCK)
        make_schema(db, table.schema)
        db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(each + primary)})")


def add_columns_sql(table: QualifiedTable, columns: Mapping[str, str], unless: str = "") -> str:
    added = [f"ADD COLUMN {unless}{quote_identifier(name)} {kind}" for name, kind in columns.items()]
    return f"ALTER TABLE {table} {', '.join(added)}"


def check_types(db: Database, table: QualifiedTable, wanted: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Refuse a table with a column that cannot hold every possible value. A value that violates the constraints of a
    domain is a rejected row instead."""
    enums = _enums(db, table) if "text" in wanted.values() else frozenset()
    below = {**there, **domains(db, table)}
    for name, kind in wanted.items():
        if name in there and not (kind == "text" and name in enums) and not can_hold(below[name], kind):
            text = f"column `{name}` of {table} is {there[name]}, which does not hold every {kind}"
            hint = f"ALTER TABLE {table} ALTER COLUMN {quote_identifier(name)} TYPE {kind}"
            raise ServiceError("table-mismatch", text, hint=hint)


def _enums(db: Database, table: QualifiedTable) -> frozenset[str]:
    """Return the columns whose types are enums."""
    found = db.execute(
        "SELECT attname::text FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid"
        " WHERE attrelid = to_regclass(%s) AND typtype = 'e'",
        (str(table),),
    )
    return frozenset(name for (name,) in found)


def domains(db: Database, table: QualifiedTable) -> dict[str, str]:
    """Return the columns whose types are domains, with their base types."""
    found = db.execute(
        "WITH RECURSIVE below AS ("
        " SELECT attname::text AS name, typbasetype AS type, typtypmod AS modifier FROM pg_attribute"
        " JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid = to_regclass(%s) AND attnum > 0 AND typtype = 'd'"
        " UNION ALL SELECT name, typbasetype, typtypmod FROM below JOIN pg_type ON pg_type.oid = type AND typtype = 'd'"
        ") SELECT name, format_type(type, modifier) FROM below JOIN pg_type ON pg_type.oid = type AND typtype <> 'd'",
        (str(table),),
    )
    return dict(found.fetchall())


def check_key(db: Database, table: QualifiedTable, key: Sequence[str]) -> None:
    """Refuse a table in which the key may occur twice, or be null."""
    unique = db.execute(
        "SELECT array_agg(attname::text) FROM pg_index"
        " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY((indkey::int2[])[0:indnkeyatts - 1])"
        " WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indimmediate"
        " AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid HAVING bool_and(attnotnull)",
        (str(table),),
    )
    if not any(set(names) == set(key) for (names,) in unique):
        text = f"{table} has no unique index over the primary key ({', '.join(key)}), without nulls"
        raise ServiceError("table-mismatch", text, hint=f"ALTER TABLE {table} ADD PRIMARY KEY ({quote_names(key)})")


_DIGITS: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_ZONES: Final = ("with time zone", "without time zone")
_TIMES: Final = frozenset(f"timestamp{digits} {zone}" for digits in ("", "(6)") for zone in _ZONES)
"""Types that keep every microsecond. With fewer digits PostgreSQL would round without an error."""
_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "smallint": frozenset({"integer", "bigint", "numeric", "real", "double precision"}),
    "integer": frozenset({"bigint", "numeric", "double precision"}),
    "bigint": frozenset({"numeric"}),
    "real": frozenset({"double precision", "numeric"}),
    "double precision": frozenset({"numeric"}),
    "date": _TIMES,
    "timestamp without time zone": _TIMES,
    "jsonb": frozenset({"json", "text"}),
    "text": frozenset(
        {"uuid", "json", "jsonb", "citext", "inet", "cidr", "macaddr", "xml"}
        | {"time without time zone", "time with time zone", "interval"}
    ),
}
_WHOLE_DIGITS: Final[Mapping[str, int]] = {"smallint": 5, "integer": 10, "bigint": 19}


def can_hold(there: str, kind: str) -> bool:
    """Whether a column of one type can hold values of another. Single texts may still be rejected."""
    if there == kind or there in _WIDER.get(kind, ()):
        return True
    if kind == "text":
        return there.startswith("character")
    if kind.startswith("numeric(") and there == "numeric":
        return True
    room, needed = _digits(there), _digits(kind)
    if needed is not None and needed[1] and sum(needed) > SPARK_DIGITS and there == "text":
        return True  # tables of rows that had such decimals as text keep every digit
    if room is None or needed is None or not there.startswith("numeric("):
        return False
    return needed[0] <= room[0] and needed[1] <= room[1]


def _digits(kind: str) -> tuple[int, int] | None:
    """Return the number of digits of a numeric type before and after the decimal point."""
    if digits := _DIGITS.fullmatch(kind):
        return int(digits[1]) - int(digits[2]), int(digits[2])
    return (_WHOLE_DIGITS[kind], 0) if kind in _WHOLE_DIGITS else None
