"""A running streaming query: its end between two batches, its readers, its reports, and the progress of its tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.spark_internals.jvm import active_context, java_class, scala_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PAUSE_SECS: Final = 0.01
_TERMINATED: Final = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED"


def stop_after_batch(query: StreamingQuery) -> None:
    """Make the current batch the last one.

    PySpark's `stop` drops that batch. Spark checks before every batch whether its query still runs, so it is enough to
    set that state, which is half of what `stop` does.
    """
    _execution(query).state().set(scala_object(_TERMINATED))


def is_at_rest(query: StreamingQuery) -> bool:
    """Whether no batch is being processed. The query may wait for the time of its next one."""
    return not (_execution(query).queryExecutionThread().isAlive() and query.status["isTriggerActive"])


def list_once(query: StreamingQuery, readers: Collection[str]) -> None:
    """Limit file readers to the files that exist now; the query continues.

    Spark offers that for all readers of a query, which then ends, or for none. So each of these readers is prepared in
    the way Spark does it.
    """
    from penstock.spark_internals.errors import SPARK_ERRORS

    if not readers:
        return
    execution = _execution(query)
    try:
        while query.isActive and execution.sourceIdMap().isEmpty():  # Spark has not opened the readers yet
            time.sleep(_PAUSE_SECS)
        opened = execution.sourceIdMap()
        for name in filter(opened.contains, readers):
            opened.apply(name).prepareForTriggerAvailableNow()
    except SPARK_ERRORS:
        query.stop()
        raise


def recent_progress(query: StreamingQuery) -> Iterator[dict[str, Any]]:
    """Yield the reports of the last batches, newest first."""
    java: Any = query._jsq
    return (json.loads(progress.json()) for progress in reversed(list(java.recentProgress())))


@dataclass(frozen=True, slots=True)
class StageProgress:
    """A running stage: its tasks, and what they have read, if they report it."""

    tasks: int
    done: int
    rows: int
    bytes: int


def running_stages(job_group: str) -> list[StageProgress]:
    """Return the running stages of a group of jobs; empty as long as Spark has not registered them."""
    from penstock.spark_internals.errors import SPARK_ERRORS

    context = active_context()
    java: Any = context._jsc
    try:
        tracker, store = context.statusTracker(), java.sc().statusStore()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(job_group))
        stages = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
        found = [store.lastStageAttempt(s) for s in stages]
        counts = ((s.numTasks(), s.numCompleteTasks(), int(s.inputRecords()), int(s.inputBytes())) for s in found)
        return [StageProgress(*each) for each in counts]
    except SPARK_ERRORS:
        return []


def listen(session: SparkSession, on_progress: Callable[[str], None], on_idle: Callable[[], None]) -> None:
    """Make a session report every committed batch as JSON text, and when a query waits for rows.

    PySpark's own listener asks the JVM for each number of a report, which costs a tenth of a core at five batches a
    second.
    """
    listener: Any = _Registration(_JavaListener(on_progress, on_idle))
    session.streams.addListener(listener)


class _Registration:
    """The object that PySpark accepts as a listener."""

    def __init__(self, listener: _JavaListener) -> None:
        self._listener = listener

    @cached_property
    def _jlistener(self) -> Any:
        """The listener that PySpark passes to Spark, after it has started the callback server."""
        return java_class("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")(self._listener)


class _JavaListener:
    """The methods that Spark calls, under Spark's names."""

    def __init__(self, on_progress: Callable[[str], None], on_idle: Callable[[], None]) -> None:
        self._on_progress = on_progress
        self._on_idle = on_idle

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._on_progress(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._on_idle()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    class Java:
        """The place where py4j looks for the implemented interface."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _execution(query: StreamingQuery) -> Any:
    java: Any = query._jsq
    return java.streamingQuery()
