"""Writes of batches to a table, each in one transaction with its ledger row.

With a key, changes are merged into the table. Without one, they are appended to it as a log, with their operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.batch import BatchRef
from penstock.clients.postgres import tables
from penstock.clients.postgres.pool import pooled_connection
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.sink.aggregate_tables import Aggregation
from penstock.clients.postgres.sink.ledger import Ledger
from penstock.clients.postgres.sink.merge import Merge
from penstock.clients.postgres.sink.rejected_rows import Trial
from penstock.clients.postgres.sink.staging import Stage, StagedRows
from penstock.clients.postgres.tables import QualifiedTable
from penstock.clients.rows.row_op import row_operation
from penstock.clients.warn_once import warn_once
from penstock.errors import ServiceError
from penstock.row_columns import OP
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.clients.postgres.server import Database


@dataclass(frozen=True, slots=True)
class TableWriter:
    """How a table is written. `create` is whether it is created if it does not exist."""

    server: PostgresServer
    table: QualifiedTable
    key: tuple[str, ...] = ()
    on_conflict: Literal["update", "nothing"] = "update"
    update_where: Mapping[str, str] | None = None
    schema_change: Literal["fail", "evolve", "ignore"] = "fail"
    create: bool = True
    aggregation: Aggregation | None = None
    """Aggregates of this table that another table keeps."""
    most_tasks: int | None = None
    """The maximum number of tasks that copy at a time."""

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        """Write a batch unless the ledger has it, and return the number of rows."""
        ledger = Ledger.of(self.table.schema)
        with pooled_connection(self.server) as db:
            if ledger.has_batch(db, ref):
                batch.write.format("noop").mode("append").save()
                return 0
            stage, merge, staged = self._stage_rows(db, self._with_operations(batch), ref)
            if staged.rows:
                with db.transaction():
                    stage.complete(db, staged)
                    merge.run(db, staged)
                    ledger.add(db, ref, staged.rows, staged.checksum)
                stage.empty(db)
            return staged.rows

    def check(self, columns: Columns | None) -> None:
        """Refuse a table that rows of these columns do not fit. Nothing is changed."""
        with self.server.connect() as db:
            there = tables.columns_of(db, self.table)
            if not there and not self.create:
                self._create_table(db, {})
            if not there:
                return
            known = [column for column in columns or () if column.name != OP]
            types = {column.name: tables.type_of(column.type) for column in known if column.type is not None}
            tables.check_types(db, self.table, {n: kind for n, kind in types.items() if kind is not None}, there)
            if self.key:
                tables.check_key(db, self.table, self.key)
            missing = {c.name: types.get(c.name) or "text" for c in known if c.name not in there}
            if missing and self.schema_change == "fail":
                self._change_table(db, missing, there)

    def empty(self) -> None:
        """Delete all rows of the table, if it exists. Triggers run, so aggregates stay right."""
        with pooled_connection(self.server) as db:
            if tables.columns_of(db, self.table):
                db.execute(f"DELETE FROM {self.table}")

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None) -> Iterator[tuple[int, str]] | None:
        """Try some rows of a batch: as a whole, or, with `place`, one by one for those that the table refuses."""
        if place is not None:
            return self._find_rejected_rows(rows, place, ref)
        with pooled_connection(self.server) as db:
            stage, merge, staged = self._stage_rows(db, self._with_operations(rows), ref)
            with db.transaction(force_rollback=True):
                stage.complete(db, staged)
                merge.run(db, staged)
                db.execute("SET CONSTRAINTS ALL IMMEDIATE")
            stage.empty(db)
        return None

    def _find_rejected_rows(self, rows: DataFrame, place: str, ref: BatchRef) -> Iterator[tuple[int, str]]:
        """Return the rows of a batch that the table refuses, by the number in a column, with their errors."""
        rows = self._with_operations(rows)
        with pooled_connection(self.server) as db:
            stage, merge = self._prepare_stage(db, rows.drop(place), ref)
            trial = Trial(db, self.server, stage, merge, stage.copy_sql(rows))
            yield from trial.find_rejected_rows(stage.number_lines(rows, place))
            stage.empty(db)

    def _stage_rows(self, db: Database, rows: DataFrame, ref: BatchRef) -> tuple[Stage, Merge, StagedRows]:
        stage, merge = self._prepare_stage(db, rows, ref)
        return stage, merge, stage.fill(rows, self.server, self.most_tasks)

    def _prepare_stage(self, db: Database, rows: DataFrame, ref: BatchRef) -> tuple[Stage, Merge]:
        columns = self._match_columns(db, rows)
        if self.aggregation is not None:
            self.aggregation.attach(db, self.table, columns)
        is_log = OP in columns
        gone = f"lower(coalesce({OP}, 'i')) = 'd'" if OP in rows.columns and not is_log else None
        # A deleted row may have only its key, so domain constraints are checked for other rows, and by the table.
        below = tables.domains(db, self.table)
        stage = Stage.create_for(self.table, ref, {name: below.get(name, kind) for name, kind in columns.items()}, gone)
        stage.create_if_missing(db)
        names, skips = tuple(columns), self.schema_change == "ignore"
        return stage, Merge(self.table, names, self.key, self.on_conflict, self.update_where, gone is not None, skips)

    def _with_operations(self, rows: DataFrame) -> DataFrame:
        """Write the operations of all rows in one spelling, where they become a column."""
        return rows if self.key or OP not in rows.columns else rows.withColumn(OP, row_operation(rows))

    def _match_columns(self, db: Database, rows: DataFrame) -> dict[str, str]:
        """Return the columns that are written, with their types in the table."""
        wanted = tables.wanted_columns(rows.schema, without=(OP,) if self.key else ())
        there = tables.columns_of(db, self.table)
        if not there:
            there = self._create_table(db, wanted)
        tables.check_types(db, self.table, wanted, there)
        if self.key:
            tables.check_key(db, self.table, self.key)
        missing = {name: kind for name, kind in wanted.items() if name not in there}
        if self.schema_change == "fail":
            missing.pop(OP, None)  # inserts need no such column: `Merge` refuses the first delete
        if missing:
            there = self._change_table(db, missing, there)
        return {name: kind for name, kind in there.items() if name in wanted}

    def _create_table(self, db: Database, wanted: Mapping[str, str]) -> dict[str, str]:
        if not self.create:
            raise ServiceError(
                "table-mismatch", f"there is no table {self.table}", hint="create it, or let the sink do so"
            )
        tables.create_table(db, self.table, wanted, self.key)
        return tables.columns_of(db, self.table)

    def _change_table(self, db: Database, missing: Mapping[str, str], there: dict[str, str]) -> dict[str, str]:
        """Add the missing columns to a table, ignore them or refuse them, as the sink is configured."""
        if self.schema_change == "ignore":
            if OP in missing:
                warn_once(f"{self.table} has no column `{OP}`, so deletes are left out: `schema_change` is `ignore`.")
            return there
        if self.schema_change == "evolve":
            with db.transaction():
                db.execute(tables.LOCK)
                db.execute(tables.add_columns_sql(self.table, missing, "IF NOT EXISTS "))
            return tables.columns_of(db, self.table)
        names = ", ".join(f"`{name}`" for name in missing)
        hint = f"{tables.add_columns_sql(self.table, missing)}; or `schema_change: evolve`, or `ignore`"
        raise ServiceError("table-mismatch", f"{self.table} has no column {names}", hint=hint)
