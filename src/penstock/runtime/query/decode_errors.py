"""Records that could not be decoded: they are kept out of the query and counted, by reason."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.kafka.decode import FAULTS
from penstock.connectors.contract import ERROR
from penstock.manifest.model import Input
from penstock.runtime.spark.errors import stop_condition
from penstock.spark_internals.plan_metrics import apply_pinned_filter, count_filtered_rows, observed_value

_UNREADABLE: Final = "unreadable"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows of an input were read, and how many of them are records that could not be decoded."""

    rows: int
    faults: int


def count_rows(rows: DataFrame) -> Counts:
    """Count the rows of an input that is read as a table, and those that could not be decoded."""
    faults = f.count(ERROR if ERROR in rows.columns else f.lit(None))
    (found,) = rows.agg(f.count(f.lit(1)).alias("rows"), faults.alias("faults")).collect()
    return Counts(found["rows"], found["faults"])


def filter_decodable(stream: DataFrame, entry: Input, *, alone: bool) -> DataFrame:
    """Return the decoded rows of a stream; undecodable records are counted, or stop the query if `on_error` says so.

    The count keeps conditions of the query above it: below, Spark would decode twice. For an input that is `alone` in
    its query, the metrics of every plan suffice, which cost nothing.
    """
    if ERROR not in stream.columns:
        return stream
    if entry.on_error == "stop":
        said = f"a record of `{entry.node.partition('.')[2]}` cannot be read"
        return apply_pinned_filter(stream, stop_condition(f.col(ERROR), FAULTS, said)).drop(ERROR)
    if alone:
        return apply_pinned_filter(stream, f.col(ERROR).isNull()).drop(ERROR)
    counted = stream.observe(undecodable_metric(entry), f.count(f.col(ERROR)).alias(_UNREADABLE))
    return counted.where(f.col(ERROR).isNull()).drop(ERROR)


def drop_undecodable(rows: DataFrame) -> DataFrame:
    """Drop the undecodable records of a batch that is read again."""
    return rows.where(f.col(ERROR).isNull()).drop(ERROR) if ERROR in rows.columns else rows


def count_undecodable(session: SparkSession, query: str, entry: Input, *, alone: bool) -> int:
    """Return how many records of the current batch were undecodable. To be called when the batch is processed."""
    if entry.on_error == "stop":
        return 0
    if alone:
        return count_filtered_rows(session, query)
    return observed_value(session, query, undecodable_metric(entry))


def undecodable_metric(entry: Input) -> str:
    return f"read {entry.view}"
