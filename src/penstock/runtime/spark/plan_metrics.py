"""What Spark has counted in the batch under way: metrics that were asked for, and those that every plan has.

To be asked when the batch is worked through.
"""

from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

_MARK: Final = "_here"
_PLACE: Final = -1


def apply_pinned_filter(rows: DataFrame, condition: Column) -> DataFrame:
    """The rows for which a condition holds, by a filter that stays where it is and that `kept_out` finds.

    What is asked first always holds, but Spark cannot know that. It neither moves the filter below the columns that it
    asks for, which would compute them twice, or below a union, nor makes it one with conditions of the query above it.
    """
    here = f.spark_partition_id()
    held = rows.withColumn(_MARK, here).where(f.when((f.col(_MARK) >= _PLACE) & (here >= _PLACE), condition))
    return held.drop(_MARK)


def observed_metric(session: SparkSession, query: str, metric: str) -> Any:
    """What was counted under a name, as a row of Spark's; None if nothing was, or nobody has counted yet."""
    execution = _execution(session, query)
    found = execution and execution.observedMetrics().get(metric)
    return found.get() if found and found.isDefined() else None


def count_filtered_rows(session: SparkSession, query: str) -> int:
    """How many rows did not pass the filters of `marked_where`."""
    execution = _execution(session, query)
    marked = [] if execution is None else _find_nodes(execution.executedPlan(), _is_pinned_filter)
    return sum(_input_rows(node) - _rows_of(node) for node in marked)


def count_untimed_rows(session: SparkSession, query: str) -> int:
    """How many rows did not get as far as a watermark, of those that could be read."""
    execution = _execution(session, query)
    if execution is None:
        return 0
    plan = execution.executedPlan()
    marked = _find_nodes(plan, _is_pinned_filter)
    read = sum(map(_rows_of, marked)) if marked else _leaf_rows(plan)
    watermarks = _find_nodes(plan, lambda node: node.nodeName() == "EventTimeWatermark")
    return read - sum(int(node.eventTimeStats().value().count()) for node in watermarks)


def _is_pinned_filter(node: Any) -> bool:
    return node.nodeName() == "Filter" and f"(SPARK_PARTITION_ID() >= {_PLACE})" in node.condition().toString()


def _input_rows(node: Any) -> int:
    """How many rows came to a node, by those below it that count."""
    below = _items(node.children())
    return sum(_rows_of(child) if child.metrics().contains("numOutputRows") else _input_rows(child) for child in below)


def _leaf_rows(plan: Any) -> int:
    return sum(_rows_of(leaf) for leaf in _items(plan.collectLeaves()))


def _rows_of(node: Any) -> int:
    found = node.metrics().get("numOutputRows")
    return int(found.get().value()) if found.isDefined() else 0


def _find_nodes(plan: Any, wanted: Any) -> list[Any]:
    """The nodes of a plan that are wanted. Below one of them there is no other."""
    if wanted(plan):
        return [plan]
    return [node for child in _items(plan.children()) for node in _find_nodes(child, wanted)]


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _execution(session: SparkSession, query: str) -> Any:
    running = next((q for q in session.streams.active if q.name == query), None)
    return running and running._jsq.streamingQuery().lastExecution()
