"""The contract of a sink, as checks that any connector can be tested with.

Each check writes with the sink and reads back with a function that the caller provides, from the system itself and
never from our own counters. It returns nothing and raises AssertionError. A check needs a sink that has not written
yet. `LINES` lists all of them. What a sink does not promise, and why, is in its own `waives`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.batch import BatchRef
from penstock.connectors.contract import Sink, WriteResult
from penstock.errors import PenstockError, QueryFailed
from penstock.runtime.spark.errors import failure_in_python
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.testing.lines import LINES, OF_A_PROCESS, OF_VALUES
from penstock.testing.values import VALUES, same, schema_of

FIRST = BatchRef("contract", "sink.contract", "00000000-0000-0000-0000-000000000000", 0, ('numbers:{"rows":3}',))
MANY: Final = 10_000
_PATIENCE_SECS: Final = 300.0
_JOBS: Final = "penstock contract"
_NO_DUPLICATES: Final = "a_replayed_batch_leaves_no_duplicates"
__all__ = ["FIRST", "LINES", "MANY", "OF_A_PROCESS", "OF_VALUES", "Service", "SinkContract"]


class Service(Protocol):
    """The system behind a sink, as far as a test controls it."""

    def restart(self) -> None:
        """Stop it and start it again, at the same address and with the same data."""

    def silence(self) -> None:
        """From now on accept connections, and answer nothing."""

    def resume(self) -> None:
        """Answer again."""


@dataclass(frozen=True, slots=True)
class SinkContract:
    """A sink under test, and functions that read back the rows it has written."""

    sink: Sink
    spark: SparkSession
    written_ids: Callable[[], list[int]]
    written_rows: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    """The rows by column, with values as the system has them; `penstock.testing.values` compares."""
    service: Service | None = None

    def rows(self, *ids: int) -> DataFrame:
        return self.spark.createDataFrame([(i, f"röw {i}", None) for i in ids], "id BIGINT, name STRING, note STRING")

    def many(self, parts: int = 4) -> DataFrame:
        return self.spark.range(0, MANY, 1, parts).selectExpr("id", "concat('röw ', id) AS name")

    # Writes

    def writes_every_row(self) -> None:
        assert self.sink.write(self.rows(1, 2, 3), FIRST).rows == 3
        assert sorted(self.written_ids()) == [1, 2, 3]

    def writes_many_rows(self) -> None:
        assert self.sink.write(self.many(), FIRST).rows == MANY
        assert sorted(self.written_ids()) == list(range(MANY))

    def an_empty_batch_leaves_nothing(self) -> None:
        assert self.sink.write(self.rows(), FIRST).rows == 0
        assert self.written_ids() == []

    def changed_values(self) -> Mapping[str, list[str]]:
        """Return, by check, the values that came back changed. Two rows are written, the second with nulls."""
        assert self.written_rows is not None
        full = (1, *(value.value for value in VALUES))
        frame = self.spark.createDataFrame([full, (2, *(None for _ in VALUES))], schema_of(VALUES))
        self.sink.write(frame.coalesce(1), FIRST)
        found = {int(row["id"]): row for row in self.written_rows()}
        changed: dict[str, list[str]] = {check: [] for check in OF_VALUES}
        for value in VALUES:
            if not found or not same(value.value, found[1].get(value.name, "nothing")):
                changed[value.check].append(f"{value.name}: {value.value!r} is {found and found[1].get(value.name)!r}")
            if value.is_plain and (not found or found[2].get(value.name) is not None):
                changed["keeps_nulls"].append(f"{value.name}: null is {found and found[2].get(value.name)!r}")
        return changed

    def a_nul_byte_is_kept_or_refused(self) -> None:
        assert self.written_rows is not None
        rows = self.spark.createDataFrame([(1, "a\0b")], "id BIGINT, name STRING")
        try:
            self.sink.write(rows, FIRST)
        except QueryFailed as error:
            assert error.code == "rows-refused"  # noqa: PT017 - pytest is not needed to use the contract
            assert self.written_ids() == []
        else:
            assert [row["name"] for row in self.written_rows()] == ["a\0b"]

    def check_waivers(self) -> None:
        """Check that the sink's capabilities agree with the lines that it waives."""
        waives = self.sink.waives
        assert waives.keys() <= LINES.keys()
        keeps_rows = "writes_every_row" not in waives
        assert self.sink.capabilities.duplicates == (keeps_rows and _NO_DUPLICATES in waives)

    # Retried batches

    def a_replayed_batch_leaves_no_duplicates(self) -> None:
        self.sink.write(self.rows(1, 2, 3), FIRST)
        assert self.sink.write(self.rows(1, 2, 3), FIRST).rows == 0
        assert sorted(self.written_ids()) == [1, 2, 3]

    def a_batch_of_the_same_number_from_other_input_is_refused(self) -> None:
        self.sink.write(self.rows(1), FIRST)
        try:
            self.sink.write(self.rows(2), replace(FIRST, offsets=('numbers:{"rows":9}',)))
        except QueryFailed as error:
            assert error.code == "batch-conflict"  # noqa: PT017
        else:
            raise AssertionError("it was written")
        assert self.written_ids() == [1]

    def a_new_checkpoint_writes_again(self) -> None:
        self.sink.write(self.rows(1), FIRST)
        self.sink.write(self.rows(2), replace(FIRST, checkpoint_id="11111111-1111-1111-1111-111111111111"))
        assert sorted(self.written_ids()) == [1, 2]

    def a_batch_that_fails_half_way_is_done_again(self) -> None:
        breaking = f.when(f.col("id") == MANY - 1, f.raise_error(f.lit("broken"))).otherwise(f.col("name"))
        try:
            self.sink.write(self.many().withColumn("name", breaking), FIRST)
        except (*SPARK_ERRORS, PenstockError):
            pass
        else:
            raise AssertionError("it did not fail")
        self.sink.write(self.many(), FIRST)
        self._has(range(MANY))

    # Services that fail

    def a_service_that_starts_again_loses_nothing(self) -> None:
        assert self.service is not None
        with self._half_written_batch() as (gate, writing):
            self.service.restart()
            gate.open()
            writing.wait_for_end()

    def a_service_that_is_silent_is_given_up(self) -> None:
        assert self.service is not None
        with self._half_written_batch() as (gate, writing):
            self.service.silence()
            try:
                gate.open()
                error = writing.wait_for_end()
            finally:
                self.service.resume()
            assert error is not None
            assert failure_in_python(error).retriable, error

    @contextmanager
    def _half_written_batch(self) -> Iterator[tuple["_Gate", "_BackgroundWrite"]]:
        """Write a batch, and half of another until the block ends. Then retry it, and check that no row is missing."""
        self.sink.write(self.rows(*range(MANY, MANY + 10)), FIRST)
        second = replace(FIRST, batch_id=1)
        with _closed_gate() as gate:
            writing = _BackgroundWrite(lambda: self.sink.write(gate.hold_rows(self.many(2)), second))
            gate.wait_for_rows(writing)
            yield gate, writing
        self._write_with_retry(self.many(2), second)
        self._has(range(MANY + 10))

    def a_write_that_hangs_can_be_let_go(self) -> None:
        assert self.service is not None
        self.sink.write(self.rows(1), FIRST)
        self.service.silence()
        context = self.spark.sparkContext

        def write() -> WriteResult:
            context.setJobGroup(_JOBS, "a write that hangs", interruptOnCancel=True)
            return self.sink.write(self.rows(2), replace(FIRST, batch_id=1))

        try:
            writing = _BackgroundWrite(write)
            time.sleep(0.5)
            assert writing.is_under_way
            while writing.is_under_way and not writing.is_late:
                self.sink.cancel()
                context.cancelJobGroup(_JOBS)
                time.sleep(0.1)
            assert writing.wait_for_end() is not None
        finally:
            self.service.resume()
        self._write_with_retry(self.rows(2), replace(FIRST, batch_id=1))
        self._has([1, 2])

    def _write_with_retry(self, rows: DataFrame, ref: BatchRef) -> None:
        """Write a batch as a run would: with retries, as long as errors are retriable."""
        ends = time.monotonic() + _PATIENCE_SECS
        while True:
            try:
                self.sink.write(rows, ref)
                return
            except (*SPARK_ERRORS, PenstockError) as error:
                if not failure_in_python(error).retriable or time.monotonic() > ends:
                    raise
                time.sleep(0.2)

    def _has(self, ids: Iterable[int]) -> None:
        """Check that every id was written: once, or at least once if the sink promises no more."""
        found = self.written_ids()
        if self.sink.capabilities.duplicates:
            assert set(found) == set(ids)
        else:
            assert sorted(found) == sorted(ids)


