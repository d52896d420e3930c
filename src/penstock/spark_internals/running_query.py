"""A streaming query that runs: its end between two batches, its readers, and what it reports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.spark_internals.jvm import java_class, scala_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PAUSE_SECS: Final = 0.01
_TERMINATED: Final = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED"


def stop_after_batch(query: StreamingQuery) -> None:
    """Make the batch under way the last one.

    PySpark's `stop` throws that batch away. Spark asks before every batch whether its query still runs, so it is enough
    to set that state, which is half of what `stop` does.
    """
    _execution(query).state().set(scala_object(_TERMINATED))


def is_at_rest(query: StreamingQuery) -> bool:
    """Whether no batch is under way. The query may wait for the time of its next one."""
    return not (_execution(query).queryExecutionThread().isAlive() and query.status["isTriggerActive"])


def list_once(query: StreamingQuery, readers: Collection[str]) -> None:
    """Let readers of files read what is there now, and nothing that comes later; the query goes on.

    Spark offers that for all readers of a query, which then ends, or for none. So each of these is prepared as Spark
    would do it.
    """
    from penstock.spark_internals.errors import SPARK_ERRORS

    if not readers:
        return
    execution = _execution(query)
    try:
        while query.isActive and execution.sourceIdMap().isEmpty():  # Spark has not opened them yet
            time.sleep(_PAUSE_SECS)
        opened = execution.sourceIdMap()
        for name in filter(opened.contains, readers):
            opened.apply(name).prepareForTriggerAvailableNow()
    except SPARK_ERRORS:
        query.stop()
        raise


def recent_progress(query: StreamingQuery) -> Iterator[dict[str, Any]]:
    """The reports of the last batches, newest first."""
    java: Any = query._jsq
    return (json.loads(progress.json()) for progress in reversed(list(java.recentProgress())))


def listen(session: SparkSession, on_progress: Callable[[str], None], on_idle: Callable[[], None]) -> None:
    """Have a session report every committed batch as one text of JSON, and that a query waits for rows.

    PySpark's own listener asks the JVM for each number of a report, which costs a tenth of a core at five batches a
    second.
    """
    listener: Any = _Registration(_JavaListener(on_progress, on_idle))
    session.streams.addListener(listener)


class _Registration:
    """What PySpark takes for a listener."""

    def __init__(self, listener: _JavaListener) -> None:
        self._listener = listener

    @cached_property
    def _jlistener(self) -> Any:
        """What PySpark gives to Spark, when it has started the server that Spark calls."""
        return java_class("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper")(self._listener)


class _JavaListener:
    """What Spark calls, under its names."""

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
        """Where py4j looks for the interface."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def _execution(query: StreamingQuery) -> Any:
    java: Any = query._jsq
    return java.streamingQuery()
