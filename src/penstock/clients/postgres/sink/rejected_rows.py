"""Rows that a table refuses, found by writing rows in a transaction that is rolled back."""

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
"""The number of a row, and its line for COPY without the token."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Writes rows after those that were accepted before. Refused rows are bisected, which costs a few statements per
    row and no Spark job."""

    db: Database
    server: PostgresServer
    stage: Stage
    merge: Merge
    copy: str

    def find_rejected_rows(self, lines: Iterable[CopyLine]) -> Iterator[tuple[int, str]]:
        """Return the numbers of rejected rows, with their errors."""
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
        """Write rows; return the error, or None if they were accepted. Deferred constraints stay deferred."""
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
    """Split lines into chunks that fit into memory."""
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
