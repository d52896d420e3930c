"""Reads a batch again: files in the order in which they arrived, without those that are broken.

Spark reads the files of a batch in any order, and fails the batch if one is broken. A stateless query can take its rows
from a second reading instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.batch import PartRead
from penstock.clients.files.formats import FORMATS, is_gone
from penstock.errors import QueryFailed
from penstock.manifest.model import Input, QuerySpec
from penstock.row_columns import ORDER
from penstock.runtime.delivery.attempt import BatchRead
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.spark.errors import FileAtFault, file_at_fault
from penstock.spark_internals.errors import SPARK_ERRORS

MOST: Final = 100
"""If a batch has more unreadable files than this, the files are not the cause."""

FilesByView: TypeAlias = Mapping[str, Mapping[str, str]]
"""Unreadable files and the reasons, by the views of their inputs and by URI."""


@dataclass(frozen=True, slots=True)
class BatchReader:
    """Reads the batches of a query again, outside its stream, and each at its own time."""

    query: QuerySpec
    inputs: Sequence[QueryInput]
    frames: Frames

    @property
    def streams(self) -> list[QueryInput]:
        """The inputs without lookup tables."""
        return [each for each in self.inputs if not each.entry.static]

    @property
    def can_reread_files(self) -> bool:
        """Whether every stream of the query reads files, and no state is kept."""
        return not self.query.stateful and all(each.source.capabilities.loses_order for each in self.streams)

    def session(self, batch: BatchRead) -> SparkSession:
        return self.frames.session(now_ms=batch.time.began_ms)

    def reread_input(self, view: str, batch: BatchRead) -> DataFrame | None:
        """Read an input's part of a batch again; None if that cannot be done."""
        found = next(each for each in self.inputs if each.entry.view == view)
        return found.reread(self.session(batch), batch.parts)

    def reread_streams(self, batch: BatchRead, *, ordered: bool) -> Mapping[str, DataFrame] | None:
        """Read all streams again, in one session, by view; None if one of them cannot be read twice."""
        session = self.session(batch)
        found: dict[str, DataFrame] = {}
        for each in self.streams:
            rows = _reread_input(each, batch.parts, session, ordered=ordered or each.entry.ordered)
            if rows is None:
                return None
            found[each.entry.view] = rows
        return found

    def compute_views(self, rows: Mapping[str, DataFrame], *, ordered: bool) -> Mapping[str, DataFrame]:
        """Compute the views of the query from reread rows of its streams."""
        session = next(iter(rows.values())).sparkSession
        views = {view: sort_rows(found) if ordered else found for view, found in rows.items()}
        return self.frames.compute_views(self.query, self.inputs, views, session)

    def gone_files(self, batch: BatchRead) -> FilesByView:
        """Return the files of a batch that no longer exist. Spark would read the others without an error."""
        gone = {
            each.entry.view: [file for file in batch.parts.get(each.entry.name, PartRead()).files if is_gone(file)]
            for each in self.inputs
            if each.source.capabilities.has_files
        }
        return {view: dict.fromkeys(files, "it is not there any more") for view, files in gone.items() if files}

    def unreadable_files(self, batch: BatchRead) -> FilesByView:
        """Return the unreadable files of a batch, found by bisection."""
        session = self.session(batch)
        found: dict[str, dict[str, str]] = {}
        for each in self.streams:
            view = each.entry.view
            waiting = [(name, part.files) for name, part in _parts(each.entry, batch.parts) if part.files]
            while waiting:
                name, files = waiting.pop()
                fault = _find_fault(each, {name: PartRead(files=files)}, session)
                if fault is None:
                    continue
                if len(files) == 1:
                    found.setdefault(view, {})[files[0]] = fault.why
                    if len(found[view]) > MOST:
                        text = f"more than {MOST} files of a batch cannot be read; {fault.address}: {fault.why}"
                        raise QueryFailed("file-unreadable", text)
                    continue
                middle = len(files) // 2
                waiting += [(name, files[middle:]), (name, files[:middle])]
        return found


def has_lost_order(batch: BatchRead) -> bool:
    """Whether a reader has read several files, so that their order is lost."""
    return any(len(part.files) > 1 for part in batch.parts.values())


def without_files(batch: BatchRead, unread: FilesByView, inputs: Iterable[Input]) -> BatchRead:
    """Return the batch as if some of its files had never existed."""
    less = {
        name: replace(part, files=tuple(file for file in part.files if file not in unread[entry.view]))
        for entry in inputs
        if entry.view in unread
        for name, part in _parts(entry, batch.parts)
    }
    return replace(batch, parts={**batch.parts, **less})


def sort_rows(rows: DataFrame) -> DataFrame:
    """Sort rows by their order columns, and drop those."""
    return rows.orderBy(*ORDER).drop(*ORDER)


def _parts(entry: Input, parts: Mapping[str, PartRead]) -> list[tuple[str, PartRead]]:
    """Return what the readers of an input have read, by name: one reader, or one for each format."""
    names = (entry.name, *(f"{entry.name}_{form}" for form in FORMATS))
    return [(name, parts[name]) for name in names if name in parts]


def _find_fault(each: QueryInput, parts: Mapping[str, PartRead], session: SparkSession) -> FileAtFault | None:
    rows = each.reread(session, parts)
    assert rows is not None
    try:
        rows.write.format("noop").mode("append").save()
    except SPARK_ERRORS as error:
        fault = file_at_fault(error)
        if fault is None:
            raise
        return fault
    return None


def _reread_input(
    each: QueryInput, parts: Mapping[str, PartRead], session: SparkSession, *, ordered: bool
) -> DataFrame | None:
    rows = each.reread(session, parts, ordered=ordered)
    if rows is not None:
        return rows
    if any(part.files or part.before != part.after for _, part in _parts(each.entry, parts)):
        return None
    nothing = each.open_table(session).limit(0)
    return nothing.withColumns({name: f.lit(0) for name in ORDER}) if ordered else nothing
