"""Rows that have arrived beside a table, put into it: the last one of each key counts.

Where only some rows replace others, they end as if they had come one by one. Where one column says which row is better,
the best of each key is picked. Otherwise the rows of a key, and the one that the table has, are compared in turn by a
loop in the server, and what is left is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from penstock.clients.postgres.sink.staging import GONE, ORDER, TOKEN, Staged
from penstock.clients.postgres.tables import TableName, addition, listed, quoted
from penstock.errors import QueryFailed, ServiceError
from penstock.keyed.operators import OP

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_HAS_MERGE: Final = 150000
_MANY: Final = 1000
_LARGER: Final = 10
"""A table up to this many times as large as what has come is read as a whole: a hash join then beats a look into the
index for every row, by 1.4 times where rows are new or half of them are."""


_BETTER: Final = {">": ("DESC", "ASC"), ">=": ("DESC", "DESC"), "<": ("ASC", "ASC"), "<=": ("ASC", "DESC")}
"""By which order of values the row comes first that stays, and by which order of rows among equal ones."""
_SINCE: Final = "_penstock_since"


@dataclass(frozen=True, slots=True)
class Merge:
    """How rows get into a table. Without a key they are added to it, deletes too if their operation is a column."""

    table: TableName
    columns: Sequence[str]
    key: Sequence[str]
    on_conflict: Literal["update", "nothing"] = "update"
    update_where: Mapping[str, str] | None = None
    has_deletes: bool = True
    skips_deletes: bool = False
    """Whether deletes are left out of a table without a key."""

    def run(self, db: Database, staged: Staged) -> None:
        """Merge, in the transaction that is open. What is deleted goes first: it may have to make room."""
        if staged.rows >= _MANY:
            db.execute("SET LOCAL work_mem = '256MB'")
        if not self.key:
            self._check_log(db, staged)
            db.execute(f"{self._insert} SELECT {listed(self.columns)} {_rows(staged)}{self._unless_gone('AND')}")
            return
        if self.has_deletes and db.execute(f"SELECT EXISTS (SELECT {_rows(staged)} AND {GONE})").fetchone() == (True,):
            self._check_keys(db, staged)
            gone = f"SELECT DISTINCT {listed(self.key)} {_rows(staged)} AND {GONE}"
            db.execute(f"DELETE FROM {self.table} AS kept USING ({gone}) AS last WHERE {self._same}")
        if self._must_take_turns(db, staged):
            self._take_turns(db, staged)
        if not (self._is_for_a_join(db, staged) and self._at_once(db, staged)):
            self._one_by_one(db, staged)

    def _check_log(self, db: Database, staged: Staged) -> None:
        """Refuse a delete that a table without a key and without a column for operations cannot tell of."""
        if not self.has_deletes or self.skips_deletes:
            return
        if db.execute(f"SELECT EXISTS (SELECT {_rows(staged)} AND {GONE})").fetchone() == (True,):
            text = f"a row is to be deleted from {self.table}, which has neither a key nor a column `{OP}` to log it"
            hint = f"give the sink a `primary_key`, or add the column: {addition(self.table, {OP: 'text'})}"
            raise ServiceError("table-mismatch", text, hint=hint)

    def _check_keys(self, db: Database, staged: Staged) -> None:
        """A row without a whole key is found by nobody, so one that is to be deleted would stay."""
        for name in self.key:
            null = f"SELECT EXISTS (SELECT {_rows(staged)} AND {GONE} AND {quoted(name)} IS NULL)"
            if db.execute(null).fetchone() == (True,):
                text = f"a row is to be deleted from {self.table}, and its key has no value in column `{name}`"
                raise QueryFailed("rows-refused", text)

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

    def _must_take_turns(self, db: Database, staged: Staged) -> bool:
        """Whether rows of a key must be compared one after the other. Where one column says which is better, it is so
        with nulls: one that comes first, to a table without the key, is never replaced."""
        if self._leaves or not self._compared:
            return False
        asked = f"EXISTS ({self._repeated(staged)})"
        if self._is_by_rank:
            null = f"{quoted(self._compared[0][0])} IS NULL"
            asked = f"EXISTS (SELECT {_rows(staged)} AND {null}{self._unless_gone('AND')}) AND {asked}"
        return db.execute(f"SELECT {asked}").fetchone() == (True,)

    def _take_turns(self, db: Database, staged: Staged) -> None:
        """Leave one row of each key at most, or write it, if it replaces one that the table has. Nobody else changes
        that one in between."""
        db.execute(
            f"SELECT count(*) FROM (SELECT FROM {self.table} AS kept JOIN ({self._repeated(staged)}) AS last"
            f" ON {self._same} ORDER BY {', '.join(f'last.{quoted(name)}' for name in self.key)}"
            " FOR UPDATE OF kept) AS held"
        )
        body = self._comparing(staged).replace("'", "''")
        db.execute(f"DO '{body}'")
        new = f"SELECT {listed(self.columns)} {_rows(_replacing(staged))}"
        db.execute(f"UPDATE {self.table} AS kept SET {self._changes('last')} FROM ({new}) AS last WHERE {self._same}")

    def _comparing(self, staged: Staged) -> str:
        """A loop over the rows of keys that come more than once. Those that do not stay are taken out, and those that
        replace one of the table get another token."""
        names = [*self.key, *(name for name, _ in self._compared)]
        short = [*(f"k{n}" for n in range(len(self.key))), *(f"v{n}" for n in range(len(self._compared)))]
        of_key = f"PARTITION BY {listed(self.key)}"
        come = (
            f"SELECT {', '.join(f'{quoted(name)} AS {s}' for name, s in zip(names, short, strict=True))},"
            f" {ORDER} AS place, row_number() OVER ({of_key} ORDER BY {ORDER}) AS turn,"
            f" count(*) OVER ({of_key}) AS turns {self._left(staged)}"
        )
        there = (
            f"SELECT {', '.join(f'kept.{quoted(name)}' for name in names)}, -1, 0, come.turns"
            f" FROM come JOIN {self.table} AS kept ON "
            + " AND ".join(f"kept.{quoted(name)} = come.k{n}" for n, name in enumerate(self.key))
            + " WHERE come.turn = 1 AND come.turns > 1"
        )
        order = ", ".join([*short[: len(self.key)], "turn"])
        newer = " AND ".join(f"comes.v{n} {sign} stays.v{n}" for n, (_, sign) in enumerate(self._compared))
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
            f"UPDATE {staged.table} SET {TOKEN} = {_replacing(staged).token}"
            f" WHERE {of_token} (SELECT unnest(penstock.replacing));\n"
            "SET LOCAL enable_nestloop = on;\n"
            "END;\n"
        )

    def _repeated(self, staged: Staged) -> str:
        """The keys that come more than once."""
        rows = f"{_rows(staged)}{self._unless_gone('AND')}"
        return f"SELECT {listed(self.key)} {rows} GROUP BY {listed(self.key)} HAVING count(*) > 1"

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
        """The row of each key that stays: the last, the best, or the first behind a delete.

        They come in the order of the key, in which an index is filled fastest.
        """
        more = [GONE] if self.has_deletes else []
        chosen = f"SELECT DISTINCT ON ({listed(self.key)}) {listed([*self.columns, *more])}"
        if self.on_conflict == "nothing":
            return f"{chosen} {self._left(staged)} ORDER BY {listed(self.key)}, {ORDER}"
        if not self._is_by_rank:
            return f"{chosen} {_rows(staged)} ORDER BY {listed(self.key)}, {ORDER} DESC"
        ((name, sign),) = self._compared
        best, among_equal = _BETTER[sign]
        order = f"{listed(self.key)}, {quoted(name)} {best} NULLS LAST, {ORDER} {among_equal}"
        return f"{chosen} {self._left(staged)} ORDER BY {order}"

    def _left(self, staged: Staged) -> str:
        """Rows whose key is not deleted behind them."""
        if not self.has_deletes:
            return _rows(staged)
        since = f"max({ORDER}) FILTER (WHERE {GONE}) OVER (PARTITION BY {listed(self.key)}) AS {_SINCE}"
        return f"FROM (SELECT *, {since} {_rows(staged)}) AS each WHERE {ORDER} > coalesce({_SINCE}, -1)"

    @property
    def _is_by_rank(self) -> bool:
        """Whether one column says which of two rows stays, whatever lies between them."""
        return len(self._compared) == 1 and self._compared[0][1] in _BETTER

    @property
    def _compared(self) -> Sequence[tuple[str, str]]:
        return tuple((self.update_where or {}).items())


def _replacing(staged: Staged) -> Staged:
    """Those rows that replace one of the table, whatever it is like."""
    return replace(staged, token=-staged.token)


def _rows(staged: Staged) -> str:
    return f"FROM {staged.table} WHERE {TOKEN} = {staged.token}"
