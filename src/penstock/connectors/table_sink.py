"""The base class of sinks that write PostgreSQL tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import PrivateAttr

from penstock.batch import BatchRef
from penstock.clients.postgres.connection_fields import Login
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.settings_server import sink_server
from penstock.clients.postgres.sink.writer import TableWriter
from penstock.connectors.contract import KeepRows, Sink, SinkCapabilities, WriteResult
from penstock.connectors.node import Parallelism
from penstock.settings import Settings
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TableSink(Login, Sink):
    """Writes to the server of the settings, or to a server of its own."""

    own_labels: ClassVar = frozenset({"table"})
    inert: ClassVar[Mapping[str, str]] = {
        "batch_size": "the rows of a task travel in one COPY",
        "deduplicate": "the last row of a key always wins",
    }

    parallelism: Parallelism | None = None
    """The maximum number of tasks that process and copy a batch. Default: one for each partition of the batch."""
    deduplicate: bool = True
    """Accepted, but has no effect: only the last row of a key in a batch is ever written."""
    _server: PostgresServer = PrivateAttr(PostgresServer())
    _flush_interval_ms: int | None = PrivateAttr(None)

    @property
    @abstractmethod
    def _writer(self) -> TableWriter:
        """The writer for the table."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities.by_key(self.primary_key, takes_int256=True, flush_interval_ms=self._flush_interval_ms)

    def with_settings(self, settings: Settings, name: str) -> Self:
        found = self.with_server(sink_server(settings, name))
        found._flush_interval_ms = settings.postgres_sink.batch_flush_interval
        return found

    def with_server(self, server: PostgresServer) -> Self:
        """Return the same sink with this server, unless it has one of its own."""
        found = self.model_copy()
        found._server = self.override_server(server)
        return found

    def check(self) -> None:
        with self._server.connect():
            pass

    def check_rows(self, columns: Columns | None) -> None:
        self._writer.check(columns)

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "all rows of the table are deleted, whoever wrote them"

    def empty(self) -> None:
        self._writer.empty()

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        return WriteResult(replace(self._writer, most_tasks=self.parallelism).write(batch, ref))

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None = None) -> Iterator[tuple[int, str]] | None:
        return self._writer.trial(rows, ref, place)

    def cancel(self) -> None:
        self._server.cancel()
