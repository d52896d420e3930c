"""Rows that could not take part in a query: counted always, and kept in the error output of what they came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.clients.batches import BatchRef, publish
from penstock.clients.formats import FORMATS, JSON_OPTIONS
from penstock.connectors.topic import error_topic
from penstock.manifest.model import Input, KeyedStep
from penstock.runtime.rescue import MESSAGE
from penstock.runtime.times import FAULT, FAULTS, converted, marked
from penstock.sql.carving.late import LATE_AT, LATE_ROW
from penstock.sql.dialects import quoted

LATE: Final = "late"
FAILED: Final = "row-failed"
_VALUE: Final = "_value"
REASONS: Final[Mapping[str, str]] = {**FAULTS, LATE: "it came when its window, or its moment, was over"}
"""Why a row is in a topic for errors, by code."""


def keep_untimed(rows: DataFrame, entry: Input, node: str, topics: Path, ref: BatchRef) -> int:
    """Put the rows of a batch whose event time is at fault into the topic for errors; `node` could not use them."""
    return publish(topics / error_topic(entry.node), ref, _letters(rows, entry, node), FORMATS["parquet"])


def keep_late(found: DataFrame, step: KeyedStep, entry: Input, watermark_ms: int, topics: Path, ref: BatchRef) -> int:
    """Put the rows of a batch that an operator found late into the topic for errors."""
    assert step.late is not None
    latest = f.timestamp_millis(f.lit(watermark_ms - step.late.lateness_ms))
    row = f.to_json(f.col(LATE_ROW), JSON_OPTIONS)
    late = found.where(f.col(LATE_AT) <= latest).select(row.alias(_VALUE), f.lit(LATE).alias(FAULT))
    return publish(topics / error_topic(entry.node), ref, _addressed(late, entry, step.node), FORMATS["parquet"])


def keep_failed(rows: DataFrame, entry: Input, node: str, topics: Path, ref: BatchRef) -> int:
    """Put rows that the SQL of a model failed over into the model's topic for errors."""
    columns = [quoted(name) for name in rows.columns if name != MESSAGE]
    value = f.to_json(f.struct(*columns), JSON_OPTIONS)
    failed = rows.select(value.alias(_VALUE), f.lit(FAILED).alias(FAULT), MESSAGE)
    letters = _addressed(failed, entry, node, f.col(MESSAGE))
    return publish(topics / error_topic(node), ref, letters, FORMATS["parquet"])


def _letters(rows: DataFrame, entry: Input, node: str) -> DataFrame:
    """The rows whose event time is at fault."""
    assert entry.event_time is not None
    raw = rows.withColumn(_VALUE, f.to_json(f.struct("*"), JSON_OPTIONS))
    wrong = marked(converted(raw, entry.event_time), entry.event_time).where(f.col(FAULT).isNotNull())
    return _addressed(wrong, entry, node)


def _addressed(wrong: DataFrame, entry: Input, node: str, message: Column | None = None) -> DataFrame:
    """What went wrong with a row, where it came from, and the row itself."""
    messages = f.create_map(*(f.lit(text) for pair in REASONS.items() for text in pair))
    return wrong.select(
        f.lit(entry.source.get("topic")).alias("topic"),
        f.lit(None).cast("int").alias("partition"),
        f.lit(None).cast("bigint").alias("offset"),
        f.lit(None).cast("timestamp").alias("timestamp"),
        f.lit(None).cast("string").alias("key"),
        f.col(_VALUE).alias("value"),
        f.col(FAULT).alias("code"),
        (messages[f.col(FAULT)] if message is None else message).alias("message"),
        f.lit(node).alias("node"),
        f.current_timestamp().alias("time"),
    )
