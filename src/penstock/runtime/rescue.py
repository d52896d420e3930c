"""Batches that fail for the sake of a few rows: a division by zero, a number too large, a text that is no number.

Spark gives up the whole batch. If the query keeps no state, the batch is read again and halved until the rows that fail
are found; the others are worked through without them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.errors import QueryFailed
from penstock.runtime.failures import SPARK_ERRORS, failure_in_python, is_for_rows

MOST: Final = 100
"""More rows than this are not looked for in a batch: then it is not the rows that are wrong."""

MESSAGE: Final = "_message"
_PLACE: Final = "_place"


def faulty(rows: DataFrame, attempt: Callable[[DataFrame], None]) -> tuple[DataFrame, Mapping[int, str]]:
    """The rows with a number each, kept at hand, and what goes wrong with those that fail, by number.

    `attempt` works some of them through, and leaves no trace.
    """
    numbered = rows.withColumn(_PLACE, f.monotonically_increasing_id()).persist()
    found: dict[int, str] = {}
    open_spans = _spans(numbered)
    while open_spans:
        low, high = open_spans.pop()
        message = _failure(attempt, numbered.where(f.col(_PLACE).between(low, high)).drop(_PLACE))
        if message is None:
            continue
        if low == high:
            found[low] = message
            _check_number(found, message)
            continue
        middle = (low + high) // 2
        open_spans += [(middle + 1, high), (low, middle)]
    return numbered, found


def together(numbered: DataFrame, found: Mapping[int, str], attempt: Callable[[DataFrame], None]) -> Mapping[int, str]:
    """Those that were found, and rows that fail only with others before them, as if rows had come one by one."""
    refused = dict(found)
    places = [row[0] for row in numbered.select(_PLACE).orderBy(_PLACE).collect()]

    def said_of(count: int) -> str | None:
        first = numbered.where(f.col(_PLACE) <= places[count - 1])
        return _failure(attempt, without(first, list(refused)))

    while (message := said_of(len(places))) is not None:
        sound, failing = 0, len(places)
        while failing - sound > 1:
            middle = (sound + failing) // 2
            said = said_of(middle)
            sound, failing, message = (middle, failing, message) if said is None else (sound, middle, said)
        refused[places[failing - 1]] = message
        _check_number(refused, message)
    return refused


def without(numbered: DataFrame, places: Sequence[int]) -> DataFrame:
    return numbered.where(~f.col(_PLACE).isin(list(places))).drop(_PLACE)


def only(numbered: DataFrame, found: Mapping[int, str]) -> DataFrame:
    """The rows that fail, each with what goes wrong in a column."""
    messages = f.create_map(*(f.lit(part) for place, text in found.items() for part in (place, text)))
    failing = numbered.where(f.col(_PLACE).isin(list(found)))
    return failing.withColumn(MESSAGE, messages[f.col(_PLACE)]).drop(_PLACE)


def _check_number(found: Mapping[int, str], message: str) -> None:
    if len(found) > MOST:
        text = f"more than {MOST} rows of a batch fail: {message}"
        raise QueryFailed("query-failed", text, hint="look at the SQL; TRY_CAST and NULLIF keep rows from failing")


def _spans(numbered: DataFrame) -> list[tuple[int, int]]:
    """The numbers of each partition: there are gaps between those of one and of the next."""
    by_partition = numbered.groupBy(f.spark_partition_id().alias("_partition"))
    found = by_partition.agg(f.min(_PLACE).alias("low"), f.max(_PLACE).alias("high")).collect()
    return [(row["low"], row["high"]) for row in found]


def _failure(attempt: Callable[[DataFrame], None], rows: DataFrame) -> str | None:
    try:
        attempt(rows)
    except (*SPARK_ERRORS, QueryFailed) as error:
        if not is_for_rows(error):
            raise
        return failure_in_python(error).message
    return None
