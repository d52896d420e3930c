"""A table of aggregates of another table's rows, maintained by triggers in the transaction that changes the rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.clients.postgres import tables
from penstock.clients.postgres.sink.aggregate_triggers import Figure, Group, Trigger
from penstock.clients.postgres.tables import QualifiedTable, quote_identifier, quote_names
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

SENTINEL: Final = "key"
"""The key column of a table of aggregates without groups."""
COUNTER: Final = "_penstock_rows"
"""The column with the number of rows of a group, if no other column has it."""
_NO_NULLS_TWICE: Final = 150000
"""The PostgreSQL version since when a unique index can treat nulls as equal."""
_LONGEST: Final = 63
_EVENTS: Final = (
    ("INSERT", "trigger", "REFERENCING NEW TABLE AS new_table"),
    ("UPDATE", "update_trigger", "REFERENCING OLD TABLE AS old_table NEW TABLE AS new_table"),
    ("DELETE", "delete_trigger", "REFERENCING OLD TABLE AS old_table"),
    ("TRUNCATE", "truncate_trigger", ""),
)


class _TriggerState(NamedTuple):
    """The existing trigger function, the number of triggers that call it, and how many of them are enabled."""

    body: str
    triggers: int
    turned_on: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The groups and aggregates in a table of aggregates."""

    table: QualifiedTable
    groups: tuple[Group, ...]
    figures: tuple[Figure, ...]

    def attach(self, db: Database, rows: QualifiedTable, row_types: Mapping[str, str]) -> None:
        """Attach the table of aggregates to a table of rows, unless it is attached. Existing rows are included."""
        from psycopg import DataError

        needed = self._needed_columns(row_types)
        if (there := tables.columns_of(db, self.table)) and needed.keys() <= there.keys():
            found = self._trigger_state(db, rows)
            if found == _TriggerState(self._trigger(rows, row_types, there).body, len(_EVENTS), len(_EVENTS)):
                return
        try:
            with db.transaction():
                db.execute(tables.LOCK)
                self._attach(db, rows, row_types, needed)
        except DataError as error:
            said = error.diag.message_primary
            raise ServiceError("table-mismatch", f"{rows} has rows that cannot be aggregated: {said}") from error

    def _attach(
        self, db: Database, rows: QualifiedTable, row_types: Mapping[str, str], needed: Mapping[str, str]
    ) -> None:
        db.execute(f"LOCK TABLE {rows} IN ACCESS EXCLUSIVE MODE")
        found = self._trigger_state(db, rows)
        if not tables.columns_of(db, self.table):
            self._create_table(db, needed)
        else:
            self._check_table(db, needed)
            is_new = found is None or not found.triggers
            if is_new and db.execute(f"SELECT EXISTS (SELECT FROM {self.table})").fetchone() == (True,):
                text = f"{self.table} has rows, and no triggers maintain it for {rows} yet, so its values may be wrong"
                raise ServiceError("table-mismatch", text, hint=f"TRUNCATE {self.table}, or name another table")
        trigger = self._trigger(rows, row_types, tables.columns_of(db, self.table))
        body = trigger.body.replace("'", "''")
        function = rows.sibling(self._trigger_name(rows, "fn"))
        db.execute(
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql"
            f" SET enable_nestloop = on SET jit = off AS '{body}'"
        )
        for event, suffix, seen in _EVENTS:
            name = quote_identifier(self._trigger_name(rows, suffix))
            db.execute(f"DROP TRIGGER IF EXISTS {name} ON {rows}")
            call = f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            db.execute(f"CREATE TRIGGER {name} AFTER {event} ON {rows} {seen} {call}")
        db.execute(trigger.rebuild_sql)

    def _trigger_name(self, rows: QualifiedTable, suffix: str) -> str:
        """Return the name of a function or trigger. PostgreSQL would truncate long names, and confuse two of them."""
        name = f"{rows.name}_to_{self.table.name}_{suffix}"
        if len(name.encode()) <= _LONGEST:
            return name
        end = f"_{zlib.crc32(name.encode()):08x}_{suffix}"
        return name.encode()[: _LONGEST - len(end)].decode(errors="ignore") + end

    def _trigger_state(self, db: Database, rows: QualifiedTable) -> _TriggerState | None:
        function = rows.sibling(self._trigger_name(rows, "fn"))
        found = db.execute(
            "SELECT prosrc, count(tgname), count(tgname) FILTER (WHERE tgenabled IN ('O', 'A'))"
            " FROM pg_proc LEFT JOIN pg_trigger ON tgfoid = pg_proc.oid AND tgrelid = to_regclass(%s)"
            " WHERE pg_proc.oid = to_regprocedure(%s) GROUP BY prosrc",
            (str(rows), f"{function}()"),
        ).fetchone()
        return None if found is None else _TriggerState(*found)

    # Columns

    @property
    def _keys(self) -> tuple[Group, ...]:
        return self.groups or (Group(SENTINEL, None, "text"),)

    @property
    def _counter(self) -> str | None:
        """The column with the number of rows of a group. None without groups: the single row always stays."""
        if not self.groups:
            return None
        counts = (figure.column for figure in self.figures if figure.kind == "count" and figure.source is None)
        return next(counts, COUNTER)

    @property
    def _figures(self) -> tuple[Figure, ...]:
        return self.figures + ((Figure(COUNTER, "count", None, "bigint"),) if self._counter == COUNTER else ())

    def _needed_columns(self, row_types: Mapping[str, str]) -> dict[str, str]:
        """Return the columns of the table, with the configured types, or else those of their source columns."""
        columns: list[Group | Figure] = [*self._keys, *self._figures]
        for made in columns:
            if made.source is not None and made.source not in row_types:
                text = f"the rows have no column `{made.source}`, which `{made.column}` of {self.table} is made of"
                hint = f"they have {', '.join(f'`{name}`' for name in row_types)}; name another one with `from`"
                raise ServiceError("table-mismatch", text, hint=hint)
        return {made.column: made.type or row_types[made.source or ""] for made in columns}

    def _trigger(self, rows: QualifiedTable, row_types: Mapping[str, str], types: Mapping[str, str]) -> Trigger:
        return Trigger(rows, row_types, self.table, types, self._keys, self._figures, self._counter)

    # The table

    def _create_table(self, db: Database, needed: Mapping[str, str]) -> None:
        zero = {figure.column for figure in self._figures if figure.is_additive}
        kinds = {name: f"{kind} NOT NULL DEFAULT 0" if name in zero else kind for name, kind in needed.items()}
        each = [f"{quote_identifier(name)} {kind}" for name, kind in kinds.items()]
        nulls = self.groups and db.info.server_version >= _NO_NULLS_TWICE
        unique = "UNIQUE NULLS NOT DISTINCT" if nulls else "PRIMARY KEY"
        db.execute(f"CREATE TABLE {self.table} ({', '.join(each)}, {unique} ({self._key_columns}))")

    @property
    def _key_columns(self) -> str:
        return quote_names(group.column for group in self._keys)

    def _check_table(self, db: Database, needed: Mapping[str, str]) -> None:
        """Refuse a table that lacks columns or a unique index for the aggregates, or whose types do not fit."""
        each = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in needed.items())
        db.execute(f"CREATE TEMPORARY TABLE penstock_wanted ({each}) ON COMMIT DROP")
        wanted = tables.columns_of(db, QualifiedTable("pg_temp", "penstock_wanted"))
        there = tables.columns_of(db, self.table)
        tables.check_types(db, self.table, wanted, there)
        if missing := {name: kind for name, kind in wanted.items() if name not in there}:
            lacking = ", ".join(f"`{name}`" for name in missing)
            hint = f"{tables.add_columns_sql(self.table, missing)}; or drop the table: it is rebuilt from the rows"
            raise ServiceError("table-mismatch", f"{self.table} has no column {lacking}", hint=hint)
        names = [group.column for group in self._keys]
        if not any(set(found) == set(names) for found in _unique_indexes(db, self.table)):
            text = f"{self.table} may have two rows for a group of ({', '.join(names)})"
            add = f"ALTER TABLE {self.table} ADD UNIQUE NULLS NOT DISTINCT ({self._key_columns})"
            raise ServiceError("table-mismatch", text, hint=f"drop the table: it is rebuilt from the rows; or {add}")


def _unique_indexes(db: Database, table: QualifiedTable) -> list[list[str]]:
    """Return the columns of each index in which no row occurs twice, not even with nulls."""
    found = db.execute(
        "SELECT array_agg(attname::text) FROM pg_index"
        " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)"
        " WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL"
        " GROUP BY indexrelid"
        " HAVING bool_and(attnotnull) OR bool_and(to_jsonb(pg_index) @> '{\"indnullsnotdistinct\": true}')",
        (str(table),),
    )
    return [names for (names,) in found]
