"""Generated rows: the same rows for the same seed, at a given rate, a fixed number of them or without end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.config import FrozenModel, refuse_crossed_bounds, refuse_duplicates
from penstock.connectors.contract import ReadRequest, Source, SourceCapabilities
from penstock.spark_functions import f
from penstock.sql.types.columns import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

SEQUENCE: Final = "penstock_sequence"
ROWS_PER_PARTITION: Final = 500_000
SHORTEST_WAIT_SECS: Final = 0.5
_FRACTION_STEPS: Final = 2**53


class Sequence(FrozenModel):
    """Consecutive numbers, one per row."""

    kind: Literal["sequence"]
    start: int = 0
    """The first number."""


class Integer(FrozenModel):
    """An integer between two bounds, both included."""

    kind: Literal["integer"]
    min: int = 0
    """The lowest number."""
    max: int = 100
    """The highest number."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class Uniform(FrozenModel):
    """A number between two bounds."""

    kind: Literal["uniform"]
    min: float = 0.0
    """The lower bound."""
    max: float = 1.0
    """The upper bound."""
    decimals: int | None = Field(None, ge=0, le=15)
    """The number of decimal places to round to."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_crossed_bounds(self, ("min", "max"))
        return self


class Choice(FrozenModel):
    """One value of a list."""

    kind: Literal["choice"]
    values: tuple[str, ...] | tuple[int, ...] | tuple[float, ...] = Field(min_length=1)
    """The values to choose from, with equal probability: all strings, or all numbers."""


class Text(FrozenModel):
    """A string of hexadecimal digits."""

    kind: Literal["text"]
    length: int = Field(16, ge=1, le=64)
    """The number of digits."""


class Boolean(FrozenModel):
    """`true` or `false`."""

    kind: Literal["boolean"]
    probability: float = Field(0.5, ge=0, le=1)
    """The probability of `true`."""


class Timestamp(FrozenModel):
    """The time at which the row was generated."""

    kind: Literal["timestamp"]


GeneratedColumn = Annotated[
    Sequence | Integer | Uniform | Choice | Text | Boolean | Timestamp, Field(discriminator="kind")
]


class GeneratorSource(Source):
    """Generates rows. Row number N is the same in every run with the same seed, except for timestamps."""

    type: Literal["generator"] = "generator"
    columns: dict[str, GeneratedColumn]
    """The content of each column: `sequence`, `integer`, `uniform`, `choice`, `text`, `boolean` or `timestamp`."""
    rows: int | None = Field(None, ge=0)
    """The number of rows. Default: without end."""
    rows_per_second: int | None = Field(None, ge=1)
    """The rate. Default: 100 if `rows` is not set, else as fast as possible."""
    seed: int = 0
    """The seed of the pseudo-random values. Another seed generates other rows."""

    @field_validator("columns")
    @classmethod
    def _some_column(cls, columns: dict[str, GeneratedColumn]) -> dict[str, GeneratedColumn]:
        if not columns:
            raise ValueError("a generator needs at least one column")
        refuse_duplicates(columns)
        return columns

    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(bounded=self.rows is not None, ends_as_job=self.rows is not None)

    def backlog(self, position: str | None) -> int | None:
        done = 0 if position is None else int(json.loads(position)["rows"])
        return None if self.rows is None else max(0, self.rows - done)

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        spark.dataSource.register(_sequence_source())
        pace = self.rows_per_second or (100 if self.rows is None else 0)
        stream = spark.readStream.name(request.name).format(SEQUENCE).option("pace", pace)
        return self._rows((stream if self.rows is None else stream.option("rows", self.rows)).load())

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        end = 1000 if self.rows is None else self.rows
        return self._rows(spark.range(end).select(f.col("id").alias("number"), f.unix_millis(f.now()).alias("at_ms")))

    def known_columns(self) -> Columns:
        return tuple(Column(name, _sql_type(column)) for name, column in self.columns.items())

    def _rows(self, numbers: DataFrame) -> DataFrame:
        columns = [
            _expression(column, self.seed, place).cast(_sql_type(column)).alias(name)
            for place, (name, column) in enumerate(self.columns.items())
        ]
        return numbers.select(*columns)


def _sql_type(column: GeneratedColumn) -> str:
    match column:
        case Sequence() | Integer():
            return "BIGINT"
        case Uniform():
            return "DOUBLE"
        case Text():
            return "STRING"
        case Boolean():
            return "BOOLEAN"
        case Timestamp():
            return "TIMESTAMP"
        case Choice(values=values):
            return {str: "STRING", int: "BIGINT", float: "DOUBLE"}[type(values[0])]


def _expression(column: GeneratedColumn, seed: int, place: int) -> Expression:
    """Compute the column from the number of the row and the seed, so that a replayed batch has the same rows."""
    noise = f.xxhash64(f.col("number"), f.lit(seed), f.lit(place))
    fraction = f.pmod(noise, f.lit(_FRACTION_STEPS)) / f.lit(float(_FRACTION_STEPS))
    match column:
        case Sequence(start=start):
            return f.col("number") + f.lit(start)
        case Integer(min=low, max=high):
            return f.lit(low) + f.floor(fraction * f.lit(high - low + 1))
        case Uniform(min=low, max=high, decimals=decimals):
            number = f.lit(low) + fraction * f.lit(high - low)
            return number if decimals is None else f.round(number, decimals)
        case Choice(values=values):
            place_in_list = f.floor(fraction * f.lit(len(values))).cast("int")
            return f.get(f.array(*(f.lit(v) for v in values)), place_in_list)
        case Text(length=length):
            return f.substring(f.sha2(noise.cast("string"), 256), 1, length)
        case Boolean(probability=probability):
            return fraction < f.lit(probability)
        case Timestamp():
            return f.timestamp_millis(f.col("at_ms"))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _sequence_source() -> type[DataSource]:
    """Return a streaming source of row numbers and the times at which they are due. Spark computes everything else.

    An offset holds the number of rows so far and the time at which it was taken, so a batch between two offsets is the
    same whenever it is read.
    """
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

    class Numbers(InputPartition):
        def __init__(self, first: int, last: int, from_ms: float, step_ms: float) -> None:
            self.first, self.last, self.from_ms, self.step_ms = first, last, from_ms, step_ms

    class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        def __init__(self, rows: int | None, pace: int) -> None:
            self.rows, self.pace = rows, pace
            self.opened_ms = _now_ms()
            self.draining = False

        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"rows": 0, "at_ms": self.opened_ms}

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            self.draining = True

        def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
            done = start["rows"]
            if self.draining and self.rows is None:
                self.rows = done + self.pace  # an endless stream gives one second of rows to a run that drains
            if self.rows is not None and done >= self.rows:
                return start
            if not self.pace and self.rows is not None:
                return {"rows": self.rows, "at_ms": _now_ms()}
            if self.draining:  # returning the old offset would end the run before the last row is due
                time.sleep(max(SHORTEST_WAIT_SECS, 1.05 / self.pace))
            now_ms = _now_ms()
            due = done + int((now_ms - max(start["at_ms"], self.opened_ms)) * self.pace / 1000)
            reached = due if self.rows is None else min(due, self.rows)
            return {"rows": reached, "at_ms": now_ms} if reached > done else start

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Numbers]:
            count = end["rows"] - start["rows"]
            step = (end["at_ms"] - start["at_ms"]) / count if count and self.pace else 0.0
            origin = start["at_ms"] if self.pace else end["at_ms"]
            firsts = range(start["rows"], end["rows"], ROWS_PER_PARTITION)
            lasts = (min(first + ROWS_PER_PARTITION, end["rows"]) for first in firsts)
            times = (origin + (first - start["rows"]) * step for first in firsts)
            return [Numbers(first, last, time, step) for first, last, time in zip(firsts, lasts, times, strict=True)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import numpy
            import pyarrow

            assert isinstance(partition, Numbers)
            numbers = numpy.arange(partition.first, partition.last, dtype="int64")
            moments = partition.from_ms + (numbers - partition.first) * partition.step_ms
            columns = [pyarrow.array(numbers), pyarrow.array(moments.astype("int64"))]
            yield pyarrow.RecordBatch.from_arrays(columns, names=["number", "at_ms"])

    class SequenceSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return SEQUENCE

        def schema(self) -> str:
            return "number BIGINT, at_ms BIGINT"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            rows = self.options.get("rows")
            return Reader(None if rows is None else int(rows), int(self.options["pace"]))

    return SequenceSource
