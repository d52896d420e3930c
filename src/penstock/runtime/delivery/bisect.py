"""Finds the rows that make a batch fail: a division by zero, a number too large, a text that is not a number.

Spark fails the whole batch. If the query keeps no state, the batch is read again. What its SQL computes from single
rows is tried in one pass, the sink is asked which rows it rejects, and the remaining ones are found by bisection.
Nothing is written here, because a `TrialRun` leaves no trace: `deliver` writes the other rows.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.errors import PenstockError, QueryFailed
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query.provenance import PLACE
from penstock.runtime.query.row_guards import MESSAGE
from penstock.runtime.spark.errors import failure_in_python, is_row_error
from penstock.spark_internals.errors import SPARK_ERRORS

MOST: Final = 10_000
"""The maximum number of failing rows of a batch that are searched for."""
MOST_SECS: Final = 900
"""The maximum duration of the search."""
FEW: Final = 20
"""Up to this many rows are tried individually, to get Spark's own message."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The cached, numbered rows of a batch, and those that fail, with their messages: `many` as a table, `few` by
    number."""

    numbered: DataFrame
    many: DataFrame | None = None
    few: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.few) + (0 if self.many is None else self.many.count())

    def __bool__(self) -> bool:
        return self.many is not None or bool(self.few)

    @property
    def passing_rows(self) -> DataFrame:
        """The rows that do not fail, with their numbers and in their order."""
        rows = self.numbered
        if self.many is not None:
            rows = rows.join(f.broadcast(self.many.select(PLACE)), PLACE, "left_anti")
        return rows.where(f"{PLACE} NOT IN ({', '.join(map(str, self.few))})") if self.few else rows

    @property
    def failing_rows(self) -> DataFrame:
        """The rows that fail, each with its message. Rows of a task (upper bits of a number) are in order."""
        few = self.numbered.sparkSession.createDataFrame(list(self.few.items()), f"{PLACE} BIGINT, {MESSAGE} STRING")
        messages = few if self.many is None else few.unionByName(self.many)
        rows = self.numbered.join(messages, PLACE).repartition(f.shiftright(PLACE, 33))
        return rows.sortWithinPartitions(PLACE).drop(PLACE)

    def with_faults(self, few: Mapping[int, str]) -> "Faults":
        return replace(self, few={**self.few, **few})

    def close(self) -> None:
        for cached in filter(None, (self.numbered, self.many)):
            cached.unpersist()


def find_faults(rows: DataFrame, trial: TrialRun) -> Faults:
    """Number the rows, and find those that fail alone or that the sink rejects."""
    found = Faults(rows.withColumn(PLACE, f.monotonically_increasing_id()).persist())
    search = _Search(trial)
    try:
        found = search.find_sql_faults(found)
        if search.find_error(found.passing_rows) is None:
            return found
        found = search.find_sink_faults(found)
        return found if search.find_error(found.passing_rows) is None else search.bisect_rows(found)
    except BaseException:
        found.close()
        raise


def find_joint_faults(faults: Faults, trial: TrialRun) -> dict[int, str]:
    """Find further rows that fail only together with rows before them, as if rows had come one by one."""
    search, found = _Search(trial), dict[int, str]()
    places = [row[0] for row in faults.passing_rows.select(PLACE).orderBy(PLACE).collect()]

    def error_of_first(count: int) -> str | None:
        return search.find_error(faults.with_faults(found).passing_rows.where(f.col(PLACE) <= places[count - 1]))

    while (message := error_of_first(len(places))) is not None:
        sound, failing = 0, len(places)
        while failing - sound > 1:
            middle = (sound + failing) // 2
            error = error_of_first(middle)
            sound, failing, message = (middle, failing, message) if error is None else (sound, middle, error)
        found[places[failing - 1]] = message
        search.check_limits(len(found), message)
    return found


class _Search:
    """Searches for failing rows, within limits of number and time."""

    def __init__(self, trial: TrialRun) -> None:
        self._trial = trial
        self._until = time.monotonic() + MOST_SECS

    def find_sql_faults(self, faults: Faults) -> Faults:
        """Add the rows that an expression of the SQL fails on. A few are tried, to verify it."""
        try:
            found = self._trial.find_failing_rows(faults.numbered)
        except AnalysisException:
            return faults
        if found is None:
            return faults
        found = found.persist()
        try:
            if found.count() > FEW:
                samples = found.groupBy(MESSAGE).agg(f.min(PLACE).alias(PLACE)).limit(FEW).collect()
                wrong = [row[MESSAGE] for row in samples if self._find_row_error(faults, row[PLACE]) is None]
                many = found.where(~f.col(MESSAGE).isin(wrong)).persist()
                return replace(faults, many=many if many.count() else None)
            messages = {row[PLACE]: self._find_row_error(faults, row[PLACE]) for row in found.collect()}
            return faults.with_faults({place: text for place, text in messages.items() if text is not None})
        except SPARK_ERRORS as error:
            if not is_row_error(error):
                raise
            return faults
        finally:
            found.unpersist()

    def _find_row_error(self, faults: Faults, place: int) -> str | None:
        return self.find_error(faults.numbered.where(f.col(PLACE) == place))

    def find_sink_faults(self, faults: Faults) -> Faults:
        """Add the rows that the sink rejects, unless the SQL still fails on some."""
        try:
            rejected = self._trial.find_rejected_rows(faults.passing_rows)
            found: dict[int, str] = {}
            for place, message in rejected or ():
                found[place] = message
                self.check_limits(len(found), message)
        except (*SPARK_ERRORS, PenstockError) as error:
            if not is_row_error(error):
                raise
            return faults
        return faults.with_faults(found)

    def bisect_rows(self, faults: Faults) -> Faults:
        """Add the rows that fail alone, found by bisection."""
        others, found = faults.passing_rows, dict[int, str]()
        open_spans = _spans(others)
        while open_spans:
            low, high = open_spans.pop()
            message = self.find_error(others.where(f.col(PLACE).between(low, high)))
            if message is None:
                continue
            if low == high:
                found[low] = message
            else:
                middle = (low + high) // 2
                open_spans += [(middle + 1, high), (low, middle)]
            self.check_limits(len(found), message)
        return faults.with_faults(found)

    def find_error(self, numbered: DataFrame) -> str | None:
        """Return the message of the error that rows fail with; None if they do not fail."""
        try:
            self._trial.rehearse(numbered.drop(PLACE))
        except (*SPARK_ERRORS, QueryFailed) as error:
            if not is_row_error(error):
                raise
            return failure_in_python(error).message
        return None

    def check_limits(self, count: int, message: str) -> None:
        if count > MOST or time.monotonic() > self._until:
            text = f"the rows of a batch that fail cannot be told from the others; {count:,} were found: {message}"
            hint = "look at the SQL; TRY_CAST and NULLIF keep rows from failing"
            raise QueryFailed("query-failed", text, hint=hint)


def _spans(numbered: DataFrame) -> list[tuple[int, int]]:
    """Return the lowest and highest row number of each partition. There are gaps between partitions."""
    by_partition = numbered.groupBy(f.spark_partition_id().alias("_partition"))
    found = by_partition.agg(f.min(PLACE).alias("low"), f.max(PLACE).alias("high")).collect()
    return [(row["low"], row["high"]) for row in found]
