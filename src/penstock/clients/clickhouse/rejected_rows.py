"""Rows that a table refuses: found by bisection, and returned to the driver."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from penstock.errors import QueryFailed

_MOST: Final = 100
"""If more rows than this fail in a partition, the rows are not the cause."""
AT_FAULT: Final = frozenset(("field-mismatch", "rows-refused"))
"""Codes of errors that are caused by rows."""


@dataclass(slots=True)
class RejectedRows:
    """Rejected rows of a partition, each with its error."""

    count: int = 0
    _rows: list[tuple[pa.Table, str]] = field(default_factory=list)

    def add(self, chunk: pa.Table, wrong: Mapping[int, str]) -> None:
        self.count += len(wrong)
        self._rows += [(chunk.slice(place, 1), said) for place, said in wrong.items()]

    def dead_letters(self) -> Iterator[dict[str, object]]:
        for row, said in self._rows:
            row = row.rename_columns([f"c{number}" for number in range(row.num_columns)])
            yield {"rejected": bytes(encode_arrow(row)), "message": said}


def unpack_rejected(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rejected rows with their errors in a last column; made of `rejected` and `message`."""
    for batch in batches:
        for rejected, said in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            with pa.ipc.open_stream(rejected) as packed:
                for rows in packed:
                    yield rows.append_column("said", pa.array([said] * len(rows), pa.string()))


def find_failing(count: int, attempt: Callable[[int, int], None], before: int) -> Iterator[tuple[int, str]]:
    """Return the positions of rows that fail alone, with their errors. `attempt` writes a range of rows.

    It stops if there are too many, including those found before.
    """
    spans = [(0, count)] if count else []
    while spans:
        begin, end = spans.pop()
        try:
            attempt(begin, end)
        except QueryFailed as error:
            if error.code not in AT_FAULT:
                raise
            if end - begin > 1:
                middle = (begin + end) // 2
                spans += [(middle, end), (begin, middle)]
                continue
            before += 1
            if before > _MOST:
                text = f"more than {_MOST} rows of a part of the batch are refused: {error.message}"
                raise QueryFailed("query-failed", text, hint="check the SQL and the table") from None
            yield begin, error.message


def encode_arrow(rows: pa.Table, codec: str | None = None) -> pa.Buffer:
    """Encode rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(rows)
    return sink.getvalue()
