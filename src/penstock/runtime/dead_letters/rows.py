"""Builds dead letters: rows and records that could not be processed, with the reason and the origin."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.dead_letters.model import GONE, REFUSED, RULE_FAILED, UNREAD, WITHHELD, DeadLetter
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.int256.columns import text_column
from penstock.clients.kafka import decode
from penstock.connectors.contract import ERROR, ORIGIN
from penstock.manifest.model import Input, KeyedStep
from penstock.runtime.query.decode_errors import drop_undecodable
from penstock.runtime.query.event_time import FAULT, FAULTS, convert_event_time, mark_faults
from penstock.runtime.query.row_guards import MESSAGE
from penstock.runtime.query.row_rules import BROKEN
from penstock.runtime.spark.errors import fault_code, fault_reason
from penstock.sql.stateful.late_rows import LATE_AT, LATE_ROW

LATE: Final = "late"
FAILED: Final = "row-failed"
_VALUE: Final = "_value"
_PLACES: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
REASONS: Final[Mapping[str, str]] = {
    **decode.FAULTS,
    **FAULTS,
    LATE: "it came after its window or its moment had ended",
}
"""The reasons of dead letters, by code."""


def undecodable_records(rows: DataFrame, entry: Input, node: str) -> DataFrame:
    """Return dead letters about records of a batch that could not be decoded for `node`."""
    wrong = rows.where(f.col(ERROR).isNotNull()).select(ORIGIN, f.col(ERROR).alias(FAULT))
    return _record_dead_letters(wrong, entry, node)


def untimed_rows(rows: DataFrame, entry: Input, node: str) -> DataFrame:
    """Return dead letters about rows of a batch without a usable event time, which `node` could not process."""
    assert entry.event_time is not None
    raw = drop_undecodable(rows).withColumn(_VALUE, row_json(drop_undecodable(rows)))
    wrong = mark_faults(convert_event_time(raw, entry.event_time), entry.event_time).where(f.col(FAULT).isNotNull())
    return _record_dead_letters(wrong, entry, node)


def late_rows(found: DataFrame, step: KeyedStep, entry: Input, watermark_ms: int) -> DataFrame:
    assert step.late is not None
    latest = f.timestamp_millis(f.lit(watermark_ms - step.late.lateness_ms))
    row = f.to_json(f.col(LATE_ROW), JSON_OPTIONS)
    found = found.where(f.col(LATE_AT) <= latest).select(row.alias(_VALUE), f.lit(LATE).alias(FAULT))
    return _record_dead_letters(found, entry, step.node)


def failing_rows(rows: DataFrame, entry: Input, node: str) -> DataFrame:
    """Return dead letters about rows that the SQL of a model failed on."""
    marked_rows = rows.withColumns({_VALUE: row_json(rows), FAULT: f.lit(FAILED)})
    return _record_dead_letters(marked_rows, entry, node, f.col(MESSAGE))


def rule_breaking_rows(rows: DataFrame, node: str) -> DataFrame:
    """Return dead letters about rows that break a rule of a test; they hold the row as it would have been written."""
    named = rows.select(row_json(rows.drop(BROKEN)).alias("value"), f.col(BROKEN).alias("message"))
    return _row_dead_letters(named, node, RULE_FAILED)


def rule_breaking_records(rows: DataFrame, entry: Input, node: str) -> DataFrame:
    """Return dead letters about records whose rows break a rule of a test; they hold the record as it was read."""
    return _record_dead_letters(rows.withColumn(FAULT, f.lit(RULE_FAILED)), entry, node, f.col(BROKEN))


def rejected_rows(rows: DataFrame, node: str) -> DataFrame:
    """Return dead letters about rows that a sink's system rejected; they hold the row as it would have been written."""
    return _row_dead_letters(rows, node, REFUSED)


def unread_files(session: SparkSession, files: Mapping[str, str], node: str) -> DataFrame:
    """Return dead letters about unreadable files, by URI, with the reasons."""
    found = session.createDataFrame(list(files.items()), "topic STRING, message STRING")
    return _row_dead_letters(found.withColumn("value", f.lit(None).cast("string")), node, UNREAD)


def gone_records(session: SparkSession, topic: str, ranges: Sequence[tuple[int, int, int]], node: str) -> DataFrame:
    """Return dead letters about ranges of records, deleted before a scan: partition, first and last offset."""
    text = "the records {:,} to {:,} were deleted before they were searched for rejected rows"
    rows = [(topic, number, text.format(first, last), None) for number, first, last in ranges]
    found = session.createDataFrame(rows, "topic STRING, partition INT, message STRING, value STRING")
    return _row_dead_letters(found, node, GONE)


def missing_records(session: SparkSession, dead_letters: Sequence[DeadLetter], node: str) -> DataFrame:
    """Return dead letters about records that are gone and cannot be replayed. The original ones keep waiting."""
    text = "it could not be replayed: the record no longer exists at its origin"
    names = ("topic", "partition", "offset", "timestamp", "value", "code", WITHHELD)
    rows = [(*(None if x.about[name] is None else str(x.about[name]) for name in names), text) for x in dead_letters]
    found = session.createDataFrame(rows, ", ".join(f"{name} STRING" for name in (*names, "message")))
    kinds = {"partition": "int", "offset": "bigint", "timestamp": "timestamp"}
    typed = found.withColumns({name: f.col(name).cast(kind) for name, kind in kinds.items()})
    return _row_dead_letters(typed, node, f.col("code"), WITHHELD)


def _row_dead_letters(dead_letters: DataFrame, node: str, code: str | Column, *others: str) -> DataFrame:
    kinds = {"topic": "string", "partition": "int", "offset": "bigint", "timestamp": "timestamp", "key": "string"}
    unknown = {name: f.lit(None).cast(kind).alias(name) for name, kind in kinds.items()}
    return dead_letters.select(
        *(f.col(name) if name in dead_letters.columns else nothing for name, nothing in unknown.items()),
        "value",
        f.lit(code).alias("code"),
        "message",
        f.lit(node).alias("node"),
        f.current_timestamp().alias("time"),
        *others,
    )


def row_json(rows: DataFrame) -> Column:
    """Encode rows as JSON, without technical columns."""
    columns = [text_column(rows, name) for name in rows.columns if name not in (MESSAGE, ORIGIN)]
    return f.to_json(f.struct(*columns), JSON_OPTIONS)


def _record_dead_letters(wrong: DataFrame, entry: Input, node: str, message: Column | None = None) -> DataFrame:
    """Return dead letters with the fault of each record, its origin, and its original content."""
    if ORIGIN in wrong.columns:
        places = [f.col(f"{ORIGIN}.{name}").alias(name) for name in _PLACES]
    else:
        unknown = ("int", "bigint", "timestamp", "string")
        nothing = [f.lit(None).cast(kind).alias(name) for name, kind in zip(_PLACES[1:-1], unknown, strict=True)]
        places = [f.lit(entry.source.get("topic")).alias("topic"), *nothing, f.col(_VALUE).alias("value")]
    own = wrong.schema[ORIGIN].dataType if ORIGIN in wrong.columns else None
    if own is not None and "headers" in own.names:  # type: ignore[attr-defined]
        places.append(f.col(f"{ORIGIN}.headers"))
    return wrong.select(
        *places,
        fault_code(f.col(FAULT)).alias("code"),
        (fault_reason(f.col(FAULT), REASONS) if message is None else message).alias("message"),
        f.lit(node).alias("node"),
        f.current_timestamp().alias("time"),
    )
