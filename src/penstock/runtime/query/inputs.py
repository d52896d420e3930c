"""An input of a query: a source, read as a stream, as a table, or one of its batches again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.batch import PartRead
from penstock.connectors.contract import ReadRequest, Source
from penstock.manifest.model import Input
from penstock.row_columns import ORDER
from penstock.runtime.spark.analysis_errors import attribute_errors
from penstock.sql.lint.gate import check_expression
from penstock.sql.types.columns import Column, Columns


@dataclass(frozen=True, slots=True)
class QueryInput:
    """An input of a query, its source, and the request with which the query reads it."""

    entry: Input
    source: Source
    request: ReadRequest

    def open_stream(self, session: SparkSession) -> DataFrame:
        """Open the stream. If it must be ordered and its source knows no order, only its batches have one."""
        rows = self.source.read(session, replace(self.request, ordered=self.entry.ordered))
        if not self.entry.ordered or ORDER[0] in rows.columns:
            return rows
        blanks = (f.lit(0).cast("bigint"), f.lit(""), f.lit(0).cast("bigint"), f.lit(0).cast("bigint"))
        return rows.withColumns(dict(zip(ORDER, blanks, strict=True)))

    def open_table(self, session: SparkSession) -> DataFrame:
        """Return the current rows: of a lookup table, or for display."""
        return self.source.peek(session, self.request)

    def reread(
        self, session: SparkSession, parts: Mapping[str, PartRead] | None, *, ordered: bool = False
    ) -> DataFrame | None:
        """Read a batch again, or all current rows; None if rows cannot be read twice."""
        return self.source.reread(session, replace(self.request, ordered=ordered), parts)

    def in_directory(self, directory: Path) -> Self:
        return replace(self, request=replace(self.request, directory=directory))

    def at_snapshot(self, session: SparkSession, *, again: bool) -> Self:
        """Return the input with a snapshot: all batches are read with what the source finds now."""
        with attribute_errors(self.entry.node):
            found = self.source.take_snapshot(session, self.request, again=again)
        return replace(self, request=replace(self.request, snapshot=found))


def input_request(entry: Input, columns: Columns | None, only: frozenset[str] | None) -> ReadRequest:
    """Return the request with which a query reads an input. `columns` are those that the writer of its rows produces,
    if known; `only` has the names of those that the query uses."""
    declared = bool(entry.declared) and not entry.cast_to
    if types := entry.cast_to or entry.declared:
        columns = tuple(Column(name, kind) for name, kind in types.items())
    condition = None if entry.condition is None else check_expression(entry.condition)
    return ReadRequest(entry.name, columns, declared, only, condition, any_order=entry.any_order)
