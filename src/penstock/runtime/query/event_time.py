"""Event time of an input: its conversion, its limit in the future, and rows without a usable one."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.manifest.model import EventTimeSpec, Input, QuerySpec
from penstock.row_columns import CLOCK
from penstock.runtime.spark.errors import stop_condition
from penstock.sql.parse.dialects import quote_spark_identifier

FAULT: Final = "_fault"
_BEAT: Final = "beat"
FAULTS: Final[Mapping[str, str]] = {
    "event-time-null": "it has no event time that can be read",
    "event-time-future": "its event time is too far ahead of the clock",
}
"""Why a row cannot be processed by a query that uses event time, by code."""
UNUSABLE: Final = "unusable"
NEWEST: Final = "newest"
"""The metric for the latest event time of the rows of a batch, in milliseconds."""


def convert_event_time(frame: DataFrame, time: EventTimeSpec) -> DataFrame:
    """Convert event time to a timestamp: from text, from milliseconds, from a date. Other values become null."""
    column = f.col(quote_spark_identifier(time.column))
    if time.made_of is not None:
        frame = frame if time.where is None else frame.where(time.where)
        frame = frame.withColumn(time.column, f.expr(time.made_of))
    match dict(frame.dtypes).get(time.column):
        case "bigint" | "int":
            return frame.withColumn(time.column, f.timestamp_millis(column))
        case "string":
            return frame.withColumn(time.column, f.try_to_timestamp(column))
        case "date":
            return frame.withColumn(time.column, column.cast("timestamp"))
        case _:
            return frame


def mark_faults(frame: DataFrame, time: EventTimeSpec) -> DataFrame:
    """Add a column with the fault of a row's event time; a faulty time becomes null."""
    column = f.col(quote_spark_identifier(time.column))
    fault = f.when(column.isNull(), "event-time-null")
    if time.max_future_ms:
        fault = fault.when(f.unix_millis(column) > _latest_ms(time), "event-time-future")
    return frame.withColumn(FAULT, fault).withColumn(time.column, f.when(f.col(FAULT).isNull(), column))


def can_drop_untimed(query: QuerySpec) -> bool:
    """Whether rows without a usable time can simply be dropped, because their number follows from the remaining rows.

    For that, every row that the query reads must pass a watermark, and nothing but the number may be needed.
    """
    return len(query.streams) == len(query.inputs) and all(
        entry.event_time is not None and entry.event_time.idle_ms is None and entry.on_error != "stop"
        for entry in query.streams
    )


def add_plain_watermark(stream: DataFrame, time: EventTimeSpec) -> DataFrame:
    """Drop rows without a usable time and set the watermark, with as little work per row as possible.

    The last condition always holds. But Spark cannot know that, and does not push filters of the query below it and
    below the watermark: rows that the query filters out still advance event time.
    """
    column = f.col(quote_spark_identifier(time.column))
    usable = f.unix_millis(column) <= _latest_ms(time) if time.max_future_ms else column.isNotNull()
    timed = stream.where(usable).withWatermark(time.column, f"{time.delay_ms} milliseconds")
    return timed.where(f.spark_partition_id() >= 0)


def add_counted_watermark(stream: DataFrame, entry: Input, beats: DataFrame | None = None) -> DataFrame:
    """Drop and count rows without a usable time, and set the watermark, which heartbeats advance before they are
    dropped.

    The count is right behind the watermark, so it keeps filters of the query above it too.
    """
    time = entry.event_time
    assert time is not None
    rows = mark_faults(stream, time)
    if beats is not None:
        only_time = beats.select(f.col("at").alias(time.column), f.lit(_BEAT).alias(FAULT))
        rows = rows.unionByName(only_time, allowMissingColumns=True)
    timed = rows.withWatermark(time.column, f"{time.delay_ms} milliseconds")
    unusable = f.count_if(f.col(FAULT).isin(list(FAULTS))).alias(UNUSABLE)
    own = f.when(f.col(FAULT).isNull(), f.unix_millis(f.col(quote_spark_identifier(time.column))))
    counted = timed.observe(input_metric(entry), unusable, f.max(own).alias(NEWEST))
    said = f"a row of `{entry.node.partition('.')[2]}` cannot take part"
    stops = entry.on_error == "stop"
    return counted.where(stop_condition(f.col(FAULT), FAULTS, said) if stops else f.col(FAULT).isNull()).drop(FAULT)


def _latest_ms(time: EventTimeSpec) -> Column:
    """Return the latest acceptable time, as a number: Spark's interval arithmetic uses the calendar, row by row."""
    return f.expr(f"unix_millis({CLOCK}())") + f.lit(time.max_future_ms)


def input_metric(entry: Input) -> str:
    """Return the name of the metric for the rows of an input in a batch: the unusable ones, and the newest time."""
    return f"input {entry.view}"
