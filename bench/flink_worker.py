"""Runs SQL on Flink, told line by line on stdin. `flink.py` starts it, by the Python that has PyFlink.

A line is JSON: settings, the statement that makes the source's table, and a query whose rows go nowhere and which is
timed, or one whose one number is wanted. The answer is JSON too: how many seconds, or which number.
"""

import json
import os
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment  # type: ignore[import-not-found]


def environment(asked: dict[str, Any], settings: Any) -> Any:
    tables = TableEnvironment.create(settings)
    for key, value in asked["settings"].items():
        tables.get_config().set(key, value)
    tables.execute_sql(asked["table"])
    return tables


def timed(asked: dict[str, Any]) -> float:
    """The seconds from when the query is handed in to the end of its job."""
    tables = environment(asked, EnvironmentSettings.in_streaming_mode())
    begun = time.perf_counter()
    tables.sql_query(asked["timed"]).execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
    return time.perf_counter() - begun


def number(asked: dict[str, Any]) -> int:
    tables = environment(asked, EnvironmentSettings.in_batch_mode())
    with tables.execute_sql(asked["number"]).collect() as rows:
        return int(next(iter(rows))[0])


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Flink prints is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(timed(asked) if "timed" in asked else number(asked)), file=answers, flush=True)


if __name__ == "__main__":
    main()
