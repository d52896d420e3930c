"""How a query ends between two batches: the one under way is finished, and no other is begun.

PySpark's own `stop` throws away what is under way. Spark asks before every batch whether its query is still to run, so
it is enough to say that it is not, which is half of what `stop` does.
"""

from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery


def stop_after_batch(query: StreamingQuery) -> None:
    """Let the batch under way be the last one."""
    jvm: Any = SparkContext._jvm
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    _execution(query).state().set(getattr(getattr(runtime, "TERMINATED$"), "MODULE$"))


def is_at_rest(query: StreamingQuery) -> bool:
    """Whether no batch is under way. It may wait for the time when the next one was to begin."""
    return not (_execution(query).queryExecutionThread().isAlive() and query.status["isTriggerActive"])


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()
