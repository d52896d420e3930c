"""Writes rows as hashes, on executors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.clients.task_report import report_batch
from penstock.connectors.redis.server import RedisServer, Session
from penstock.errors import ServiceError
from penstock.row_columns import OP

if TYPE_CHECKING:
    import pyarrow
    from redis import Redis

    from penstock.config import OnError

REPORT: Final = "rows BIGINT, refused BIGINT, value STRING, message STRING, failure STRING"


@dataclass(frozen=True, slots=True)
class WriteHashes:
    """Writes the rows of a task. It returns its failure as a row and never raises: Spark would retry the task, and
    would return nothing but a text."""

    server: RedisServer
    prefix: str
    names: tuple[str, ...]
    are_json: tuple[bool, ...]
    ttl_secs: int | None
    batch_size: int
    on_refusal: OnError

    def __call__(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        written, refused = 0, 0
        try:
            with Session(self.server) as client:
                for batch in batches:
                    for begin in range(0, batch.num_rows, self.batch_size):
                        part = batch.slice(begin, self.batch_size)
                        wrong = self._write(client, part)
                        written, refused = written + part.num_rows - len(wrong), refused + len(wrong)
                        if wrong and self.on_refusal == "stop":
                            yield report_batch(REPORT, [{"failure": next(iter(wrong.values()))}])
                            return
                        if self.on_refusal == "dead_letter":
                            for at, message in wrong.items():
                                row = self._row_json(part, at)
                                yield report_batch(REPORT, [{"value": row, "message": message}])
        except ServiceError as error:
            yield report_batch(REPORT, [{"failure": error.to_text}])
            return
        yield report_batch(REPORT, [{"rows": written, "refused": refused}])

    def _write(self, client: Redis, rows: pyarrow.RecordBatch) -> dict[int, str]:
        """Write rows in one transaction; return those that are rejected, by number, with the reasons."""
        ops, keys, *columns = (column.to_pylist() for column in rows.columns)
        wrong: dict[int, str] = {at: "a column of its key is null" for at, key in enumerate(keys) if key is None}
        names, commands = [f"{self.prefix}:{key}" for key in keys], list[int]()
        pipe = client.pipeline(transaction=True)
        pipe.annotate_exception = _add_nothing  # type: ignore[method-assign]
        for at, values in enumerate(zip(*columns, strict=True)):
            if at in wrong:
                continue
            commands.append(at)
            if ops[at] == "d":
                pipe.delete(names[at])
                continue
            pairs = zip(self.names, values, strict=True)
            pipe.hset(names[at], mapping={name: value for name, value in pairs if value is not None})
            if nulls := [name for name, value in zip(self.names, values, strict=True) if value is None]:
                commands.append(at)
                pipe.hdel(names[at], *nulls)
        for at, answer in zip(commands, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(answer, Exception):  # the key is no hash; errors of the transaction are raised
                wrong.setdefault(at, f"Redis does not take `{names[at]}`: {answer}")
        if self.ttl_secs is not None:
            pipe = client.pipeline(transaction=False)
            for at in dict.fromkeys(at for at in commands if ops[at] != "d" and at not in wrong):
                pipe.expire(names[at], self.ttl_secs)
            pipe.execute()
        return wrong

    def _row_json(self, rows: pyarrow.RecordBatch, at: int) -> str:
        texts = [column[at].as_py() for column in rows.columns]
        shown = (
            f"{json.dumps(name)}:{text if is_json and _is_finite(text) else json.dumps(text, ensure_ascii=False)}"
            for name, text, is_json in zip(self.names, texts[2:], self.are_json, strict=True)
        )
        return f"{{{','.join((*shown, f'{json.dumps(OP)}:{json.dumps(texts[0])}'))}}}"


def _add_nothing(*about: object) -> None:
    """Do not annotate an error: the client would add the command, with the values of the row."""


def _is_finite(text: str | None) -> bool:
    return text is not None and text not in ("NaN", "Infinity", "-Infinity")