class _BackgroundWrite:
    def __init__(self, write: Callable[[], object]) -> None:
        self._error: Exception | None = None
        self._ends = time.monotonic() + _PATIENCE_SECS
        self._thread = threading.Thread(target=self._run, args=(write,), daemon=True)
        self._thread.start()

    def _run(self, write: Callable[[], object]) -> None:
        try:
            write()
        except (*SPARK_ERRORS, PenstockError) as error:
            self._error = error

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._ends

    def wait_for_end(self) -> Exception | None:
        """Return the error that the write ended with, if any. A write that does not end fails the check."""
        self._thread.join(max(self._ends - time.monotonic(), 0))
        assert not self.is_under_way, f"it did not end within {_PATIENCE_SECS:g} s"
        return self._error


@dataclass(frozen=True, slots=True)
class _Gate:
    """A gate that holds back the last rows of a batch, while others are being written."""

    folder: Path

    def hold_rows(self, rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(_GatedRows(str(self.folder), MANY - 1), rows.schema)

    def wait_for_rows(self, writing: _BackgroundWrite) -> None:
        while not (self.folder / "waiting").exists():
            assert writing.is_under_way, f"no row came: {writing.wait_for_end()}"
            assert not writing.is_late, "no row came"
            time.sleep(0.02)

    def open(self) -> None:
        (self.folder / "open").touch()


@contextmanager
def _closed_gate() -> Iterator[_Gate]:
    with TemporaryDirectory() as folder:
        gate = _Gate(Path(folder))
        try:
            yield gate
        finally:
            gate.open()


@dataclass(frozen=True, slots=True)
class _GatedRows:
    """The executor side of a gate: a batch with a certain row waits until the gate is open, or removed."""

    folder: str
    last: int

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        folder = Path(self.folder)
        for batch in batches:
            ids = batch.column(0)
            if len(ids) and ids[len(ids) - 1].as_py() == self.last:
                (folder / "waiting").touch()
                while folder.exists() and not (folder / "open").exists():
                    time.sleep(0.02)
            yield batch
