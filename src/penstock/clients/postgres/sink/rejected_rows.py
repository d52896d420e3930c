"""Rows that a table does not take, found by writing them in turn, in a transaction that is taken back."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.sink.merge import Merge
from penstock.clients.postgres.sink.staging import Stage, StagedRows
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.clients.postgres.server import Database

_ROWS: Final = 5_000
_BYTES: Final = 8 * 2**20
CopyLine: TypeAlias = tuple[int, bytes]
"""The number of a row, and the row as COPY wants it, but for the token at its end."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Writes rows behind those that were taken before them. Halves of what is refused are tried by themselves, so a row
    costs a few statements, and none to Spark."""

    db: Database
    server: PostgresServer
    stage: Stage
    merge: Merge
    copy: str

    def find_rejected_rows(self, lines: Iterable[CopyLine]) -> Iterator[tuple[int, str]]:
        """The numbers of rows that are not taken, and what is said of each."""
        with self.db.transaction(force_rollback=True):
            for some in _chunks(lines):
                yield from self._bisect_lines(some)

    def _bisect_lines(self, lines: Sequence[CopyLine]) -> Iterator[tuple[int, str]]:
        said = self._try_lines(lines)
        if said is None:
            return
        if len(lines) == 1:
            yield lines[0][0], said
            return
        middle = len(lines) // 2
        yield from self._bisect_lines(lines[:middle])
        yield from self._bisect_lines(lines[middle:])

    def _try_lines(self, lines: Sequence[CopyLine]) -> str | None:
        """What is said of some rows, which are in the table if it is nothing. Constraints wait as they would."""
        token = secrets.randbits(62)
        end = b"\t%d\n" % token
        text = b"".join(line + end for _, line in lines)
        staged = StagedRows(self.stage.table, token, len(lines), checksum=0, arrived=0, copy=self.copy, lines={0: text})
        try:
            with self.server.translate_errors(), self.db.transaction():
                self.db.execute("SET CONSTRAINTS ALL DEFERRED")
                self.stage.complete(self.db, staged)
                self.merge.run(self.db, staged)
                self.db.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except PenstockError as error:
            if error.code != "rows-refused":
                raise
            return error.message
        return None


def _chunks(lines: Iterable[CopyLine]) -> Iterator[list[CopyLine]]:
    """As many at a time as memory holds."""
    some: list[CopyLine] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line[1])
        if len(some) >= _ROWS or size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
