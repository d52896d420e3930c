"""Readers of files that come to an end in a query that does not: their files are listed once.

Spark lists once for all readers of a query, which then ends, or for none. So those that are to are told one by one, as
Spark would tell them.
"""

import time
from collections.abc import Collection
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from penstock.runtime.spark.errors import SPARK_ERRORS

_PAUSE_SECS: Final = 0.01


def list_once(query: StreamingQuery, readers: Collection[str]) -> None:
    """Let these readers read what is there now, and nothing that comes later."""
    if not readers:
        return
    execution: Any = query._jsq.streamingQuery()
    try:
        while query.isActive and execution.sourceIdMap().isEmpty():  # Spark has not opened them yet
            time.sleep(_PAUSE_SECS)
        opened = execution.sourceIdMap()
        for name in filter(opened.contains, readers):
            opened.apply(name).prepareForTriggerAvailableNow()
    except SPARK_ERRORS:
        query.stop()
        raise
