"""Decodes the messages of PostgreSQL's logical replication (`pgoutput`, version 1) into columns.

There is no loop over messages: all messages of a kind are decoded together, column by column. Only descriptions of
tables, which are rare, are decoded one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = np.ndarray[Any, Any]

_BEGIN, _RELATION, _INSERT, _UPDATE, _DELETE, _TRUNCATE = b"BRIUDT"
_KEY, _OLD = b"KO"
_TEXT, _UNCHANGED = b"tu"
_CHANGES: Final = np.frombuffer(b"IUD", np.uint8)
_SPARE: Final = bytes(16)
"""Padding, so that numbers may be read beyond the last message."""
_MOST_BYTES: Final = 2**30
"""The maximum size of messages that are decoded together: Arrow's offsets have 32 bits."""
_OPERATIONS: Final = pa.array(["i", "u", "d"])


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """The description of a table, as of the changes that follow it."""

    number: int
    schema: str
    name: str
    columns: tuple[str, ...]
    types: tuple[tuple[int, int], ...]
    """The type of each column: its OID and its modifier."""


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Rows of a table, as text by column, with their operations: `i`, `u` or `d`.

    A change of the key is a delete and an insert. `lacking` are columns that have no value in some rows, because it did
    not change and PostgreSQL stores it separately (TOAST). `without_old` is whether an update lacks its old row, though
    that was requested.
    """

    operations: pa.Array
    columns: dict[str, pa.Array]
    lacking: tuple[str, ...]
    without_old: bool = False


@dataclass(frozen=True, slots=True)
class TruncateMessage:
    """A TRUNCATE of the table."""


@dataclass(slots=True)
class PgOutputReader:
    """Reads messages in order, in parts, and keeps those of transactions that were committed within a range of LSNs."""

    table: tuple[str, str]
    """The schema and the name of the table."""
    lsns: tuple[int, int]
    """The first LSN of the range, and the one after the last."""
    key: Sequence[str]
    """The columns that identify a row; empty if all its values do."""
    on_relation: Callable[[RelationMessage], None]
    """Called with each description of the table."""
    with_old: bool = False
    """Whether the old row is added before every update, as a delete."""
    _within: bool = False
    _relation: RelationMessage | None = None

    def read(self, messages: Sequence[bytes]) -> Iterator[ChangeRows | TruncateMessage]:
        begin = size = 0
        for at, message in enumerate(messages):
            if size and size + len(message) > _MOST_BYTES:
                yield from self._read(messages[begin:at])
                begin, size = at, 0
            size += len(message)
        yield from self._read(messages[begin:])

    def _read(self, messages: Sequence[bytes]) -> Iterator[ChangeRows | TruncateMessage]:
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        data = np.frombuffer(b"".join([*messages, _SPARE]), np.uint8)
        starts = np.cumsum(lengths) - lengths
        kinds = data[starts]
        wanted = self._in_range_mask(data, starts, kinds)
        described = [at for at in _places(kinds, _RELATION) if self._describes(messages[at])]
        for begin, end in zip([0, *described], [*described, len(messages)], strict=True):
            if begin in described:
                self._relation = parse_relation(messages[begin])
                self.on_relation(self._relation)
            if self._relation is not None:
                part = slice(begin, end)
                yield from self._part(self._relation, data, starts[part], np.where(wanted[part], kinds[part], 0))

    def _in_range_mask(self, data: Numbers, starts: Numbers, kinds: Numbers) -> Numbers:
        """Return whether each message belongs to a transaction that was committed within the range."""
        begins = np.flatnonzero(kinds == _BEGIN)
        committed = _long(data, starts[begins] + 1)
        within = np.concatenate([[self._within], (committed >= self.lsns[0]) & (committed < self.lsns[1])])
        self._within = bool(within[-1])
        found: Numbers = within[np.searchsorted(begins, np.arange(len(starts)), "right")]
        return found

    def _describes(self, message: bytes) -> bool:
        schema, table, _ = message[5:].split(b"\0", 2)
        return ((schema.decode() or "pg_catalog"), table.decode()) == self.table

    def _part(
        self, table: RelationMessage, data: Numbers, starts: Numbers, kinds: Numbers
    ) -> Iterator[ChangeRows | TruncateMessage]:
        cleared = [
            at
            for at in _places(kinds, _TRUNCATE)
            if table.number in _int(data, starts[at] + 6 + 4 * np.arange(int(_int(data, starts[at] + 1))))
        ]
        for begin, end in zip([0, *cleared], [*cleared, len(kinds)], strict=True):
            if begin in cleared:
                yield TruncateMessage()
            changes = np.isin(kinds[begin:end], _CHANGES)
            at = starts[begin:end][changes]
            ours = _int(data, at + 1) == table.number
            if ours.any():
                yield self._rows(table, data, at[ours], kinds[begin:end][changes][ours])

    def _rows(self, table: RelationMessage, data: Numbers, at: Numbers, kinds: Numbers) -> ChangeRows:
        mark = data[at + 5]
        has_old, has_new = (mark == _KEY) | (mark == _OLD), kinds != _DELETE
        old_row, new_row = np.cumsum(has_old) - 1, np.cumsum(has_new) - 1
        olds, ends = _walk(data, at[has_old] + 6, len(table.columns))
        places = at + 6
        places[has_old] = ends + 1
        news, _ = _walk(data, places[has_new], len(table.columns))
        both = np.flatnonzero(has_old & has_new)
        for old, new in zip(olds, news, strict=True):
            new.fill(old, old_row[both], new_row[both])
        source = pa.py_buffer(data)
        moved = np.zeros(len(at), bool)
        moved[both] = self._changed_key_mask(table, source, olds, news, old_row[both], new_row[both])
        replaced = (kinds == _UPDATE) & (mark == _OLD) if self.with_old else np.zeros(len(at), bool)
        gone = np.flatnonzero(~has_new | moved | replaced)
        came = np.flatnonzero(has_new)
        order = pa.array(np.argsort(np.concatenate([2 * gone, 2 * came + 1]), kind="stable"))
        codes = np.where((kinds[came] == _UPDATE) & ~moved[came], 1, 0)
        operations = _OPERATIONS.take(pa.array(np.concatenate([np.full(len(gone), 2), codes])))
        columns = {
            name: pa.concat_arrays([old.texts(source, old_row[gone]), new.texts(source)])
            for name, old, new in zip(table.columns, olds, news, strict=True)
        }
        lacking = [name for name, new in zip(table.columns, news, strict=True) if new.is_lacking]
        without_old = self.with_old and bool(((kinds == _UPDATE) & ~replaced & ~moved).any())
        if not len(gone):
            return ChangeRows(operations, columns, tuple(lacking), without_old)
        taken = {name: texts.take(order) for name, texts in columns.items()}
        return ChangeRows(operations.take(order), taken, tuple(lacking), without_old)

    def _changed_key_mask(
        self,
        table: RelationMessage,
        source: pa.Buffer,
        olds: Sequence["Cells"],
        news: Sequence["Cells"],
        old_row: Numbers,
        new_row: Numbers,
    ) -> Numbers:
        """Return which updates changed the key."""
        if not self.key:
            return np.ones(len(old_row), bool)
        found = np.zeros(len(old_row), bool)
        for name in self.key:
            at = table.columns.index(name)
            before, after = olds[at].texts(source, old_row), news[at].texts(source, new_row)
            same = pc.fill_null(pc.equal(before, after), False)
            neither = pc.and_(pc.is_null(before), pc.is_null(after))
            found |= ~pc.or_(same, neither).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True, slots=True)
class Cells:
    """The values of a column: their kinds, and their positions in the messages."""

    kinds: Numbers
    starts: Numbers
    lengths: Numbers

    @property
    def is_lacking(self) -> bool:
        return bool((self.kinds == _UNCHANGED).any())

    def fill(self, old: "Cells", old_row: Numbers, new_row: Numbers) -> None:
        """Take unchanged values from the old rows, as far as those have them."""
        lacking = (self.kinds[new_row] == _UNCHANGED) & (old.kinds[old_row] == _TEXT)
        to, of = new_row[lacking], old_row[lacking]
        self.kinds[to], self.starts[to], self.lengths[to] = old.kinds[of], old.starts[of], old.lengths[of]

    def texts(self, source: pa.Buffer, rows: Numbers | None = None) -> pa.Array:
        """Return the values. They are not contiguous: the bytes between them become values too, which are skipped."""
        chosen = slice(None) if rows is None else rows
        starts, lengths, kinds = self.starts[chosen], self.lengths[chosen], self.kinds[chosen]
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        places = np.empty(2 * count + 1, np.int32)
        places[0:-1:2], places[1::2] = starts, starts + lengths
        places[-1] = places[-2]
        every = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(places), source])
        return every.take(pa.array(np.arange(0, 2 * count, 2), mask=kinds != _TEXT))


def parse_relation(message: bytes) -> RelationMessage:
    """Parse the description of a table."""
    number = int.from_bytes(message[1:5])
    schema, table, rest = message[5:].split(b"\0", 2)
    names, types, at = [], [], 3
    for _ in range(int.from_bytes(rest[1:3])):
        end = rest.index(b"\0", at + 1)
        names.append(rest[at + 1 : end].decode())
        types.append((int.from_bytes(rest[end + 1 : end + 5]), int.from_bytes(rest[end + 5 : end + 9], signed=True)))
        at = end + 9
    return RelationMessage(number, schema.decode() or "pg_catalog", table.decode(), tuple(names), tuple(types))


def _places(kinds: Numbers, kind: int) -> list[int]:
    found: list[int] = np.flatnonzero(kinds == kind).tolist()
    return found


def _walk(data: Numbers, at: Numbers, count: int) -> tuple[list[Cells], Numbers]:
    """Return the columns of the rows that begin at these positions, and where the rows end."""
    at, found = at + 2, []
    for _ in range(count):
        kinds = data[at].copy()
        written = kinds == _TEXT
        lengths = np.where(written, _int(data, at + 1), 0)
        found.append(Cells(kinds, np.where(written, at + 5, at), lengths))
        at = at + 1 + np.where(written, 4 + lengths, 0)
    return found, at


def _int(data: Numbers, at: Numbers) -> Numbers:
    found: Numbers = sum(data[at + byte].astype(np.int64) << (24 - 8 * byte) for byte in range(4))
    return found


def _long(data: Numbers, at: Numbers) -> Numbers:
    return (_int(data, at) << 32) | _int(data, at + 4)
