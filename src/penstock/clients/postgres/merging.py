"""Rows that have arrived beside a table, put into it: the last one of each key counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from penstock.clients.postgres.staging import GONE, ORDER, TOKEN, Staged
from penstock.clients.postgres.tables import TableName, listed, quoted

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_HAS_MERGE: Final = 150000
_MANY: Final = 1000
_LARGER: Final = 10
"""A table up to this many times as large as what has come is read as a whole: a hash join then beats a look into the
index for every row, by 1.4 times where rows are new or half of them are."""


_BETTER: Final = {">": "DESC", ">=": "DESC", "<": "ASC", "<=": "ASC"}


@dataclass(frozen=True, slots=True)
class Merge:
    """How rows get into a table. Without a key they are added to it."""

    table: TableName
    columns: Sequence[str]
    key: Sequence[str]
    on_conflict: Literal["update", "nothing"] = "update"
    update_where: Mapping[str, str] | None = None
    has_deletes: bool = True

    def run(self, db: Database, staged: Staged) -> None:
        """Merge, in the transaction that is open. What is deleted goes first: it may have to make room."""
        if staged.rows >= _MANY:
            db.execute("SET LOCAL work_mem = '256MB'")
        if not self.key:
            db.execute(f"{self._insert} SELECT {listed(self.columns)} {_rows(staged)}{self._unless_gone('AND')}")
            return
        if self.has_deletes and db.execute(f"SELECT EXISTS (SELECT {_rows(staged)} AND {GONE})").fetchone() == (True,):
            gone = f"SELECT DISTINCT {listed(self.key)} {_rows(staged)} AND {GONE}"
            db.execute(f"DELETE FROM {self.table} AS kept USING ({gone}) AS last WHERE {self._same}")
        if not (self._is_for_a_join(db, staged) and self._at_once(db, staged)):
            self._one_by_one(db, staged)

    def _is_for_a_join(self, db: Database, staged: Staged) -> bool:
        if staged.rows < _MANY or db.info.server_version < _HAS_MERGE:
            return False
        arrived = db.execute("SELECT pg_relation_size(to_regclass(%s))", (str(staged.table),)).fetchone()
        assert arrived is not None
        return self._size(db) <= _LARGER * int(arrived[0])

    def _size(self, db: Database) -> int:
        """How many bytes the rows of the table take, with those of its partitions."""
        found = db.execute(
            "SELECT coalesce((SELECT sum(pg_relation_size(relid)) FROM pg_partition_tree(t)), pg_relation_size(t))"
            " FROM to_regclass(%s) AS t",
            (str(self.table),),
        ).fetchone()
        assert found is not None
        return int(found[0])

    def _at_once(self, db: Database, staged: Staged) -> bool:
        """Merge as a whole. It does not work where somebody else inserts a row of the same key meanwhile."""
        from psycopg.errors import UniqueViolation

        try:
            with db.transaction():
                if self._size(db) == 0:
                    db.execute(f"{self._insert} {self._present(staged)}")
                else:
                    self._join(db, staged)
        except UniqueViolation:
            return False
        return True

    def _join(self, db: Database, staged: Staged) -> None:
        matched = "THEN DO NOTHING" if self._leaves else f"{self._newer('last')}THEN UPDATE SET {self._changes('last')}"
        values = ", ".join(f"last.{quoted(name)}" for name in self.columns)
        db.execute(f"ANALYZE {staged.table} ({listed([*self.key, TOKEN])})")
        db.execute("SET LOCAL enable_nestloop = off")
        db.execute(
            f"MERGE INTO {self.table} AS kept USING ({self._present(staged)}) AS last"
            f" ON {self._same} WHEN MATCHED {matched}"
            f" WHEN NOT MATCHED THEN INSERT ({listed(self.columns)}) VALUES ({values})"
        )
        db.execute("SET LOCAL enable_nestloop = on")

    def _one_by_one(self, db: Database, staged: Staged) -> None:
        """Merge by the index."""
        action = (
            "NOTHING" if self._leaves else f"UPDATE SET {self._changes('EXCLUDED')} {self._newer('EXCLUDED', 'WHERE')}"
        )
        db.execute(f"{self._insert} {self._present(staged)} ON CONFLICT ({listed(self.key)}) DO {action}")

    @property
    def _insert(self) -> str:
        return f"INSERT INTO {self.table} AS kept ({listed(self.columns)})"

    @property
    def _same(self) -> str:
        return " AND ".join(f"kept.{quoted(name)} = last.{quoted(name)}" for name in self.key)

    @property
    def _others(self) -> list[str]:
        return [name for name in self.columns if name not in self.key]

    @property
    def _leaves(self) -> bool:
        """Whether a row that is there stays as it is."""
        return self.on_conflict == "nothing" or not self._others

    def _changes(self, new: str) -> str:
        return ", ".join(f"{quoted(name)} = {new}.{quoted(name)}" for name in self._others)

    def _newer(self, new: str, word: str = "AND") -> str:
        """What a row must meet that is to replace another."""
        return "".join(
            f"{word if not n else 'AND'} {new}.{quoted(name)} {sign} kept.{quoted(name)} "
            for n, (name, sign) in enumerate(self._compared)
        )

    def _present(self, staged: Staged) -> str:
        """The last row of each key, unless it is gone."""
        return f"SELECT {listed(self.columns)} FROM ({self._last(staged)}) AS each{self._unless_gone('WHERE')}"

    def _unless_gone(self, word: str) -> str:
        return f" {word} NOT {GONE}" if self.has_deletes else ""

    def _last(self, staged: Staged) -> str:
        """The last row of each key. They come in the order of the key, in which an index is filled fastest.

        Where only some rows replace others, it is the one that would be left if they came one by one.
        """
        more = [GONE] if self.has_deletes else []
        chosen = f"SELECT DISTINCT ON ({listed(self.key)}) {listed([*self.columns, *more])}"
        best = [f"{quoted(name)} {_BETTER[sign]} NULLS LAST" for name, sign in self._compared if sign in _BETTER]
        order = ", ".join([listed(self.key), *best, f"{ORDER} DESC"])
        if not best or not self.has_deletes:
            return f"{chosen} {_rows(staged)} ORDER BY {order}"
        since = f"max({ORDER}) FILTER (WHERE {GONE}) OVER (PARTITION BY {listed(self.key)}) AS since"
        left = f"SELECT *, {since} {_rows(staged)}"
        return f"{chosen} FROM ({left}) AS each WHERE {ORDER} > coalesce(since, -1) ORDER BY {order}"

    @property
    def _compared(self) -> Sequence[tuple[str, str]]:
        return tuple((self.update_where or {}).items())


def _rows(staged: Staged) -> str:
    return f"FROM {staged.table} WHERE {TOKEN} = {staged.token}"
