"""Spark's counts in the current batch: metrics that were requested, and those that every plan has.

They must be read when the batch is written and not yet committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.spark_functions import f
from penstock.spark_internals.jvm import scala_items

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_MARK: Final = "_here"
_PLACE: Final = -1


def apply_pinned_filter(rows: DataFrame, condition: Column) -> DataFrame:
    """Filter rows by a condition, with a filter that Spark does not move and that `count_filtered_rows` finds.

    The first part of the filter always holds, but Spark cannot know that. It neither moves the filter below the columns
    that it uses, which would compute them twice, or below a union, nor merges it with others above it.
    """
    here = f.spark_partition_id()
    held = rows.withColumn(_MARK, here).where(f.when((f.col(_MARK) >= _PLACE) & (here >= _PLACE), condition))
    return held.drop(_MARK)


def observed_value(session: SparkSession, query: str, metric: str) -> int:
    """Return the first number of an observed metric; 0 if nothing was counted."""
    execution = _execution(session, query)
    found = execution and execution.observedMetrics().get(metric)
    row = found.get() if found and found.isDefined() else None
    return 0 if row is None or row.isNullAt(0) else int(row.getLong(0))


def count_filtered_rows(session: SparkSession, query: str) -> int:
    """Return how many rows did not pass the filters of `apply_pinned_filter`."""
    execution = _execution(session, query)
    pinned = [] if execution is None else _find_nodes(execution.executedPlan(), _is_pinned_filter)
    return sum(_input_rows(node) - _rows_of(node) for node in pinned)


def count_untimed_rows(session: SparkSession, query: str) -> int:
    """Return how many of the decoded rows did not reach a watermark."""
    execution = _execution(session, query)
    if execution is None:
        return 0
    plan = execution.executedPlan()
    pinned = _find_nodes(plan, _is_pinned_filter)
    read = sum(map(_rows_of, pinned)) if pinned else sum(map(_rows_of, scala_items(plan.collectLeaves())))
    watermarks = _find_nodes(plan, lambda node: node.nodeName() == "EventTimeWatermark")
    return read - sum(int(node.eventTimeStats().value().count()) for node in watermarks)


def _is_pinned_filter(node: Any) -> bool:
    return node.nodeName() == "Filter" and f"(SPARK_PARTITION_ID() >= {_PLACE})" in node.condition().toString()


def _input_rows(node: Any) -> int:
    """Return how many rows reached a node, from the metrics of the nodes below it."""
    below = scala_items(node.children())
    return sum(_rows_of(child) if child.metrics().contains("numOutputRows") else _input_rows(child) for child in below)


def _rows_of(node: Any) -> int:
    found = node.metrics().get("numOutputRows")
    return int(found.get().value()) if found.isDefined() else 0


def _find_nodes(plan: Any, matches: Any) -> list[Any]:
    """Return the topmost nodes of a plan that match."""
    if matches(plan):
        return [plan]
    return [node for child in scala_items(plan.children()) for node in _find_nodes(child, matches)]


def _execution(session: SparkSession, query: str) -> Any:
    running: Any = next((q for q in session.streams.active if q.name == query), None)
    return running and running._jsq.streamingQuery().lastExecution()
