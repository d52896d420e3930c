"""Merges staged rows into a table, so that the last row of each key remains.

With conditions for replacing a row, the result is the same as if rows had come one by one. If a single column decides
which row is better, the best of each key is chosen. Otherwise a loop in the server compares the rows of a key, and the
row in the table, in turn, and only the result is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from penstock.clients.postgres.sink.staging import GONE, ORDER, TOKEN, StagedRows
from penstock.clients.postgres.tables import QualifiedTable, add_columns_sql, quote_identifier, quote_names
from penstock.errors import QueryFailed, ServiceError
from penstock.row_columns import OP

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_HAS_MERGE: Final = 150000
_MANY: Final = 1000
_LARGER: Final = 10
"""A table up to this many times as large as the staged rows is read as a whole: a hash join is then 1.4 times faster
than an index lookup per row, whether all or half of the rows are new."""


_BETTER: Final = {">": ("DESC", "ASC"), ">=": ("DESC", "DESC"), "<": ("ASC", "ASC"), "<=": ("ASC", "DESC")}
"""By operator: the order of values, and the order of rows with equal values, in which the remaining row comes first."""
_SINCE: Final = "_penstock_since"


@dataclass(frozen=True, slots=True)
class Merge:
    """How rows are merged into a table. Without a key they are appended, deletes too if their operation is a column."""

    table: QualifiedTable
    columns: Sequence[str]
    key: Sequence[str]
    on_conflict: Literal["update", "nothing"] = "update"
    update_where: Mapping[str, str] | None = None
    has_deletes: bool = True
    skips_deletes: bool = False
    """Whether deletes are skipped for a table without a key."""

    def run(self, db: Database, staged: StagedRows) -> None:
        """Merge in the open transaction. Deletes come first: they may have to make room."""
        if staged.rows >= _MANY:
            db.execute("SET LOCAL work_mem = '256MB'")
        if not self.key:
            self._check_log(db, staged)
            rows = f"{_from_stage(staged)}{self._not_deleted_sql('AND')}"
            db.execute(f"{self._insert} SELECT {quote_names(self.columns)} {rows}")
            return
        if self.has_deletes and _has_rows(db, staged, GONE):
            self._check_keys(db, staged)
            gone = f"SELECT DISTINCT {quote_names(self.key)} {_from_stage(staged)} AND {GONE}"
            db.execute(f"DELETE FROM {self.table} AS kept USING ({gone}) AS last WHERE {self._key_match}")
        if self._needs_comparison(db, staged):
            self._compare_repeated(db, staged)
        if not (self._can_join(db, staged) and self._merge_whole(db, staged)):
            self._merge_by_index(db, staged)

    def _check_log(self, db: Database, staged: StagedRows) -> None:
        """Refuse a delete if the table has neither a key nor a column for operations."""
        if self.has_deletes and not self.skips_deletes and _has_rows(db, staged, GONE):
            text = f"a row is to be deleted from {self.table}, which has neither a key nor a column `{OP}` to log it"
            hint = f"give the sink a `primary_key`, or add the column: {add_columns_sql(self.table, {OP: 'text'})}"
            raise ServiceError("table-mismatch", text, hint=hint)

    def _check_keys(self, db: Database, staged: StagedRows) -> None:
        """Refuse a delete without a complete key: it would match no row, so the row would remain."""
        for name in self.key:
            if _has_rows(db, staged, f"{GONE} AND {quote_identifier(name)} IS NULL"):
                text = f"a row is to be deleted from {self.table}, and its key has no value in column `{name}`"
                raise QueryFailed("rows-refused", text)

    def _can_join(self, db: Database, staged: StagedRows) -> bool:
        if staged.rows < _MANY or db.info.server_version < _HAS_MERGE:
            return False
        arrived = db.execute("SELECT pg_relation_size(to_regclass(%s))", (str(staged.table),)).fetchone()
        assert arrived is not None
        return self._size(db) <= _LARGER * int(arrived[0])

    def _size(self, db: Database) -> int:
        """Return the size in bytes of the table's rows, including those of its partitions."""
        found = db.execute(
            "SELECT coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(t)), pg_relation_size(t))"
            " FROM to_regclass(%s) AS t",
            (str(self.table),),
        ).fetchone()
        assert found is not None
        return int(found[0])

    def _merge_whole(self, db: Database, staged: StagedRows) -> bool:
        """Merge in one statement. Returns False if another client has inserted a row with the same key meanwhile."""
        from psycopg.errors import UniqueViolation

        try:
            with db.transaction():
                if self._size(db) == 0:
                    db.execute(f"{self._insert} {self._present_rows(staged)}")
                else:
                    self._merge_by_join(db, staged)
        except UniqueViolation:
            return False
        return True

    def _merge_by_join(self, db: Database, staged: StagedRows) -> None:
        matched = "THEN DO NOTHING"
        if not self._keeps_existing:
            matched = f"{self._update_condition('last')}THEN UPDATE SET {self._assignments('last')}"
        values = ", ".join(f"last.{quote_identifier(name)}" for name in self.columns)
        db.execute(f"ANALYZE {staged.table} ({quote_names([*self.key, TOKEN])})")
        db.execute("SET LOCAL enable_nestloop = off")
        db.execute(
            f"MERGE INTO {self.table} AS kept USING ({self._present_rows(staged)}) AS last"
            f" ON {self._key_match} WHEN MATCHED {matched}"
            f" WHEN NOT MATCHED THEN INSERT ({quote_names(self.columns)}) VALUES ({values})"
        )
        db.execute("SET LOCAL enable_nestloop = on")

    def _merge_by_index(self, db: Database, staged: StagedRows) -> None:
        """Merge with ON CONFLICT, by the index."""
        action = "NOTHING"
        if not self._keeps_existing:
            action = f"UPDATE SET {self._assignments('EXCLUDED')} {self._update_condition('EXCLUDED', 'WHERE')}"
        db.execute(f"{self._insert} {self._present_rows(staged)} ON CONFLICT ({quote_names(self.key)}) DO {action}")

    def _needs_comparison(self, db: Database, staged: StagedRows) -> bool:
        """Whether rows of a key must be compared one by one. If a single column decides, that is only needed with
        nulls: a null that comes first, for a key that the table lacks, is never replaced."""
        if self._keeps_existing or not self._compared_columns:
            return False
        asked = f"EXISTS ({self._repeated_keys(staged)})"
        if self._is_by_rank:
            null = f"{quote_identifier(self._compared_columns[0][0])} IS NULL"
            asked = f"EXISTS (SELECT {_from_stage(staged)} AND {null}{self._not_deleted_sql('AND')}) AND {asked}"
        return db.execute(f"SELECT {asked}").fetchone() == (True,)

    def _compare_repeated(self, db: Database, staged: StagedRows) -> None:
        """Compare repeated rows of a key: at most one remains, or is written, if it replaces a row of the table. Rows
        of the table are locked, so nobody changes them in between."""
        db.execute(
            f"SELECT count(*) FROM (SELECT FROM {self.table} AS kept JOIN ({self._repeated_keys(staged)}) AS last"
            f" ON {self._key_match} ORDER BY {', '.join(f'last.{quote_identifier(name)}' for name in self.key)}"
            " FOR UPDATE OF kept) AS held"
        )
        body = self._comparison_sql(staged).replace("'", "''")
        db.execute(f"DO '{body}'")
        new = f"SELECT {quote_names(self.columns)} {_from_stage(_replacing_rows(staged))}"
        assigned = f"SET {self._assignments('last')} FROM ({new}) AS last"
        db.execute(f"UPDATE {self.table} AS kept {assigned} WHERE {self._key_match}")

    def _comparison_sql(self, staged: StagedRows) -> str:
        """Return a loop over the rows of repeated keys. Rows that do not remain are deleted from the stage, and those
        that replace a row of the table get another token."""
        names = [*self.key, *(name for name, _ in self._compared_columns)]
        short = [*(f"k{n}" for n in range(len(self.key))), *(f"v{n}" for n in range(len(self._compared_columns)))]
        of_key = f"PARTITION BY {quote_names(self.key)}"
        come = (
            f"SELECT {', '.join(f'{quote_identifier(name)} AS {s}' for name, s in zip(names, short, strict=True))},"
            f" {ORDER} AS place, row_number() OVER ({of_key} ORDER BY {ORDER}) AS turn,"
            f" count(*) OVER ({of_key}) AS turns {self._rows_after_delete(staged)}"
        )
        there = (
            f"SELECT {', '.join(f'kept.{quote_identifier(name)}' for name in names)}, -1, 0, come.turns"
            f" FROM come JOIN {self.table} AS kept ON "
            + " AND ".join(f"kept.{quote_identifier(name)} = come.k{n}" for n, name in enumerate(self.key))
            + " WHERE come.turn = 1 AND come.turns > 1"
        )
        order = ", ".join([*short[: len(self.key)], "turn"])
        newer = " AND ".join(f"comes.v{n} {sign} stays.v{n}" for n, (_, sign) in enumerate(self._compared_columns))
        of_token = f"{TOKEN} = {staged.token} AND {ORDER} IN"
        return (
            "\n#variable_conflict use_column\n<<penstock>>\n"
            "DECLARE comes record; stays record; is_first boolean := true; is_there boolean;\n"
            "lost bigint[] := '{}'; replacing bigint[] := '{}';\n"
            "BEGIN\n"
            f"FOR comes IN WITH come AS ({come})"
            f" SELECT * FROM come WHERE turns > 1 UNION ALL {there} ORDER BY {order} LOOP\n"
            "IF is_first THEN stays := comes; is_there := comes.turn = 0;\n"
            f"ELSIF {newer} THEN lost := lost || stays.place; stays := comes;\n"
            "ELSE lost := lost || comes.place;\nEND IF;\n"
            "is_first := comes.turn = comes.turns;\n"
            "IF is_first AND is_there AND stays.turn > 0 THEN replacing := replacing || stays.place;\nEND IF;\n"
            "END LOOP;\n"
            "SET LOCAL enable_nestloop = off;\n"
            f"DELETE FROM {staged.table} WHERE {of_token} (SELECT unnest(penstock.lost));\n"
            f"UPDATE {staged.table} SET {TOKEN} = {_replacing_rows(staged).token}"
            f" WHERE {of_token} (SELECT unnest(penstock.replacing));\n"
            "SET LOCAL enable_nestloop = on;\n"
            "END;\n"
        )

    def _repeated_keys(self, staged: StagedRows) -> str:
        rows = f"{_from_stage(staged)}{self._not_deleted_sql('AND')}"
        return f"SELECT {quote_names(self.key)} {rows} GROUP BY {quote_names(self.key)} HAVING count(*) > 1"

    @property
    def _insert(self) -> str:
        return f"INSERT INTO {self.table} AS kept ({quote_names(self.columns)})"

    @property
    def _key_match(self) -> str:
        return " AND ".join(f"kept.{quote_identifier(name)} = last.{quote_identifier(name)}" for name in self.key)

    @property
    def _value_columns(self) -> list[str]:
        return [name for name in self.columns if name not in self.key]

    @property
    def _keeps_existing(self) -> bool:
        """Whether existing rows are never changed."""
        return self.on_conflict == "nothing" or not self._value_columns

    def _assignments(self, new: str) -> str:
        return ", ".join(f"{quote_identifier(name)} = {new}.{quote_identifier(name)}" for name in self._value_columns)

    def _update_condition(self, new: str, word: str = "AND") -> str:
        return "".join(
            f"{word if not n else 'AND'} {new}.{quote_identifier(name)} {sign} kept.{quote_identifier(name)} "
            for n, (name, sign) in enumerate(self._compared_columns)
        )

    def _present_rows(self, staged: StagedRows) -> str:
        """Select the last row of each key, unless it is deleted."""
        last = self._last_rows(staged)
        return f"SELECT {quote_names(self.columns)} FROM ({last}) AS each{self._not_deleted_sql('WHERE')}"

    def _not_deleted_sql(self, word: str) -> str:
        return f" {word} NOT {GONE}" if self.has_deletes else ""

    def _last_rows(self, staged: StagedRows) -> str:
        """Select the remaining row of each key: the last, the best, or the first after a delete.

        They are sorted by key, in which order an index is filled fastest.
        """
        more = [GONE] if self.has_deletes else []
        chosen = f"SELECT DISTINCT ON ({quote_names(self.key)}) {quote_names([*self.columns, *more])}"
        if self.on_conflict == "nothing":
            return f"{chosen} {self._rows_after_delete(staged)} ORDER BY {quote_names(self.key)}, {ORDER}"
        if not self._is_by_rank:
            return f"{chosen} {_from_stage(staged)} ORDER BY {quote_names(self.key)}, {ORDER} DESC"
        ((name, sign),) = self._compared_columns
        best, among_equal = _BETTER[sign]
        order = f"{quote_names(self.key)}, {quote_identifier(name)} {best} NULLS LAST, {ORDER} {among_equal}"
        return f"{chosen} {self._rows_after_delete(staged)} ORDER BY {order}"

    def _rows_after_delete(self, staged: StagedRows) -> str:
        """Select rows without a later delete of their key."""
        if not self.has_deletes:
            return _from_stage(staged)
        since = f"max({ORDER}) FILTER (WHERE {GONE}) OVER (PARTITION BY {quote_names(self.key)}) AS {_SINCE}"
        return f"FROM (SELECT *, {since} {_from_stage(staged)}) AS each WHERE {ORDER} > coalesce({_SINCE}, -1)"

    @property
    def _is_by_rank(self) -> bool:
        """Whether a single column decides which of two rows remains, whatever other rows come between them."""
        return len(self._compared_columns) == 1 and self._compared_columns[0][1] in _BETTER

    @property
    def _compared_columns(self) -> Sequence[tuple[str, str]]:
        return tuple((self.update_where or {}).items())


def _replacing_rows(staged: StagedRows) -> StagedRows:
    """Return the staged rows that replace a row of the table unconditionally."""
    return replace(staged, token=-staged.token)


def _has_rows(db: Database, staged: StagedRows, condition: str) -> bool:
    return db.execute(f"SELECT EXISTS (SELECT {_from_stage(staged)} AND {condition})").fetchone() == (True,)


def _from_stage(staged: StagedRows) -> str:
    return f"FROM {staged.table} WHERE {TOKEN} = {staged.token}"
